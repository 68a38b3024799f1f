"""A refresh that compacts by itself leaves alone what few batches were added to.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm
from ivm.housekeeping import Retention
from tests.pure.duck_session import DuckSession

FEED = {"delta.enableChangeDataFeed": "true"}
EVERY = 6


@pytest.fixture
def pipe(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    for source in ("busy", "quiet"):
        write_deltalake(tmp_path / source, rows(range(10)), configuration=FEED)
    retention = Retention(hours=0, epochs=100, compact_every=EVERY)
    pipe = ivm.Pipeline("few", DuckSession(), tmp_path / "root", retention=retention)
    for source in ("busy", "quiet"):
        pipe.source(source, str(tmp_path / source))
        pipe.view(f"of_{source}", f"SELECT k, sum(v) AS s, count(*) AS n FROM {source} GROUP BY k")
    return pipe


def change(pipe, tmp_path, *sources: str) -> None:
    for source in sources:
        write_deltalake(tmp_path / source, rows([3]), mode="append")
    assert pipe.refresh().ok


def files(pipe, view: str) -> int:
    """Files of the view's accumulators: one a batch until they are summed into one."""
    state = pipe.context.log.manifest().units[view]
    return len(DeltaTable(pipe.context.layout.accumulator_trace(view, state.generation)).file_uris())


def test_units_of_few_batches_wait_until_they_have_more(pipe, tmp_path):
    pipe.refresh()
    change(pipe, tmp_path, "busy", "quiet")
    while pipe.context.log.manifest().compacted == 0:
        assert files(pipe, "of_quiet") == 2
        change(pipe, tmp_path, "busy")
    assert (files(pipe, "of_busy"), files(pipe, "of_quiet")) == (1, 2)
    assert all(pipe.verify(view) for view in ("of_busy", "of_quiet"))
    for _ in range(EVERY):
        change(pipe, tmp_path, "quiet")
    assert files(pipe, "of_quiet") < 3
    assert all(pipe.verify(view) for view in ("of_busy", "of_quiet"))


def test_who_asks_for_compaction_gets_all(pipe, tmp_path):
    pipe.refresh()
    change(pipe, tmp_path, "busy", "quiet")
    assert files(pipe, "of_quiet") == 2
    pipe.compact()
    assert (files(pipe, "of_busy"), files(pipe, "of_quiet")) == (1, 1)
    change(pipe, tmp_path, "quiet")
    assert all(pipe.verify(view) for view in ("of_busy", "of_quiet"))


def rows(values):
    return pa.table({"k": pa.array([v % 5 for v in values], pa.int64()), "v": pa.array(list(values), pa.int64())})
