"""The protocol's steps as tasks of their own: each another process, which finds views and sources as they are by then.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import pytest

from ivm.errors import ConcurrentRefreshError, StateError, ViewError
from ivm.parameters import location
from ivm.refresh.protocol import Run, advance
from ivm.refresh.run import step_apply, step_check, step_plan, step_publish
from ivm.storage.location import Location
from ivm.testing.faults import Effect, Fault, Injector, Moment, Point
from ivm.testing.recovery import differences, said
from tests.pure.duck_session import Writer
from tests.scenes import VIEWS, change

pytestmark = pytest.mark.slow


#: What the scene is made ready for.
BEFORE = "refresh"


def context(lake):
    return lake.pipeline(lake.folder).context


def test_nothing_is_applied_by_another_program_than_was_planned(lake):
    plan = step_plan(context(lake))
    lake.views = {**lake.views, "big": VIEWS["big"].replace("* 2", "* 3")}
    with pytest.raises(StateError, match="no longer as epoch 2 was planned for"):
        step_apply(context(lake), plan)
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_a_failed_check_holds_a_view_back_though_its_source_is_gone_by_then(lake):
    plan = step_plan(context(lake))
    outcomes = step_apply(context(lake), plan)
    checking, orders = context(lake), lake.folder / "sources" / "orders"
    orders.rename(orders.with_name("away"))
    held = step_check(checking, plan, outcomes, lambda *_: {"totals": ["it shall fail"]})
    assert set(held) == {"totals", "rich"}
    step_publish(checking, plan, outcomes)
    orders.with_name("away").rename(orders)
    change(lake)
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_a_source_that_goes_between_plan_and_apply_stops_only_what_reads_it(lake):
    doing = context(lake)
    plan = step_plan(doing)
    customers = lake.folder / "sources" / "customers"
    customers.rename(customers.with_name("away"))
    outcomes = step_apply(doing, plan)
    assert {o.view for o in outcomes.values() if o.error} == {"named", "idle"}
    assert "there is nothing at" in outcomes["named"].error
    step_check(doing, plan, outcomes, lambda *_: {})
    step_publish(doing, plan, outcomes)
    customers.with_name("away").rename(customers)
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


@pytest.mark.parametrize(("worth", "early"), [(1_000_000.0, False), (0.0, True)])
def test_what_a_moment_did_is_recorded_with_the_verdict(lake, monkeypatch, worth, early):
    monkeypatch.setattr("ivm.refresh.apply._WORTH_RECORDING", worth)
    seen = []

    def gate(checking, plan, outcomes):
        seen.append(set(checking.log.outcomes(plan.epoch)) >= set(outcomes))
        return {}

    run = Run(context(lake), gate)
    advance(run, "plan", "check")
    assert seen == [early]
    after = context(lake)
    assert set(after.log.outcomes(run.planned.epoch)) == set(run.outcomes)
    events = [(e.status, e.unit) for e in after.log.events() if e.epoch == run.planned.epoch]
    assert len(events) == len(set(events))
    assert lake.pipeline(lake.folder).refresh().ok
    assert after.log.manifest().epoch == run.planned.epoch
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_what_another_process_checked_meanwhile_is_not_published_by_our_outcomes(lake, monkeypatch):
    monkeypatch.setattr("ivm.refresh.apply._WORTH_RECORDING", 1_000_000.0)

    def gate(_, plan, outcomes):
        other = context(lake)
        step_check(other, plan, step_apply(other, plan), lambda *_: {})
        return {}

    with pytest.raises(ConcurrentRefreshError, match="Another process checked epoch 2 meanwhile"):
        advance(Run(context(lake), gate))
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_what_the_job_of_a_dead_attempt_still_writes_is_nobodys(without_a_jvm, scenes, tmp_path, monkeypatch):
    """The client died in a first build; its Spark goes on with the jobs while the task is tried again."""
    lake = scenes("build", tmp_path)
    plan = step_plan(context(lake))
    write, folders = Writer.parquet, []

    def noted(writer, path):
        folders.append(Location.of(location(path, "a path")))
        write(writer, path)

    with monkeypatch.context() as patch:
        patch.setattr(Writer, "parquet", noted)
        dies = Fault(Effect.DIE, Moment.BEFORE, Point("delta append", "_ivm/epochs", 1, True))
        with Injector([lake.folder / "root"], [dies]):
            assert said(lambda: step_apply(context(lake), plan)) == "killed"
    assert len(folders) > 3
    left = {f: f.read() for folder in folders for f in folder.list() if f.name.endswith(".parquet")}

    def meanwhile(writer, path):
        write(writer, path)
        for file, data in left.items():
            file.parent.make()
            (file.parent / f"late-{file.name}").write(data)

    monkeypatch.setattr(Writer, "parquet", meanwhile)
    doing = context(lake)
    outcomes = step_apply(doing, plan)
    assert [o.error for o in outcomes.values() if o.error] == []
    step_check(doing, plan, outcomes, lambda *_: {})
    step_publish(doing, plan, outcomes)
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_nothing_is_published_that_was_not_checked(lake):
    doing = context(lake)
    plan = step_plan(doing)
    outcomes = step_apply(doing, plan)
    with pytest.raises(StateError, match="Epoch 2 was not checked"):
        step_publish(doing, plan, outcomes)
    assert not context(lake).log.has(plan.epoch, "committed")
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


@pytest.mark.parametrize("lacking", [{"totals"}, set(VIEWS)])
def test_nothing_is_checked_that_was_not_computed(lake, lacking):
    """Its task was marked successful by hand, before it began or in its middle."""
    doing = context(lake)
    plan = step_plan(doing)
    known = {u: o for u, o in step_apply(doing, plan).items() if o.view not in lacking}
    with pytest.raises(StateError, match=f"Epoch 2 was not computed for: .*{min(lacking)}"):
        step_check(doing, plan, known, lambda *_: {})
    assert not doing.log.has(plan.epoch, "checked")
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


@pytest.mark.parametrize("gone", ["nested", "inner"])
def test_a_view_of_which_one_unit_was_computed_is_not_checked(lake, gone):
    doing = context(lake)
    plan = step_plan(doing)
    outcomes = step_apply(doing, plan)
    (inner,) = [u for u, o in outcomes.items() if o.view == "nested" and u != "nested"]
    del outcomes[inner if gone == "inner" else gone]
    with pytest.raises(StateError, match=r"Epoch 2 was not computed for: nested\."):
        step_check(context(lake), plan, outcomes, lambda *_: {})


def test_nothing_is_checked_that_is_being_dropped(lake):
    """The process that dropped it died meanwhile: batches may be missing."""
    doing = context(lake)
    plan = step_plan(doing)
    outcomes = step_apply(doing, plan)
    doing.log.record(plan.epoch, "abandoning")
    with pytest.raises(StateError, match="Epoch 2 is being dropped"):
        step_check(doing, plan, outcomes, lambda *_: {})
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


@pytest.mark.parametrize("asked", [{"day": "2026-03-31"}, {"where": "cust = 1"}])
def test_a_backfill_of_a_view_that_cannot_be_compiled_says_why(lake, asked):
    pipe, customers = lake.pipeline(lake.folder), lake.folder / "sources" / "customers"
    customers.rename(customers.with_name("away"))
    with pytest.raises(ViewError, match="there is nothing at"):
        pipe.backfill("named", **asked)
