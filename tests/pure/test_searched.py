"""Of a source with more deletion vectors than delta-rs bears DuckDB's reader finds keys; Spark does the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.errors import ConfigError
from ivm.feed.arrow_datasets import ArrowDatasets
from ivm.feed.deltas import source_delta
from ivm.feed.input import Input
from ivm.feed.source import Source, inspect
from ivm.lake import hiding, keyed, native, parquet_scan, vectors
from ivm.names import WEIGHT
from ivm.plan.nodes import Column
from ivm.rewrite.delta_join import State
from ivm.rewrite.slices import DELTA, Match, Provider, Requests
from ivm.storage.location import Location
from tests.pure.logs import SOME, add, commit, hide, remove

ROWS = pa.table({"k": pa.array(range(100), pa.int64()), "v": pa.array(map(str, range(100)))})


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Two files, of each of which row 1 is hidden: those with k = 1."""
    for mode in ("overwrite", "append"):
        write_deltalake(tmp_path / "t", ROWS, mode=mode, configuration={"delta.enableChangeDataFeed": "true"})
    hide(tmp_path / "t", [1])
    monkeypatch.setattr(hiding, "HIDING", 1)
    return str(tmp_path / "t")


def test_it_is_told_apart_when_it_is_looked_at(table):
    found = inspect(Source("t", table), None, "auto")
    assert "2 files with deletion vectors" in found.by_spark
    assert found.searched
    assert not inspect(Source("t", table), None, "spark").searched, "the lane is set"


def test_a_table_that_delta_rs_reads_is_not(table, monkeypatch):
    monkeypatch.setattr(hiding, "HIDING", 2)
    found = inspect(Source("t", table), None, "auto")
    assert (found.by_spark, found.searched) == ("", False)


@pytest.fixture
def slices(table, tmp_path, monkeypatch):
    """What the datasets read of it for some keys; Spark notes that it was asked, and gives no row."""

    def read(keys: pa.Array, searched: bool) -> tuple[list[int], list[str]]:
        delta = pa.table({"x": keys, WEIGHT: pa.array([1] * len(keys), pa.int32())})
        match, version = Match(("k",), Provider("d", DELTA, ("x",))), DeltaTable(table).version()
        inputs = {
            "d": Input("d", (Column("x", "bigint"),), delta.schema, "", 0, State.NEW, True, delta, len(keys)),
            "t": Input(
                "t", (Column("k", "bigint"),), ROWS.schema, table, version, State.NEW, False, None, 200,
                searched=searched,
            ),
        }  # fmt: skip
        asked = []

        def by_spark(_self, source, *_):
            asked.append(source.relation)
            return ROWS.slice(0, 0)

        monkeypatch.setattr(ArrowDatasets, "_slice_by_spark", by_spark)
        monkeypatch.setattr(native, "query", lambda *_: pytest.fail("delta-rs was asked"))
        loaded = ArrowDatasets(pytest.fail, Location.of(str(tmp_path / "scratch")), "x", inputs)
        loaded.load(Requests({("t", 1): {match}}))
        return sorted(loaded._slice("t")["k"].to_pylist()), asked

    return read


def test_its_rows_are_found_here_by_their_keys(slices):
    assert slices(pa.array([0, 1, 7], pa.int64()), True) == ([0, 0, 7, 7], [])


def test_spark_finds_them_where_that_is_not_done_here(slices, monkeypatch):
    keys = pa.array([0, 1, 7], pa.int64())
    assert slices(keys, False) == ([], ["t"])

    def unfit(*_):
        raise keyed.UnfitError("for a test")

    monkeypatch.setattr(keyed.ParquetScan, "find", unfit)
    assert slices(keys, True) == ([], ["t"])


def test_delta_rs_is_not_asked_where_the_vectors_can_not_be_read_here(slices, monkeypatch):
    def asked(*_):
        pytest.fail("delta-rs may wait for ever")

    monkeypatch.setattr(parquet_scan, "_hidden_by_delta_rs", asked)
    monkeypatch.setitem(sys.modules, "pyroaring", None)
    assert slices(pa.array([0], pa.int64()), True) == ([], ["t"])


@pytest.mark.parametrize(("file", "here"), [("appended", True), ("hidden", False)])
def test_a_feed_is_read_here_whose_own_commits_name_few_vectors(table, file, here):
    before = DeltaTable(table).version()
    if file == "appended":
        write_deltalake(table, ROWS.slice(0, 3), mode="append")
    else:
        hide(Path(table), [2])
    snapshot = inspect(Source("t", table), None, "auto")
    assert snapshot.searched
    asked = []

    def spark():
        asked.append(file)
        raise ConfigError("None is there.", "For a test.")

    try:
        found = source_delta(snapshot, before, snapshot.version, ["k", "v"], spark)
    except ConfigError:
        assert asked
    else:
        assert sorted(zip(*found.to_pydict().values(), strict=True)) == [(0, "0", 1), (1, "1", 1), (2, "2", 1)]
    assert bool(asked) is not here


def test_of_commits_with_files_of_changes_no_vector_is_met(tmp_path):
    commit(tmp_path, 0, *map(add, "ab"))
    commit(tmp_path, 1, add("a", SOME), remove("a"))
    commit(tmp_path, 2, add("b", SOME), remove("b"), {"cdc": {"path": "c", "dataChange": False}})
    commit(tmp_path, 3, {"remove": {"path": "a", "deletionVector": SOME}}, add("a", SOME))
    path = str(tmp_path)
    assert [vectors.in_commits(path, v, v) for v in range(4)] == [0, 1, 0, 2]
    assert vectors.in_commits(path, 0, 3) == 3
    assert vectors.in_commits(path, 3, 4) is None
    assert not hiding.fits(path, 3, 4)
