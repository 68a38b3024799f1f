"""Of which recursions only the least value is kept, and of which it can't be."""

from __future__ import annotations

import pytest

from ivm.compile.passes import parse_view
from ivm.plan.nodes import Column, Relation
from ivm.rewrite.least import with_least
from ivm.sql.rules import LEAST
from tests.pure.duck import DuckAnalyzer

E = Relation(
    "e",
    "source",
    (
        Column("src", "int"),
        Column("dst", "int"),
        Column("w", "int"),
        Column("x", "double"),
        Column("day", "date"),
        Column("at", "timestamp"),
        Column("part", "decimal(3,1)"),
    ),
)


def least(base, step, where="", taken="SELECT node, min(d) AS d FROM r GROUP BY node"):
    sql = (
        f"WITH RECURSIVE r (node, d) AS (SELECT {base} FROM e "
        f"UNION SELECT {step} FROM r JOIN e ON e.src = r.node {where}) {taken}"
    )
    program = with_least(parse_view("v", sql, {"e": E}, DuckAnalyzer()), {"e": E})
    assert program.refusals == ()
    (unit,) = [u for u in program.units if u.fixpoint]
    assert bool(unit.least) == (LEAST in program.rules)
    return unit.least


@pytest.mark.parametrize(
    ("step", "where"),
    [
        ("e.dst, r.d", ""),
        ("e.dst, r.d + 1", ""),
        ("e.dst, e.w + (r.d + 1)", ""),
        ("e.dst, r.d - e.w", ""),
        ("e.dst, r.d + e.w", "WHERE r.d + e.w <= 20 AND e.w > 0"),
        ("e.dst, r.d + e.w", "WHERE 20 > r.d"),
        ("e.dst, r.d", "AND e.dst <> r.node"),
        ("e.dst, r.d + abs(e.w)", ""),
    ],
)
def test_what_grows_with_the_least_value_needs_no_other(step, where):
    assert least("src, w", step, where) == "c1"


@pytest.mark.parametrize(
    ("base", "step"),
    [
        ("src, part", "e.dst, r.d"),
        ("src, at", "e.dst, r.d"),
        ("src, day", "e.dst, r.d"),
        ("src, day", "e.dst, r.d - (2 * e.w + 1)"),
    ],
)
def test_times_and_decimals_do_so_too(base, step):
    assert least(base, step) == "c1"


@pytest.mark.parametrize(
    ("base", "step"),
    [
        ("src, w", "e.dst, CAST(r.d - 0.5 AS INT)"),
        ("src, w", "e.dst, CAST(r.d + e.part AS INT)"),
        ("src, at", "e.dst, r.d + INTERVAL 1 DAY"),
        ("src, at", "e.dst, r.d - INTERVAL 1 MONTH"),
        ("src, at", "e.dst, r.d - e.w * INTERVAL 1 MONTH"),
    ],
)
def test_what_may_make_one_value_of_two_keeps_them_all(base, step):
    """Else a row could undercut its own seed in a cycle, come back to where it is, and stay when the seed goes."""
    assert least(base, step) == ""


@pytest.mark.parametrize(
    ("base", "step", "where", "taken"),
    [
        ("src, w", "e.dst, e.w - r.d", "", None),
        ("src, w", "e.dst, r.d * e.w", "", None),
        ("src, w", "e.dst, r.d + r.d", "", None),
        ("src, w", "e.dst, e.w", "AND r.d = e.w", None),
        ("src, w", "e.dst, r.d + 1", "WHERE r.d > 3", None),
        ("src, w", "e.dst, r.d + 1", "WHERE r.d <> 3", None),
        ("src, w", "e.dst + r.d, r.d", "", None),
        ("src, x", "e.dst, r.d", "", None),
        ("src, w", "g.i, r.d", "CROSS JOIN LATERAL (SELECT explode(sequence(1, r.d)) AS i) AS g", None),
        ("src, w", "e.dst, r.d", "", "SELECT node, max(d) AS d FROM r GROUP BY node"),
        ("src, w", "e.dst, r.d", "", "SELECT node, min(d) AS d, count(*) AS n FROM r GROUP BY node"),
        ("src, w", "e.dst, r.d", "", "SELECT min(d) AS d FROM r"),
        ("src, w", "e.dst, r.d", "", "SELECT node, min(d) AS d FROM r WHERE d > 2 GROUP BY node"),
        ("src, w", "e.dst, r.d", "", "SELECT node, d FROM r"),
        ("src, w", "e.dst, r.d", "", "SELECT node, min(d) AS d FROM r GROUP BY node UNION ALL SELECT node, d FROM r"),
        ("src, w", "e.dst, r.d", "", "SELECT r.node, min(r.d) AS d FROM r JOIN e ON e.src = r.node GROUP BY r.node"),
    ],
)
def test_others_keep_all_their_rows(base, step, where, taken):
    assert least(base, step, where, **({"taken": taken} if taken else {})) == ""


def test_conditions_on_the_other_columns_are_no_hindrance():
    assert (
        least(
            "src, w",
            "e.dst, r.d + 1",
            taken="SELECT node, min(d) AS d FROM r WHERE node <> 5 GROUP BY node HAVING min(d) > 1",
        )
        == "c1"
    )
