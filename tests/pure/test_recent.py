"""A batch that was appended a moment ago is recalled as the trace holds it, or not at all."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.names import WEIGHT
from ivm.table.own import own
from ivm.table.protocol import Commit
from ivm.trace import recent
from ivm.trace.store import append_batch, drop_epoch, gained, read_batch, read_batches

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.timestamp("us", "UTC")), ("x", pa.float64())])


@pytest.fixture
def trace(tmp_path) -> str:
    recent.forget()
    path = str(tmp_path / "trace")
    assert append_batch(path, _batch((1, 1.5, 1), (2, float("nan"), 2)), 3, "app")
    return path


def _batch(*rows: tuple[int, float, int]) -> pa.Table:
    keys, values, weights = zip(*rows, strict=True)
    columns = [pa.array(keys, pa.int64()), pa.array([None] * len(keys), SCHEMA.field("t").type), pa.array(values)]
    return pa.table([*columns, pa.array(weights, pa.int64())], schema=SCHEMA.append(pa.field(WEIGHT, pa.int64())))


def _read_anew(path: str, epoch: int) -> list[dict]:
    recent.forget()
    return _rows(read_batch(path, SCHEMA, epoch))


def _rows(batch: pa.Table) -> list[dict]:
    return sorted(batch.to_pylist(), key=str)


def test_the_last_batch_is_the_one_in_the_trace(trace):
    mine = read_batch(trace, SCHEMA, 3)
    assert recent.recalled(trace, 3) is not None
    assert mine.schema == read_batch(trace, SCHEMA, 3).schema
    assert str(_rows(mine)) == str(_read_anew(trace, 3))
    assert gained(trace, 3) == 3


def test_an_earlier_batch_is_read(trace):
    append_batch(trace, _batch((7, 0.0, 1)), 4, "app")
    assert recent.recalled(trace, 3) is None
    assert (gained(trace, 3), gained(trace, 4)) == (3, 1)
    assert [r["k"] for r in _rows(read_batch(trace, SCHEMA, 3))] == [1, 2]


@pytest.mark.parametrize(("alone", "keys"), [(True, [7]), (False, [1, 2, 2, 7])])
def test_a_delta_of_one_batch_is_that_batch(trace, alone, keys):
    append_batch(trace, _batch((7, 0.0, 1)), 4, "app")
    after = 3 if alone else 0
    found = read_batches(trace, ["k"], after, 4, SCHEMA, alone=alone)
    assert sorted(found["k"].to_pylist()) == keys
    recent.forget()
    assert read_batches(trace, ["k"], after, 4, SCHEMA).sort_by("k") == found.sort_by("k")


def test_more_rows_than_may_be_held_are_told_as_if_they_were_read(trace):
    assert read_batches(trace, ["k"], 0, 3, SCHEMA, most=1, alone=True) is None


def _dropped(path: str) -> None:
    drop_epoch(path, 3, "owner")


def _overwritten(path: str) -> None:
    held = DeltaTable(path)
    own(path).replace(held.to_pyarrow_table().slice(0, 0), held.schema().to_json(), Commit("b", 1))


def _another(path: str) -> None:
    rows = DeltaTable(path).to_pyarrow_table().slice(0, 0)
    shutil.rmtree(path)
    write_deltalake(path, rows)


@pytest.mark.parametrize("change", [_dropped, _overwritten, _another])
def test_what_is_gone_from_the_trace_is_not_recalled(trace, change):
    assert recent.recalled(trace, 3) is not None
    change(trace)
    assert recent.recalled(trace, 3) is None
    assert read_batch(trace, SCHEMA, 3).num_rows == 0


def test_a_batch_that_was_there_already_is_read(trace):
    """An attempt that died may have computed it in another way: what it stored counts."""
    recent.forget()
    for batch in (_batch((9, 9.0, 1)), _batch((9, 9.0, 1)).slice(1)):
        assert append_batch(trace, batch, 3, "app") == 2
    assert append_batch(trace, _batch((9, 9.0, 1)).slice(1), 4, "app") == 0
    assert [r["k"] for r in _rows(read_batch(trace, SCHEMA, 3))] == [1, 2]


def test_few_bytes_are_held(trace, monkeypatch, tmp_path):
    monkeypatch.setattr(recent, "BYTES", 8 * _batch((1, 1.0, 1)).nbytes)
    paths = [str(tmp_path / str(i)) for i in range(10)]
    for path in paths:
        append_batch(path, _batch((1, 1.0, 1)), 1, "app")
    held = [recent.recalled(path, 1) is not None for path in paths]
    assert held == [False, False] + [True] * 8
    append_batch(trace, _batch(*[(i, 1.0, 1) for i in range(20)]), 5, "app")
    assert recent.recalled(trace, 5) is None
    assert read_batch(trace, SCHEMA, 5).num_rows == 20
