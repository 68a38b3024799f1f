"""Commits are identified by their log entries, and a break in a feed is named; no Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.feed import history
from ivm.feed.history import LogFolder
from ivm.feed.source import Snapshot, Source, gap, inspect, other_commit


def put(path: Path, *values: int, mode="append") -> None:
    write_deltalake(
        str(path),
        pa.table({"v": pa.array(values, pa.int64())}),
        mode=mode,
        configuration={"delta.enableChangeDataFeed": "true"},
    )


def look(path: Path) -> Snapshot:
    return inspect(Source("t", str(path)), None, "auto")


def entry(path: Path, version: int) -> Path:
    return path / "_delta_log" / f"{version:020d}.json"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for value in range(4):
        put(tmp_path / "t", value)
    return tmp_path / "t"


def test_a_feed_without_a_break(path):
    read = look(path)
    assert read.version == 3
    assert gap(read, 3, read.table_id, read.fingerprint) == ""
    put(path, 5)
    now = look(path)
    assert now.fingerprint != read.fingerprint
    assert gap(now, 3, read.table_id, read.fingerprint) == ""
    assert gap(now, 3, read.table_id, "") == "", "state of an ivm that kept no fingerprint"


def test_a_backup_and_new_commits_past_the_cursor(path):
    shutil.copytree(path, path.parent / "backup")
    put(path, 5)
    read = look(path)
    shutil.rmtree(path)
    shutil.copytree(path.parent / "backup", path)
    back = look(path)
    assert gap(back, 4, read.table_id, read.fingerprint) == "the source went back from version 4 to 3"
    put(path, 6)
    same = look(path)
    assert (same.version, same.table_id) == (read.version, read.table_id)
    assert "version 4 of the source is not the commit that was read" in gap(same, 4, read.table_id, read.fingerprint)
    put(path, 7)
    assert "version 4 of the source is not the commit that was read" in gap(
        look(path), 4, read.table_id, read.fingerprint
    )
    assert gap(look(path), 3, back.table_id, back.fingerprint) == "", "a reader that stood before the backup follows"


def test_another_table_in_its_place(path):
    read = look(path)
    shutil.rmtree(path)
    for value in range(6):
        put(path, value)
    assert gap(look(path), 3, read.table_id, read.fingerprint) == "the source was replaced by another table"


def test_log_entries_that_are_gone(path):
    read = look(path)
    put(path, 5)
    DeltaTable(str(path)).create_checkpoint()
    entry(path, 2).unlink()
    assert gap(look(path), 1, read.table_id, "") == "the log entry of version 2 is gone"
    entry(path, 3).unlink()
    assert "the log entry of version 3, up to which the source was read, is gone" in gap(
        look(path), 3, read.table_id, read.fingerprint
    )
    assert gap(look(path), 3, read.table_id, "") == "", "state of an ivm that kept no fingerprint"
    now = look(path)
    entry(path, 4).unlink()
    assert look(path).fingerprint == ""
    assert gap(look(path), 4, now.table_id, now.fingerprint) == "", "nothing new, and nothing speaks against it"


def test_a_feed_that_was_off_for_a_while(path):
    read = look(path)
    table = DeltaTable(str(path))
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    put(path, 5)
    DeltaTable(str(path)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    assert gap(look(path), 3, read.table_id, read.fingerprint) == "the change feed was off at version 4"
    assert gap(look(path), 6, read.table_id, look(path).fingerprint) == ""


def test_a_feed_is_on_however_true_is_written(tmp_path):
    """Delta keeps a property as it was written, and reads it in any case (dbt writes True)."""
    rows = pa.table({"v": pa.array([1], pa.int64())})
    write_deltalake(str(tmp_path), rows, configuration={"delta.enableChangeDataFeed": "True"})
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    commits = look(tmp_path).commits
    assert commits.entry(1).feed
    assert commits.fed(1, 1)


def test_a_restore(path):
    read = look(path)
    DeltaTable(str(path)).restore(1)
    assert gap(look(path), 3, read.table_id, read.fingerprint) == "the source was restored at version 4"


def test_a_planned_commit_that_is_another_one_now(path):
    planned = look(path)
    put(path, 5)
    assert other_commit(look(path), 3, planned.table_id, planned.fingerprint) == ""
    rewritten = json.dumps({"commitInfo": {"operation": "WRITE", "timestamp": 1}})
    entry(path, 3).write_text(rewritten + "\n" + entry(path, 3).read_text())
    assert "is not the commit that was read" in other_commit(look(path), 3, planned.table_id, planned.fingerprint)


def test_each_log_entry_is_read_once(path):
    read = look(path)
    for value in range(20):
        put(path, value)
    now, before = look(path), history._entry.cache_info().misses
    for _ in range(5):
        assert gap(now, 3, read.table_id, read.fingerprint) == ""
    assert now.commits.gained(4, 23) == 20
    assert history._entry.cache_info().misses == before + 20


def test_rows_gained_by_log_entries():
    def live(**action) -> int | None:
        return history._live_rows(action)

    assert live(stats='{"numRecords": 7}', deletionVector={"cardinality": 2}) == 5
    assert live(stats='{"numRecords": 7}') == 7
    assert live(deletionVector={"cardinality": 2}) is None
    assert live(stats=None) is None


def test_a_change_of_partitioning_is_a_gap(tmp_path):
    """Spark's feed gives NULL for the partition columns of rows in files from before it: seen, a wrong view."""
    path = str(tmp_path / "t")
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(path, pa.table({"k": [1], "v": [1]}), configuration=feed)
    write_deltalake(path, pa.table({"k": [2], "v": [2]}), mode="overwrite", partition_by=["k"], schema_mode="overwrite")
    write_deltalake(path, pa.table({"k": [3], "v": [3]}), mode="append")
    commits = LogFolder(path, 2)
    assert commits.broken(1, 2) == "the partitioning changed at version 1"
    assert commits.broken(2, 2) == ""


def test_a_feed_that_came_after_the_commits_that_are_asked_for(tmp_path):
    path = str(tmp_path / "t")
    for value in range(3):
        write_deltalake(path, pa.table({"v": [value]}), mode="append")
    assert not look(Path(path)).commits.fed(2, 2)
    DeltaTable(path).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    write_deltalake(path, pa.table({"v": [4]}), mode="append")
    commits = look(Path(path)).commits
    assert not commits.fed(2, 2), "an epoch that was planned before"
    assert not commits.fed(2, 4)
    assert commits.fed(4, 4)
