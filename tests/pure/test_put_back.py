"""State that is put back from a backup beside newer tables: its log plans numbers anew that these have seen.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import shutil

import pytest

from ivm.errors import StateError
from ivm.refresh import run
from ivm.refresh.full import FullBuild
from tests.pure.test_lost_log import Lake, ints

pytestmark = pytest.mark.slow

VIEWS = {"totals": "SELECT k, sum(v) AS s FROM t GROUP BY k", "kept": "SELECT k, v FROM t WHERE v > 1000"}
RICH = {"rich": "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING sum(v) > 100"}


class PutBack(Lake):
    """A lake of which a part of the state can be saved, and put back."""

    def saved(self, part):
        shutil.copytree(self.folder / "root" / part, self.folder.parent / "backup")

    def put_back(self, part):
        shutil.rmtree(self.folder / "root" / part)
        shutil.move(self.folder.parent / "backup", self.folder / "root" / part)


@pytest.fixture
def made(tmp_path, without_a_jvm):
    """A lake of some views over `t` (k, v), built once."""

    def lake(views):
        (tmp_path / "lake").mkdir()
        found = PutBack(tmp_path / "lake", dict(views))
        found.add("t", k=ints(1, 2), v=ints(200, 5))
        found.refreshed()
        return found

    return lake


@pytest.fixture
def forgetful(made):
    """The lake whose log was put back to before the epoch that took in (1, 1); (2, 10) came afterwards."""
    lake = made(VIEWS)
    lake.saved("_ivm")
    lake.add("t", k=ints(1), v=ints(1))
    lake.refreshed()
    lake.put_back("_ivm")
    lake.add("t", k=ints(2), v=ints(10))
    return lake


def test_a_number_that_a_table_has_seen_is_not_planned_again(forgetful):
    lake = forgetful
    report = lake.refreshed()
    assert "holds what an epoch published that was never committed" in report.views["totals"].reason
    assert report.epoch == 3
    assert lake.rows("totals") == [(1, 201), (2, 15)]
    lake.add("t", k=ints(2), v=ints(1))
    assert lake.refreshed().views["totals"].strategy == "incremental"
    assert lake.rows("totals") == [(1, 201), (2, 16)]


def test_nor_is_one_that_the_table_of_a_view_has_seen_which_the_log_does_not_know(made):
    lake = made({"kept": VIEWS["kept"]})
    lake.saved("_ivm")
    lake.views["totals"] = VIEWS["totals"]
    lake.refreshed()
    lake.put_back("_ivm")
    lake.add("t", k=ints(1), v=ints(1))
    assert lake.refreshed().epoch == 3
    assert lake.rows("totals") == [(1, 201), (2, 5)]


def test_nor_is_one_that_a_table_has_seen_which_others_changed_since(forgetful):
    lake = forgetful
    lake.table("root/totals").delete("k = 1")
    lake.refreshed()
    assert lake.rows("totals") == [(1, 201), (2, 15)]


def test_an_open_epoch_that_was_followed_by_others_is_not_taken_for_published(made, monkeypatch, caplog):
    lake = made(VIEWS)
    lake.add("t", k=ints(1), v=ints(1))
    with monkeypatch.context() as patch:
        patch.setattr(run, "step_publish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lake.pipe().refresh()
    lake.saved("_ivm")
    lake.refreshed()
    lake.add("t", k=ints(1), v=ints(1))
    lake.refreshed()
    lake.put_back("_ivm")
    lake.add("t", k=ints(2), v=ints(10))
    assert lake.refreshed().epoch == 4, "the open one, in which the view fails, and then the next"
    assert "holds what the later epoch 3 published" in caplog.text
    assert lake.rows("totals") == [(1, 202), (2, 15)]


def test_what_is_held_back_is_not_released_into_a_newer_table(made):
    lake = made(VIEWS)
    lake.add("t", k=ints(1), v=ints(1))
    held = lake.pipe()
    held._gate = lambda: lambda *_: {"totals": ["it shall wait"]}
    assert not held.refresh().ok
    lake.saved("_ivm")
    lake.pipe().release("totals")
    lake.add("t", k=ints(2), v=ints(10))
    lake.refreshed()
    lake.put_back("_ivm")
    with pytest.raises(StateError, match="holds what an epoch published that was never committed"):
        lake.pipe().release("totals")
    lake.refreshed()
    assert lake.rows("totals") == [(1, 201), (2, 15)]


@pytest.fixture
def behind(made):
    """A log that is older than the sums of a view, whose rows are the same."""
    lake = made(RICH)
    lake.saved("_ivm/epochs")
    lake.add("t", k=ints(2), v=ints(10))
    lake.refreshed()
    lake.put_back("_ivm/epochs")
    return lake


@pytest.mark.parametrize("compacted", [False, True])
def test_sums_of_an_epoch_that_the_log_does_not_know_are_built_anew(behind, compacted):
    if compacted:  # which commits an epoch of that number
        behind.pipe().compact(keep_epochs=0)
    behind.add("t", k=ints(2), v=ints(90))
    reason = behind.refreshed().views["rich"].reason
    assert "the epoch log doesn't know" in reason
    behind.add("t", k=ints(2), v=ints(1))
    assert behind.refreshed().views["rich"].strategy == "incremental"
    assert behind.rows("rich") == [(1, 200), (2, 106)]


def test_they_are_built_anew_though_the_first_rebuild_failed(behind, monkeypatch):
    behind.add("t", k=ints(2), v=ints(90))
    with monkeypatch.context() as patch:
        patch.setattr(FullBuild, "_stage", lambda *_: 1 / 0)
        assert not behind.pipe().refresh().ok
    assert "the epoch log doesn't know" in behind.refreshed().views["rich"].reason
    behind.add("t", k=ints(2), v=ints(1))
    behind.refreshed()
    assert behind.rows("rich") == [(1, 200), (2, 106)]
