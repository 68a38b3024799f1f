"""The days that revisions changed, as the tasks that publish tell them. DuckDB stands in Spark's place."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm
from ivm.refresh.as_of import changed_days
from ivm.refresh.records import from_json
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow

VIEWS = {
    "balances": "SELECT account, sum(amount) AS balance FROM entries GROUP BY account",
    "booked": "SELECT account, amount, day FROM entries WHERE amount > 0",
    "undated": "SELECT word FROM words",
}


@pytest.fixture
def ledger(tmp_path, without_a_jvm):
    """A ledger, and what books (account, amount, day of March) in it."""

    def book(*entries):
        days = [None if d is None else datetime.date(2026, 3, d) for _, _, d in entries]
        rows = pa.table(
            {
                "account": pa.array([a for a, _, _ in entries], pa.int64()),
                "amount": pa.array([n for _, n, _ in entries], pa.int64()),
                "day": pa.array(days, pa.date32()),
            }
        )
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(tmp_path / "entries"), rows, mode="append", configuration=feed)

    book((1, 10, 1), (2, 20, 2))
    words = pa.table({"word": ["a"]})
    write_deltalake(str(tmp_path / "words"), words, configuration={"delta.enableChangeDataFeed": "true"})

    def pipe():
        made = ivm.Pipeline("ledger", DuckSession(), tmp_path / "root")
        made.source("entries", str(tmp_path / "entries"), effective_date="day")
        made.source("words", str(tmp_path / "words"))
        for view, sql in VIEWS.items():
            made.view(view, sql, mode="incremental")
        return made

    assert pipe().refresh().ok
    return pipe, book, tmp_path


def days(pipe, view, first, **most):
    return [d.day for d in changed_days(pipe().context, view, first, **most)]


def test_the_days_of_a_revision_are_those_that_came_and_went(ledger):
    pipe, book, folder = ledger
    book((1, 5, 7), (1, 6, 3), (2, 1, None))
    assert pipe().refresh().ok
    assert days(pipe, "balances", 2) == days(pipe, "booked", 2) == [3, 7]
    DeltaTable(str(folder / "entries")).delete("amount = 20")
    assert pipe().refresh().ok
    assert days(pipe, "balances", 3) == days(pipe, "booked", 3) == [2]
    assert days(pipe, "balances", 2) == [2, 3, 7], "of several revisions all"
    assert days(pipe, "balances", 4) == [], "there was none since"
    assert days(pipe, "undated", 1) == []


def test_a_table_that_is_built_names_no_day_where_they_are_many(ledger):
    pipe, _, _ = ledger
    assert days(pipe, "balances", 1) == [1, 2]
    assert days(pipe, "balances", 1, most=1) == []


def test_a_trace_that_can_not_be_read_names_no_day(ledger, caplog):
    pipe, _, folder = ledger
    for file in (folder / "root" / "_ivm" / "traces" / "balances__by_day").rglob("*.parquet"):
        file.unlink()
    assert days(pipe, "balances", 1) == []
    assert "can't be read" in caplog.text


def test_the_days_of_a_release_are_those_that_were_held_back(ledger):
    pipe, book, _ = ledger
    book((1, 5, 7))
    held = pipe()
    held._gate = lambda: lambda context, plan, outcomes: {v: ["it shall wait"] for v in ("balances", "booked")}
    assert not held.refresh().ok
    assert days(pipe, "balances", 2) == days(pipe, "booked", 2) == []
    released = {view: pipe().release(view).epoch for view in ("balances", "booked")}
    assert {view: days(pipe, view, epoch) for view, epoch in released.items()} == {"balances": [7], "booked": [7]}
    assert days(pipe, "balances", released["booked"]) == [], "it was released before"
    book((1, 5, 9))
    assert pipe().refresh().ok
    assert days(pipe, "balances", 5) == days(pipe, "booked", 5) == [9]
    assert days(pipe, "booked", released["booked"]) == [7, 9]


def test_the_days_of_a_view_whose_first_build_was_released_are_all(ledger, monkeypatch):
    pipe, _, _ = ledger
    monkeypatch.setitem(VIEWS, "late", "SELECT account, count(*) AS n FROM entries GROUP BY account")
    held = pipe()
    held._gate = lambda: lambda context, plan, outcomes: {"late": ["it shall wait"]}
    assert not held.refresh().ok
    assert days(pipe, "late", pipe().release("late").epoch) == [1, 2]


def test_two_manifests_that_are_compared_are_read_once(ledger, monkeypatch):
    pipe, book, _ = ledger
    book((1, 5, 7))
    assert pipe().refresh().ok
    context, read = pipe().context, []
    monkeypatch.setattr("ivm.refresh.epochs.from_json", lambda kind, text: read.append(kind) or from_json(kind, text))
    assert [len(changed_days(context, view, 2)) for view in ("balances", "booked")] == [1, 1]
    assert len(read) == 2
