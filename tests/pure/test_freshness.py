"""How far views are behind, and what is news: told from the logs. DuckDB stands in Spark's place."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.feed.source import inspect
from ivm.refresh import publish
from ivm.refresh.freshness import freshness
from ivm.refresh.full import FullBuild
from ivm.refresh.living import declared_units
from ivm.refresh.news import news
from ivm.refresh.published import reports_since
from ivm.refresh.run import step_apply, step_check, step_plan, step_publish
from ivm.refresh.views import View
from tests.scenes import CUSTOMERS, ORDERS, change, path

pytestmark = pytest.mark.slow

#: What the scene is made ready for: built, and one change that was not read yet.
BEFORE = "refresh"
HOUR = timedelta(hours=1)


def pipeline(lake, *views):
    """The scene's pipeline, with a target of an hour for these views."""
    pipe = lake.pipeline(lake.folder)
    for name in views:
        view = pipe.context.views[name]
        pipe.context.views[name] = type(view)(view.name, view.sql, view.mode, view.file, HOUR)
    return pipe


def refreshed_but(lake, held="", gone=""):
    """Refresh, with a check of a view that fails, or with a source that is gone while its deltas are computed."""
    context = lake.pipeline(lake.folder).context
    plan = step_plan(context)
    place = lake.folder / "sources" / gone if gone else None
    if place is not None:
        place.rename(place.with_name("away"))
    outcomes = step_apply(context, plan)
    if place is not None:
        place.with_name("away").rename(place)
    step_check(context, plan, outcomes, lambda *_: {held: ["it shall fail"]} if held else {})
    step_publish(context, plan, outcomes)
    return context


def append(lake, order):
    write_deltalake(path(lake, "orders"), pa.Table.from_pylist([order], ORDERS), mode="append")


def committed(context, source, version):
    at = inspect(context.sources[source], None, context.lane).commits.at(version)
    assert at is not None
    return at


def test_a_view_is_behind_since_the_first_commit_that_it_has_not_read(lake):
    context = pipeline(lake, "totals", "rich").context
    since = committed(context, "orders", 1)
    for view in ("totals", "rich"):  # the second reads through the first
        found = freshness(context, view, since + timedelta(minutes=59))
        assert (found.behind, found.late) == (timedelta(minutes=59), False)
        assert found.why == "version 1 of source 'orders' has not been read"
        assert freshness(context, view, since + timedelta(minutes=61)).late
    assert freshness(context, "best") is None


def test_a_view_that_has_read_everything_is_not_behind(lake):
    pipe = pipeline(lake, "totals", "rich", "idle")
    assert pipe.refresh().ok
    later = datetime.now(UTC) + timedelta(days=30)
    assert {freshness(pipe.context, v, later).behind for v in ("totals", "rich", "idle")} == {timedelta(0)}
    told = pipe.status()
    assert told["views"]["rich"]["freshness"] == {
        "target_seconds": 3600.0,
        "behind_seconds": 0.0,
        "late": False,
        "why": "",
    }
    assert told["views"]["best"]["freshness"] is None


def test_a_view_that_was_never_built_is_late(lake):
    pipe = pipeline(lake)
    pipe.view("new", "SELECT id FROM orders", freshness=HOUR)
    found = freshness(pipe.context, "new")
    assert found.late
    assert found.why == "it has not been refreshed yet"
    assert any("'new' misses its freshness target (not known of 1h)" in w for w in pipe.status()["warnings"])


def test_a_view_that_waits_for_another_one_is_behind_as_that_one_was_read(lake):
    context = refreshed_but(lake, held="rich")
    assert {*context.log.manifest().held} == {"rich"}
    since = committed(context, "orders", 1)
    found = pipeline(lake, "rich", "totals").context
    assert freshness(found, "totals", since + 2 * HOUR).behind == timedelta(0)
    rich = freshness(found, "rich", since + 2 * HOUR)
    assert (rich.behind, rich.late) == (2 * HOUR, True)


def test_a_source_that_can_not_be_looked_at_makes_a_view_late(lake):
    context = pipeline(lake, "totals").context
    orders = lake.folder / "sources" / "orders"
    orders.rename(orders.with_name("away"))
    found = freshness(context, "totals")
    assert found.late
    assert "there is nothing at" in found.why


# -- news -------------------------------------------------------------------------------------------


def test_news_are_commits_that_were_not_read(lake):
    pipe = pipeline(lake)
    assert news(pipe.context).versions == {"orders": 2, "customers": 2}
    assert pipe.refresh().ok
    assert not news(pipe.context)
    row = pa.Table.from_pylist([{"cust": 30, "name": "x", "region": "east"}], CUSTOMERS)
    write_deltalake(path(lake, "customers"), row, mode="append")
    found = news(pipe.context)
    assert (found.epoch, found.versions) == (2, {"customers": 3})


def test_before_the_first_refresh_everything_is_news(lake):
    shutil.rmtree(lake.folder / "root")
    assert set(news(pipeline(lake).context).versions) == {"orders", "customers"}


@pytest.mark.parametrize("trouble", [{"gone": "customers"}, {"held": "nested"}, {"held": "totals"}])
def test_what_only_a_view_in_trouble_has_not_read_is_no_news(lake, trouble):
    context = refreshed_but(lake, **trouble)
    assert context.log.manifest().held or context.log.manifest().failing
    assert not news(pipeline(lake).context)


def test_a_refresh_of_one_view_leaves_news_for_the_others(lake):
    pipe = pipeline(lake)
    assert pipe.refresh(["big"]).ok
    assert news(pipe.context).versions == {"orders": 2, "customers": 2}


def without(lake, *views):
    """The scene's pipeline without some views."""
    pipe = lake.pipeline(lake.folder)
    for view in views:
        del pipe.context.views[view]
    return pipe


def test_what_only_a_dropped_view_has_not_read_is_no_news(lake):
    pipe = without(lake, "totals", "rich")
    assert pipe.refresh().ok
    assert pipe.plan() is None
    assert not news(pipe.context)
    assert {"totals", "rich"} <= pipe.context.log.manifest().units.keys()
    assert {"totals", "best"} & declared_units(pipe.context, pipe.context.log.manifest()).keys() == {"best"}


def test_what_no_view_reads_is_no_news(lake):
    pipe = without(lake, "named", "idle")  # the readers of customers
    assert news(pipe.context).versions == {"orders": 2}
    assert pipe.refresh().ok
    row = pa.Table.from_pylist([{"cust": 30, "name": "x", "region": "east"}], CUSTOMERS)
    write_deltalake(path(lake, "customers"), row, mode="append")
    assert pipe.plan() is None
    assert not news(pipe.context)


def test_what_a_view_reads_that_is_not_built_yet_is_news(lake):
    pipe = without(lake, "named", "idle")
    assert pipe.refresh().ok
    pipe.view("new", "SELECT name FROM Customers")
    row = pa.Table.from_pylist([{"cust": 30, "name": "x", "region": "east"}], CUSTOMERS)
    write_deltalake(path(lake, "customers"), row, mode="append")
    assert news(pipe.context).versions == {"customers": 3}


def test_what_only_a_broken_view_has_not_read_is_no_news(lake):
    pipe = lake.pipeline(lake.folder)
    pipe.context.views["nested"] = View("nested", "SELECT nothere FROM orders")
    assert {v for v, r in pipe.refresh().views.items() if r.error} == {"nested"}
    assert not news(pipe.context)


# -- reports ----------------------------------------------------------------------------------------


def test_what_failed_and_was_mended_since_has_no_error_any_more(lake):
    context = refreshed_but(lake, gone="customers")
    first = context.log.manifest().epoch
    assert {v for v, r in reports_since(context, first).items() if r.error} == {"named", "idle"}
    assert lake.pipeline(lake.folder).refresh().ok
    found = reports_since(lake.pipeline(lake.folder).context, first)
    assert {v for v, r in found.items() if r.error} == set()
    assert found["named"].strategy != "unchanged"
    assert found["big"].strategy == "incremental"  # of the first epoch: the second had nothing to do for it
    assert reports_since(context, first + 99) == {}


def test_a_view_that_is_held_back_and_those_that_wait_for_it_have_an_error(lake):
    context = refreshed_but(lake, held="totals")
    found = reports_since(context, context.log.manifest().epoch)
    assert {v for v, r in found.items() if r.error} == {"totals", "rich"}


def test_a_view_that_could_not_be_published_has_an_error_until_it_is(lake, monkeypatch):
    inner = publish._publish_unit

    def full(context, epoch, outcome, before):
        if outcome.view == "big":
            raise OSError("No space left on device")
        return inner(context, epoch, outcome, before)

    with monkeypatch.context() as patch:
        patch.setattr(publish, "_publish_unit", full)
        context = refreshed_but(lake)
    first = context.log.manifest().epoch
    assert {v for v, r in reports_since(context, first).items() if r.error} == {"big"}
    change(lake)
    assert lake.pipeline(lake.folder).refresh(["named"]).ok  # an epoch that didn't plan it
    found = reports_since(lake.pipeline(lake.folder).context, first)
    assert "No space left on device" in found["big"].error
    assert lake.pipeline(lake.folder).refresh().ok
    assert reports_since(lake.pipeline(lake.folder).context, first)["big"].error == ""


@pytest.fixture
def held_for_a_row(lake):
    """A row came for which a view is held back, and went."""
    assert lake.pipeline(lake.folder).refresh().ok
    append(lake, {"id": 987, "cust": 1, "amount": 9})
    first = refreshed_but(lake, held="big").log.manifest().epoch
    DeltaTable(path(lake, "orders")).delete("id = 987")
    return first


def test_a_view_that_is_as_it_was_after_all_has_no_error_any_more(lake, held_for_a_row):
    report = lake.pipeline(lake.folder).refresh()
    assert (report.ok, report.views["big"].strategy) == (True, "unchanged")
    found = reports_since(lake.pipeline(lake.folder).context, held_for_a_row)
    assert (found["big"].strategy, found["big"].error) == ("unchanged", "")


def test_what_was_published_before_a_failure_that_is_mended_is_told(lake, held_for_a_row):
    """Who reads the view has not been told of it yet."""
    assert lake.pipeline(lake.folder).refresh().ok
    found = reports_since(lake.pipeline(lake.folder).context, held_for_a_row - 1)
    assert (found["big"].strategy, found["big"].error) == ("incremental", "")


@pytest.fixture
def names(lake):
    """A view that is built, and that reads nothing of what changes here."""
    lake.views = {**lake.views, "names": "SELECT name FROM customers"}
    assert lake.pipeline(lake.folder).refresh().ok
    return lake.views["names"]


def test_a_rebuild_that_failed_and_is_not_tried_again_keeps_its_error(lake, names, monkeypatch):
    def failing(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(FullBuild, "_build", failing)
        first = lake.pipeline(lake.folder).backfill("names").epoch
    append(lake, {"id": 987, "cust": 1, "amount": 9})
    assert lake.pipeline(lake.folder).refresh().views["names"].strategy == "unchanged"
    context = lake.pipeline(lake.folder).context
    assert "No space left" in reports_since(context, first)["names"].error
    assert set(context.log.manifest().failing) == {"names"}


def test_a_view_that_is_put_back_as_it_was_has_no_error_any_more(lake, names):
    lake.views = {**lake.views, "names": "SELECT upper(name) AS name FROM customers"}
    first = refreshed_but(lake, held="names").log.manifest().epoch
    lake.views = {**lake.views, "names": names}
    append(lake, {"id": 987, "cust": 1, "amount": 9})
    assert lake.pipeline(lake.folder).refresh().views["names"].strategy == "unchanged"
    context = lake.pipeline(lake.folder).context
    assert (reports_since(context, first)["names"].error, context.log.manifest().held) == ("", {})


def test_a_refresh_that_goes_on_with_an_epoch_tells_what_the_next_one_mended(lake):
    """The view is held back in the epoch that was left, and as it was in the one that follows."""
    assert lake.pipeline(lake.folder).refresh().ok
    append(lake, {"id": 987, "cust": 1, "amount": 9})
    context = lake.pipeline(lake.folder).context
    plan = step_plan(context)
    step_check(context, plan, step_apply(context, plan), lambda *_: {"big": ["it shall fail"]})
    DeltaTable(path(lake, "orders")).delete("id = 987")
    report = lake.pipeline(lake.folder).refresh()
    assert report.epoch == plan.epoch + 1
    assert {v for v, r in report.views.items() if r.error} == set()
