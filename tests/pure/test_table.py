"""Every verb of `ivm.table.rust.RustTable`, on a folder and on S3, without Spark (all kinds: tests/spark)."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ivm.engine.rows import StagedRows
from ivm.errors import LargeReadError
from ivm.lake.types import columns_of
from ivm.names import WEIGHT
from ivm.plan.nodes import Column
from ivm.planner.limits import EMBEDDED
from ivm.storage.location import Location
from ivm.table.protocol import Commit, Verb, Wanted
from ivm.table.rust import RustTable
from ivm.table.spark import SparkTable
from tests.scenes import TINY

FED = {"delta.enableChangeDataFeed": "true"}
ROWS = pa.table({"k": pa.array([1, 1, 2, None], pa.int64()), "s": ["a", "a", "b", "c"]})
SCHEMA = (
    '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}},'
    '{"name":"s","type":"string","nullable":true,"metadata":{}}]}'
)


def bag(rows: pa.Table) -> Counter:
    return Counter(zip(rows["k"].to_pylist(), rows["s"].to_pylist(), strict=True))


@pytest.fixture(params=["folder", "s3"])
def place(request, tmp_path):
    """Where tables and staged rows lie."""
    return str(tmp_path) if request.param == "folder" else request.getfixturevalue("s3")


def staged(place: str, rows: pa.Table) -> StagedRows:
    folder = Location.of(f"{place}/staged_{rows.num_rows}")
    (folder / "part-0.parquet").parent.make()
    buffer = pa.BufferOutputStream()
    pq.write_table(rows, buffer)
    (folder / "part-0.parquet").write(buffer.getvalue().to_pybytes())
    return StagedRows(folder, columns_of(SCHEMA), rows.num_rows)


def test_every_verb(place):
    table = RustTable(f"{place}/t")
    assert table.capability(Verb.READ) == "there is no table"
    assert table.capability(Verb.APPEND) == ""
    assert table.transaction("app") is None
    assert not table.exists()
    assert table.append(ROWS, Commit("app", 1, note="first"), FED)
    assert not table.append(ROWS, Commit("app", 1))
    assert table.exists()
    assert {v: table.capability(v) for v in Verb if table.capability(v)} == {}
    snapshot = table.snapshot()
    assert (snapshot.version, snapshot.rows, snapshot.properties) == (0, 4, FED)
    assert table.columns() == (Column("k", "bigint"), Column("s", "string")) == snapshot.columns
    assert DeltaTable(table.path).history(1)[0]["userMetadata"] == "first"
    changes = pa.table({"k": pa.array([1, 9], pa.int64()), "s": ["a", "z"], WEIGHT: pa.array([-1, 2], pa.int64())})
    for _ in range(2):
        table.merge(changes, ["k"], Commit("app", 2))
        assert bag(table.read()) == Counter({(1, "a"): 1, (2, "b"): 1, (None, "c"): 1, (9, "z"): 2})
    assert (table.transaction("app"), table.transaction("other")) == (2, None)
    found = table.find(["k", "s"], [Wanted(("k",), pa.table({"k": pa.array([2, None], pa.int64())}))])
    assert bag(found) == Counter({(2, "b"): 1, (None, "c"): 1})
    keys = Wanted(("k",), pa.table({"k": pa.array([2, 9], pa.int64())}))
    assert bag(table.find(["k", "s"], [keys], where=lambda q: f"{q('s')} = 'z'")) == Counter({(9, "z"): 2})
    assert table.query(lambda t, q: f"SELECT max({q('k')}) AS most FROM {t}").to_pylist() == [{"most": 9}]
    feed = table.feed(1, 1, ["s"], 100)
    assert Counter(feed["_change_type"].to_pylist()) == Counter({"delete": 2, "insert": 3})
    for _ in range(2):
        table.delete(lambda quoted: f"{quoted('k')} = 9", Commit("app", 3))
    assert (table.count(), table.count(0)) == (3, 4)
    before = table.snapshot()
    table.append(staged(place, ROWS.slice(0, 1)), Commit("app", 4))
    table.compact(Commit(owner="me"))
    table.vacuum(0, Commit(owner="me"))
    assert len(DeltaTable(table.path).file_uris()) == 1
    assert table.count() == 4 == before.rows + 1
    with pytest.raises(LargeReadError):
        table.read(most=1)
    table.replace(ROWS.slice(2), SCHEMA, Commit("app", 5))
    assert bag(table.read(["k", "s"], lambda quoted: f"{quoted('k')} = 2")) == Counter({(2, "b"): 1})
    assert table.count() == 2
    table.replace(ROWS.slice(0, 1), SCHEMA, Commit(owner="me"), where=lambda q: f"{q('k')} <= 2")
    assert bag(table.read()) == Counter({(1, "a"): 1, (None, "c"): 1})
    assert DeltaTable(table.path).history(1)[0]["ivm"] == "me"


@pytest.mark.parametrize("limits", [EMBEDDED, TINY], ids=["by rows", "by files"])
def test_staged_rows_take_the_place_of_all(place, limits):
    table = RustTable(f"{place}/t", limits)
    for version, rows in enumerate((ROWS, ROWS.slice(1))):
        table.replace(staged(place, rows), SCHEMA, Commit("app", version), FED)
        assert bag(table.read()) == bag(rows)


def test_a_lane_says_why_it_does_not(tmp_path):
    path = str(tmp_path / "t")
    table = RustTable(path)
    table.append(ROWS, Commit("app", 1), {"delta.appendOnly": "true"})
    assert table.capability(Verb.DELETE) == "the table is append-only"
    assert table.capability(Verb.FEED) == "the table has no change data feed"
    assert table.refusal(Verb.DELETE) == "", "that is the table's doing, not delta-rs's"
    scratch = Location.of(str(tmp_path / "scratch"))
    assert SparkTable(path, None, scratch).capability(Verb.READ) == "there is no Spark session"
    asked = []
    remote = SparkTable("s3://lake/t", lambda: asked.append("Spark"), scratch)
    assert remote.capability(Verb.MERGE) == "in an object store only delta-rs commits"
    assert asked == []
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").write_text("not a log")
    assert "delta-rs can't open it" in table.capability(Verb.READ)


def test_a_feed_knows_names_with_capitals_dots_and_quotes(tmp_path):
    table, names = RustTable(str(tmp_path / "t")), ["A", "b.c", "Ünï", 'q"q']
    table.append(pa.table([[i] for i in range(4)], names=names), Commit("app", 1), FED)
    assert table.feed(0, 0, names, 10).to_pylist() == [
        dict(zip([*names, "_change_type"], [0, 1, 2, 3, "insert"], strict=True))
    ]
