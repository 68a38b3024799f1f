"""Backfills: what a dry run says, and that one that was stopped goes on. DuckDB stands in Spark's place."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ivm.errors import ConfigError
from ivm.refresh.run import step_apply, step_check, step_plan
from ivm.testing.recovery import differences
from tests.scenes import path

pytestmark = pytest.mark.slow

#: What the scene is made ready for: built, and one change that was not read yet.
BEFORE = "refresh"


def events(lake):
    return [(e.epoch, e.status) for e in lake.pipeline(lake.folder).context.log.events()]


def test_a_dry_run_says_what_a_rebuild_reads_and_writes_and_does_nothing(lake):
    before = events(lake)
    pipe = lake.pipeline(lake.folder)
    found = pipe.estimate("totals")
    assert found.what == "view totals is built anew"
    (work,) = found.work
    assert (work.view, work.strategy, work.rows) == ("totals", "full", pipe.status()["views"]["totals"]["rows"])
    assert work.seconds is not None, "the first build is in the log"
    (read,) = work.reads
    orders = DeltaTable(path(lake, "orders"))
    assert (read.relation, read.version, read.rows) == ("orders", orders.version(), orders.to_pyarrow_table().num_rows)
    files = pa.table(orders.get_add_actions(flatten=True))
    assert read.bytes == sum(files["size_bytes"].to_pylist()) > 0
    assert found.later == ("rich",)
    assert events(lake) == before


def test_a_dry_run_of_a_view_over_views_names_what_it_brings_along(lake):
    found = lake.pipeline(lake.folder).estimate("rich")
    assert {w.view: w.strategy for w in found.work} == {"totals": "incremental", "best": "incremental", "rich": "full"}
    assert {r.relation for w in found.work if w.view == "rich" for r in w.reads} == {"totals", "best"}
    assert found.later == ()


def test_a_dry_run_of_a_slice_counts_its_rows(lake):
    before = events(lake)
    found = lake.pipeline(lake.folder).estimate("totals", where="cust = 1 OR cust = 2")
    (work,) = found.work
    assert (work.strategy, work.rows) == ("incremental", 2)
    assert events(lake) == before


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"until": "2026-03-02"}, "until without day"),
        ({"day": "2026-03-02", "until": "2026-03-01"}, "The days 2026-03-02 to 2026-03-01 are none"),
        ({"day": "2026-03-02", "where": "cust = 1"}, "of a slice or of days"),
        ({"day": "2026-03-02"}, "is not kept by day"),
    ],
)
def test_what_means_nothing_is_refused_alike_dry_or_not(lake, asked, message):
    pipe = lake.pipeline(lake.folder)
    for backfill in (pipe.backfill, pipe.estimate):
        with pytest.raises(ConfigError, match=message):
            backfill("totals", **asked)


def test_a_rebuild_that_was_stopped_goes_on_in_its_epoch(lake):
    context = lake.pipeline(lake.folder).context
    plan = step_plan(context, ["totals"], frozenset({"totals"}))
    outcomes = step_apply(context, plan)
    applied = events(lake).count((plan.epoch, "applied"))
    report = lake.pipeline(lake.folder).backfill("totals")
    assert report.ok
    assert (report.epoch, report.views["totals"].strategy) == (plan.epoch, "full")
    found = events(lake)
    assert found.count((plan.epoch, "applied")) == applied, "what was computed is not computed again"
    assert (plan.epoch, "abandoned") not in found
    assert max(epoch for epoch, _ in found) == plan.epoch, "it is not done twice"
    assert outcomes["totals"].code == "backfill"
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_a_rebuild_that_was_stopped_after_it_was_held_back_is_done_again(lake):
    context = lake.pipeline(lake.folder).context
    plan = step_plan(context, ["totals"], frozenset({"totals"}))
    step_check(context, plan, step_apply(context, plan), lambda *_: {"totals": ["it shall fail"]})
    report = lake.pipeline(lake.folder).backfill("totals")
    assert report.ok
    assert report.epoch > plan.epoch
    state = lake.pipeline(lake.folder).context.log.manifest().units["totals"]
    assert state.epoch == report.epoch, "the batch that was held back is dropped, and the view is built anew"


def test_a_refresh_that_was_stopped_is_not_taken_for_a_rebuild(lake):
    context = lake.pipeline(lake.folder).context
    plan = step_plan(context)
    step_apply(context, plan)
    report = lake.pipeline(lake.folder).backfill("totals")
    assert report.ok
    assert report.views["totals"].strategy == "full"
    assert (plan.epoch, "abandoned") in events(lake)
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []
