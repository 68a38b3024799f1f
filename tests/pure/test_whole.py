"""A small table that is held whole is what lies there, or it is read."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.plan.nodes import EPOCH
from ivm.table import whole
from ivm.table.own import own
from ivm.table.protocol import Commit
from ivm.trace.store import append_batch, drop_epoch

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.decimal128(38, 2)), ("t", pa.string())])


def _batch(*keys: int) -> pa.Table:
    return pa.table({"k": keys, "s": [None] * len(keys), "t": [str(k) for k in keys]}, schema=SCHEMA)


@pytest.fixture
def trace(tmp_path) -> str:
    whole.forget()
    path = str(tmp_path / "trace")
    append_batch(path, _batch(1, 2), 3, "app")
    return path


def _keys(rows: pa.Table | None) -> list[tuple[int, int]] | None:
    return None if rows is None else sorted(zip(rows["k"].to_pylist(), rows[EPOCH].to_pylist(), strict=True))


def test_what_was_not_read_is_not_known(trace):
    assert whole.known(trace) is None
    append_batch(trace, _batch(3), 4, "app")
    assert whole.known(trace) is None


def test_what_is_appended_is_known_with_what_was_read(trace, monkeypatch):
    monkeypatch.setattr(whole, "_PIECES", 2)
    read = whole.rows(trace)
    for epoch in range(4, 9):
        append_batch(trace, _batch(epoch), epoch, "app")
        append_batch(trace, _batch(), epoch, "app")
        assert whole.known(trace).schema == read.schema
    mine = whole.known(trace)
    whole.forget()
    assert _keys(mine) == _keys(whole.rows(trace)) == [(1, 3), (2, 3), *((e, e) for e in range(4, 9))]
    assert mine.schema == whole.rows(trace).schema


def _by_another(path: str) -> None:
    own(path).append(whole.rows(path).slice(0, 1), Commit("another", 1))


def _dropped(path: str) -> None:
    drop_epoch(path, 3, "owner")


def _replaced(path: str) -> None:
    rows = DeltaTable(path).to_pyarrow_table().slice(0, 0)
    shutil.rmtree(path)
    write_deltalake(path, rows)


@pytest.mark.parametrize("change", [_by_another, _dropped, _replaced])
def test_what_others_did_is_not_overlooked(trace, change):
    whole.rows(trace)
    change(trace)
    assert whole.known(trace) is None
    append_batch(trace, _batch(7), 8, "app")
    assert whole.known(trace) is None
    assert _keys(whole.rows(trace))[-1] == (7, 8)


def test_a_batch_that_was_there_already_is_not_taken_twice(trace):
    whole.rows(trace)
    assert append_batch(trace, _batch(9), 3, "app") == 2  # those that are there
    assert _keys(whole.known(trace) or whole.rows(trace)) == [(1, 3), (2, 3)]


def test_few_bytes_are_held(trace, monkeypatch, tmp_path):
    monkeypatch.setattr(whole, "BYTES", 8 * whole.rows(trace).nbytes)
    paths = [str(tmp_path / str(i)) for i in range(10)]
    for path in paths:
        append_batch(path, _batch(1, 2), 3, "app")
        whole.rows(path)
    assert [whole.known(path) is not None for path in paths] == [False, False] + [True] * 8
    append_batch(paths[9], _batch(*range(20)), 4, "app")
    assert whole.known(paths[9]) is None
