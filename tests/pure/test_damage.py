"""State that is wrong though its commits are ours (a defect, a disk): what can be told from counts is built anew.

And state whose log is lost. DuckDB stands in Spark's place.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ivm.lake import native
from ivm.lake.log import head_of
from ivm.refresh import full
from ivm.refresh.integrity import paths
from ivm.refresh.records import to_json
from ivm.refresh.run import step_plan
from ivm.testing.recovery import differences
from tests.scenes import change

pytestmark = pytest.mark.slow


#: What the scene is made ready for.
BEFORE = "backfill"


@pytest.mark.parametrize("damage", [{"__ivm_count": "__ivm_count - 9"}, {"n_arg_1": "n_arg_1 + 5"}])
def test_counts_that_cannot_be_are_answered_by_a_rebuild(lake, damage):
    pipe = lake.pipeline(lake.folder)
    state = pipe.context.log.manifest().units["totals"]
    trace = pipe.context.layout.accumulator_trace("totals", state.generation)
    native.table(trace).update(updates=damage, predicate="cust = 1")
    taken_for_true(pipe, "totals")
    change(lake)
    view = lake.pipeline(lake.folder).refresh().views["totals"]
    assert view.strategy == "full"
    assert "less than no rows" in view.reason
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def taken_for_true(pipe, unit):
    """Commit an epoch whose manifest has the unit's tables as they are now."""
    log = pipe.context.log
    manifest, epoch = log.manifest(), log.next_epoch()
    state = manifest.units[unit]
    heads = {what: head_of(path) for what, path in paths(pipe.context, unit, state).items() if native.exists(path)}
    units = manifest.units | {unit: replace(state, heads=heads)}
    log.record(epoch, "committed", detail=to_json(replace(manifest, epoch=epoch, units=units)))


def test_a_lost_log_is_mended_for_good_though_a_view_does_not_change(lake):
    """The tables' last commits carry the lost log's identity.

    `best` keeps its rows in the epoch after, and commits nothing of the new one's.
    """
    change(lake)
    assert lake.pipeline(lake.folder).refresh().ok
    pipe = lake.pipeline(lake.folder)
    shutil.rmtree(pipe.context.layout.epochs)
    again = lake.pipeline(lake.folder)
    assert "best" in again.repair().known_again
    change(lake)
    report = again.refresh()
    assert report.ok, [v.error for v in report.views.values()]
    assert report.views["best"].strategy == "incremental"
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_a_backup_of_the_state_beside_newer_tables_is_answered_by_a_rebuild(lake, tmp_path):
    """The tables hold what an epoch published of which the log that was put back knows nothing."""
    internal, backup = lake.pipeline(lake.folder).context.layout.internal.url, tmp_path / "backup"
    shutil.copytree(internal, backup)
    change(lake)
    assert lake.pipeline(lake.folder).refresh().ok
    shutil.rmtree(internal)
    shutil.move(backup, internal)
    report = lake.pipeline(lake.folder).refresh()
    assert report.ok, [v.error for v in report.views.values()]
    assert "holds what an epoch published that was never committed" in report.views["totals"].reason
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_a_table_that_somebody_made_append_only_says_how_to_undo_it(lake):
    path = lake.pipeline(lake.folder).context.layout.table("best", True)
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
    for _ in range(2):  # incremental, then anew
        change(lake)
        report = lake.pipeline(lake.folder).refresh()
        assert f"made the table {path} append-only" in report.views["best"].error
        assert "UNSET TBLPROPERTIES ('delta.appendOnly')" in report.views["best"].error
        assert {v for v, r in report.views.items() if r.error} == {"best", "rich"}
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


@pytest.fixture(params=["lost", "overwritten"])
def unreadable(lake, request):
    """The scene, whose `totals` have lost a data file: their log is as it was left."""
    path = lake.pipeline(lake.folder).context.layout.table("totals", True)
    file = Path(native.table(path).file_uris()[0].removeprefix("file://"))
    file.unlink() if request.param == "lost" else file.write_bytes(b"x" * file.stat().st_size)
    return lake


def test_a_table_that_can_not_be_read_is_built_anew_by_the_next_refresh(unreadable):
    change(unreadable)
    report = unreadable.pipeline(unreadable.folder).refresh()
    assert "the published rows can't be read" in report.views["totals"].error
    assert {v for v, r in report.views.items() if r.error} == {"totals", "rich"}
    view = unreadable.pipeline(unreadable.folder).refresh().views["totals"]
    assert (view.strategy, view.error) == ("full", "")
    assert "the published rows can't be read" in view.reason
    assert unreadable.pipeline(unreadable.folder).refresh().ok
    assert differences(unreadable.pipeline(unreadable.folder), unreadable.recomputed(unreadable.folder)) == []


@pytest.mark.parametrize("mended", [lambda pipe: pipe.backfill("totals"), lambda pipe: pipe.repair(["totals"]).report])
def test_a_table_that_can_not_be_read_is_replaced_where_a_rebuild_is_asked_for(unreadable, mended):
    report = mended(unreadable.pipeline(unreadable.folder))
    assert report.ok, [v.error for v in report.views.values()]
    assert differences(unreadable.pipeline(unreadable.folder), unreadable.recomputed(unreadable.folder)) == []


def test_a_rebuild_that_fails_over_a_table_that_can_be_read_fails(lake, monkeypatch):
    monkeypatch.setattr(full, "consolidated", lambda *_: "SELECT nothing")
    assert "nothing" in lake.pipeline(lake.folder).backfill("totals").views["totals"].error


OPEN = {
    "put_back": lambda trace, copy: (shutil.rmtree(trace), shutil.copytree(copy, trace)),
    "gone": lambda trace, copy: shutil.rmtree(trace),
    "garbled": lambda trace, copy: max((Path(trace) / "_delta_log").glob("*.json")).write_text("{\n"),
    "emptied": lambda trace, copy: shutil.rmtree(Path(trace) / "_delta_log"),
}


@pytest.mark.parametrize("damage", OPEN.values(), ids=OPEN)
@pytest.mark.parametrize("what", ["accumulator_trace", "output_trace"])
def test_an_open_epoch_is_planned_anew_where_a_trace_was_damaged_since(lake, tmp_path, what, damage):
    """It was planned, and the process that planned it died; the trace that it would go on from lacks a batch."""
    pipe = lake.pipeline(lake.folder)
    state = pipe.context.log.manifest().units["totals"]
    trace, copy = getattr(pipe.context.layout, what)("totals", state.generation), tmp_path / "copy"
    change(lake)
    assert pipe.refresh().ok
    shutil.copytree(trace, copy)
    change(lake)
    assert lake.pipeline(lake.folder).refresh().ok
    change(lake)
    pipe = lake.pipeline(lake.folder)
    plan = step_plan(pipe.context)
    damage(trace, copy)
    again = lake.pipeline(lake.folder)
    assert step_plan(again.context).epoch > plan.epoch
    report = again.refresh()
    assert report.ok, [v.error for v in report.views.values()]
    assert report.views["totals"].strategy == "full"
    assert "its state is not what the last epoch left" in report.views["totals"].reason
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_an_open_epoch_that_builds_a_damaged_view_anew_is_gone_on_with(lake):
    pipe = lake.pipeline(lake.folder)
    state = pipe.context.log.manifest().units["totals"]
    shutil.rmtree(pipe.context.layout.accumulator_trace("totals", state.generation))
    plan = step_plan(pipe.context)
    assert plan.tasks["totals"].code == "damaged"
    assert step_plan(lake.pipeline(lake.folder).context) == plan
