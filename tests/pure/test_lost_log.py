"""An epoch log that is lost after compaction: what goes on from the tables' commits. DuckDB for Spark."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm
from ivm.planner.limits import EMBEDDED
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.slow


class Lake:
    """Sources of two columns of integers, or an integer and a word, and views over them."""

    def __init__(self, folder, views):
        self.folder, self.views = folder, views

    def add(self, source, **columns):
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(self.folder / source), pa.table(columns), mode="append", configuration=feed)

    def table(self, source):
        return DeltaTable(str(self.folder / source))

    def pipe(self):
        made = ivm.Pipeline("lost", DuckSession(), self.folder / "root", limits=replace(EMBEDDED, whole_rows=0))
        for source in sorted(f.name for f in self.folder.iterdir() if f.name != "root"):
            made.source(source, str(self.folder / source))
        for view, sql in self.views.items():
            made.view(view, sql)
        return made

    def refreshed(self):
        report = self.pipe().refresh()
        assert report.ok, [v.error for v in report.views.values()]
        return report

    def repaired(self):
        shutil.rmtree(self.pipe().context.layout.epochs)
        return self.pipe().repair()

    def rows(self, view):
        return sorted(self.pipe().read(view).collect())


def ints(*values):
    return pa.array(values, pa.int64())


@pytest.fixture
def rich(tmp_path, without_a_jvm):
    """A group that goes without a change of the view."""
    lake = Lake(tmp_path, {"rich": "SELECT k, sum(v) AS s FROM t GROUP BY k HAVING sum(v) > 100"})
    lake.add("t", k=ints(1, 2), v=ints(200, 5))
    lake.refreshed()
    return lake


def test_a_group_that_compaction_let_go_is_not_taken_for_known(rich):
    rich.table("t").delete("k = 2")
    rich.refreshed()
    rich.pipe().compact(keep_epochs=0)
    rich.add("t", k=ints(2), v=ints(500))
    assert "rich" not in rich.repaired().known_again
    assert rich.rows("rich") == [(1, 200), (2, 500)]


def test_sums_that_compaction_has_written_anew_go_on(rich):
    rich.add("t", k=ints(3), v=ints(300))
    rich.refreshed()
    rich.pipe().compact(keep_epochs=0)
    rich.add("t", k=ints(2), v=ints(500))
    found = rich.repaired()
    assert found.known_again == ("rich",)
    assert found.report.views["rich"].strategy == "incremental"
    assert rich.rows("rich") == [(1, 200), (2, 505), (3, 300)]


def test_an_arrangement_is_not_followed_over_batches_that_are_gone(tmp_path, without_a_jvm):
    views = {
        "up": "SELECT k, name FROM c WHERE k > 0",
        "d": "SELECT /*+ ARRANGE(up, k) */ o.id, u.name FROM o JOIN up u ON u.k = o.k",
    }
    lake = Lake(tmp_path, views)
    lake.add("c", k=ints(*range(1, 40)), name=pa.array(["a"] * 39))
    lake.add("o", id=ints(1), k=ints(1))
    lake.refreshed()
    lake.add("o", id=ints(2), k=ints(2))
    lake.refreshed()
    assert list(lake.pipe().context.layout.arrangements.list()), "it is made"
    lake.table("c").update(updates={"name": "'b'"}, predicate="k = 7")
    lake.refreshed()
    lake.pipe().compact(keep_epochs=0)
    found = lake.repaired()
    assert "up" in found.known_again
    lake.add("o", id=ints(9), k=ints(7))
    assert lake.refreshed().views["d"].strategy == "incremental"
    assert (9, "b") in lake.rows("d")
