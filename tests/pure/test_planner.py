"""What the planner says of a view's cost."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ivm.planner.choose import choose, met_rows, wide_products
from ivm.planner.learned import MET, Past
from ivm.planner.limits import EMBEDDED
from ivm.refresh.past import pasts
from tests.pure.test_compile import program

ROWS = {"customer": 150_000, "orders": 1_500_000, "lines": 6_000_000}


@pytest.mark.parametrize(
    ("sql", "warned"),
    [
        ("SELECT o.ok, c.ck FROM orders o CROSS JOIN customer c", True),
        ("SELECT o.ok, l.n FROM orders o JOIN lines l ON l.n < o.ok", True),
        ("SELECT o.ok, c.ck FROM orders o JOIN customer c ON o.ck = c.ck", False),
        ("SELECT o.ok, t.m FROM orders o CROSS JOIN (SELECT max(ck) AS m FROM customer) t", False),
    ],
)
def test_a_product_without_an_equality_is_warned_of(sql, warned):
    found = [w for unit in program(sql).units for w in wide_products(unit, ROWS)]
    assert bool(found) == warned
    assert all("orders" in w and "rows" in w for w in found)


def test_much_change_is_refreshed_in_full():
    assert choose({"t": 1_000_000}, {"t": 1_000_000}, strict=False).strategy == "full"
    assert choose({"t": 1_000_000}, {"t": 1_000_000}, strict=True).strategy == "incremental"
    assert choose({"t": 1_000}, {"t": 900}, strict=False).strategy == "incremental"
    assert choose({"t": 1_000}, {"t": 900}, strict=False, limits=replace(EMBEDDED, small_input=100)).strategy == "full"


#: Refreshes of about 300,000 expected rows, of about a million, and in full.
SLOW_DELTAS = Past(incremental=[(300_000, 9.0), (250_000, 8.0), (10, 0.1)], full=[(1_000_000, 2.0)])
QUICK_DELTAS = Past(incremental=[(1_100_000, 1.0), (1_200_000, 1.2)], full=[(1_000_000, 30.0)])
SLOW_TO_BUILT = Past(SLOW_DELTAS.incremental, built=[(1_000_000, 1.9)])
QUICK_TO_BUILT = Past(QUICK_DELTAS.incremental, built=QUICK_DELTAS.full)
INNER = Past(QUICK_DELTAS.incremental, QUICK_DELTAS.full, inner=True)
TELLING = (SLOW_DELTAS, QUICK_DELTAS, SLOW_TO_BUILT, QUICK_TO_BUILT, INNER)


@pytest.mark.parametrize(
    ("changed", "past", "strategy"),
    [
        (150_000, SLOW_DELTAS, "full"),
        (10_000, SLOW_DELTAS, "incremental"),  # nothing is known of so few rows
        (600_000, Past(), "full"),
        (600_000, QUICK_DELTAS, "incremental"),
        (600_000, Past(incremental=QUICK_DELTAS.incremental[:1], full=QUICK_DELTAS.full), "full"),  # once is no rule
        (150_000, Past(incremental=SLOW_DELTAS.incremental, full=[(1_000_000, 5.0)]), "incremental"),  # hardly quicker
        (150_000, Past(incremental=[(300_000, 0.9), (300_000, 0.8)], full=[(1_000_000, 0.1)]), "incremental"),
        (150_000, Past(incremental=SLOW_DELTAS.incremental, full=[(10_000, 0.1)]), "incremental"),  # of a small table
        # The first builds of all units warm their process up: one tells of the next full refresh if it is far apart.
        (150_000, Past(incremental=SLOW_DELTAS.incremental, built=[(1_000_000, 2.2)]), "incremental"),
        (150_000, SLOW_TO_BUILT, "full"),
        (150_000, Past(SLOW_DELTAS.incremental, [(1_000_000, 5.0)], [(1_000_000, 0.2)]), "incremental"),
        (600_000, QUICK_TO_BUILT, "incremental"),
        # One of two, a process's first: TPC-H's q22 at SF10.
        (150_000, Past([(300_000, 8.3), (300_000, 1.2)], built=[(1_000_000, 0.9)]), "incremental"),
        # In full, others of its view were built anew, too.
        (150_000, Past(SLOW_DELTAS.incremental, SLOW_DELTAS.full, inner=True), "incremental"),
        (600_000, INNER, "incremental"),
    ],
)
def test_what_refreshes_took_before_is_believed_where_it_is_clear(changed, past, strategy):
    limits = replace(EMBEDDED, small_input=1)
    found = choose({"t": 1_000_000}, {"t": changed}, strict=False, limits=limits, past=lambda: past)
    assert found.strategy == strategy
    assert ("as many rows took" in found.reason) == (past in TELLING and changed > 10_000)
    assert choose({"t": 1_000_000}, {"t": changed}, strict=True, past=lambda: past).strategy == "incremental"


def test_nobody_looks_at_the_past_where_there_is_no_choice():
    def asked() -> Past:
        pytest.fail("the log was read")

    assert choose({"t": 1_000}, {"t": 900}, strict=False, past=asked).strategy == "incremental"
    assert choose({"t": None}, {"t": 900}, strict=False, past=asked).strategy == "incremental"


JOIN = "SELECT c.nation, o.ok FROM customer c JOIN orders o ON o.ck = c.ck"


@pytest.mark.parametrize(
    ("sql", "deltas", "stored", "met"),
    [
        ("SELECT ok, n FROM lines WHERE n > 1", {"lines": 1_000}, 0, 0),
        (JOIN, {"orders": 1_000}, 0, 1_000),
        (JOIN, {"customer": 1_000}, 0, 10_000),
        (JOIN, {"customer": 1_000, "orders": 10}, 0, 10_010),
        (JOIN, {"orders": 1_000_000}, 0, 150_000),
        ("SELECT ck, count(*) AS n FROM orders GROUP BY ck", {"orders": 1_000}, 100_000, 0),
        # Each customer that an order changes is looked at with all its orders, before and after.
        (
            "SELECT c.ck, o.ok FROM customer c LEFT JOIN orders o ON o.ck = c.ck",
            {"orders": 1_000},
            0,
            2 * (1_000 + 10_000),
        ),
        (
            "SELECT c.ck, o.ok FROM customer c LEFT JOIN orders o ON o.ck = c.ck",
            {"orders": 500_000},
            0,
            2 * (150_000 + 1_500_000),
        ),
        (
            "SELECT o.ok FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customer c WHERE c.ck = o.ck)",
            {"customer": 10},
            0,
            2 * (100 + 100),
        ),
        ("SELECT ck, max(ok) AS m FROM orders GROUP BY ck", {"orders": 1_000}, 100_000, 15_000),
        ("SELECT ck, max(ok) AS m FROM orders GROUP BY ck", {"orders": 1_000_000}, 100_000, 1_500_000),
        (
            "SELECT ok, row_number() OVER (PARTITION BY ck ORDER BY ok) AS n FROM orders",
            {"orders": 1_000},
            1_500_000,
            8_000,
        ),
    ],
)
def test_changed_rows_meet_others_evenly(sql, deltas, stored, met):
    unit, *_ = program(sql).units
    rows = {r: ROWS[r] for r in unit.reads}
    assert met_rows(unit, rows, deltas, stored, False) == met


def test_one_row_of_few_may_meet_most_of_many():
    (unit,) = program(JOIN).units
    rows, limits = {"customer": 25, "orders": 1_500_000}, replace(EMBEDDED, small_input=1)
    assert (
        choose(rows, {"customer": 1}, False, met=met_rows(unit, rows, {"customer": 1}, 0, False)).strategy
        == "incremental"
    )
    assert (
        choose(rows, {"customer": 25}, False, (), met_rows(unit, rows, {"customer": 25}, 0, False), limits).strategy
        == "full"
    )


@pytest.mark.parametrize(
    ("changed", "met", "past", "strategy"),
    [
        (1_000_000, 20_000_000, Past(), "full"),  # nothing is learned: as many are met as are expected
        (1_000_000, 20_000_000, Past(met=0.1, here=True), "incremental"),
        (1_000_000, 20_000_000, Past(met=0.1), "incremental"),
        (1_000_000, 20_000_000, Past(met=0.4, here=True), "incremental"),
        (1_000_000, 20_000_000, Past(met=0.4), "full"),
        (1_000_000, 20_000_000, Past(met=2.0, here=True), "full"),  # a statement over so many rows stays with Spark
        (3_000_000, 0, Past(met=1.0, here=True), "incremental"),
        (3_000_000, 0, Past(met=1.0), "full"),
        (6_000_000, 1, Past(met=0.1, here=True), "full"),  # staged: by Spark, whatever ran before
    ],
)
def test_rows_cost_as_many_as_are_read_by_who_reads_them(changed, met, past, strategy):
    found = choose({"t": 6_000_000}, {"t": changed}, False, (), met, past=lambda: past)
    assert found.strategy == strategy
    assert found.cost_incremental == 2 * changed + met, "what is expected stays comparable from refresh to refresh"


def outcomes(*found):
    """The events of incremental refreshes, as (engine, changed rows, rows expected to be met, rows read)."""
    return [
        SimpleNamespace(
            status="applied",
            unit="u",
            detail=json.dumps(
                {
                    "strategy": "incremental", "engine": engine, "error": "", "code": "", "seconds": 1.0, "rows_out": 1,
                    "rows_in": changed, "rows_read": read, "cost_incremental": 2 * changed + met,
                    "cost_full": 1_000_000,
                }
            ),
        )
        for engine, changed, met, read in found
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "events", "met", "here"),
    [
        ("auto", [], MET, True),
        ("spark", [], MET, False),
        ("auto", [("embedded", 10, 0, 0)], 1.0, True),
        ("auto", [("embedded", 10, 900, 90), ("embedded", 20, 100, 110)], 0.2, True),
        ("auto", [("embedded", 10, 632_121, 632_121)], 1_000_000 / 632_121, True),
        ("auto", [("embedded", 10, 900, 90), ("embedded", 10, 900_000, 900_000)], 0.1, True),  # most of all rows
        ("auto", [("embedded", 10, 900, 90), ("spark: it is too large", 10, 900, 900)], 0.1, True),
        ("auto", [("spark: no", 10, 900, 90)], 0.1, False),
        ("spark", [("", 10, 900, 90)], 0.1, False),
    ],
)
def test_the_share_that_is_read_is_learned(engine, events, met, here):
    context = SimpleNamespace(engine=engine, compiled={}, log=SimpleNamespace(events=lambda: outcomes(*events)))
    found = pasts(context, {"u"})["u"]
    assert found.met == pytest.approx(met, rel=1e-3)
    assert found.here == here
