"""Temporal filters: rows leave and enter by time alone, each epoch at one instant (DuckDB in Spark's place)."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.pipeline import Pipeline
from tests.pure.duck_session import DuckSession

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("d", pa.date32()), ("x", pa.int64())])
VIEWS = {
    "recent": "SELECT id, ts, x FROM events WHERE ts > now() - INTERVAL 7 DAYS",
    "started": "SELECT id FROM events WHERE ts <= current_timestamp()",
    "between": "SELECT id, x FROM events WHERE ts BETWEEN now() - INTERVAL 3 DAYS AND now() + INTERVAL 1 DAY",
    "today": "SELECT id, d FROM events WHERE current_date() = d",
    "month": "SELECT x, count(*) AS n, sum(id) AS s FROM events WHERE d >= current_date GROUP BY x",
    "days": "SELECT id FROM events WHERE d > now() - INTERVAL 2 DAYS",
    "grown": "SELECT id FROM events WHERE d < now() - INTERVAL 2 DAYS",
    "most": "SELECT x, max(id) AS m FROM events WHERE ts >= current_date() GROUP BY x",
    "joined": "SELECT e.id, n.name FROM events e JOIN names n ON n.x = e.x WHERE e.ts > now() - INTERVAL 1 DAY",
    "left_out": "SELECT n.name FROM names n WHERE NOT EXISTS "
    "(SELECT 1 FROM events e WHERE e.x = n.x AND e.id < 20 AND e.ts > now() - INTERVAL 1 DAY)",
    "beside": "SELECT n.name, e.id FROM names n LEFT JOIN "
    "(SELECT * FROM events WHERE ts > now() - INTERVAL 1 DAY) e ON e.x = n.x",
    "valid": "SELECT id FROM events WHERE now() BETWEEN ts AND ts + INTERVAL 1 DAY",
    "on_top": "SELECT x, count(*) AS n FROM recent GROUP BY x",
}  # fmt: skip


class Clock:
    """Says what it is told to."""

    def __init__(self):
        self.now = START

    def __call__(self):
        return self.now


def rows(draw, n, first):
    found = []
    for i in range(n):
        ts = START + timedelta(minutes=draw.randrange(-14 * 24 * 60, 14 * 24 * 60))
        there = draw.random() > 0.1
        day = ts.date() if there else None
        found.append({"id": first + i, "ts": ts if there else None, "d": day, "x": draw.randrange(4)})
    return pa.Table.from_pylist(found, SCHEMA)


@pytest.fixture
def lake(tmp_path, without_a_jvm):
    draw = random.Random(3)
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(tmp_path / "events"), rows(draw, 60, 0), configuration=feed)
    names = pa.table({"x": pa.array([0, 1, 2, 9]), "name": ["a", "b", "c", "d"]})
    write_deltalake(str(tmp_path / "names"), names, configuration=feed)
    return tmp_path, draw


def pipeline(folder, clock, views=VIEWS, mode="auto", **options):
    pipe = Pipeline("timely", DuckSession(), folder / "root", clock=clock, mode=mode, **options)
    pipe.source("events", folder / "events", primary_key=["id"])
    pipe.source("names", folder / "names")
    for name, sql in views.items():
        pipe.view(name, sql)
    return pipe


def expected(pipe, view, now):
    """The view's rows at an instant, from its text, by plain replacement."""
    fixed = f"TIMESTAMP '{now:%Y-%m-%d %H:%M:%S.%f}Z'"
    sql = VIEWS[view].replace("recent", f"({VIEWS['recent']})") if view == "on_top" else VIEWS[view]
    for call in ("now()", "current_timestamp()"):
        sql = sql.replace(call, fixed)
    for call in ("current_date()", "current_date"):
        sql = sql.replace(call, f"CAST({fixed} AS DATE)")
    for source in ("events", "names"):
        location = pipe.context.sources[source].location
        sql = sql.replace(f"FROM {source}", f"FROM (SELECT * FROM delta.`{location}`) {source}_all").replace(
            f"JOIN {source}", f"JOIN (SELECT * FROM delta.`{location}`) {source}_all"
        )
        sql = sql.replace(f"{source}_all e", "e").replace(f"{source}_all n", "n")
    return sorted(map(repr, pipe.spark.sql(sql).collect()))


def check(pipe, now, views=VIEWS):
    for view in views:
        found = sorted(map(repr, pipe.read(view).collect()))
        assert found == expected(pipe, view, now), view
        assert pipe.verify(view).equal, view


def test_rows_leave_and_enter_by_time_alone(lake):
    folder, _ = lake
    clock = Clock()
    pipe = pipeline(folder, clock)
    assert pipe.refresh().ok
    check(pipe, clock.now)
    changed = set()
    for hours in (1, 5, 30, 24 * 5, -50):
        clock.now += timedelta(hours=hours)
        report = pipeline(folder, clock).refresh()
        assert report.ok, report
        assert {v.strategy for v in report.views.values()} <= {"incremental", "unchanged"}
        changed |= {n for n, v in report.views.items() if v.rows_out}
        check(pipe, clock.now)
    assert changed == set(VIEWS)


def test_time_and_changes_together(lake):
    folder, draw = lake
    clock = Clock()
    pipe = pipeline(folder, clock)
    for n in range(6):
        report = pipe.refresh()
        assert report.ok, report
        check(pipe, clock.now)
        clock.now += timedelta(minutes=draw.randrange(1, 3 * 24 * 60))
        write_deltalake(str(folder / "events"), rows(draw, 5, 100 + 10 * n), mode="append")
        DeltaTable(str(folder / "events")).delete(f"id % 7 = {n}")
        if n % 2:
            DeltaTable(str(folder / "names")).delete(f"x = {n // 2}")


def test_only_what_lies_between_is_read(lake):
    folder, _ = lake
    clock = Clock()
    pipe = pipeline(folder, clock, {"recent": VIEWS["recent"]})
    pipe.refresh()
    clock.now += timedelta(hours=6)
    ends = clock.now - timedelta(days=7, hours=6), clock.now - timedelta(days=7)
    all_rows = DeltaTable(str(folder / "events")).to_pyarrow_table().to_pylist()
    between = [r for r in all_rows if r["ts"] is not None and ends[0] <= r["ts"] <= ends[1]]
    pipe.refresh()
    (outcome,) = pipe.context.log.outcomes(2).values()
    assert between
    assert outcome.rows_read == 1 + len(between)  # the clock's own row, too
