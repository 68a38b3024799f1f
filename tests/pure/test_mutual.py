"""Entries of WITH RECURSIVE that read each other become one; what has no such form is named."""

from __future__ import annotations

import pytest

from ivm.compile.passes import parse_view
from ivm.errors import ViewError
from ivm.plan.nodes import Column
from ivm.sql.mutual import merged
from ivm.sql.round_trip import split_with
from ivm.sql.rules import MUTUAL_RECURSION, SET_RECURSION
from tests.pure.duck import DuckAnalyzer
from tests.pure.test_compile import RELATIONS

EVEN_ODD = """WITH RECURSIVE even (n) AS (SELECT ck FROM customer -- where it starts
UNION SELECT n + 1 FROM odd WHERE n < 9), odd AS (SELECT n + 1 AS n FROM even)
SELECT n FROM even UNION ALL SELECT n FROM odd"""


def columns():
    return {n: r.columns for n, r in RELATIONS.items()}


def as_one(sql):
    return merged(sql, columns(), DuckAnalyzer().schema)


def test_entries_that_read_each_other_are_one_fixpoint():
    program = parse_view("v", EVEN_ODD, dict(RELATIONS), DuckAnalyzer())
    assert program.refusals == ()
    (unit,) = [u for u in program.units if u.fixpoint]
    assert unit.fixpoint == "distinct"
    assert {MUTUAL_RECURSION, SET_RECURSION} <= set(program.rules)
    # Three parts: where it starts, and a step to each side.
    assert sorted(len([leaf for leaf in b.leaves if leaf.relation == unit.name]) for b in unit.core.branches) == [
        0,
        1,
        1,
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ck FROM customer",
        "WITH RECURSIVE r AS (SELECT ck FROM customer UNION SELECT ck + 1 FROM r) SELECT ck FROM r",
        "WITH RECURSIVE a AS (SELECT ck FROM customer), b AS (SELECT ck FROM a) SELECT ck FROM b",
        "WITH a AS (SELECT ck FROM b), b AS (SELECT ck FROM a) SELECT ck FROM a",
        "WITH RECURSIVE up AS (SELECT ck FROM orders), orders AS (SELECT ck FROM up) SELECT ck FROM orders",
    ],
)
def test_others_stay_as_they_are(sql):
    assert as_one(sql) == sql


def test_entries_come_after_those_that_they_read():
    sql = (
        "WITH RECURSIVE a AS (SELECT ck FROM start UNION SELECT ck FROM b), start AS (SELECT ck FROM customer), "
        "reader AS (SELECT ck FROM a),\n    b AS (SELECT ck + 1 AS ck FROM a WHERE ck < 5) SELECT ck FROM reader"
    )
    assert [name for name, *_ in split_with(as_one(sql))] == ["start", "__ivm_recursion_1", "a", "b", "reader", ""]
    assert len(parse_view("v", sql, dict(RELATIONS), DuckAnalyzer()).units) == 2


def test_columns_are_typed_by_what_can_be_typed_first():
    text = as_one(
        "WITH RECURSIVE a AS (SELECT day, ck FROM b), "
        "b AS (SELECT ok, day, ck FROM orders UNION ALL SELECT ck, day, ck FROM a) SELECT day FROM a"
    )
    assert DuckAnalyzer().schema(
        text.replace("FROM orders", "FROM (SELECT 1::BIGINT AS ok, DATE '2024-01-01' AS day, 2::BIGINT AS ck)")
    ) == (Column("day", "date"),)
    assert "CAST(NULL AS date)" in text


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "WITH RECURSIVE a AS (SELECT ck FROM b), b AS (SELECT ck FROM a) SELECT ck FROM a",
            "none has a part to start from",
        ),
        (
            (
                "WITH RECURSIVE a AS (SELECT ck FROM customer UNION SELECT ck FROM b), "
                "b AS (SELECT ck FROM orders UNION ALL SELECT ck FROM a) SELECT ck FROM a"
            ),
            "some as sets",
        ),
        (
            (
                "WITH RECURSIVE a AS (SELECT ck FROM customer UNION SELECT ck FROM b ORDER BY ck), "
                "b AS (SELECT ck FROM a) SELECT ck FROM a"
            ),
            "ORDER BY around its parts",
        ),
        (
            (
                "WITH RECURSIVE a (x, y) AS (SELECT ck FROM customer UNION SELECT ck FROM b), "
                "b AS (SELECT x FROM a) SELECT x FROM a"
            ),
            "names 2 columns, but its query has 1",
        ),
        (
            (
                "WITH RECURSIVE a AS (SELECT ck FROM customer UNION SELECT ck FROM b), "
                "b AS (SELECT ck FROM a), lines AS (SELECT 1) SELECT ck FROM a"
            ),
            "'lines' is also a table",
        ),
        (
            (
                "WITH RECURSIVE a AS (SELECT ck FROM customer UNION SELECT ck FROM b), "
                "b AS (SELECT ck FROM a JOIN elsewhere) SELECT ck FROM a"
            ),
            "neither a source nor a view",
        ),
        (
            (
                "WITH RECURSIVE a AS (SELECT ck FROM customer UNION SELECT ck FROM b), "
                "b AS (SELECT max(ck) AS ck FROM a) SELECT ck FROM a"
            ),
            "grouped, sorted or subtracted",
        ),
        (
            (
                "WITH RECURSIVE a AS (SELECT rand() AS r FROM customer UNION SELECT r FROM b), "
                "b AS (SELECT r FROM a) SELECT r FROM a"
            ),
            "another answer each time",
        ),
    ],
)
def test_what_has_no_such_form_is_named(sql, said):
    with pytest.raises(ViewError, match=said) as raised:
        parse_view("v", sql, dict(RELATIONS), DuckAnalyzer())
    assert raised.value.hint


def test_a_defect_of_ours_is_said_where_spark_cant_help(monkeypatch):
    def broken(self, tree, columns):
        raise RuntimeError("boom")

    monkeypatch.setattr("ivm.compile.normal_form.Compiler.program", broken)
    assert parse_view("v", "SELECT ck FROM customer", dict(RELATIONS), DuckAnalyzer()).refusals[0].code == "defect"
    with pytest.raises(ViewError, match="boom"):
        parse_view("v", EVEN_ODD, dict(RELATIONS), DuckAnalyzer())
