"""The delta of a source without a change feed, by its files: new rows less old rows, whatever was done between."""

from __future__ import annotations

import itertools
import random
import shutil
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.errors import SourceError
from ivm.feed.deltas import GapError, source_delta
from ivm.feed.history import FEED
from ivm.feed.moved_files import moved
from ivm.feed.source import Source, inspect
from ivm.lake import native
from ivm.names import WEIGHT
from ivm.zset.exact import hashable
from tests.pure.duck_session import DuckSession

pytestmark = pytest.mark.usefixtures("without_a_jvm")

COLUMNS = ("k", "v", "at")
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("at", pa.date32())])


KINDS = ("append", "append", "delete", "update", "overwrite", "optimize", "restore", "feed")


def rows(chosen, n):
    values = (0.0, -0.0, float("nan"), 1.5, None)
    listed = [(chosen.randrange(6), chosen.choice(values), chosen.choice((0, 10**4, None))) for _ in range(n)]
    return pa.table({c: pa.array([r[i] for r in listed], SCHEMA.field(c).type) for i, c in enumerate(COLUMNS)})


def bag(table: pa.Table, weights=None) -> Counter:
    total: Counter = Counter()
    weights = weights or [1] * table.num_rows
    for row, weight in zip(zip(*(hashable(table[c]) for c in COLUMNS), strict=True), weights, strict=True):
        total[row] += weight
    return Counter({row: n for row, n in total.items() if n})


def grow(path, chosen, kinds=KINDS) -> str:
    """One random commit."""
    kind = chosen.choice(kinds)
    table = DeltaTable(path)
    if kind == "append":
        write_deltalake(path, rows(chosen, chosen.randrange(1, 5)), mode="append")
    elif kind == "overwrite":
        write_deltalake(path, rows(chosen, 4), mode="overwrite")
    elif kind == "delete":
        table.delete(f"k = {chosen.randrange(6)}")
    elif kind == "update":
        table.update(updates={"v": "2.5"}, predicate=f"k = {chosen.randrange(6)}")
    elif kind == "optimize":
        table.optimize.compact()
    elif kind == "restore":
        if table.version() == 0:
            return ""
        table.restore(chosen.randrange(table.version()))
    else:
        table.alter.set_table_properties({FEED: chosen.choice(("true", "false"))})
    return kind


def no_spark():
    raise AssertionError("delta-rs reads it")


@pytest.mark.parametrize("seed", range(6))
def test_any_two_versions_differ_by_their_files(tmp_path, seed):
    chosen, path = random.Random(seed), str(tmp_path / "t")
    write_deltalake(path, rows(chosen, 8))
    told = [grow(path, chosen) for _ in range(12)]
    snapshot = inspect(Source("t", path), None, "auto")
    read = 0
    for since, upto in itertools.combinations(range(snapshot.version + 1), 2):
        if snapshot.commits.broken(since + 1, upto):
            assert snapshot.configuration[FEED] == "true", "without a feed nothing is a gap"
            continue
        read += 1
        delta = source_delta(snapshot, since, upto, list(COLUMNS), no_spark)
        new, old = (bag(native.read(native.table(path, v)).cast(SCHEMA)) for v in (upto, since))
        new.subtract(old)
        found = bag(delta, delta[WEIGHT].to_pylist())
        assert found == {row: n for row, n in new.items() if n}, (told, since, upto)
    assert read > 10


def test_a_feed_that_is_switched_on_later_is_read_from_then_on(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1, 2, 3], "v": [0.5, 0.5, 0.5]}))
    DeltaTable(path).update(updates={"v": "1.5"}, predicate="k = 1")
    DeltaTable(path).alter.set_table_properties({FEED: "true"})
    DeltaTable(path).delete("k = 2")
    commits = inspect(Source("t", path), None, "auto").commits
    assert [commits.fed(since + 1, 3) for since in range(3)] == [False, False, True]


def test_files_that_only_moved_are_not_read(tmp_path):
    path = str(tmp_path / "t")
    for i in range(4):
        write_deltalake(path, rows(random.Random(i), 50), mode="append")
    DeltaTable(path).optimize.compact()
    write_deltalake(path, rows(random.Random(9), 2), mode="append")
    found = moved(path, 3, 5)
    assert (len(found.came), len(found.went), found.rows) == (1, 0, 2)
    DeltaTable(path).delete("k = 1")  # touches what was moved: then the old files count
    assert len(moved(path, 3, 6).went) == 4


def test_a_column_that_came_later_is_null_before(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1, 2]}))
    write_deltalake(path, pa.table({"k": [3], "v": [0.5]}), mode="append", schema_mode="merge")
    DeltaTable(path).delete("k = 1")
    snapshot = inspect(Source("t", path), None, "auto")
    delta = source_delta(snapshot, 0, 2, ["k", "v"], no_spark)
    assert sorted(zip(*delta.to_pydict().values(), strict=True)) == [(1, None, -1), (3, 0.5, 1)]


def test_rows_are_counted_without_a_column(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": [1, 2, 3]}))
    write_deltalake(path, pa.table({"k": [4, 5, 6, 7]}), mode="append")
    DeltaTable(path).delete("k = 1")
    snapshot = inspect(Source("t", path), None, "auto")
    assert source_delta(snapshot, 0, 2, [], no_spark)[WEIGHT].to_pylist() == [1, 1, 1]


def test_what_the_files_do_not_tell(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, rows(random.Random(1), 5))
    write_deltalake(path, rows(random.Random(2), 5), mode="append")
    DeltaTable(path).delete("k < 3")
    snapshot = inspect(Source("t", path), None, "auto")
    DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(GapError, match=r"gap between versions 0 and 2: its files were removed \(VACUUM\)"):
        source_delta(snapshot, 0, 2, ["k"], no_spark)
    (tmp_path / "t" / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(GapError, match="the log entry of version 1 is gone"):
        source_delta(snapshot, 0, 2, ["k"], no_spark)


def test_a_table_that_only_its_feed_tells_of_needs_one(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"k": [1], "day": ["a"]}), partition_by=["day"])
    with pytest.raises(SourceError, match=r"no change data feed, and its files .* \(partition columns\)") as found:
        inspect(Source("t", str(tmp_path / "t")), None, "auto")
    assert "delta.enableChangeDataFeed" in found.value.hint


def test_views_over_a_source_without_a_feed(tmp_path):
    from ivm.pipeline import Pipeline
    from ivm.testing import recovery

    path, chosen = str(tmp_path / "t"), random.Random(4)
    views = {
        "totals": "SELECT k, count(*) AS n, sum(v) AS s FROM t WHERE v > 1 GROUP BY k",
        "pairs": "SELECT a.k, b.v FROM t a JOIN t b ON a.k = b.k AND b.v > 1",
    }
    write_deltalake(path, rows(chosen, 12))

    def opened(root):
        pipe = Pipeline("p", DuckSession(), tmp_path / root)
        pipe.source("t", path)
        for name, sql in views.items():
            pipe.view(name, sql)
        return pipe

    assert opened("lake").refresh().ok
    told = set()
    for batch, kind in enumerate(("append", "delete", "update", "overwrite", "restore")):
        grow(path, chosen, (kind,))
        report = opened("lake").refresh()
        assert report.ok
        assert {v.strategy for v in report.views.values()} <= {"incremental", "unchanged"}, (kind, report)
        told |= {v.strategy for v in report.views.values()}
        anew = opened(f"anew_{batch}")
        assert anew.refresh().ok
        expected = {v: recovery.bag(DeltaTable(tmp_path / f"anew_{batch}" / v).to_pyarrow_table()) for v in views}
        assert recovery.differences(opened("lake"), expected) == []
        shutil.rmtree(tmp_path / f"anew_{batch}")
    assert "incremental" in told
