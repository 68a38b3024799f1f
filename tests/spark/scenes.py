"""The pipeline on which faults are tried: seven dependent views over two sources, one of them with an inner unit."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from ivm.testing.recovery import Scene

VIEWS = {
    "big": "SELECT id, cust, amount * 2 AS twice FROM orders WHERE amount > 2",
    "totals": "SELECT cust, sum(amount) AS s, count(*) AS n FROM orders GROUP BY cust",
    "best": "SELECT cust, max(amount) AS m FROM orders GROUP BY cust",
    "named": "SELECT /*+ ARRANGE(orders, cust) */ o.id, c.name, o.amount FROM orders o JOIN customers c ON o.cust = c.cust",
    "rich": "SELECT t.cust, t.s, b.m FROM totals t JOIN best b ON t.cust = b.cust WHERE t.s > 3",
    "idle": "SELECT c.region, count(o.id) AS n FROM customers c LEFT JOIN orders o ON o.cust = c.cust GROUP BY c.region",
    "nested": "SELECT n, count(*) AS customers FROM (SELECT cust, count(*) AS n FROM orders GROUP BY cust) GROUP BY n",
}
ORDERS = pa.schema([("id", pa.int64()), ("cust", pa.int32()), ("amount", pa.int32())])
CUSTOMERS = pa.schema([("cust", pa.int32()), ("name", pa.string()), ("region", pa.string())])
FOLLOW_UP = (
    ("orders", pa.Table.from_pylist([{"id": 90, "cust": 1, "amount": 9}, {"id": 91, "cust": 7, "amount": 4}], ORDERS)),
    ("customers", pa.Table.from_pylist([{"cust": 9, "name": "iota", "region": "south"}], CUSTOMERS)),
)


def scene(spark, folder: Path) -> Scene:
    """The sources with their first rows; nothing is built yet."""
    made = Scene(spark, folder / "lake", VIEWS, ("orders", "customers"), FOLLOW_UP)
    feed = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"CREATE TABLE {ref(made, 'orders')} (id bigint, cust int, amount int) {feed}")
    spark.sql(f"CREATE TABLE {ref(made, 'customers')} (cust int, name string, region string) {feed}")
    spark.sql(f"INSERT INTO {ref(made, 'orders')} VALUES (1, 1, 5), (2, 1, 3), (3, 2, 8), (4, 2, 8), (5, 3, 1), (6, NULL, 2), (6, NULL, 2)")
    spark.sql(f"INSERT INTO {ref(made, 'customers')} VALUES (1, 'alpha', 'north'), (2, 'beta', 'north'), (3, 'gamma', 'south'), (4, 'delta', NULL)")
    return made


def change(made: Scene) -> None:
    """A mixture of changes in both sources; each view changes."""
    made.spark.sql(f"INSERT INTO {ref(made, 'orders')} VALUES (7, 1, 7), (8, 4, 3), (8, 4, 3)")
    made.spark.sql(f"UPDATE {ref(made, 'orders')} SET amount = amount - 4 WHERE cust = 2")
    made.spark.sql(f"DELETE FROM {ref(made, 'orders')} WHERE id = 5")
    made.spark.sql(f"UPDATE {ref(made, 'customers')} SET region = 'west' WHERE cust = 2")


def ref(made: Scene, source: str) -> str:
    return f"delta.`{made.folder / 'sources' / source}`"
