"""No source is of unknown size: counts come from the log where delta-rs may not read a table, else from Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.feed.source import Source, count_bytes, count_rows, inspect

FEED = {"delta.enableChangeDataFeed": "true"}


class Counting:
    """A session that counts, and keeps what it was asked."""

    def __init__(self, rows: int) -> None:
        self.rows, self.asked = rows, []

    def sql(self, text):
        self.asked.append(text)
        return SimpleNamespace(collect=lambda: [{"n": self.rows}])


@pytest.fixture
def partitioned(tmp_path):
    path = str(tmp_path / "t")
    rows = pa.table({"p": [i % 3 for i in range(10)], "v": list(range(10))})
    write_deltalake(path, rows, partition_by=["p"], configuration=FEED)
    DeltaTable(path).delete("v = 4")
    return path


def test_a_table_that_only_spark_reads_is_counted_by_its_log(partitioned):
    snapshot = inspect(Source("t", partitioned), None, "auto")
    assert snapshot.by_spark == "partition columns"
    assert count_rows(snapshot, None) == 9


def test_the_count_is_that_of_the_snapshot(partitioned):
    snapshot = inspect(Source("t", partitioned), None, "auto")
    DeltaTable(partitioned).delete("v < 4")
    assert count_rows(snapshot, None) == 9


def test_the_bytes_are_those_of_the_snapshot(partitioned):
    files = pa.table(DeltaTable(partitioned).get_add_actions(flatten=True))
    snapshot = inspect(Source("t", partitioned), None, "auto")
    DeltaTable(partitioned).delete()
    assert count_bytes(snapshot) == sum(files["size_bytes"].to_pylist()) > 0


def test_a_table_read_natively_is_counted(tmp_path):
    write_deltalake(str(tmp_path / "t"), pa.table({"v": [1, 2]}), configuration=FEED)
    assert count_rows(inspect(Source("t", str(tmp_path / "t")), None, "auto"), None) == 2


def test_an_emptied_table_has_no_rows(partitioned):
    DeltaTable(partitioned).delete()
    assert count_rows(inspect(Source("t", partitioned), None, "auto"), None) == 0


def test_spark_counts_where_the_log_can_not_be_read(partitioned, monkeypatch):
    snapshot = inspect(Source("t", partitioned), None, "auto")
    monkeypatch.setattr("ivm.lake.native.recorded_size", lambda delta: (None, 0, 0))
    spark = Counting(9)
    assert count_rows(snapshot, lambda: spark) == 9
    assert spark.asked == [f"SELECT count(*) AS n FROM delta.`{partitioned}` VERSION AS OF {snapshot.version}"]
    assert count_rows(snapshot, None) is None
