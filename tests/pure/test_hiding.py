"""How many files have deletion vectors is what the log says, and no more are read at once than delta-rs bears."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ivm.lake import hiding, native
from ivm.storage.location import Location

PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors"],
}
METADATA = {
    "id": "4e4b1e9d-0000-4000-8000-000000000000",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}',
    "partitionColumns": [],
    "configuration": {},
    "createdTime": 0,
}


def add(path: str, hides: bool = False) -> dict:
    vector = {
        "storageType": "u",
        "pathOrInlineDv": f"ab{path:0<20}"[:22],
        "offset": 1,
        "sizeInBytes": 34,
        "cardinality": 1,
    }
    action = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    return {"add": action | ({"deletionVector": vector} if hides else {})}


def remove(path: str) -> dict:
    return {"remove": {"path": path, "deletionTimestamp": 0, "dataChange": True}}


def commit(table, version: int, *actions: dict) -> None:
    log = table / "_delta_log"
    log.mkdir(exist_ok=True)
    first = [{"protocol": PROTOCOL}, {"metaData": METADATA}] if version == 0 else []
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(a) for a in (*first, *actions)))


@pytest.fixture
def table(tmp_path):
    commit(tmp_path, 0, add("a"), add("b"), add("c"), add("d"))
    commit(tmp_path, 1, remove("a"), add("a", hides=True), add("b", hides=True), remove("b"))
    commit(tmp_path, 2, remove("b"), add("e", hides=True))  # b is gone
    commit(tmp_path, 3, remove("a"), add("a"), add("c", hides=True), remove("c"))  # a was written anew
    return tmp_path


def told(table, version: int) -> set[str] | None:
    return hiding.hiding_paths(Location.of(str(table)), version)


def test_the_newest_action_of_a_file_tells_whether_it_has_a_vector(table):
    assert [told(table, v) for v in range(4)] == [set(), {"a", "b"}, {"a", "e"}, {"c", "e"}]


VECTOR = pa.struct([("storageType", pa.string()), ("cardinality", pa.int64())])


def checkpoint(table, name: str, files: dict[str, bool], vectors: bool = True, **others: list) -> None:
    """A checkpoint of files, each with whether it has a vector; other actions have rows of their own."""
    type_ = pa.struct([("path", pa.string()), *([("deletionVector", VECTOR)] if vectors else [])])
    adds = [None, *({"path": p, "deletionVector": {"storageType": "u"} if v else None} for p, v in files.items())]
    columns = {"add": pa.array(adds, type_)} | {n: pa.array(v) for n, v in others.items()}
    pq.write_table(pa.table(columns), table / "_delta_log" / f"{2:020d}.checkpoint{name}.parquet")


@pytest.mark.parametrize("parts", [{"": "acde"}, {f".{1:010d}.{2:010d}": "ac", f".{2:010d}.{2:010d}": "de"}])
def test_a_checkpoint_stands_for_the_commits_before_it(table, parts):
    for version in range(3):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    for name, paths in parts.items():
        checkpoint(table, name, {p: p in "ae" for p in paths})
    assert told(table, 3) == {"c", "e"}
    assert told(table, 2) == {"a", "e"}


def test_a_checkpoint_that_lacks_a_part_tells_nothing(table):
    checkpoint(table, f".{1:010d}.{2:010d}", {"z": True})
    assert told(table, 3) == {"c", "e"}


def test_a_checkpoint_of_files_without_vectors_has_none(table):
    checkpoint(table, "", dict.fromkeys("acde", False), vectors=False)
    assert told(table, 2) == set()


def test_where_the_log_does_not_tell_all_files_count(table, monkeypatch):
    monkeypatch.setattr(hiding, "HIDING", 1)
    delta = DeltaTable(str(table))
    assert hiding.hiding(delta, 4) == 2
    hiding._told.cache_clear()
    checkpoint(table, "", {"a": True}, sidecar=[None, {"path": "elsewhere"}])
    assert told(table, 3) is None
    assert hiding.hiding(delta, 4) == 4
    hiding._told.cache_clear()
    (table / "_delta_log" / f"{3:020d}.json").unlink()
    assert hiding.hiding(delta, 4) == 4
    hiding._told.cache_clear()


def test_more_than_delta_rs_bears_are_not_its_to_read(table, monkeypatch):
    delta = DeltaTable(str(table))
    assert native.refusal(delta) == ""
    monkeypatch.setattr(hiding, "HIDING", 1)
    hiding._told.cache_clear()
    assert "2 files with deletion vectors" in native.refusal(delta)
    hiding._told.cache_clear()


def test_readers_wait_for_each_other():
    permits, lock = hiding.Permits(5), threading.Lock()
    now, most = 0, 0

    def read(count: int) -> None:
        nonlocal now, most
        with permits.of(count):
            with lock:
                now += min(count, 5)
                most = max(most, now)
            time.sleep(0.002)
            with lock:
                now -= min(count, 5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, [1, 2, 3, 4, 5, 9, 0] * 6))
    assert (now, most) == (0, 5)
