"""What moves to the archives is there afterwards, each row once, in whatever order its epochs come to it.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.errors import ConcurrentRefreshError
from ivm.housekeeping import Retention
from ivm.pipeline import Pipeline
from ivm.refresh.epochs import EpochLog
from ivm.table.archived import archived
from ivm.table.own import own
from ivm.table.rust import RustTable
from tests.pure.duck_session import DuckSession


@pytest.fixture
def log(tmp_path):
    made = EpochLog(str(tmp_path / "epochs"), "p")
    for epoch in range(1, 7):
        made.record(epoch, "planned")
        made.record(epoch, "abandoned")
    return made


def found(path):
    return sorted((e["epoch"], e["status"]) for e in own(str(path)).read().to_pylist())


def events(*epochs):
    return sorted((epoch, status) for epoch in epochs for status in ("planned", "abandoned"))


def test_events_that_were_needed_move_after_younger_ones(log, tmp_path):
    before, archive = log.events(), str(tmp_path / "archive")
    assert log.forget(2, [2], archive) == 6
    assert found(archive) == events(1, 3, 4)
    assert log.forget(2, [], archive) == 2
    assert found(archive) == events(1, 2, 3, 4)
    there = own(archive).read(["epoch", "status", "at", "detail"]).to_pylist()
    assert {tuple(e.values()) for e in there} == {(e.epoch, e.status, e.at, e.detail) for e in before if e.epoch < 5}


def test_events_whose_move_was_stopped_are_there_once(log, tmp_path, monkeypatch):
    before, archive = log.events(), str(tmp_path / "archive")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ivm.table.growing.GrowingTable.keep_only", full)
    with pytest.raises(OSError, match="No space"):
        log.forget(2, [2], archive)
    monkeypatch.undo()
    assert EpochLog(log.path, "p").events() == before
    assert log.forget(2, [], archive) == 8
    assert found(archive) == events(1, 2, 3, 4)
    assert [e.epoch for e in log.events()] == [5, 5, 6, 6]


def test_what_is_not_known_to_be_there_is_not_taken_for_moved(tmp_path, monkeypatch):
    """Another process appends after this one has looked."""
    path, rows = str(tmp_path / "archive"), pa.table({"epoch": [1], "results": ["a"]})
    archived(path, rows, rows.column_names, "app", {})
    monkeypatch.setattr(RustTable, "transaction", lambda *_: 0)
    more = pa.table({"epoch": [1, 1], "results": ["a", "b"]})
    with pytest.raises(ConcurrentRefreshError, match="moved rows to"):
        archived(path, more, more.column_names, "app", {})
    monkeypatch.undo()
    archived(path, more, more.column_names, "app", {})
    assert own(path).read().sort_by("results") == more


@pytest.fixture
def checked(tmp_path, without_a_jvm):
    """Two views, each of a source of its own, whose changes a check judges; one epoch is kept."""

    def add(source, *rows):
        data = pa.table({"k": pa.array(rows, pa.int64())})
        write_deltalake(tmp_path / source, data, mode="append", configuration={"delta.enableChangeDataFeed": "true"})

    def pipe():
        check = {"delta": [{"expect_column_values_to_be_between": {"column": "k", "max_value": 5}}]}
        retention = Retention(epochs=1, compact_every=0)
        made = Pipeline(
            "p", DuckSession(), tmp_path / "root", retention=retention, checks={"of_a": check, "of_b": check}
        )
        for source in "ab":
            made.source(source, str(tmp_path / source))
            made.view(f"of_{source}", f"SELECT k FROM {source}")
        return made

    for source in "ab":
        add(source, 1)
    assert pipe().refresh().ok
    add("a", 9)
    assert not pipe().refresh(["of_a"]).ok
    for row in (2, 3):
        add("b", row)
        assert pipe().refresh(["of_b"]).ok
    return SimpleNamespace(pipe=pipe, root=tmp_path / "root")


@pytest.mark.parametrize("end", [Pipeline.release, Pipeline.discard])
def test_an_epoch_that_was_held_is_kept_with_its_results(checked, end):
    told = checked.pipe().history()
    checked.pipe().compact(0)
    assert checked.pipe().history()[-len(told) :] == told
    end(checked.pipe(), "of_a")
    for _ in range(2):
        checked.pipe().compact(0)
    context = checked.pipe().context
    assert 2 not in {e.epoch for e in context.log.events()}
    assert checked.pipe().history()[-len(told) :] == told
    archive = DeltaTable(context.layout.archived_checks).to_pyarrow_table().to_pylist()
    judged = sorted(
        (row["epoch"], {json.loads(line)["view"] for line in row["results"].splitlines()}) for row in archive
    )
    assert judged == [(1, {"of_a", "of_b"}), (2, {"of_a"}), (3, {"of_b"}), (4, {"of_b"})]
