"""Where Spark may choose, the compiled program doesn't: same rows, same result."""

from __future__ import annotations

import pytest
import sqlglot

from ivm.compile.passes import parse_view
from ivm.plan.nodes import Column, Relation
from ivm.sql.dialect import IvmSpark
from ivm.sql.refusals import UnsupportedError
from ivm.sql.rules import BY, LIST, MODE, TEXT, TIED_TEXT, TIES, settled, settled_window
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
        ("listagg(DISTINCT x) WITHIN GROUP (ORDER BY x)", None),
        (
            "listagg(x, ',') WITHIN GROUP (ORDER BY y DESC) FILTER (WHERE z)",
            "LISTAGG(x, ',') WITHIN GROUP (ORDER BY y DESC, CAST(x AS STRING) NULLS LAST) FILTER(WHERE z)",
        ),
        ("min_by(x, y, 2)", "MIN_BY(x, CASE WHEN NOT (y) IS NULL THEN STRUCT(y, x) END, 2)"),
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
        ("SELECT a, max(b) OVER (PARTITION BY a) AS m FROM t", False),
        ("SELECT a, max_by(b, c) OVER (PARTITION BY a) AS m FROM t", True),
    ],
)
def test_only_what_may_tie_has_a_rule(sql, ties):
    program = parse_view("v", sql, RELATIONS, DuckAnalyzer())
    assert program.incremental
    assert bool(program.rules) == ties


@pytest.mark.parametrize(
    ("window", "becomes", "rules"),
    [
        ("sum(x) OVER w", "SUM(x) OVER w", set()),
        ("collect_set(x) OVER (ORDER BY y)", "SORT_ARRAY(COLLECT_SET(x) OVER (ORDER BY y))", {LIST}),
        ("mode(x) OVER (PARTITION BY k)", "MODE(x, TRUE) OVER (PARTITION BY k)", {MODE}),
        (
            "max_by(x, y) FILTER (WHERE z) OVER (PARTITION BY k)",
            "MAX_BY(x, CASE WHEN NOT (y) IS NULL THEN STRUCT(y, x) END) FILTER(WHERE z) OVER (PARTITION BY k)",
            {BY},
        ),
        (
            "min_by(x, y) OVER (ORDER BY z ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            "MIN_BY(x, CASE WHEN NOT (y) IS NULL THEN STRUCT(y, x) END)"
            " OVER (ORDER BY z, `c` NULLS LAST ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            {BY, TIES},
        ),
        (
            "listagg(x, ',') OVER (ORDER BY y ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
            "CASE WHEN SIZE({0}) > 0 THEN ARRAY_JOIN({0}, COALESCE(',', '')) END".format(
                "COLLECT_LIST(CAST(x AS STRING))"
                " OVER (ORDER BY y, `c` NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
            ),
            {TIES},
        ),
        (
            "string_agg(x) WITHIN GROUP (ORDER BY y) OVER (PARTITION BY k)",
            "STRING_AGG(x) WITHIN GROUP (ORDER BY y, CAST(x AS STRING) NULLS LAST) OVER (PARTITION BY k)",
            {TIED_TEXT},
        ),
    ],
)
def test_windows_that_may_choose_are_settled(window, becomes, rules):
    made, found = settled_window(sqlglot.parse_one(window, read=IvmSpark), [Column("c", "int")])
    assert (made.sql(dialect="spark"), found) == (becomes, rules)


def test_texts_joined_among_peers_that_another_order_would_part_are_refused():
    window = sqlglot.parse_one("listagg(x) FILTER (WHERE z) OVER (ORDER BY y)", read=IvmSpark)
    assert settled_window(window, [Column("c", "int")])[0] is None
    with pytest.raises(UnsupportedError, match="clause"):
        settled_window(window, [], "binary")
    assert TEXT not in settled_window(window, [])[1]
