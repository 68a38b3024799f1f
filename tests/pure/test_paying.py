"""Arrangements that nobody asked for: made and dropped by what reads cost, and never another answer.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from ivm.lake import native
from ivm.planner import arranging
from ivm.planner.arranging import Account, KeyedRead, least, made, searched, settle
from ivm.planner.limits import EMBEDDED
from ivm.testing.recovery import differences
from ivm.trace.arranged import ArrangedTrace
from tests.scenes import change

BY_PART, BY_ORDER = ("l_partkey",), ("l_orderkey",)
SCAN = KeyedRead("lineitem", (BY_PART,), values=10, rows=6_000_000, columns=3, changed=100, seconds=0.3)
PRICE = SCAN.rows * SCAN.columns * arranging.MADE_VALUE


def always(_):
    return True


def after(accounts, reads, session=True, fits=always):
    return settle(accounts, reads, EMBEDDED.history_share, session, fits)


def test_they_are_made_once_the_scans_have_cost_what_making_them_costs():
    accounts, epochs = (), 0
    while not made(accounts) and epochs < 1_000:
        accounts, epochs = after(accounts, [SCAN]), epochs + 1
    (account,) = accounts
    assert account.price == pytest.approx(PRICE)
    assert account.price / 0.25 < epochs < account.price / 0.15
    assert set(made(accounts)) == {("lineitem", BY_PART)}


def test_they_are_dropped_once_they_have_cost_as_much_unused():
    accounts = (Account("lineitem", (BY_PART,), True, balance=1.0, price=PRICE, scan=0.3),)
    used = after(accounts, [replace(SCAN, seconds=0.02, arranged=True)])
    assert used[0].balance > 1.0
    epochs = 0
    while accounts and epochs < 1_000:
        accounts, epochs = after(accounts, []), epochs + 1
    assert epochs == pytest.approx(1.0 / arranging.FOLLOWED, abs=1)


def test_nothing_is_made_where_much_changes():
    accounts = ()
    for _ in range(1_000):
        accounts = after(accounts, [replace(SCAN, changed=60_000)])
    assert not made(accounts), "a hundredth changed: it would be made anew every ten epochs"


def test_nothing_is_made_for_as_many_keys_as_a_scan_finds():
    accounts = ()
    for _ in range(1_000):
        accounts = after(accounts, [replace(SCAN, values=100_000)])
    assert accounts == ()


def test_a_read_by_several_keys_needs_an_arrangement_for_each():
    both = replace(SCAN, keys=least([BY_PART, BY_ORDER, (*BY_PART, *BY_ORDER)]))
    accounts, epochs = (), 0
    while not made(accounts) and epochs < 1_000:
        accounts, epochs = after(accounts, [both]), epochs + 1
    assert set(made(accounts)) == {("lineitem", BY_PART), ("lineitem", BY_ORDER)}
    assert accounts[0].price == pytest.approx(2 * PRICE)


def test_what_does_not_fit_is_not_made():
    accounts = ()
    for _ in range(100):
        accounts = after(accounts, [SCAN], fits=lambda a: a.relation != "lineitem")
    assert accounts
    assert not made(accounts)


def test_a_session_that_had_to_be_started_for_it_is_part_of_the_price():
    (with_one,), (without,) = after((), [SCAN]), after((), [SCAN], session=False)
    assert without.price - with_one.price == pytest.approx(arranging.STARTED)


def test_reads_that_others_serve_speak_for_nothing():
    assert after((), [replace(SCAN, arranged=True)]) == ()


@pytest.mark.parametrize("seed", range(30))
def test_who_knew_all_reads_to_come_would_have_paid_at_least_a_third(seed):
    """Borodin, Linial and Saks; the seconds being what they are taken for."""
    dice = random.Random(seed)
    epochs = []
    while len(epochs) < 400:
        busy = dice.random() < 0.5
        epochs += [dice.randint(0, 4 if busy else 1) for _ in range(dice.randint(1, 80))]
    search = searched(SCAN)
    upkeep = [
        arranging.FOLLOWED + (SCAN.changed * arranging.FOLLOWED_ROW + PRICE * SCAN.changed / 600_000 if n else 0)
        for n in epochs
    ]
    accounts, paid, there = (), 0.0, False
    for n, kept in zip(epochs, upkeep, strict=True):
        paid += n * search + kept if there else n * SCAN.seconds
        reads = [replace(SCAN, seconds=search, arranged=True) if there else SCAN] * n
        accounts = after(accounts, reads)
        paid += 0 if there or not made(accounts) else PRICE
        there = bool(made(accounts))
    best = [0.0, float("inf")]
    for n, kept in zip(epochs, upkeep, strict=True):
        scanned, arranged = best[0] + n * SCAN.seconds, min(best[1], best[0] + PRICE) + n * search + kept
        best = [min(scanned, arranged), arranged]
    assert paid <= 3 * min(best) + 2 * PRICE


# -- in a pipeline --------------------------------------------------------------------------------

#: What the scene is made ready for.
BEFORE = "build"
NAMED = "SELECT o.id, c.name, o.amount FROM orders o JOIN customers c ON o.cust = c.cust"


@pytest.fixture
def paying(lake, monkeypatch):
    """A scene of one view without a hint, whose relations are large; an arrangement pays at once."""
    monkeypatch.setattr(arranging, "MADE_VALUE", 1e-12)
    monkeypatch.setattr(arranging, "STARTED", 0.0)
    monkeypatch.setattr(arranging, "SEARCHED", 0.0)
    monkeypatch.setattr(arranging, "FOLLOWED", 0.0)
    monkeypatch.setattr(arranging, "FOLLOWED_ROW", 0.0)
    lake.views = {"named": NAMED}
    lake.limits = replace(
        EMBEDDED, whole_rows=0, native_whole_rows=-1, arranged_rows=-1, arranged_share=1e6, history_share=1e6
    )
    assert lake.pipeline(lake.folder).refresh().ok
    return lake


@pytest.fixture
def searches(monkeypatch):
    """The keys of the arrangements that were searched."""
    found, inner = [], ArrangedTrace.matching

    def matching(self, *args):
        found.append(self.description.keys)
        return inner(self, *args)

    monkeypatch.setattr(ArrangedTrace, "matching", matching)
    return found


def refreshed(lake):
    """The pipeline after a change and a refresh, its view being right."""
    change(lake)
    pipe = lake.pipeline(lake.folder)
    report = pipe.refresh()
    assert report.ok
    assert {v.strategy for v in report.views.values()} == {"incremental"}
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []
    return pipe


def test_what_pays_is_made_after_the_epoch_and_searched_by_the_next(paying, searches):
    pipe = refreshed(paying)
    shown = {(a["relation"], *a["keys"]): a for a in pipe.status()["arrangements"]}
    assert set(shown) == {("orders", "cust"), ("customers", "cust")}
    assert all(a["views"] == [] and a["balance"] == a["price"] for a in shown.values())
    assert searches == []
    for _ in range(2):
        pipe = refreshed(paying)
    assert set(searches) == {("cust",)}
    assert "searched in the arrangement of orders by cust (made since it pays)" in str(pipe.explain("named"))


def test_a_compaction_makes_it_where_it_is_a_task_of_its_own(paying, searches, monkeypatch):
    """As Airflow's is."""
    monkeypatch.setattr("ivm.refresh.run.step_compact", lambda _: None)
    pipe = refreshed(paying)
    assert pipe.status()["arrangements"] == []
    pipe.compact()
    assert len(pipe.status()["arrangements"]) == 2
    refreshed(paying)
    assert searches


def test_only_hints_ask_for_some_where_that_is_set(paying, searches):
    refreshed(paying)
    paying.arrange = "hints"
    pipe = refreshed(paying)
    assert pipe.status()["arrangements"] == []
    assert not list(pipe.context.layout.arrangements.list())
    assert searches == []


def test_what_pays_no_more_is_removed(paying, monkeypatch):
    refreshed(paying)
    monkeypatch.setattr(arranging, "FOLLOWED", 1e6)
    for _ in range(2):
        pipe = refreshed(paying)
    assert pipe.status()["arrangements"] == []
    assert not list(pipe.context.layout.arrangements.list())


def test_one_that_cannot_be_made_stops_nothing(paying, monkeypatch, caplog):
    def failing(*_):
        raise OSError("no space is left")

    monkeypatch.setattr("ivm.refresh.paying.rebuilt", failing)
    pipe = refreshed(paying)
    assert pipe.status()["arrangements"] == []
    assert "the arrangement of orders by cust (made since it pays) can't be made: no space is left" in caplog.text
    monkeypatch.undo()


def test_one_that_was_removed_is_made_again_after_a_refresh_without_it(paying, searches):
    pipe = refreshed(paying)
    for folder in pipe.context.layout.arrangements.list():
        folder.drop()
    pipe = refreshed(paying)
    assert searches == []
    assert len(pipe.status()["arrangements"]) == 2
    refreshed(paying)
    assert searches


def test_one_that_cannot_be_searched_is_replaced_by_a_scan(paying, searches, caplog):
    pipe = refreshed(paying)
    folders = [Path(a["table"]) for a in pipe.status()["arrangements"]]
    for file in (f for folder in folders for f in folder.glob("*.parquet")):
        file.unlink()
    pipe = refreshed(paying)
    assert searches
    assert "(made since it pays) is dropped and made anew" in caplog.text
    assert len(pipe.status()["arrangements"]) == 2
    caplog.clear()
    refreshed(paying)
    assert "made anew" not in caplog.text


def test_none_is_made_beyond_their_share_of_the_bytes(paying):
    paying.limits = replace(paying.limits, arranged_share=0.0)
    pipe = refreshed(paying)
    assert pipe.status()["arrangements"] == []
    assert pipe.context.log.manifest().accounts


def test_one_of_a_relation_that_is_read_no_more_is_removed(paying):
    refreshed(paying)
    paying.views = {"people": "SELECT cust, name FROM customers"}
    for _ in range(2):  # the first one builds the view
        change(paying)
        pipe = paying.pipeline(paying.folder)
        assert pipe.refresh().ok
    assert [f.name.rsplit("_", 1)[0] for f in pipe.context.layout.arrangements.list()] == ["customers__by_cust"]


def test_a_delta_that_was_read_for_views_is_not_read_again_for_an_arrangement(paying, monkeypatch, searches):
    refreshed(paying)
    monkeypatch.setattr("ivm.refresh.arrangements.source_delta", pytest.fail)
    for _ in range(2):
        pipe = refreshed(paying)
    assert searches
    for shown in pipe.status()["arrangements"]:
        held = ArrangedTrace(shown["table"]).read(shown["upto"])
        there = native.read(native.table(f"{paying.folder}/sources/{shown['relation']}"), held.column_names[:-1])
        expanded = [r[:-1] for r in rows(held) for _ in range(r[-1])]
        assert sorted(expanded, key=repr) == sorted(rows(there), key=repr)


def rows(table):
    return [tuple(r.values()) for r in table.to_pylist()]
