"""What a plan expects, from logs and records alone, beside what came; DuckDB stands in Spark's place."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.cli.main import main
from ivm.feed.deltas import source_delta
from ivm.feed.source import Source, inspect
from ivm.lake import native
from ivm.pipeline import Pipeline
from ivm.planner.estimate import Size, full_estimate
from ivm.planner.learned import Past
from ivm.planner.limits import EMBEDDED
from ivm.refresh.past import pasts
from tests.pure.duck_session import DuckSession
from tests.scenes import change, path, scene

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    return scene(DuckSession(), tmp_path)


def pipeline(made, views, spark=True, limits=EMBEDDED):
    pipe = Pipeline("expected", made.spark if spark else None, made.folder / "root", limits=limits)
    for source in ("orders", "customers"):
        pipe.source(source, path(made, source))
    for name, sql in views.items():
        pipe.view(name, sql, file="a file")
    return pipe


VIEWS = {
    "totals": "SELECT cust, sum(amount) AS s FROM orders GROUP BY cust",
    "named": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.cust = c.cust",
    "rich": "SELECT cust, s FROM totals WHERE s > 3",
}


def test_changed_rows_are_told_by_the_log(tmp_path):
    table = str(tmp_path / "t")
    for values in ([1, 2, 3], [4, 5]):
        write_deltalake(table, pa.table({"v": pa.array(values, pa.int64())}), mode="append", configuration=FEED)
    DeltaTable(table).delete("v <= 2")
    DeltaTable(table).optimize.compact()
    DeltaTable(table).merge(
        pa.table({"v": pa.array([5, 6], pa.int64())}), "t.v = s.v", "s", "t"
    ).when_matched_delete().when_not_matched_insert_all().execute()
    write_deltalake(table, pa.table({"v": pa.array([9], pa.int64())}), mode="overwrite")
    snapshot = inspect(Source("t", table), None, "auto")
    by_version = [snapshot.commits.changed(v, v) for v in range(snapshot.version + 1)]
    assert by_version == [3, 2, 2, 0, 2, None], "an overwrite doesn't say what it removed"
    for version in range(1, snapshot.version):
        delta = source_delta(snapshot, version - 1, version, ["v"], None, EMBEDDED.delta_rows)
        assert delta.num_rows == by_version[version], version
    assert snapshot.commits.changed(0, snapshot.version) is None
    assert snapshot.commits.changed(0, snapshot.version - 1) == 9


def test_the_size_of_a_table_is_told_by_its_log(made):
    rows, _, size = native.recorded_size(DeltaTable(path(made, "orders")))
    assert rows == 7
    assert size == sum(f.stat().st_size for f in (made.folder / "sources/orders").glob("*.parquet"))


def test_a_first_build_reads_all_and_nobody_knows_how_long(made):
    tasks = pipeline(made, VIEWS).plan().tasks
    assert tasks["totals"].estimate == full_estimate(
        "first_build",
        "the view is built for the first time",
        [Size(*native.recorded_size(DeltaTable(path(made, "orders")))[::2])],
        (),
    )
    assert tasks["named"].estimate.rows == 11
    assert tasks["rich"].estimate.rows is None, "what it reads isn't there yet"


def test_what_is_expected_is_recorded_and_comes(made):
    assert pipeline(made, VIEWS).refresh().ok
    change(made)
    expected = pipeline(made, VIEWS).plan()
    report = pipeline(made, VIEWS).refresh()
    assert {n: t.estimate for n, t in pipeline(made, VIEWS).context.log.plan(report.epoch).tasks.items()} == {
        n: t.estimate for n, t in expected.tasks.items()
    }
    assert expected.tasks["totals"].estimate.changed == 8  # three rows deleted, five added; two of each are equal
    assert report.views["totals"].rows_in <= 8
    assert expected.tasks["named"].estimate.strategy == report.views["named"].strategy == "incremental"
    assert expected.tasks["named"].estimate.seconds is None, "it was never refreshed incrementally"
    change_again = pa.Table.from_pylist(
        [{"id": 70, "cust": 1, "amount": 1}], DeltaTable(path(made, "orders")).to_pyarrow_table().schema
    )
    write_deltalake(path(made, "orders"), change_again, mode="append")
    again = pipeline(made, VIEWS).plan().tasks
    assert again["totals"].estimate.changed == 1
    assert again["totals"].estimate.seconds > 0
    assert again["totals"].estimate.bytes > 0
    past = pasts(pipeline(made, VIEWS).context, {"totals"})["totals"]
    assert len(past.incremental) == len(past.built) == 1


def test_a_plan_of_known_views_starts_no_spark(made, monkeypatch):
    assert pipeline(made, VIEWS).refresh().ok
    change(made)

    def started(*_, **__):
        pytest.fail("a session was started")

    monkeypatch.setattr("ivm.declarations.get_session", started)
    assert pipeline(made, VIEWS, spark=False).plan().tasks["totals"].strategy == "incremental"


def test_what_is_read_whole_is_named_with_its_mend(made):
    limits = EMBEDDED.__class__(whole_rows=1, native_whole_rows=3, small_input=3)
    views = {
        "apart": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.amount > c.cust + 100",
        "most": "SELECT max(amount) AS m FROM orders",
        "named": VIEWS["named"],
        "asked": VIEWS["named"].replace("SELECT", "SELECT /*+ ARRANGE(orders, cust), ARRANGE(customers, cust) */"),
    }
    assert pipeline(made, views, limits=limits).refresh().ok
    change(made)
    tasks = pipeline(made, {n: views[n] for n in ("apart", "most", "named")}, limits=limits).plan().tasks
    assert {(r.relation, r.how) for r in tasks["apart"].estimate.readings} == {
        ("orders", "read whole"),
        ("customers", "read whole"),
    }
    assert "equality" in tasks["apart"].estimate.readings[0].mend
    assert "group or partition" in tasks["most"].estimate.readings[0].mend
    searched = tasks["named"].estimate.readings
    assert {r.how for r in searched} == {"searched by cust"}
    assert any("/*+ ARRANGE(orders, cust) */" in r.mend for r in searched)
    assert pipeline(made, views, limits=limits).plan().tasks["asked"].estimate.readings == ()


def test_a_change_that_costs_more_than_a_rebuild_is_foreseen(made):
    limits = EMBEDDED.__class__(small_input=1)
    views = {"most": "SELECT cust, max(amount) AS m FROM orders GROUP BY cust"}
    assert pipeline(made, views, limits=limits).refresh().ok
    change(made)
    task = pipeline(made, views, limits=limits).plan().tasks["most"]
    assert (task.strategy, task.estimate.strategy, task.estimate.code) == ("incremental", "full", "cost")
    assert pipeline(made, views, limits=limits).refresh().views["most"].strategy == "full"


def test_what_refreshes_took_decides_the_next_one(made, monkeypatch):
    limits = EMBEDDED.__class__(small_input=1)
    views = {"most": "SELECT cust, max(amount) AS m FROM orders GROUP BY cust"}
    assert pipeline(made, views, limits=limits).refresh().ok
    change(made)
    taken = Past(incremental=[(25, 0.1), (30, 0.2)], full=[(7, 60.0)])
    for module in ("inputs", "forecast"):
        monkeypatch.setattr(f"ivm.refresh.{module}.pasts", lambda *_: {"most": taken})
    task = pipeline(made, views, limits=limits).plan().tasks["most"]
    assert (task.strategy, task.estimate.strategy) == ("incremental", "incremental")
    assert pipeline(made, views, limits=limits).refresh().views["most"].strategy == "incremental"


def test_incremental_refreshes_tell_only_of_those_by_the_same_engine(made):
    assert pipeline(made, VIEWS).refresh().ok
    change(made)
    assert pipeline(made, VIEWS).refresh().views["totals"].strategy == "incremental"
    pipe = pipeline(made, VIEWS)
    (seconds,) = (s for _, s in pasts(pipe.context, {"totals"})["totals"].incremental)
    assert 0 < seconds < 600
    pipe.context.engine = "auto"
    auto = pasts(pipe.context, {"totals"})["totals"]
    assert (auto.incremental, auto.full, len(auto.built)) == ((), (), 1)


def test_the_command_shows_it(made, monkeypatch, capsys):
    assert pipeline(made, VIEWS).refresh().ok
    change(made)
    monkeypatch.setattr("ivm.cli.terminal.out.size", (200, 50))
    monkeypatch.setattr("ivm.pipeline.Pipeline.load", lambda folder: pipeline(made, VIEWS))
    with pytest.raises(SystemExit) as end:
        main(["plan"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert "changed rows" in shown
    assert "only what changed is applied" in shown
    with pytest.raises(SystemExit):
        main(["plan", "--json"])
    estimate = json.loads(capsys.readouterr().out)["tasks"]["totals"]["estimate"]
    assert estimate["changed"] == 8
    assert estimate["readings"] == []
