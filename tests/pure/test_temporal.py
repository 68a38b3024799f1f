"""Temporal filters: rows leave and enter by time alone, each epoch at one instant (DuckDB in Spark's place)."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

import duckdb
import pytest
import sqlglot
from deltalake import DeltaTable, write_deltalake
from sqlglot import exp

from ivm.errors import ConfigError, RefusedError, StateError
from ivm.planner.limits import EMBEDDED
from ivm.refresh.instants import as_instant
from ivm.refresh.run import step_plan
from ivm.sql.temporal import _fitted, is_clock
from tests import temporal
from tests.pure.duck import duck
from tests.pure.duck_session import DuckSession
from tests.scenes import TINY
from tests.temporal import START, VIEWS, Clock, check, expected, rows, written


@pytest.fixture
def lake(tmp_path, without_a_jvm):
    draw = random.Random(3)
    written(tmp_path, draw)
    return tmp_path, draw


def pipeline(folder, clock, views=VIEWS, **options):
    return temporal.pipeline(DuckSession(), folder, clock, views, **options)


def test_rows_leave_and_enter_by_time_alone(lake):
    folder, _ = lake
    clock = Clock()
    pipe = pipeline(folder, clock)
    assert pipe.refresh().ok
    changed = set()
    for hours in (24 * 6, -50):
        clock.now += timedelta(hours=hours)
        report = pipe.refresh()
        assert report.ok, report
        assert {v.strategy for v in report.views.values()} <= {"incremental", "unchanged"}
        changed |= {n for n, v in report.views.items() if v.rows_out}
        check(pipe, clock.now)
    assert changed == set(VIEWS)
    clock.now += timedelta(days=100)
    at_that_time = [pipe.verify(view).equal for view in ("recent", "today", "joined", "on_top")]
    assert all(at_that_time), "they are compared at the instant that is published, not at the one it is now"


@pytest.mark.parametrize("limits", [EMBEDDED, TINY], ids=["few", "large"])
def test_time_and_changes_together(lake, limits):
    folder, draw = lake
    clock = Clock()
    views = ("recent", "between", "today", "days", "most", "joined", "beside", "on_top")
    pipe = pipeline(folder, clock, {v: VIEWS[v] for v in views}, limits=limits)
    for n in range(3):
        report = pipe.refresh()
        assert report.ok, report
        check(pipe, clock.now, views)
        clock.now += timedelta(minutes=draw.randrange(1, 3 * 24 * 60))
        write_deltalake(str(folder / "events"), rows(draw, 5, 100 + 10 * n), mode="append")
        DeltaTable(str(folder / "events")).delete(f"id % 7 = {n}")
        DeltaTable(str(folder / "names")).delete(f"x = {n}")


@pytest.mark.parametrize("column", ["ts", "wall", "d"])
def test_only_what_lies_between_is_read(lake, column):
    """By Spark of a table with a `ts`, by delta-rs of one without."""
    folder, draw = lake
    if column != "ts":
        folder = folder / "native"
        written(folder, draw, without=("ts",))
    clock = Clock()
    time = "localtimestamp()" if column == "wall" else "now()"
    limits = replace(EMBEDDED, whole_rows=0)
    views = {"recent": f"SELECT id, d FROM events WHERE {column} > {time} - INTERVAL 7 DAYS"}
    pipe = pipeline(folder, clock, views, limits=limits)
    pipe.refresh()
    first, clock.now = clock.now, clock.now + timedelta(hours=30)
    report = pipe.refresh()
    (outcome,) = pipe.context.log.outcomes(2).values()
    ends = [t - timedelta(days=7) for t in (first, clock.now)]
    if column != "ts":
        ends = [e.date() if column == "d" else e.replace(tzinfo=None) for e in ends]
    there = [r[column] for r in DeltaTable(str(folder / "events")).to_pyarrow_table().to_pylist()]
    between = [v for v in there if v is not None and ends[0] <= v <= ends[1]]
    assert report.views["recent"].strategy == "incremental"
    assert bool(pipe.context.snapshots()["events"].by_spark) == (column == "ts")
    assert between
    assert outcome.rows_read == len(between) < len(there)
    assert pipe.verify("recent").equal


def test_a_range_of_another_view_is_read(lake):
    """Its table has the zone that ours have, and is read by delta-rs."""
    folder, _ = lake
    clock = Clock()
    views = {"all_of_them": "SELECT id, ts FROM events", "late": "SELECT id FROM all_of_them WHERE ts < now()"}
    pipe = pipeline(folder, clock, views, limits=replace(EMBEDDED, whole_rows=0))
    pipe.refresh()
    clock.now += timedelta(days=2)
    assert pipe.refresh().ok
    outcome = pipe.context.log.outcomes(2)["late"]
    assert 0 < outcome.rows_read < 60
    assert outcome.rows_out
    assert pipe.verify("late").equal


def test_a_view_is_due_when_its_clock_may_have_moved(lake):
    folder, _ = lake
    clock = Clock()
    pipe = pipeline(folder, clock, {v: VIEWS[v] for v in ("recent", "today")})
    pipe.refresh()
    assert pipe.refresh().epoch == 1, "no time has passed"
    clock.now += timedelta(hours=1)
    expected = {"recent": "incremental", "today": "unchanged"}
    assert {n: t.strategy for n, t in pipe.plan().tasks.items()} == expected
    assert {n: v.strategy for n, v in pipe.refresh().views.items()} == expected
    assert pipe.status()["views"]["recent"]["instant"] == "2026-03-01T13:00:00+00:00"
    assert pipe.status()["views"]["today"]["instant"] == "2026-03-01T12:00:00+00:00", (
        "the value of that day still holds"
    )
    clock.now += timedelta(hours=12)
    assert pipe.refresh().views["today"].strategy == "incremental"
    assert pipe.status()["views"]["today"]["instant"] == "2026-03-02T01:00:00+00:00"


def test_an_epoch_keeps_its_instant_whoever_ends_it(lake):
    folder, _ = lake
    clock = Clock()
    pipe = pipeline(folder, clock, {"recent": VIEWS["recent"]})
    pipe.refresh()
    clock.now = planned = START + timedelta(days=2)
    assert step_plan(pipe.context) is not None  # and the process dies
    clock.now += timedelta(days=3)
    again = pipeline(folder, clock, {"recent": VIEWS["recent"]})
    assert again.refresh().epoch == 3, "the open epoch is ended, then time has passed"
    then = again.context.log.manifest(2).units["recent"].cursors
    assert [c.version for r, c in then.items() if is_clock(r)] == [as_instant(planned)]
    assert sorted(map(repr, again.read("recent", epoch=2).collect())) == expected(again, "recent", planned)
    check(again, clock.now, ["recent"])


def test_in_full_a_view_is_of_its_epochs_instant(lake):
    folder, _ = lake
    clock = Clock()
    pipe = pipeline(folder, clock, {"recent": VIEWS["recent"], "today": VIEWS["today"]}, mode="full")
    for _ in range(2):
        report = pipe.refresh()
        assert {v.strategy for v in report.views.values()} == {"full"}, report
        check(pipe, clock.now, ["recent", "today"])
        clock.now += timedelta(days=4)
    assert pipe.verify("recent").equal


def test_other_uses_of_the_time_stay_in_full(lake):
    folder, _ = lake
    for sql in (
        "SELECT id, now() AS t FROM events WHERE ts > now()",
        "SELECT id FROM events WHERE ts > now() OR x = 1",
        "SELECT id FROM events WHERE now() - ts < INTERVAL 1 DAY",
        "SELECT x, max(ts) AS t FROM events GROUP BY x HAVING max(ts) > now()",
        "SELECT e.id FROM events e JOIN names n ON e.x = n.x AND e.ts > now()",
        "SELECT id, ts AS current_date FROM events WHERE d > current_date()",
    ):
        with pytest.raises(RefusedError, match="nondeterministic"):
            pipeline(folder, Clock(), {"v": sql}, mode="incremental")


def test_a_temporal_filter_in_a_statement_that_is_refused_is_due_each_time(lake):
    sql = "SELECT id FROM events WHERE d < current_date() UNION BY NAME SELECT id FROM events"
    pipe = pipeline(lake[0], Clock(), {"v": sql})
    pipe.refresh()
    assert pipe.context.compiled["v"].program.refusals[0].code == "clause"
    assert pipe.refresh().views["v"].strategy == "full"


def test_the_time_since_when_a_view_is_behind(lake):
    folder, _ = lake
    clock = Clock()
    pipe = pipeline(folder, clock, {})
    for name in ("recent", "today", "on_top"):
        pipe.view(name, VIEWS[name], freshness=timedelta(hours=2))
    pipe.refresh()
    clock.now += timedelta(hours=3)
    behind = {n: v["freshness"]["behind_seconds"] for n, v in pipe.status()["views"].items()}
    assert behind == {"recent": 3 * 3600, "today": 0, "on_top": 3 * 3600}
    clock.now += timedelta(hours=10)
    assert pipe.status()["views"]["today"]["freshness"]["behind_seconds"] == 3600


def test_a_view_that_lags_is_behind_as_it_read_the_one_with_the_filter(lake):
    """What that one has read since, this one has not."""
    folder, _ = lake
    clock = Clock()
    pipe = pipeline(folder, clock, {})
    for name in ("recent", "on_top"):
        pipe.view(name, VIEWS[name], freshness=timedelta(hours=2))
    assert pipe.refresh().ok
    clock.now += timedelta(days=10)
    assert pipe.refresh(["recent"]).ok
    clock.now += timedelta(hours=3)
    told = {n: v["freshness"] for n, v in pipe.status()["views"].items()}
    assert {n: f["behind_seconds"] for n, f in told.items()} == {"recent": 3 * 3600, "on_top": (10 * 24 + 3) * 3600}
    assert told["on_top"]["why"] == "rows leave or enter it by time"
    assert pipe.refresh().ok
    assert {v["freshness"]["behind_seconds"] for v in pipe.status()["views"].values()} == {0}


@pytest.mark.parametrize("said", [datetime(2026, 1, 1), "now"])
def test_a_clock_tells_a_time_with_its_zone(lake, said):
    pipe = pipeline(lake[0], lambda: said, {"recent": VIEWS["recent"]})
    with pytest.raises(StateError, match="not a time with a zone"):
        pipe.refresh()


def test_a_clock_is_a_function(lake):
    with pytest.raises(ConfigError, match="clock must be a function"):
        pipeline(lake[0], START)


@pytest.mark.parametrize("kind", [exp.GT, exp.GTE, exp.LT, exp.LTE])
@pytest.mark.parametrize("time", ["2026-03-01 00:00:00", "2026-03-01 12:00:00", "2026-03-01 00:00:00.000001"])
def test_a_day_compares_with_a_time_as_its_midnight_does(kind, time):
    value = sqlglot.parse_one(f"TIMESTAMP '{time}'", read="spark")
    days = "SELECT d FROM (VALUES (DATE '2026-02-28'), (DATE '2026-03-01'), (DATE '2026-03-02')) AS t(d) WHERE "
    plain = kind(this=sqlglot.parse_one("CAST(d AS TIMESTAMP)"), expression=value.copy())
    fitted = kind(this=exp.column("d"), expression=_fitted(value, "timestamp", "date", kind))
    one, other = (duckdb.sql(duck(days + c.sql("spark"))).fetchall() for c in (plain, fitted))
    assert one == other
