"""Views as of a day and a revision, beside what their SQL says of the rows of then. DuckDB in Spark's place."""

from __future__ import annotations

import datetime

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm
from ivm.errors import SourceError, StateError
from ivm.housekeeping import Retention
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow


class Ledger:
    """Entries (account, amount, day of March), and views over them; a gate holds those back that it is told to."""

    def __init__(self, folder):
        self.folder = folder
        self.views = {}
        self.retention = Retention()
        write_deltalake(self.path, self._rows(()), configuration={"delta.enableChangeDataFeed": "true"})

    @property
    def path(self):
        return str(self.folder / "entries")

    def _rows(self, entries):
        accounts, amounts, days = zip(*entries, strict=True) if entries else ((), (), ())
        dates = [None if d is None else datetime.date(2026, 3, d) for d in days]
        return pa.table(
            {
                "account": pa.array(accounts, pa.int64()),
                "amount": pa.array(amounts, pa.int64()),
                "day": pa.array(dates, pa.date32()),
            }
        )

    def book(self, *entries):
        write_deltalake(self.path, self._rows(entries), mode="append")

    def delete(self, where):
        DeltaTable(self.path).delete(where)

    def pipe(self, *held):
        made = ivm.Pipeline("ledger", DuckSession(), self.folder / "root", retention=self.retention)
        made.source("e", self.path, effective_date="day")
        if (self.folder / "more").exists():
            made.source("more", str(self.folder / "more"))
        for view, sql in self.views.items():
            made.view(view, sql)
        made._gate = lambda: (
            lambda context, plan, outcomes: {o.view: ["it shall wait"] for o in outcomes.values() if o.view in held}
        )
        return made

    def refreshed(self, *held):
        """The epoch of a refresh that holds some views back."""
        report = self.pipe(*held).refresh()
        wrong = {n: v.error for n, v in report.views.items() if v.error and n not in held}
        assert not wrong, wrong
        return report.epoch

    def rows(self, view, day=None, revision=None, epoch=None):
        """A view's rows, as of a day of March."""
        as_of = None if day is None else f"2026-03-{day:02d}"
        return sorted(self.pipe().read(view, as_of=as_of, revision=revision, epoch=epoch).collect(), key=repr)


@pytest.fixture
def ledger(tmp_path, without_a_jvm):
    return Ledger(tmp_path)


def test_a_total_of_no_rows_is_zeros_not_nothing(ledger):
    ledger.views = {
        "g": "SELECT count(*) AS n, count(amount) AS m, sum(amount) AS s FROM e",
        "few": "SELECT count(*) AS n FROM e HAVING count(*) < 5",
    }
    ledger.refreshed()
    ledger.book((1, 10, 5), (1, 5, 6))
    ledger.refreshed()
    assert ledger.rows("g", 1) == ledger.rows("g", revision=1) == [(0, 0, None)]
    assert ledger.rows("g", 5) == [(1, 1, 10)]
    assert ledger.rows("few", 1) == ledger.rows("few", revision=1) == [(0,)]
    assert ledger.rows("few", 6) == [(2,)]


def test_a_release_changes_no_revision_before_it(ledger):
    ledger.views = {
        "bal": "SELECT account, sum(amount) AS s FROM e GROUP BY account",
        "big": "SELECT account, amount FROM e WHERE amount > 0",
    }
    ledger.book((1, 10, 1))
    ledger.refreshed()
    ledger.book((1, 500, 1))
    ledger.refreshed("bal", "big")
    before = {v: ledger.rows(v, 5, revision=2) for v in ledger.views}
    assert before == {"bal": [(1, 10)], "big": [(1, 10)]}
    for view in ledger.views:
        assert ledger.pipe().release(view).ok
    assert {v: ledger.rows(v, 5, revision=2) for v in ledger.views} == before
    assert ledger.rows("bal", 5) == ledger.rows("bal", 5, revision=3) == [(1, 510)]
    assert ledger.rows("big", 5, revision=3) == [(1, 10)], "the other one was released later"
    assert ledger.rows("big", 5) == ledger.rows("big", revision=4) == [(1, 10), (1, 500)]


def test_a_view_that_lags_shows_nothing_of_what_it_has_not_read(ledger):
    ledger.views = {
        "up": "SELECT account, amount, day FROM e WHERE amount > 0",
        "down": "SELECT account, sum(amount) AS s, count(*) AS n FROM up GROUP BY account",
        "last": "SELECT account, s FROM down",
    }
    ledger.book((1, 10, 1))
    ledger.refreshed()
    ledger.book((1, 500, 2))
    assert ledger.refreshed("down", "last") == 2
    assert ledger.rows("down", revision=2) == ledger.rows("down", 5) == ledger.rows("down", epoch=2) == [(1, 10, 1)]
    assert ledger.rows("last", 5, revision=2) == [(1, 10)]
    ledger.book((1, 7, 3))
    ledger.refreshed()
    assert ledger.rows("down", 5, revision=2) == [(1, 10, 1)]
    assert ledger.rows("down", 5) == [(1, 517, 3)]
    assert ledger.rows("down", 2) == [(1, 510, 2)]


def test_an_edited_view_is_as_it_is_written_before_its_refresh(ledger):
    """The sums that are kept are the old text's."""
    ledger.views = {"bal": "SELECT account, sum(amount) AS s FROM e GROUP BY account HAVING sum(amount) > 0"}
    ledger.book((1, 10, 1), (2, 30, 2))
    ledger.refreshed()
    ledger.views["bal"] = "SELECT account, sum(amount) AS s FROM e WHERE amount > 20 GROUP BY account"
    assert ledger.rows("bal", 5) == ledger.rows("bal", revision=1) == [(2, 30)]
    ledger.refreshed()
    assert ledger.rows("bal", 5) == [(2, 30)]
    write_deltalake(str(ledger.folder / "more"), ledger._rows(()), configuration={"delta.enableChangeDataFeed": "true"})
    ledger.views["bal"] = "SELECT e.account FROM e JOIN more ON more.account = e.account"
    with pytest.raises(StateError, match="'bal' reads 'more', which epoch 2 had not read yet"):
        ledger.rows("bal", 5)


def test_days_of_a_view_over_an_undated_one_are_compared(ledger):
    write_deltalake(
        str(ledger.folder / "more"),
        pa.table({"account": pa.array([1, 2], pa.int64())}),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    ledger.views = {
        "known": "SELECT account, count(*) AS n FROM more GROUP BY account",
        "bal": "SELECT e.account, sum(e.amount) AS s FROM e JOIN known k ON k.account = e.account GROUP BY e.account",
    }
    ledger.book((1, 10, 1), (3, 30, 2))
    ledger.refreshed()
    ledger.book((2, 20, 1))
    report = ledger.pipe().backfill("bal", day="2026-03-01", until="2026-03-31")
    assert report.ok
    assert report.epoch == 2, "nothing differs, so nothing is built anew"
    assert ledger.rows("bal", 1) == [(1, 10), (2, 20)]


def test_an_effective_date_is_a_date_or_a_time(ledger):
    pipe = ledger.pipe()
    pipe.source("other", ledger.path, effective_date="Day")
    with pytest.raises(SourceError, match="its effective date 'amount' is a column of the type bigint"):
        pipe.source("another", ledger.path, effective_date="amount")


def test_revisions_do_not_end_with_the_log(ledger):
    ledger.retention = Retention(epochs=3)
    ledger.views = {
        "bal": "SELECT account, sum(amount) AS s FROM e GROUP BY account",
        "big": "SELECT account, amount FROM e WHERE amount > 0",
        "held": "SELECT count(*) AS n FROM big",
    }
    told = {}
    for n in range(1, 7):
        ledger.book((1, n, n))
        revision = ledger.refreshed(*(["held"] if n > 1 else []))
        told[revision] = {v: ledger.rows(v, 4, revision) for v in ledger.views}
    ledger.pipe().compact(keep_epochs=0)
    with pytest.raises(StateError, match="kept no more"):
        ledger.pipe().context.log.manifest(1)
    assert [r.revision for r in ledger.pipe().revisions("bal")] == list(told)
    assert {r: {v: ledger.rows(v, 4, r) for v in ledger.views} for r in told} == told
    assert told[6] == {"bal": [(1, 10)], "big": [(1, 1), (1, 2), (1, 3), (1, 4)], "held": [(1,)]}
    with pytest.raises(StateError, match="Epoch 99 was not committed"):
        ledger.rows("bal", 4, revision=99)
