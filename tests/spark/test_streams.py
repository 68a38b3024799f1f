"""docs/streams.md, run: two consumers of a view's change feed, and what they add up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ivm.names import table_ref
from ivm.pipeline import Pipeline

pytestmark = pytest.mark.spark

PAGE = Path(__file__).resolve().parents[2] / "docs" / "streams.md"
VIEW, STREAM, CHANGES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.fixture
def names(spark, tmp_path):
    """What the page's blocks find, after its first one."""
    orders = str(tmp_path / "orders")
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    spark.sql(f"CREATE TABLE {table_ref(orders)} (id BIGINT, customer STRING) USING delta {feed}")
    spark.sql(f"INSERT INTO {table_ref(orders)} VALUES (1, 'ann'), (2, 'ann'), (3, 'bob'), (4, NULL)")
    found = {
        "spark": spark,
        "pipe": Pipeline("streams", spark, tmp_path / "lake"),
        "orders": orders,
        "counted": str(tmp_path / "lake" / "counted"),
        "copy": table_ref(str(tmp_path / "copy")),
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    exec(compile(VIEW, str(PAGE), "exec"), found)
    return found


def epochs(names):
    """Epochs by several kinds of changes; what each leaves is compared by the caller."""
    spark, orders, pipe = names["spark"], table_ref(names["orders"]), names["pipe"]
    for statement in (
        f"INSERT INTO {orders} VALUES (5, 'bob'), (6, 'eve')",
        f"DELETE FROM {orders} WHERE customer = 'eve'",
        f"UPDATE {orders} SET customer = 'bob' WHERE customer IS NULL",
        f"UPDATE {orders} SET customer = NULL WHERE id = 1",
    ):
        spark.sql(statement)
        assert pipe.refresh().views["counted"].strategy == "incremental"
        yield


def rows(spark, table):
    return sorted((tuple(r) for r in spark.sql(f"SELECT customer, n FROM {table}").collect()), key=repr)


def test_a_stream_keeps_a_copy(names):
    spark, view = names["spark"], table_ref(names["counted"])
    exec(compile(STREAM, str(PAGE), "exec"), names)
    assert rows(spark, names["copy"]) == rows(spark, view) != []
    for number, _ in enumerate(epochs(names)):
        if number % 2:  # one micro-batch of two versions, too
            names["keep_up"]()
            assert rows(spark, names["copy"]) == rows(spark, view)
    names["pipe"].backfill("counted")
    names["keep_up"]()
    assert rows(spark, names["copy"]) == rows(spark, view)


def test_changes_without_spark(names):
    exec(compile(CHANGES, str(PAGE), "exec"), names)
    spark, view = names["spark"], table_ref(names["counted"])
    seen, version = names["changes"](-1)
    for _ in epochs(names):
        told, version = names["changes"](version)
        assert told
        for row, weight in told:
            (seen.append if weight > 0 else seen.remove)((row, 1))
        assert sorted((row for row, _ in seen), key=repr) == rows(spark, view)
    assert names["changes"](version) == ([], version)
