"""What the planner says of a view's cost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ivm.planner.choose import choose, met_rows, wide_products
from ivm.planner.limits import EMBEDDED
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
    assert choose({"t": 1_000_000}, {"t": 500_000}, strict=False).strategy == "full"
    assert choose({"t": 1_000_000}, {"t": 500_000}, strict=True).strategy == "incremental"
    assert choose({"t": 1_000}, {"t": 900}, strict=False).strategy == "incremental"
    assert choose({"t": 1_000}, {"t": 900}, strict=False, limits=replace(EMBEDDED, small_input=100)).strategy == "full"


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
    rows = {"customer": 25, "orders": 1_500_000}
    assert (
        choose(rows, {"customer": 1}, False, met=met_rows(unit, rows, {"customer": 1}, 0, False)).strategy
        == "incremental"
    )
    assert (
        choose(rows, {"customer": 25}, False, met=met_rows(unit, rows, {"customer": 25}, 0, False)).strategy == "full"
    )
