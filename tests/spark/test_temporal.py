"""Temporal filters on Spark: after each refresh with a moved clock, the rows of the epoch's instant."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.refresh.settings import TIME_ZONE
from tests.temporal import VIEWS, Clock, check, pipeline, rows, written

pytestmark = pytest.mark.spark

#: Those that DuckDB says in another way.
MORE = {
    "week": "SELECT id, d FROM events WHERE d > date_sub(current_date(), 7)",
    "so_far": "SELECT x, sum(id) AS s FROM events WHERE ts >= date_trunc('MONTH', now()) AND ts < now() GROUP BY x",
    "older": "SELECT id FROM events WHERE add_months(current_date(), -1) > d OR d IS NULL AND x = 1",
}


@pytest.fixture
def elsewhere(spark):
    """Days begin at another time than in UTC."""
    before = spark.conf.get(TIME_ZONE)
    spark.conf.set(TIME_ZONE, "America/New_York")
    yield spark
    spark.conf.set(TIME_ZONE, before)


def test_a_moved_clock_and_changes_give_the_rows_of_the_epochs_instant(elsewhere, tmp_path):
    draw, clock, views = random.Random(5), Clock(), VIEWS | MORE
    written(tmp_path, draw)
    pipe = pipeline(elsewhere, tmp_path, clock, views)
    assert pipe.refresh().ok
    for hours in (13, 24 * 9):
        clock.now += timedelta(hours=hours)
        write_deltalake(str(tmp_path / "events"), rows(draw, 5, 100 + hours), mode="append")
        DeltaTable(str(tmp_path / "events")).delete(f"id % 7 = {hours % 7}")
        report = pipe.refresh()
        assert report.ok, report
        assert {n for n, v in report.views.items() if v.strategy == "full"} <= {"older"}
        check(pipe, clock.now, [v for v in views if v != "older"])
    assert pipe.context.compiled["older"].program.refusals[0].code == "nondeterministic"
    assert pipe.verify("so_far").equal
