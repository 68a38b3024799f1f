"""`mode: incremental` lets no full refresh happen but the first and those asked for; `mode: warn` tells of each.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm.refresh.incremental
from ivm.cli.main import main
from ivm.config import load_folder
from ivm.errors import ConfigError, RefusedError
from ivm.pipeline import Pipeline
from ivm.testing.oracle import bag
from tests.pure.duck_session import DuckSession
from tests.scenes import CUSTOMERS, ORDERS, path, ref, scene

VIEWS = {
    "totals": "SELECT cust, sum(amount) AS s FROM orders GROUP BY cust",
    "rich": "SELECT cust, s FROM totals WHERE s > 3",
    "names": "SELECT cust, name FROM customers",
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    return scene(DuckSession(), tmp_path)


def pipeline(made, mode="incremental", views=VIEWS):
    pipe = Pipeline("modes", made.spark, made.folder / "root", mode=mode)
    for source in ("orders", "customers"):
        pipe.source(source, path(made, source))
    for name, sql in views.items():
        pipe.view(name, sql)
    return pipe


def add(made, source, *rows):
    schema = {"orders": ORDERS, "customers": CUSTOMERS}[source]
    data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    write_deltalake(path(made, source), data, mode="append")


def restore(made, source):
    """A gap in its feed."""
    add(made, source, *{"orders": [(50, 1, 1)], "customers": [(50, "x", None)]}[source])
    DeltaTable(path(made, source)).restore(0)


def test_a_gap_is_the_views_error_and_nothing_is_written(made):
    assert pipeline(made).refresh().ok, "the first build is no surprise"
    before = {v: DeltaTable(f"{made.folder}/root/{v}").version() for v in VIEWS}
    restore(made, "orders")
    add(made, "customers", (7, "eta", "north"))
    report = pipeline(made).refresh()
    assert "mode incremental forbids" in report.views["totals"].error
    assert "[feed_gap]" in report.views["totals"].error
    assert "ivm backfill totals" in report.views["totals"].error
    assert report.views["rich"].error == "totals failed, which it reads"
    assert report.views["names"].error == ""
    after = {v: DeltaTable(f"{made.folder}/root/{v}").version() for v in VIEWS}
    assert after == {**before, "names": before["names"] + 1}
    assert pipeline(made).status()["views"]["totals"]["error"].startswith("failing since epoch 2")


def test_a_backfill_is_asked_for_and_ends_it(made):
    assert pipeline(made).refresh().ok
    restore(made, "orders")
    add(made, "orders", (60, 3, 9))
    assert not pipeline(made).refresh().ok
    assert pipeline(made).backfill("totals").ok
    # What reads it follows a table that was only changed where it differs.
    pipe = pipeline(made)
    assert pipe.refresh().ok
    expected = made.spark.sql(VIEWS["totals"].replace("FROM orders", f"FROM {ref(made, 'orders')}")).toArrow()
    assert bag(pipe.read("totals").toArrow()) == bag(expected)
    assert all(pipe.verify(v) for v in VIEWS)


def test_another_definition_is_not_built_unasked(made):
    assert pipeline(made).refresh().ok
    other = {**VIEWS, "names": "SELECT cust, upper(name) AS name FROM customers"}
    plan = pipeline(made, views=other).plan()
    assert plan.tasks["names"].strategy == "failed"
    assert plan.tasks["names"].code == "definition_changed"
    assert "ivm backfill names" in plan.tasks["names"].reason
    assert {n for n, v in pipeline(made, views=other).refresh().views.items() if v.error} == {"names"}
    assert pipeline(made, views=other).backfill("names").ok


def test_a_failure_on_the_way_is_no_reason_to_rebuild_and_is_tried_again(made, monkeypatch):
    assert pipeline(made).refresh().ok
    add(made, "orders", (60, 3, 9))

    def breaks(*_):
        raise OSError("the disk was full")

    with monkeypatch.context() as patch:
        patch.setattr(ivm.refresh.incremental, "execute", breaks)
        report = pipeline(made).refresh()
    assert "the disk was full" in report.views["totals"].error
    assert "[recovered]" in report.views["totals"].error
    again = pipeline(made).refresh()
    assert again.ok
    assert again.views["totals"].strategy == "incremental"
    assert all(pipeline(made).verify(v) for v in VIEWS)


def test_warn_does_it_and_says_so(made):
    first = pipeline(made, "warn").refresh()
    assert [v.warning for v in first.views.values()] == [""] * 3
    restore(made, "orders")
    plan = pipeline(made, "warn").plan()
    assert plan.warnings[-1].startswith("view totals: it is refreshed in full: the change feed of 'orders' has a gap")
    report = pipeline(made, "warn").refresh()
    assert report.ok
    assert report.views["totals"].strategy == "full"
    assert report.views["totals"].warning.endswith("[feed_gap]")
    assert report.views["names"].warning == ""
    assert all(pipeline(made, "warn").verify(v) for v in VIEWS)


def test_a_view_has_its_own_mode_or_the_pipelines(made):
    pipe = pipeline(made, "incremental", {})
    with pytest.raises(RefusedError):
        pipe.view("chance", "SELECT cust, rand() AS r FROM customers")
    pipe.view("chance", "SELECT cust, rand() AS r FROM customers", mode="full")
    assert pipe.context.views["chance"].mode == "full"
    with pytest.raises(ConfigError, match="no mode 'sometimes'"):
        Pipeline("modes", made.spark, made.folder / "root", mode="sometimes")


def test_a_folder_has_a_mode_for_all(made, tmp_path):
    folder = tmp_path / "folder"
    (folder / "views").mkdir(parents=True)
    (folder / "pipeline.yml").write_text(
        f"name: modes\nroot: {made.folder}/root\nmode: incremental\nsources: {{orders: '{path(made, 'orders')}'}}\n"
        "views: {loud: {mode: warn}}\n"
    )
    for name, head in (("plain", ""), ("loud", ""), ("own", "-- mode: full\n")):
        (folder / "views" / f"{name}.sql").write_text(f"{head}SELECT id FROM orders")
    modes = {v.name: v.mode for v in load_folder(folder).views}
    assert modes == {"plain": "incremental", "loud": "warn", "own": "full"}
    assert {n: v.mode for n, v in Pipeline.load(folder, made.spark).context.views.items()} == modes


def test_the_command_fails_where_a_refresh_would(made, tmp_path, monkeypatch, capsys):
    assert pipeline(made).refresh().ok
    restore(made, "orders")
    monkeypatch.setattr("ivm.pipeline.Pipeline.load", lambda folder: pipeline(made))
    with pytest.raises(SystemExit) as end:
        main(["plan", "--json"])
    assert end.value.code == 1
    shown = json.loads(capsys.readouterr().out)
    assert {n: t["strategy"] for n, t in shown["tasks"].items()} == {
        "totals": "failed",
        "rich": "incremental",
        "names": "unchanged",
    }
    assert shown["mends"] == {"totals": "keep the feed on and the log longer than the time between refreshes"}
