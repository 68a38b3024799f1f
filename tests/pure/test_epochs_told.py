"""`ivm history`: what each epoch did, as it happened; DuckDB stands in Spark's place."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.cli.main import main
from ivm.housekeeping import Retention
from ivm.pipeline import Pipeline
from tests.pure.duck_session import DuckSession
from tests.scenes import ORDERS, path, scene

VIEWS = {
    "totals": "SELECT cust, sum(amount) AS s FROM orders GROUP BY cust",
    "nested": "SELECT n, count(*) AS customers FROM (SELECT cust, count(*) AS n FROM orders GROUP BY cust) GROUP BY n",
    "names": "SELECT cust, name FROM customers",
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    return scene(DuckSession(), tmp_path)


def pipeline(made, failing=(), retention=None):
    pipe = Pipeline("told", made.spark, made.folder / "root", retention=retention)
    for source in ("orders", "customers"):
        pipe.source(source, path(made, source))
    for name, sql in VIEWS.items():
        pipe.view(name, sql, file="a file")
    pipe._gate = lambda: (
        lambda context, plan, outcomes: {o.view: ["it shall fail"] for o in outcomes.values() if o.view in failing}
    )
    return pipe


def add(made, *rows):
    data = pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in rows], ORDERS)
    write_deltalake(path(made, "orders"), data, mode="append")


def test_each_epoch_is_told_as_it_was(made):
    first = pipeline(made).refresh()
    add(made, (60, 3, 9))
    second = pipeline(made).refresh()
    add(made, (61, 3, 9))
    pipeline(made, ["totals"]).refresh()
    newest, middle, oldest = pipeline(made).history("TOTALS")
    assert [e.epoch for e in (oldest, middle, newest)] == [1, 2, 3]
    (built,), (followed,), (held,) = oldest.views, middle.views, newest.views
    report = first.views["totals"]
    assert (built.result, built.strategy, built.code) == ("published", "full", "first_build")
    assert (built.rows_in, built.rows_out, built.seconds) == (report.rows_in, report.rows_out, report.seconds)
    assert built.saved is None
    report = second.views["totals"]
    assert (followed.result, followed.strategy, followed.rows_in) == ("published", "incremental", 1)
    assert (followed.rows_out, followed.seconds) == (report.rows_out, report.seconds)
    assert followed.version == DeltaTable(f"{made.folder}/root/totals").version()
    assert followed.estimate.changed == 1
    assert followed.full_seconds == built.seconds
    assert followed.saved == pytest.approx(built.seconds - followed.seconds, abs=0.001)
    assert (held.result, held.error, held.version) == ("held back", "it shall fail", None)


def test_a_view_of_several_units_is_one_line_and_one_that_had_nothing_to_do_none(made):
    report = pipeline(made).refresh()
    add(made, (60, 3, 9))
    pipeline(made).refresh()
    newest, oldest = pipeline(made).history()
    assert {v.view for v in newest.views} == {"totals", "nested"}
    assert newest.strategies == {"incremental": 2}
    nested = next(v for v in oldest.views if v.view == "nested")
    assert nested.seconds == report.views["nested"].seconds
    assert [e.epoch for e in pipeline(made).history("names")] == [1]
    assert [e.epoch for e in pipeline(made).history(limit=1)] == [2]


def test_archived_epochs_are_told_too(made):
    short = Retention(epochs=2)
    for i in range(4):
        add(made, (60 + i, 3, 9))
        assert pipeline(made, retention=short).refresh().ok
    before = pipeline(made).history("totals")
    pipeline(made, retention=short).compact(keep_epochs=0)
    assert len({e.epoch for e in pipeline(made).context.log.events()}) < 4
    assert pipeline(made).history("totals") == before
    assert [e.epoch for e in before] == [4, 3, 2, 1]


def test_the_command(made, monkeypatch, capsys):
    pipeline(made).refresh()
    add(made, (60, 3, 9))
    pipeline(made, ["totals"]).refresh()
    monkeypatch.setattr("ivm.pipeline.Pipeline.load", lambda folder: pipeline(made))
    monkeypatch.setattr("ivm.cli.terminal.out.size", (220, 50))

    def shown(*arguments):
        with pytest.raises(SystemExit) as end:
            main(["history", *arguments])
        assert end.value.code == 0
        return capsys.readouterr().out

    lines = shown("totals").splitlines()
    assert [word in lines[4] for word in ("held back", "incremental", "it shall fail")] == [True] * 3
    assert "the view is built for the first time" in lines[5]
    assert "totals held back: it shall fail" in shown()
    (epoch,) = json.loads(shown("--json", "--limit", "1"))
    assert {v["view"]: v["result"] for v in epoch["views"]} == {"totals": "held back", "nested": "published"}
    assert epoch["views"][0]["estimate"]["changed"] == 1


def test_an_unknown_view_is_an_error(made, monkeypatch, capsys):
    monkeypatch.setattr("ivm.pipeline.Pipeline.load", lambda folder: pipeline(made))
    with pytest.raises(SystemExit) as end:
        main(["history", "nobody"])
    assert end.value.code == 1
    assert "has no view" in capsys.readouterr().err
