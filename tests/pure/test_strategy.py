"""How units are refreshed: which strategy each has, and that each strategy has a handler and statements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ivm.execute.handlers import HANDLERS
from ivm.plan.nodes import Relation
from ivm.planner.limits import EMBEDDED
from ivm.planner.strategy import (
    Accumulated,
    Fixpoint,
    FromStored,
    Full,
    Incremental,
    Known,
    Linear,
    Regroup,
    Unchanged,
    decide,
    surely_full,
)
from ivm.rewrite.slices import Facts
from tests.pure.test_compile import BIG, RELATIONS, program

RECURSION = (
    "WITH RECURSIVE r(ok, n) AS (SELECT ok, 0 FROM orders "
    "UNION{} SELECT l.ok, r.n + 1 FROM r JOIN lines l ON l.n = r.ok AND r.n < 9) SELECT * FROM r"
)


def known(unit, rows=None, changed=10, **more):
    facts = {n: Facts(r, rows) for n, r in RELATIONS.items()} | {
        unit.name: Facts(Relation(unit.name, "unit", unit.columns), rows)
    }
    return Known(facts, dict.fromkeys(unit.reads, changed) if changed else {}, **more)


@pytest.mark.parametrize(
    ("sql", "strategy"),
    [
        ("SELECT ok FROM orders WHERE ck > 1", Linear),
        ("SELECT o.ok, c.nation FROM orders o LEFT JOIN customer c ON c.ck = o.ck", Linear),
        ("SELECT ck, count(*) AS n FROM orders GROUP BY ck", Accumulated),
        ("SELECT ck, max(ok) AS m FROM orders GROUP BY ck", Regroup),
        ("SELECT ok, row_number() OVER (PARTITION BY ck ORDER BY ok) AS n FROM orders", Regroup),
        ("SELECT ok, ck FROM orders ORDER BY ok LIMIT 5", FromStored),
        ("SELECT ok, ck FROM orders ORDER BY ok LIMIT 5 OFFSET 1", Regroup),
        (RECURSION.format(" ALL"), Fixpoint),
        (RECURSION.format(""), Fixpoint),
    ],
)
def test_what_a_unit_is_decides(sql, strategy):
    unit, *_ = program(sql).units
    found = decide(unit, known(unit))
    assert type(found) is strategy
    assert type(found) in HANDLERS


def test_each_incremental_strategy_has_one_handler():
    assert set(HANDLERS) == set(Incremental.__subclasses__())


def test_what_is_known_decides():
    (top,) = program("SELECT ok, ck FROM orders ORDER BY ok LIMIT 5").units
    assert decide(top, known(top, changed=0)) == Unchanged()
    lacking = decide(top, known(top, lacking=True))
    assert isinstance(lacking, Regroup)
    assert lacking.requests.whole == {"orders", "v"}
    (grouped,) = program("SELECT ck, max(ok) AS m FROM orders GROUP BY ck").units
    assert decide(grouped, known(grouped, BIG, changed=BIG, stored=1)) == Full(
        "cost", f"{BIG:,} of {BIG:,} input rows changed, so a full refresh is cheaper"
    )
    assert isinstance(decide(grouped, known(grouped, BIG, changed=BIG, stored=1, strict=True)), Regroup)
    (product,) = program("SELECT o.ok, l.n FROM orders o JOIN lines l ON l.n < o.ok").units
    assert decide(product, known(product, 3 * BIG)).code == "cost"
    assert isinstance(decide(product, known(product)), Linear)


@pytest.mark.parametrize(
    ("changed", "full"),
    [(1_000, False), (1_000_000, False), (1_999_000, False), (2_000_000, True), (2_400_000, True)],
)
def test_logs_alone_decide_only_where_half_of_what_they_tell_would_do(changed, full):
    (unit,) = program("SELECT ok FROM orders WHERE ck > 1").units
    found = surely_full(unit, known(unit, BIG, changed=changed))
    assert (found is not None) is full
    if full:
        assert found.code == "cost"
        assert f"{changed:,} rows changed" in found.reason
    assert surely_full(unit, known(unit, BIG, changed=changed, strict=True)) is None, "its mode decides"


@pytest.mark.parametrize("kind", [" ALL", ""])
def test_a_recursion_of_which_too_much_changed_is_built_anew(kind):
    unit, *_ = program(RECURSION.format(kind)).units
    limits = replace(EMBEDDED, delta_rows=9)
    assert decide(unit, known(unit, limits=limits, strict=True)).code == "large_recursion"
    assert isinstance(decide(unit, known(unit, changed=9, limits=limits)), Fixpoint)


def test_first_rows_of_few_are_taken_from_all():
    """Their stored ones may not be enough: then a statement would have run for nothing."""
    (top,) = program("SELECT ok, ck FROM orders ORDER BY ok LIMIT 5").units
    few = EMBEDDED.few_first_rows
    assert isinstance(decide(top, known(top, few)), Regroup)
    assert isinstance(decide(top, known(top, few + 1)), FromStored)
    assert isinstance(decide(top, known(top, None)), FromStored), "nobody knows how many"
