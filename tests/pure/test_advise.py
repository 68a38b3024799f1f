"""`ivm advise`: only what records, sizes or counts say; DuckDB stands in Spark's place."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm.advise
from ivm.advise import Advice, advise
from ivm.cli.main import main
from ivm.lake import handles
from ivm.pipeline import Pipeline
from ivm.planner.limits import EMBEDDED
from tests.pure.duck_session import DuckSession
from tests.scenes import ORDERS, change, path, scene

VIEWS = {
    "totals": "SELECT cust, sum(amount) AS s FROM orders GROUP BY cust",
    "apart": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.amount > c.cust + 100",
}
LIMITS = EMBEDDED.__class__(whole_rows=1, native_whole_rows=3)


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    return scene(DuckSession(), tmp_path)


def pipeline(made, spark=True, **keys):
    pipe = Pipeline("advised", made.spark if spark else None, made.folder / "root", limits=LIMITS)
    for source in ("orders", "customers"):
        pipe.source(source, path(made, source), primary_key=keys.get(source, ()))
    for name, sql in VIEWS.items():
        pipe.view(name, sql, file="a file")
    return pipe


def add(made, *rows):
    data = pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in rows], ORDERS)
    write_deltalake(path(made, "orders"), data, mode="append")


def of(found, kind):
    return [a for a in found if a.kind == kind]


def test_keys_are_counted(made):
    (key,) = of(advise(pipeline(made)), "key")  # two rows of orders are equal
    assert key == Advice(
        "customers",
        "key",
        "declare primary_key: [cust], if that stays so",
        "counted: each of its 4 rows at version 0 has another cust, and none is NULL",
    )
    assert of(advise(pipeline(made, customers=["cust"])), "key") == []


def test_full_refreshes_are_told_with_what_they_cost_more_than_the_others(made):
    assert pipeline(made).refresh().ok
    assert of(advise(pipeline(made)), "full refresh") == [], "the first build is to be expected"
    add(made, (60, 1, 1))
    assert pipeline(made).refresh().ok
    add(made, (61, 1, 1))
    DeltaTable(path(made, "orders")).restore(0)
    assert pipeline(made).refresh().views["totals"].strategy == "full"
    (told,) = [a for a in of(advise(pipeline(made)), "full refresh") if a.about == "totals"]
    assert told.because.startswith("1 of its last 3 refreshes were full [feed_gap]: the change feed of 'orders'")
    assert told.do == "keep the feed on and the log longer than the time between refreshes"
    seconds = {v.strategy: v.seconds for e in pipeline(made).history("totals", 2) for v in e.views}
    assert told.saves == pytest.approx(seconds["full"] - seconds["incremental"], abs=0.002)


def test_what_was_read_whole_is_told_with_its_mend(made):
    assert pipeline(made).refresh().ok
    change(made)
    assert pipeline(made).refresh().ok
    told = of(advise(pipeline(made)), "reading")
    assert {(a.about, "equality" in a.do) for a in told} == {("apart", True)}
    assert any("was read whole in 1 of its last 2 epochs" in a.because for a in told)


def test_many_small_files_are_told(made, monkeypatch):
    assert of(advise(pipeline(made)), "layout") == []
    monkeypatch.setattr(ivm.advise, "MANY_FILES", 2)
    for i in range(3):
        add(made, (60 + i, 1, 1))
    (told,) = of(advise(pipeline(made)), "layout")
    assert told.about == "orders"
    assert told.because.startswith("4 files of ")
    assert told.because.endswith("where 1 would do")


@pytest.mark.parametrize("lost", ["root/totals", "root/totals/_delta_log", "sources/customers/*.parquet"])
def test_what_cannot_be_read_is_left_out(made, monkeypatch, lost):
    assert pipeline(made).refresh().ok
    monkeypatch.setattr(ivm.advise, "MANY_FILES", 0)
    before = advise(pipeline(made))
    for place in list(made.folder.glob(lost)):
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    about, kind = ("customers", "key") if "customers" in lost else ("totals", "layout")
    handles.forget()
    after = advise(pipeline(made))
    assert after == [a for a in before if (a.about, a.kind) != (about, kind)] != before


def test_the_command_starts_no_spark(made, monkeypatch, capsys):
    assert pipeline(made).refresh().ok

    def started(*_, **__):
        pytest.fail("a session was started")

    monkeypatch.setattr("ivm.declarations.get_session", started)
    monkeypatch.setattr("ivm.pipeline.Pipeline.load", lambda folder: pipeline(made, spark=False))
    with pytest.raises(SystemExit) as end:
        main(["advise", "--json"])
    assert end.value.code == 0
    assert [a["kind"] for a in json.loads(capsys.readouterr().out)] == ["key"]
