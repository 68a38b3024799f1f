"""Full refreshes that change nothing: their readers have nothing to read. DuckDB stands in Spark's place."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import ivm
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow


def test_readers_of_a_full_refresh_without_changes_stay_incremental(tmp_path, without_a_jvm):
    def add(k, v):
        rows = pa.table({"k": pa.array([k], pa.int64()), "v": pa.array([v], pa.int64())})
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(tmp_path / "t"), rows, mode="append", configuration=feed)

    def refreshed():
        pipe = ivm.Pipeline("sums", DuckSession(), tmp_path / "root")
        pipe.source("t", str(tmp_path / "t"))
        pipe.view("a", "SELECT k, sum(v) AS s FROM t GROUP BY k", mode="full")
        pipe.view("d", "SELECT s, count(*) AS n FROM a GROUP BY s", mode="incremental")
        report = pipe.refresh()
        assert report.ok, [v.error for v in report.views.values()]
        return report, sorted(pipe.read("d").collect()), pipe.context.log.manifest().units["a"].epoch

    add(1, 5)
    assert refreshed()[1:] == ([(5, 1)], 1)
    add(1, 0)  # no trace of `a` was ever written
    report, found, epoch = refreshed()
    assert report.views["a"].strategy == "full"
    assert (found, epoch) == ([(5, 1)], 1)
    add(2, 5)
    assert refreshed()[1:] == ([(5, 2)], 3)
    add(2, 0)  # now there is one
    assert refreshed()[1:] == ([(5, 2)], 3)
