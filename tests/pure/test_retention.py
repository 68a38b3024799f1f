"""A warning comes before a source forgets what a lagging view has still to read; no Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.feed.retention import FILES, LOG, warnings
from ivm.feed.source import Source, inspect
from ivm.refresh.lag import lag_warnings
from ivm.refresh.records import Cursor, Manifest, UnitState


def after(**time: float) -> datetime:
    """So long from now: the module may have been imported long before the tests run."""
    return datetime.now(UTC) + timedelta(**time)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for value in range(3):
        rows = pa.table({"v": pa.array([value], pa.int64())})
        write_deltalake(str(tmp_path / "t"), rows, mode="append", configuration={"delta.enableChangeDataFeed": "true"})
    return tmp_path / "t"


def look(path: Path):
    return inspect(Source("t", str(path)), None, "auto")


def test_who_has_read_all_is_not_warned(path):
    assert warnings(look(path), {"a": 2}, after(days=400)) == []
    assert warnings(look(path), {}, after()) == []


def test_files_are_kept_a_week_and_the_log_a_month(path):
    behind = {"a": 0, "b": 1, "c": 0}
    assert warnings(look(path), behind, after(days=5)) == []
    (files,) = warnings(look(path), behind, after(days=6))
    assert files.startswith("Source 't': a, c read up to version 0 of 2, and files of version 1 may be removed from ")
    assert "(delta.deletedFileRetentionDuration, 7 days)" in files
    files, log = warnings(look(path), behind, after(days=24))
    assert "may have been removed since" in files
    assert "log entries of version 0 may be removed from" in log
    assert "(delta.logRetentionDuration, 30 days)" in log


def test_a_table_may_set_its_own(path):
    DeltaTable(str(path)).alter.set_table_properties({FILES: "interval 100 days", LOG: "interval 2 hours"})
    (log,) = warnings(look(path), {"a": 2}, after(hours=1, minutes=50))
    assert "(delta.logRetentionDuration, 2 hours)" in log


def test_readers_of_another_table_wait_for_nothing(path):
    snapshot = look(path)

    def manifest(table_id: str) -> Manifest:
        state = UnitState(
            "d", True, 1, 1, 0, 1, 0, 0, "", (), {"t": Cursor(0, table_id), "other": Cursor(None, epoch=1)}
        )
        return Manifest(1, {}, {"a": state})

    later = after(days=6)
    assert len(lag_warnings({"t": snapshot}, manifest(snapshot.table_id).units, later)) == 1
    assert lag_warnings({"t": snapshot}, manifest("another").units, later) == []
