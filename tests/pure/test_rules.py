"""Where Spark may choose, the compiled program doesn't: same rows, same result."""

from __future__ import annotations

import pytest
import sqlglot

from ivm.compile.passes import parse_view
from ivm.plan.nodes import Column, Relation
from ivm.sql.dialect import IvmSpark
from ivm.sql.rules import settled
from tests.pure.duck import DuckAnalyzer

RELATIONS = {"t": Relation("t", "source", (Column("a", "int"), Column("b", "int"), Column("c", "int")))}


@pytest.mark.parametrize(
    ("call", "becomes"),
    [
        ("first(x)", "MIN(x)"),
        ("last(x, true)", "MAX(x)"),
        ("first(x) IGNORE NULLS", "MIN(x)"),
        ("any_value(x) FILTER (WHERE y > 1)", "MIN(x) FILTER(WHERE y > 1)"),
        ("collect_list(x)", "SORT_ARRAY(COLLECT_LIST(x))"),
        ("max_by(x, y)", "MAX_BY(x, CASE WHEN NOT (y) IS NULL THEN STRUCT(y, x) END)"),
        ("mode(x)", "MODE(x, TRUE)"),
        ("percentile(x, 0.5)", None),
        ("listagg(x, ',') WITHIN GROUP (ORDER BY x)", None),
        ("max(x)", None),
    ],
)
def test_calls_that_may_choose_are_settled(call, becomes):
    parsed = sqlglot.parse_one(call, read=IvmSpark)
    result, rule = settled(parsed)
    assert (rule is not None) == (becomes is not None)
    assert result.sql(dialect="spark") == (becomes or parsed.sql(dialect="spark"))


@pytest.mark.parametrize(
    ("sql", "ties"),
    [
        ("SELECT a, row_number() OVER (PARTITION BY a ORDER BY b) AS n FROM t", True),
        ("SELECT a, sum(b) OVER (PARTITION BY a ORDER BY b ROWS 1 PRECEDING) AS n FROM t", True),
        ("SELECT a, rank() OVER (PARTITION BY a ORDER BY b) AS n FROM t", False),
        ("SELECT a, sum(b) OVER (PARTITION BY a ORDER BY b) AS n FROM t", False),
        ("SELECT a, b FROM t ORDER BY b LIMIT 2", True),
        ("SELECT a, max(b) AS m FROM t GROUP BY a", False),
    ],
)
def test_only_what_may_tie_has_a_rule(sql, ties):
    program = parse_view("v", sql, RELATIONS, DuckAnalyzer())
    assert program.incremental
    assert bool(program.rules) == ties
