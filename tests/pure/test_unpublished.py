"""Views that an epoch can't publish: all their units, and what reads them, stay where they were.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import datetime
import functools
import time
from types import MappingProxyType

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm
from ivm.errors import StateError
from ivm.refresh import incremental, publish, run
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path, without_a_jvm):
    """A pipeline of some views over `t` (k, day), where they are refreshed, and what appends rows to it."""

    def add(*keys):
        rows = {"k": pa.array(keys, pa.int64()), "day": pa.array([datetime.date(2026, 3, 1)] * len(keys))}
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(tmp_path / "t"), pa.table(rows), mode="append", configuration=feed)

    def pipe(views, modes=MappingProxyType({}), **source):
        made = ivm.Pipeline("sizes", DuckSession(), tmp_path / "root")
        made.source("t", str(tmp_path / "t"), **source)
        for view, sql in views.items():
            made.view(view, sql, mode=modes.get(view, "auto"))
        return made

    add(1, 1, 2)
    return pipe, add


def full_disk(monkeypatch, where, fails):
    """Publishing some units fails from now on."""
    inner = getattr(publish, where)

    def failing(context, *args):
        outcome = next(a for a in args if hasattr(a, "unit"))
        if fails(outcome.unit):
            raise OSError(28, "No space left on device")
        return inner(context, *args)

    monkeypatch.setattr(publish, where, failing)


def failing_appends(patch, unit):
    """No batch can be appended to a unit's traces from now on."""
    inner = incremental.append_batch

    def failing(path, *args):
        if f"/traces/{unit}/" in path:
            raise OSError(28, "No space left on device")
        return inner(path, *args)

    patch.setattr(incremental, "append_batch", failing)


def versions(pipe, *units):
    """The newest versions of some units' tables."""
    layout = pipe.context.layout
    return [DeltaTable(layout.table(unit, True)).version() for unit in units]


def rows(pipe, view):
    return sorted(pipe.read(view).collect())


SIZES = {"sizes": "SELECT n, count(*) AS c FROM (SELECT k, count(*) AS n FROM t GROUP BY k) GROUP BY n"}


def test_units_within_a_view_stay_where_it_is(made, monkeypatch):
    pipe, add = made
    assert pipe(SIZES).refresh().ok
    add(3, 3)
    with monkeypatch.context() as patch:
        full_disk(patch, "_merge", lambda unit: unit == "sizes")
        assert not pipe(SIZES).refresh().ok
    manifest = pipe(SIZES).context.log.manifest()
    assert {s.epoch for s in manifest.units.values()} == {1}
    assert set(manifest.failing) == {"sizes"}
    with pytest.raises(StateError, match="'sizes' failed in epoch 2: it could not be published"):
        pipe(SIZES).backfill("sizes", where="n = 2")
    assert pipe(SIZES).refresh().ok
    assert rows(pipe(SIZES), "sizes") == [(1, 1), (2, 2)]


def test_a_view_whose_companion_can_not_be_published_stays_with_what_reads_it(made, monkeypatch):
    pipe, add = made
    views = {"counts": "SELECT k, count(*) AS n FROM t GROUP BY k", "top": "SELECT k FROM counts WHERE n > 1"}
    assert pipe(views, effective_date="day").refresh().ok
    add(2)
    with monkeypatch.context() as patch:
        full_disk(patch, "_publish_unit", lambda unit: unit == "counts__by_day")
        report = pipe(views, effective_date="day").refresh()
    assert "counts could not be published, which it reads" in report.views["top"].error
    assert {s.epoch for s in pipe(views, effective_date="day").context.log.manifest().units.values()} == {1}
    again = pipe(views, effective_date="day")
    assert again.refresh().ok
    assert rows(again, "top") == [(1,), (2,)]
    assert sorted(again.read("counts", as_of="2026-03-01").collect()) == rows(again, "counts") == [(1, 2), (2, 2)]


def test_nothing_is_merged_before_all_of_what_it_reads_is(made, monkeypatch):
    """Else it would lie beside the manifest, and be taken for damaged."""
    pipe, add = made
    views = {
        "counts": "SELECT k, count(*) AS n FROM t GROUP BY k",
        "top": "SELECT k FROM counts WHERE n > 1",
        "most": "SELECT max(k) AS k FROM top",
    }
    assert pipe(views, effective_date="day").refresh().ok
    add(2, 3, 3)
    before = versions(pipe(views, effective_date="day"), "top", "most")

    def late(unit):
        """The companion fails when the others have had the time to be merged."""
        if unit == "counts__by_day":
            time.sleep(0.5)
        return unit == "counts__by_day"

    with monkeypatch.context() as patch:
        full_disk(patch, "_publish_unit", late)
        assert not pipe(views, effective_date="day").refresh().ok
    again = pipe(views, effective_date="day")
    assert versions(again, "top", "most") == before
    assert set(again.context.log.manifest().failing) == {"counts", "top", "most"}
    assert again.refresh().ok
    assert rows(again, "most") == [(3,)]


BOOKED = {"booked": "SELECT k, day FROM t WHERE k > 0", "spent": "SELECT k, count(*) AS n FROM booked GROUP BY k"}


def test_what_reads_a_view_whose_companion_failed_reads_no_batch_twice(made, monkeypatch):
    """The view's own unit is fine, and its batch comes again with the next epoch."""
    pipe, add = made
    made_so = functools.partial(pipe, BOOKED, {"booked": "incremental"}, effective_date="day")
    assert made_so().refresh().ok
    add(1)
    with monkeypatch.context() as patch:
        failing_appends(patch, "booked__by_day")
        report = made_so().refresh()
    assert "which its mode incremental forbids" in report.views["booked"].error
    assert report.views["spent"].error == "booked failed, which it reads"
    manifest = made_so().context.log.manifest()
    assert {s.epoch for s in manifest.units.values()} == {1}
    assert set(manifest.failing) == {"booked"}
    report = made_so().refresh()
    assert {v: r.strategy for v, r in report.views.items()} == {"booked": "incremental", "spent": "incremental"}
    assert rows(made_so(), "spent") == [(1, 3), (2, 1)]


def dies_before_the_check(monkeypatch, refresh):
    with monkeypatch.context() as patch:
        patch.setattr(run, "step_check", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            refresh()


@pytest.mark.parametrize("fails_for_good", [True, False])
def test_what_was_recorded_before_the_view_that_it_reads_failed_waits_for_it(made, monkeypatch, fails_for_good):
    """A full refresh is recorded at once; the process died before what it read was."""
    pipe, add = made
    made_so = functools.partial(pipe, BOOKED, {"booked": "incremental", "spent": "full"})
    assert made_so().refresh().ok
    add(1)
    dies_before_the_check(monkeypatch, made_so().refresh)
    assert set(made_so().context.log.applied(2)) == {"spent"}
    with monkeypatch.context() as patch:
        failing_appends(patch, "booked")
        if fails_for_good:
            assert made_so().refresh().views["spent"].error == "booked failed, which it reads"
            assert {s.epoch for s in made_so().context.log.manifest().units.values()} == {1}
        else:
            dies_before_the_check(patch, made_so().refresh)
            assert made_so().context.log.outcomes(2)["spent"].error == "booked failed, which it reads"
    assert made_so().refresh().ok
    assert rows(made_so(), "spent") == [(1, 3), (2, 1)]
