"""What `explain` shows is what a refresh runs: the same strategies, decided by the same function.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import DeltaTable
from sqlglot import exp, parse_one

import ivm.refresh.incremental
from ivm.execute import fixpoint
from ivm.pipeline import Pipeline
from ivm.planner.limits import EMBEDDED
from tests.pure.duck_session import DuckSession
from tests.scenes import VIEWS, change, path, scene

MORE = {
    "first": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 3",
    "reached": (
        "WITH RECURSIVE r(id, n) AS (SELECT id, amount FROM orders "
        "UNION SELECT o.id, r.n FROM r JOIN orders o ON o.cust = r.id) SELECT id, n FROM r"
    ),
    "upto": (
        "WITH RECURSIVE r(n) AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) "
        "SELECT r.n, o.id FROM r JOIN orders o ON o.id = r.n"
    ),
}


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    return scene(DuckSession(), tmp_path)


@pytest.fixture
def pipe(made):
    # Rows are shown of unknown number: a refresh must not know that they are few, either.
    limits = replace(EMBEDDED, few_first_rows=-1)
    pipe = Pipeline("shown", made.spark, made.folder / "shown", limits=limits)
    for source in ("orders", "customers"):
        pipe.source(source, path(made, source))
    for name, sql in {**VIEWS, **MORE}.items():
        pipe.view(name, sql, mode="incremental")
    return pipe


def test_what_is_shown_is_what_runs(pipe, made, monkeypatch):
    ran = {}
    inner = ivm.refresh.incremental.execute

    def noted(strategy, *args):
        ran.setdefault(strategy.unit.name, strategy.name)
        return inner(strategy, *args)

    monkeypatch.setattr(ivm.refresh.incremental, "execute", noted)
    assert pipe.refresh().ok
    change(made)
    assert pipe.refresh().ok
    shown = {unit: name for view in (*VIEWS, *MORE) for unit, name in pipe.explain(view).units.items()}
    assert ran.items() <= shown.items()
    assert set(shown.items()) - set(ran.items()) == {("upto__1", "unchanged")}  # it reads nothing
    assert set(ran.values()) == {"linear", "accumulated", "regrouped", "from stored rows", "fixpoint"}
    assert all(pipe.verify(view) for view in (*VIEWS, *MORE))


def test_a_limit_is_shown_both_ways(pipe):
    found = pipe.explain("first")
    assert list(found.sql) == ["first", "first, of few rows, or where its stored rows are not enough (regrouped)"]
    assert "stored rows, all" in found.sql["first"]
    assert "-- first (from stored rows)" in str(found)
    assert found.to_dict()["units"] == {"first": "from stored rows"}


def test_a_recursion_is_shown_with_its_iterations(pipe):
    found = pipe.explain("reached")
    assert list(found.sql) == [
        "reached__1",
        "reached__1, what is left of lost rows",
        "reached__1, what gives rows that are gone anew",
        "reached__1, each iteration",
        "reached",
    ]
    assert "`the rows found last`" in found.sql["reached__1, each iteration"]
    assert "`the rows that lost a derivation`" in found.sql["reached__1, what is left of lost rows"]


def test_the_looks_at_lost_rows_are_shown_as_they_run(pipe, made, monkeypatch):
    """By which columns, and whether ranks are compared, a set's rows are looked at that lost a derivation."""
    ran = []
    inner = fixpoint.support_sql

    def noted(*args):
        ran.append(inner(*args))
        return ran[-1]

    monkeypatch.setattr(fixpoint, "support_sql", noted)
    assert pipe.refresh().ok
    DeltaTable(path(made, "orders")).delete("id = 1")
    assert pipe.refresh().views["reached"].strategy == "incremental"
    found = pipe.explain("reached").sql
    for run, look in ((ran[0], "what is left of lost rows"), (ran[-1], "what gives rows that are gone anew")):
        shown = found[f"reached__1, {look}"]
        assert compared(run) == compared(shown) != set()
    assert any("rank" in c for c in compared(ran[0]))
    assert not any("rank" in c for c in compared(ran[-1]))


def compared(sql):
    """The comparisons with the candidates."""
    return {c.sql() for c in parse_one(sql, read="spark").find_all(exp.NullSafeEQ, exp.LT)}


def test_the_lanes_are_shown_with_their_reasons(pipe, made):
    first = pipe.explain("first")
    assert first.lanes == {
        "orders": "delta-rs: it reads the table as Spark does",
        "published": "delta-rs: it commits in milliseconds",
    }
    assert "  orders is read by delta-rs: it reads the table as Spark does\n  published by delta-rs: " in str(first)
    lane = Pipeline("shown", made.spark, made.folder / "shown", lane="spark")
    lane.source("orders", path(made, "orders"))
    lane.view("first", MORE["first"], mode="incremental")
    assert set(lane.explain("first").to_dict()["lanes"].values()) == {"Spark: the lane spark is set"}
