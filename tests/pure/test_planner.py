"""What the planner says of a view's cost."""

from __future__ import annotations

import pytest

from ivm.planner.choose import choose, wide_products
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
