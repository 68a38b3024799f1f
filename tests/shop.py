"""A shop whose pipeline went through days of orders, returns and a bad delivery: for the pages, the browser, pictures.

DuckDB stands for Spark (see `tests.pure.duck_session`); everything else is the real thing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from ivm.pipeline import Pipeline
from tests.pure.duck_session import DuckSession

VIEWS = {
    "order_lines": (
        "SELECT o.id, o.day, c.customer, c.region, p.product, p.price * o.pieces AS amount\n"
        "FROM orders o\nJOIN customers c ON o.customer = c.customer\nJOIN products p ON o.product = p.product"
    ),
    "revenue": "SELECT region, sum(amount) AS revenue, count(*) AS lines\nFROM order_lines\nGROUP BY region",
    "best_customers": (
        "SELECT customer, sum(amount) AS revenue\nFROM order_lines\nGROUP BY customer\nHAVING sum(amount) > 900"
    ),
    "dearest": "SELECT region, max(amount) AS dearest\nFROM order_lines\nGROUP BY region",
    "loyalty": (
        "SELECT lines, count(*) AS customers\n"
        "FROM (SELECT customer, count(*) AS lines FROM orders GROUP BY customer)\nGROUP BY lines"
    ),
    "idle_customers": (
        "SELECT c.customer, c.region\nFROM customers c LEFT JOIN orders o ON o.customer = c.customer\n"
        "WHERE o.id IS NULL"
    ),
}
#: A delivery with prices in cents: what the check of `order_lines` holds back.
CHECKS = """\
order_lines:
  delta:
    - expect_column_values_to_be_between: {column: amount, min_value: 0, max_value: 500}
    - expect_column_values_to_not_be_null: {column: region}
"""
_FEED = {"delta.enableChangeDataFeed": "true"}
_ORDERS = pa.schema(
    [
        ("id", pa.int64()),
        ("day", pa.string()),
        ("customer", pa.string()),
        ("product", pa.string()),
        ("pieces", pa.int64()),
    ]
)


class Shop:
    """The folder of the pipeline `shop` below `place`, and its sources."""

    def __init__(self, place: Path, orders: int = 2_000, views: Iterable[str] = VIEWS) -> None:
        self.place, self.folder, self._next = place, place / "pipelines" / "shop", 1
        self._random = random.Random(7)
        self.session = DuckSession()
        (self.folder / "views").mkdir(parents=True)
        settings = {
            "name": "shop",
            "root": str(place / "root"),
            "sources": {n: {"path": str(place / n)} for n in ("orders", "customers", "products")},
            "checks": {"values": "hidden"},
            "views": {"revenue": {"freshness": "1h"}},
        }
        (self.folder / "pipeline.yml").write_text(json.dumps(settings, indent=2))
        (self.folder / "checks.yml").write_text(CHECKS)
        for name in views:
            (self.folder / "views" / f"{name}.sql").write_text(VIEWS[name])
        regions = ("north", "south", "east", "west")
        customers = [{"customer": f"c{n:03}", "region": regions[n % 4]} for n in range(200)]
        products = [{"product": f"p{n:02}", "price": n % 40 + 1} for n in range(60)]
        self._write("customers", pa.Table.from_pylist(customers))
        self._write("products", pa.Table.from_pylist(products))
        self.order("2026-11-01", orders)

    def _write(self, name: str, rows: pa.Table) -> None:
        write_deltalake(str(self.place / name), rows, mode="append", configuration=_FEED)

    def order(self, day: str, count: int) -> None:
        """Some orders of a day."""
        made = [
            {
                "id": self._next + n,
                "day": day,
                "customer": f"c{self._random.randrange(180):03}",
                "product": f"p{self._random.randrange(60):02}",
                "pieces": self._random.randrange(1, 10),
            }
            for n in range(count)
        ]
        self._next += count
        self._write("orders", pa.Table.from_pylist(made, _ORDERS))

    def take_back(self, first: int, last: int) -> None:
        """Orders that are deleted."""
        DeltaTable(str(self.place / "orders")).delete(f"id BETWEEN {first} AND {last}")

    def bad_delivery(self) -> None:
        """A product whose price is in cents, and orders of it."""
        self._write("products", pa.table({"product": ["p90"], "price": [1999]}))
        bad = [{"id": self._next + n, "day": "2026-11-09", "customer": f"c{n:03}", "product": "p90", "pieces": n + 1}
               for n in range(12)]  # fmt: skip
        self._next += len(bad)
        self._write("orders", pa.Table.from_pylist(bad, _ORDERS))

    def refresh(self) -> None:
        Pipeline.load(self.folder, self.session).refresh()


def delivered(place: Path) -> Shop:
    """A shop with few views that was refreshed twice, the second time after the bad delivery, which is held back."""
    shop = Shop(place, views=("order_lines", "revenue", "loyalty"))
    shop.refresh()
    shop.bad_delivery()
    shop.refresh()
    return shop
