"""Running balances with late and corrected entries, as of a day and a revision, against plain Python."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

from ivm.errors import ConfigError, SourceError, StateError, ViewError
from tests.scenes import NIGHTLY

pytestmark = pytest.mark.spark

#: Kept by day as sums (turnover), as rows of the core (balance, running), or not at all (overdrawn).
VIEWS = {
    "balance": "SELECT account, sum(amount) AS balance, max(day) AS last FROM entries GROUP BY account",
    "turnover": "SELECT account, sum(amount) AS balance, count(*) AS entries FROM entries GROUP BY account",
    "running": "SELECT id, account, sum(amount) OVER (PARTITION BY account ORDER BY day, id) AS balance FROM entries",
    "large": "SELECT account, day, amount FROM entries WHERE abs(amount) > 4",
    "overdrawn": "SELECT account, balance FROM balance WHERE balance < 0",
}


def balances(entries, day):
    found, last = defaultdict(int), {}
    for booked, account, amount in entries.values():
        if booked <= day:
            found[account] += amount
            last[account] = max(booked, last.get(account, ""))
    return {(a, b, last[a]) for a, b in found.items()}


@pytest.fixture
def ledger(lake, spark):
    lake.table("entries", "id int, day date, account string, amount int", rows=0)
    pipe = lake.pipeline({})
    del pipe.context.sources["entries"]
    pipe.source("entries", lake.path("entries"), primary_key=["id"], effective_date="day")
    for name, sql in VIEWS.items():
        pipe.view(name, sql, mode="incremental")
    return pipe


def test_every_day_at_every_revision(ledger, lake, spark):
    days, known = [f"2026-03-{d:02d}" for d in range(1, 8)], {}
    booked(ledger, lake, spark, days, known)
    for revision, then in known.items():
        for day in days if NIGHTLY else days[revision % 4 :: 4]:
            assert_as_of(ledger, then, day, revision)
    last = {(r.account, r.balance) for r in ledger.read("overdrawn", as_of=days[3]).collect()}
    assert last == {(a, b) for a, b, _ in balances(then, days[3]) if b < 0}
    compacted = ledger.compact(keep_epochs=0)
    assert compacted
    DeltaTable(lake.path("entries")).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        spark.sql(f"SELECT * FROM {lake.ref('entries')} VERSION AS OF 3").collect()
    for revision, then in known.items():
        for day in (days[4], None) if NIGHTLY else (days[4] if revision % 2 else None,):
            assert_as_of(ledger, then, day, revision)


def assert_as_of(ledger, then, day, revision):
    def read(view):
        return ledger.read(view, as_of=day, revision=revision).collect()

    upto = day or "9999-12-31"
    expected = balances(then, upto)
    there = sorted((booked, account, key, amount) for key, (booked, account, amount) in then.items() if booked <= upto)
    assert {(r.account, r.balance, str(r.last)) for r in read("balance")} == expected, (day, revision)
    counts = Counter(account for _, account, *_ in there)
    assert {(r.account, r.balance, r.entries) for r in read("turnover")} == {(a, b, counts[a]) for a, b, _ in expected}
    assert Counter((r.account, str(r.day), r.amount) for r in read("large")) == Counter(
        (a, d, n) for d, a, _, n in there if abs(n) > 4
    )
    sums, running = defaultdict(int), set()
    for _, account, key, amount in there:
        sums[account] += amount
        running.add((key, account, sums[account]))
    assert {(r.id, r.account, r.balance) for r in read("running")} == running


def booked(ledger, lake, spark, days, known):
    """Four revisions of random entries, each with a correction of a past one and one withdrawn."""
    random_ = random.Random(1)
    entries = {}
    for revision in range(4):
        for i in range(6):
            entries[10 * revision + i] = (random_.choice(days), random_.choice("AB"), random_.randrange(-9, 10))
        new = ", ".join(f"({k}, DATE '{d}', '{a}', {n})" for k, (d, a, n) in list(entries.items())[-6:])
        spark.sql(f"INSERT INTO {lake.ref('entries')} VALUES {new}")
        if revision:  # a correction of a past entry, and one withdrawn
            corrected = 10 * (revision - 1)
            entries[corrected] = (entries[corrected][0], entries[corrected][1], entries[corrected][2] + 5)
            spark.sql(f"UPDATE {lake.ref('entries')} SET amount = amount + 5 WHERE id = {corrected}")
            del entries[corrected + 1]
            spark.sql(f"DELETE FROM {lake.ref('entries')} WHERE id = {corrected + 1}")
        known[ledger.refresh().epoch] = dict(entries)


def values(pipe, view, column, day, revision):
    return [r[column] for r in pipe.read(view, as_of=day, revision=revision).collect()]


def test_a_correction_changes_only_its_day_and_later_ones(ledger, lake, spark):
    spark.sql(
        f"INSERT INTO {lake.ref('entries')} "
        "VALUES (1, DATE '2026-03-01', 'A', 10), (2, DATE '2026-03-03', 'A', 5), (3, DATE '2026-03-05', 'A', 1)"
    )
    before = ledger.refresh().epoch
    spark.sql(f"UPDATE {lake.ref('entries')} SET amount = 7 WHERE id = 2")
    after = ledger.refresh().epoch

    at = partial(values, ledger, "balance", "balance")

    assert [(r.revision, str(r.first_day), str(r.last_day)) for r in ledger.revisions("turnover")] == [
        (before, "2026-03-01", "2026-03-05"),
        (after, "2026-03-03", "2026-03-03"),
    ]
    assert [(at(f"2026-03-0{d}", before), at(f"2026-03-0{d}", after)) for d in (1, 2, 3, 5)] == [
        ([10], [10]),
        ([10], [10]),
        ([15], [17]),
        ([16], [18]),
    ]


def test_a_past_day_is_taken_in_as_a_new_revision(ledger, lake, spark):
    entries = lake.ref("entries")
    spark.sql(f"INSERT INTO {entries} VALUES (1, DATE '2026-03-01', 'A', 10), (2, DATE '2026-03-03', 'A', 5)")
    before = ledger.refresh().epoch
    spark.sql(f"INSERT INTO {entries} VALUES (3, DATE '2026-03-02', 'A', 7)")
    report = ledger.backfill("turnover", day="2026-03-02")
    assert report.epoch == before + 1
    assert report.views["turnover"].strategy == "incremental"
    assert [
        ledger.read("turnover", as_of="2026-03-02", revision=r).first().balance for r in (before, report.epoch)
    ] == [10, 17]
    assert ledger.backfill("turnover", day="2026-03-02").epoch == report.epoch  # nothing new, nothing wrong
    assert ledger.backfill("turnover", day="2026-03-01", until="2026-03-03").epoch == report.epoch  # nor in a range
    estimate = ledger.estimate("turnover", day="2026-03-01", until="2026-03-03")
    assert [(w.view, w.strategy) for w in estimate.work] == [("turnover", "full")], "where a day differs, and only then"
    name = "turnover__by_day"
    trace = ledger.context.layout.accumulator_trace(name, ledger.context.log.manifest().units[name].generation)
    spark.sql(
        f"UPDATE delta.`{trace}` SET __ivm_count = __ivm_count + 1 WHERE __ivm_day = DATE '2026-03-02'"
    )  # damaged by someone
    repaired = ledger.backfill("turnover", day="2026-03-02")
    assert repaired.views["turnover"].strategy == "full"
    assert ledger.read("turnover", as_of="2026-03-02").first().entries == 2
    with pytest.raises(ConfigError, match="not kept by day"):
        ledger.backfill("overdrawn", day="2026-03-02")
    with pytest.raises(ConfigError, match="not of both"):
        ledger.backfill("turnover", "account = 'A'", day="2026-03-02")


def test_rows_of_several_dated_sources_hold_from_the_latest_of_their_days(lake, spark):
    lake.table("rates", "currency string, since date, rate int", rows=0)
    lake.table("entries", "id int, day date, currency string, amount int", rows=0)
    pipe = lake.pipeline({})
    for name, column in (("rates", "since"), ("entries", "day")):
        del pipe.context.sources[name]
        pipe.source(name, lake.path(name), effective_date=column)
    sql = "SELECT currency, sum(amount * rate) AS worth FROM entries JOIN rates USING (currency) GROUP BY currency"
    pipe.view("worth", sql, mode="incremental")
    spark.sql(f"INSERT INTO {lake.ref('entries')} VALUES (1, DATE '2026-03-01', 'X', 10), (2, NULL, 'X', 100)")
    spark.sql(f"INSERT INTO {lake.ref('rates')} VALUES ('X', DATE '2026-03-05', 2)")
    one = pipe.refresh().epoch
    spark.sql(f"UPDATE {lake.ref('rates')} SET since = DATE '2026-03-02'")
    two = pipe.refresh().epoch

    at = partial(values, pipe, "worth", "worth")

    found = [(at(f"2026-03-0{d}", one), at(f"2026-03-0{d}", two)) for d in (1, 3, 6)]
    assert found == [([], []), ([], [20]), ([20], [20])]
    assert at(None, two) == [220]


def test_what_makes_no_sense_is_named(ledger, lake):
    with pytest.raises(ViewError, match="did not exist at revision"):
        ledger.read("balance", as_of="2026-03-01")
    ledger.refresh()
    with pytest.raises(ConfigError, match="not a day"):
        ledger.read("balance", as_of="the ides of March")
    with pytest.raises(StateError, match="was not committed"):
        ledger.read("balance", as_of="2026-03-01", revision=99)
    with pytest.raises(SourceError, match="booked"):
        ledger.source("other", lake.path("entries"), effective_date="booked")
    lake.table("plain", "k int", rows=1)
    ledger.source("plain", lake.path("plain"))
    ledger.view("copied", "SELECT k FROM plain")
    ledger.refresh()
    with pytest.raises(ConfigError, match="has an effective date"):
        ledger.read("copied", as_of="2026-03-01")


def test_the_example_pipeline(lake, spark, tmp_path, monkeypatch):
    import ivm

    spark.sql(
        f"CREATE TABLE delta.`{tmp_path}/entries` "
        "(entry_id int, account string, booked_on date, amount decimal(12,2)) "
        "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    monkeypatch.setenv("IVM_LEDGER_SOURCES", str(tmp_path))
    monkeypatch.setenv("IVM_LEDGER_ROOT", str(tmp_path / "root"))
    entries = f"delta.`{tmp_path}/entries`"
    spark.sql(f"INSERT INTO {entries} VALUES (1, 'A', DATE '2026-03-30', 90), (2, 'A', DATE '2026-03-31', 10)")
    pipe = ivm.Pipeline.load(Path(__file__).parents[2] / "pipelines" / "ledger", spark=spark)
    third = pipe.refresh().epoch
    spark.sql(f"INSERT INTO {entries} VALUES (3, 'A', DATE '2026-03-30', -20)")
    tenth = pipe.refresh().epoch
    found = {
        (d, r): pipe.read("balances", as_of=f"2026-03-{d}", revision=r).first().balance
        for d in (30, 31)
        for r in (third, tenth)
    }
    assert found == {(30, third): 90, (31, third): 100, (30, tenth): 70, (31, tenth): 80}
    running = {str(r.booked_on): r.balance for r in pipe.read("running_balances").collect()}
    assert running == {"2026-03-30": 70, "2026-03-31": 80}
    assert all(pipe.verify(v) for v in ("balances", "running_balances"))
