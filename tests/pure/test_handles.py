"""Tables that stay open: what is shared is what the log says, whoever writes."""

from __future__ import annotations

import shutil
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import TableNotFoundError

from ivm.errors import ConcurrentRefreshError
from ivm.lake import bags, files, handles, native
from ivm.lake.commits import commit_file
from ivm.names import WEIGHT
from ivm.storage.location import Location


@pytest.fixture
def path(tmp_path) -> str:
    path = str(tmp_path / "t")
    native.append(path, _rows(1, 2), "app", 1)
    return path


def _rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def _changes(**by_weight: int) -> pa.Table:
    return pa.table({"id": pa.array([int(i[1:]) for i in by_weight], pa.int64()), WEIGHT: list(by_weight.values())})


def _ids(delta: DeltaTable) -> list[int]:
    return sorted(native.read(delta)["id"].to_pylist())


def _told(delta: DeltaTable) -> dict:
    """All that is read off a handle."""
    actions, metadata = native.actions(delta), delta.metadata()
    return {
        "version": delta.version(),
        "files": sorted(actions.select(sorted(actions.column_names)).to_pylist(), key=str),
        "schema": delta.schema().to_json(),
        "metadata": [metadata.id, metadata.created_time, metadata.partition_columns, metadata.configuration],
        "transactions": {a: delta.transaction_version(a) for a in ("app", "other")},
        "rows": native.rows(delta),
        "ids": _ids(delta),
    }


def test_a_table_is_opened_once_for_all_who_read_it(path):
    handles.forget()
    one = native.table(path)
    assert native.table(path)._table is one._table
    assert native.table(path, 0)._table is one._table


def test_who_writes_takes_a_handle_that_nobody_reads_with(path):
    handles.forget()
    reads = native.table(path)
    behind = reads._table
    assert native.writable(path)._table is not behind
    del reads
    writes = native.writable(path)
    assert writes._table is behind
    assert native.table(path)._table is not behind, "which is the writer's now"


def test_who_writes_finds_the_table_as_it_is_now(path, tmp_path):
    handles.forget()
    native.table(path)
    write_deltalake(path, _rows(3), mode="append")
    native.append(path, _rows(4), "app", 2)
    assert _told(native.table(path)) == _told(DeltaTable(path))
    assert _ids(native.table(path)) == [1, 2, 3, 4]
    shutil.rmtree(path)
    native.append(path, _rows(8), "app", 1)
    native.append(path, _rows(9), "app", 2)
    assert _ids(native.table(path)) == [8, 9]


def test_a_handle_goes_on_over_checkpoints_that_forget_commits(tmp_path):
    path = str(tmp_path / "t")
    settings = {"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 0 days"}
    for version in range(1, 12):
        native.append(path, _rows(version), "app", version, settings)
        assert _told(native.table(path)) == _told(DeltaTable(path))
    assert not native.append(path, _rows(0), "app", 11, settings)
    assert _ids(native.table(path)) == list(range(1, 12))


def test_files_that_are_put_leave_open_what_the_log_says(path, tmp_path):
    for version in (2, 3):
        folder = tmp_path / f"staged_{version}"
        folder.mkdir()
        pq.write_table(_rows(version), folder / "0.parquet")
        files.commit_files(path, Location.of(str(folder)), "app", version, "overwrite")
        assert _told(native.table(path)) == _told(DeltaTable(path))
        assert _ids(native.table(path)) == [version]


def test_rows_are_read_as_of_a_version_while_others_write(path):
    """A reader keeps its version, in whatever order its copies go."""
    first = native.table(path)
    second = native.table(path)
    native.append(path, _rows(3), "app", 2)
    del first
    native.append(path, _rows(4), "app", 3)
    assert (second.version(), _ids(second)) == (0, [1, 2])
    assert _ids(native.table(path)) == [1, 2, 3, 4]


WRITES = {
    "append": lambda path: native.append(path, _rows(3), "app", 2),
    "overwrite": lambda path: native.overwrite(path, _rows(9).append_column("x", pa.array(["y"])), "app", 2),
    "merge that inserts": lambda path: bags.merge(path, _changes(_5=1, _6=2), ["id"], "app", 2),
    "merge": lambda path: bags.merge(path, _changes(_1=-1, _7=2), ["id"], "app", 2),
}


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_what_a_write_leaves_open_is_what_the_log_says(path, write, behind, monkeypatch):
    """Also where somebody else committed between, before which only some of them give way."""
    before = native.table(path)
    if behind:
        monkeypatch.setattr(native, "writable", _before_another_commit(path))
    try:
        WRITES[write](path)
    except ConcurrentRefreshError:
        assert (write, behind) == ("merge", True)
    else:
        assert DeltaTable(path).version() == (2 if behind else 1)
    assert _told(native.table(path)) == _told(DeltaTable(path))
    assert (before.version(), _ids(before)) == (0, [1, 2])


def _before_another_commit(path):
    def opened(_):
        delta = DeltaTable(path)
        write_deltalake(path, _rows(4), mode="append")
        return delta

    return opened


def test_commits_of_others_are_seen(path):
    native.table(path)
    for more in ([3], [4], [5]):
        write_deltalake(path, _rows(*more), mode="append")
        assert native.table(path).version() == DeltaTable(path).version()
    assert len(handles._tables[path].at) == handles.VERSIONS
    assert _ids(native.table(path)) == [1, 2, 3, 4, 5]
    assert _ids(native.table(path, 0)) == [1, 2]


def test_another_table_in_its_place_is_seen(path, tmp_path):
    """Of the same version, after a backup was restored, or where the folder was replaced."""
    native.table(path)
    shutil.copytree(path, tmp_path / "backup")
    write_deltalake(path, _rows(3), mode="append")
    assert _ids(native.table(path)) == [1, 2, 3]
    shutil.rmtree(path)
    shutil.copytree(tmp_path / "backup", path)
    assert _ids(native.table(path)) == [1, 2]
    shutil.rmtree(path)
    native.append(path, _rows(8), "app", 1)
    assert _ids(native.table(path)) == [8]
    assert _ids(native.table(path, 0)) == [8]


def test_a_table_that_is_gone_is_gone(path):
    native.table(path)
    shutil.rmtree(path)
    with pytest.raises(Exception, match=r"(?i)not found|no such|does not exist|not a delta table|no files in log"):
        native.table(path)


def test_cleaned_commits_are_read_from_the_checkpoint(path):
    native.table(path)
    write_deltalake(path, _rows(3), mode="append")
    table = DeltaTable(path)
    table.create_checkpoint()
    for version in (0, 1):
        commit_file(path, version).drop()
    assert _ids(native.table(path)) == [1, 2, 3]


def test_the_handles_that_are_kept_are_few(tmp_path, monkeypatch):
    monkeypatch.setattr(handles, "MOST", 3)
    handles.forget()
    for i in range(5):
        native.append(str(tmp_path / str(i)), _rows(i), "app", 1)
        native.table(str(tmp_path / str(i)))
    assert len(handles._tables) == 3
    assert [_ids(native.table(str(tmp_path / str(i)))) for i in range(5)] == [[i] for i in range(5)]


def test_what_is_opened_ahead_is_open_and_what_can_not_be_is_told_to_who_asks(path, tmp_path, monkeypatch):
    handles.forget()
    missing, opened = str(tmp_path / "missing"), []

    def open_(of: str, version: int | None = None) -> DeltaTable:
        opened.append(of)
        return DeltaTable(of, version=version)

    with monkeypatch.context() as counted:
        counted.setattr(handles, "DeltaTable", open_)
        handles.open_ahead([path, missing], 2)
        for _ in range(1000):
            if len(opened) == 2 and handles._tables:
                break
            time.sleep(0.01)
        handles.open_ahead([path], 2)
        assert _ids(native.table(path)) == [1, 2]
        assert sorted(opened) == sorted([path, missing])
    with pytest.raises(TableNotFoundError):
        native.table(missing)
    native.append(path, _rows(3), "app", 2)
    assert _ids(native.table(path)) == [1, 2, 3]
