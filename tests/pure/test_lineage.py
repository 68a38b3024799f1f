"""Of which columns a view's are made, through groupings, calls, inner units and unions; no Spark."""

from __future__ import annotations

import pytest

from ivm.compile.passes import compile_sql
from ivm.plan.nodes import Column, Relation
from ivm.sql.lineage import program_lineage
from tests.pure.duck import DuckAnalyzer

RELATIONS = {
    "t": Relation("t", "source", (Column("k", "int"), Column("v", "int"), Column("w", "int"))),
    "u": Relation("u", "source", (Column("k", "int"), Column("name", "string"))),
}


@pytest.mark.parametrize(
    ("sql", "made_of"),
    [
        ("SELECT k, v + w AS x, 1 AS one FROM t WHERE v > 1", {"k": "t.k", "x": "t.v t.w", "one": ""}),
        ("SELECT t.v, u.name FROM t JOIN u ON t.k = u.k", {"v": "t.v", "name": "u.name"}),
        (
            "SELECT k, sum(v * w) AS s, max(v) + 1 AS m, count(*) AS n FROM t GROUP BY k",
            {"k": "t.k", "s": "t.v t.w", "m": "t.v", "n": ""},
        ),
        ("SELECT m, count(*) AS n FROM (SELECT k, max(v) AS m FROM t GROUP BY k) GROUP BY m", {"m": "t.v", "n": ""}),
        ("SELECT k FROM t UNION ALL SELECT k FROM u", {"k": "t.k u.k"}),
    ],
)
def test_what_columns_are_made_of(sql, made_of):
    program = compile_sql("view", sql, RELATIONS, DuckAnalyzer())
    assert program.units
    found = program_lineage(program)
    assert {c: " ".join(sorted(".".join(o) for o in origins)) for c, origins in found.items()} == made_of
