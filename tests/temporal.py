"""Views with temporal filters over events before and after a moment, and their rows at an instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import write_deltalake

from ivm.pipeline import Pipeline

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us", "UTC")),
        ("wall", pa.timestamp("us")),
        ("d", pa.date32()),
        ("x", pa.int64()),
    ]
)
VIEWS = {
    "recent": "SELECT id, ts, x FROM events WHERE ts > now() - INTERVAL 7 DAYS",
    "started": "SELECT id FROM events WHERE wall <= localtimestamp()",
    "between": "SELECT id, x FROM events WHERE ts BETWEEN now() - INTERVAL 3 DAYS AND now() + INTERVAL 1 DAY",
    "today": "SELECT id, d FROM events WHERE current_date() = d",
    "month": "SELECT x, count(*) AS n, sum(id) AS s FROM events WHERE d >= current_date GROUP BY x",
    "days": "SELECT id FROM events WHERE d > now() - INTERVAL 2 DAYS",
    "grown": "SELECT id FROM events WHERE d < now() - INTERVAL 2 DAYS",
    "most": "SELECT x, max(id) AS m FROM events WHERE ts >= current_date() GROUP BY x",
    "joined": "SELECT e.id, n.name FROM events e JOIN names n ON n.x = e.x WHERE e.ts > now() - INTERVAL 1 DAY",
    "left_out": "SELECT n.name FROM names n WHERE NOT EXISTS "
    "(SELECT 1 FROM events e WHERE e.x = n.x AND e.ts BETWEEN now() - INTERVAL 1 DAY AND now())",
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
    """Events of two weeks before and after `START`, some without a time."""
    found = []
    for i in range(n):
        ts = START + timedelta(minutes=draw.randrange(-14 * 24 * 60, 14 * 24 * 60))
        there = draw.random() > 0.1
        row = {"id": first + i, "ts": ts, "wall": ts.replace(tzinfo=None), "d": ts.date(), "x": draw.randrange(4)}
        found.append(row if there else row | {"ts": None, "wall": None, "d": None})
    return pa.Table.from_pylist(found, SCHEMA)


def written(folder, draw, without=()):
    """The sources with their first rows, some columns of the events left out."""
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(folder / "events"), rows(draw, 60, 0).drop_columns(list(without)), configuration=feed)
    names = pa.table({"x": pa.array([0, 1, 2, 9]), "name": ["a", "b", "c", "d"]})
    write_deltalake(str(folder / "names"), names, configuration=feed)


def pipeline(spark, folder, clock, views=VIEWS, mode="auto", **options):
    pipe = Pipeline("timely", spark, folder / "root", clock=clock, mode=mode, **options)
    pipe.source("events", folder / "events", primary_key=["id"])
    pipe.source("names", folder / "names")
    for name, sql in views.items():
        pipe.view(name, sql)
    return pipe


def expected(pipe, view, now):
    """The view's rows at an instant, from its text, by plain replacement."""
    fixed = f"TIMESTAMP '{now:%Y-%m-%d %H:%M:%S.%f}Z'"
    tables = {n: f"SELECT * FROM delta.`{s.location}`" for n, s in pipe.context.sources.items()}
    if "recent" in pipe.context.views:
        tables["recent"] = pipe.context.views["recent"].sql
    sql = f"WITH {', '.join(f'{n} AS ({t})' for n, t in tables.items())} {pipe.context.views[view].sql}"
    sql = sql.replace("localtimestamp()", f"CAST({fixed} AS TIMESTAMP_NTZ)").replace("now()", fixed)
    for call in ("current_date()", "current_date"):
        sql = sql.replace(call, f"CAST({fixed} AS DATE)")
    return sorted(map(repr, pipe.spark.sql(sql).collect()))


def check(pipe, now, views=VIEWS):
    """The views have the rows of an instant."""
    for view in views:
        found = sorted(map(repr, pipe.read(view).collect()))
        assert found == expected(pipe, view, now), view
