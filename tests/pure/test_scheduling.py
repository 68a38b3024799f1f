"""The keys `schedule`, `airflow` and `freshness` of a pipeline: what is read, and what is refused by name."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ivm.config import load_folder
from ivm.declarations import declared
from ivm.durations import duration, written
from ivm.errors import ConfigError
from ivm.orchestration.reads import reads
from ivm.refresh.living import read_by_views
from ivm.refresh.records import Manifest
from ivm.scheduling import AirflowSettings, OnAssets, OnCommits

BASE = "name: shop\nroot: lake\nsources: {orders: {path: orders}, people: {path: people}}\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "views").mkdir()
    (tmp_path / "views" / "totals.sql").write_text("SELECT cust, count(*) AS n FROM orders GROUP BY cust")
    return tmp_path


def loaded(folder, text):
    (folder / "pipeline.yml").write_text(BASE + text)
    return load_folder(folder)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("schedule: '*/5 * * * *'", "*/5 * * * *"),
        ("schedule: null", None),
        ("schedule: {on: commits}", OnCommits(timedelta(minutes=1))),  # YAML takes a bare `on` for true
        ('schedule: {"on": commits, poll: 1m30s}', OnCommits(timedelta(seconds=90))),
        ("schedule: {on: assets}", OnAssets()),
        ("schedule: {on: assets, of: [other.totals, s3://b/t]}", OnAssets(("other.totals", "s3://b/t"))),
    ],
)
def test_schedules(folder, text, expected):
    assert loaded(folder, text).schedule == expected


def test_airflow_settings(folder):
    assert loaded(folder, "").airflow == AirflowSettings()
    found = loaded(folder, "airflow: {shape: views, pool: ivm_shop, execution: submit, connection: cluster}").airflow
    assert found == AirflowSettings("views", "ivm_shop", "submit", "cluster")


def test_freshness_in_the_settings_and_in_the_comment(folder):
    assert loaded(folder, "views: {totals: {freshness: 1h30m}}").views[0].freshness == timedelta(minutes=90)
    (folder / "views" / "totals.sql").write_text("-- freshness: 2d\nSELECT count(*) AS n FROM orders")
    assert loaded(folder, "").views[0].freshness == timedelta(days=2)
    assert loaded(folder, "views: {totals: {freshness: 5m}}").views[0].freshness == timedelta(minutes=5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schedule: {on: comits}", r"schedule.on is 'comits'.*assets, commits"),
        ("schedule: {poll: 60s}", r"schedule.on is None"),
        ("schedule: {on: commits, of: [a]}", r"Unknown key 'of' in schedule.*on, poll"),
        ("schedule: {on: commits, poll: 0s}", r"schedule.poll is '0s'.*out of bounds"),
        ("schedule: {on: commits, poll: 60}", r"schedule.poll is 60, which is no length"),
        ("schedule: {on: assets, of: {a: 1}}", r"schedule.of must be a list"),
        ('schedule: {on: assets, of: ["a\\x07"]}', r"schedule.of has .* no Asset's name"),
        ("airflow: steps", r"airflow must be a mapping"),
        ("airflow: {shape: view}", r"airflow.shape is 'view'.*steps, views"),
        ("airflow: {pools: x}", r"Unknown key 'pools' in airflow"),
        ("airflow: {pool: 'a b'}", r"airflow.pool is 'a b', which is no name"),
        ("airflow: {execution: connect}", r"'connect' without a connection"),
        ("airflow: {connection: c}", r"'process' with a connection"),
        ("views: {totals: {freshness: soon}}", r"views.totals.freshness is 'soon', which is no length"),
        ("views: {totals: {freshness: 10s}}", r"views.totals.freshness is '10s', which is out of bounds.*from 1m"),
    ],
)
def test_mistakes_are_named(folder, text, message):
    with pytest.raises(ConfigError, match=message):
        loaded(folder, text)


@pytest.mark.parametrize("schedule", ["{on: commits}", "{on: assets}"])
def test_a_catalog_table_can_not_be_waited_for(folder, schedule):
    text = f"name: shop\nroot: lake\nsources: {{orders: {{table: sales.orders}}}}\nschedule: {schedule}\n"
    (folder / "pipeline.yml").write_text(text)
    with pytest.raises(ConfigError, match=r"source 'orders' is the catalog table sales.orders"):
        load_folder(folder)


def test_assets_that_are_named_can_be_waited_for_whatever_the_sources_are(folder):
    text = "name: shop\nroot: lake\nsources: {orders: {table: sales.orders}}\nschedule: {on: assets, of: [other.v]}\n"
    (folder / "pipeline.yml").write_text(text)
    assert load_folder(folder).schedule == OnAssets(("other.v",))


@pytest.mark.parametrize("value", ["", "h", "1", "1h ", "-1h", "1.5h", "1m1h", None, 3600, True, "9" * 30 + "s"])
def test_no_lengths_of_time(value):
    with pytest.raises(ConfigError, match="no length of time"):
        duration(value, "freshness", timedelta(0))


@pytest.mark.parametrize("text", ["1s", "59m59s", "1h", "1d1s", "366d"])
def test_a_length_of_time_is_written_as_it_is_read(text):
    assert written(duration(text, "freshness", timedelta(0))) == text


def test_views_come_after_those_that_they_read(folder):
    for name, sql in {
        "a_last": "SELECT * FROM Middle JOIN totals USING (cust)",
        "middle": "WITH other AS (SELECT 1 AS x) SELECT t.cust FROM totals t, other",
        "other": "SELECT 'totals' AS totals FROM orders -- middle",
        "odd": "SELECT FROM totals WHERE",
    }.items():
        (folder / "views" / f"{name}.sql").write_text(sql)
    found = reads(loaded(folder, ""))
    assert found == {"a_last": ("middle", "totals"), "middle": ("totals",), "other": (), "odd": (), "totals": ()}
    order = list(found)
    assert order.index("totals") < order.index("middle") < order.index("a_last")


def test_what_comes_after_the_end_hides_nothing(folder):
    text = "-- mode: full\n-- for now; see below\nSELECT ';' AS s, cust FROM totals; -- the end\n"
    (folder / "views" / "first.sql").write_text(text)
    (folder / "views" / "second.sql").write_text("SELECT s FROM first; /* the\nend */ ;\n")
    config = loaded(folder, "")
    assert [v.sql for v in config.views if v.name == "second"] == ["SELECT s FROM first"]
    assert [v.mode for v in config.views if v.name == "first"] == ["full"]
    assert reads(config) == {"totals": (), "first": ("totals",), "second": ("first",)}
    context = declared(folder)
    assert read_by_views(context, Manifest()) == {"orders", "totals", "first"}


def test_a_cycle_of_views_is_refused(folder):
    (folder / "views" / "one.sql").write_text("SELECT * FROM two")
    (folder / "views" / "two.sql").write_text("SELECT * FROM one")
    with pytest.raises(ConfigError, match="in a cycle: "):
        reads(loaded(folder, ""))
