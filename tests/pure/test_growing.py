"""A table that mostly grows: what is read of it, and what isn't read again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.table.growing import GrowingTable
from ivm.table.own import own
from ivm.table.protocol import Commit
from tests.pure.logs import inline

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture
def path(tmp_path):
    made = str(tmp_path / "t")
    GrowingTable(made).create(SCHEMA, "mine", {})
    return made


def add(path: str, n: int) -> None:
    own(path).append(pa.table({"n": [n]}, schema=SCHEMA), Commit("app", n))


def actions(path: str, version: int) -> list[dict]:
    return [json.loads(line) for line in log(path, version).read_text().splitlines()]


def commit(path: str, version: int, *found: dict) -> None:
    log(path, version).write_text("\n".join(map(json.dumps, found)))


def log(path: str, version: int) -> Path:
    return Path(path, "_delta_log", f"{version:020}.json")


def numbers(found) -> list[int]:
    return sorted(found.rows["n"].to_pylist())


def test_only_new_files_are_read(path):
    reader = GrowingTable(path)
    assert reader.read().whole
    assert reader.read() is None, "nothing changed"
    add(path, 1)
    add(path, 2)
    found = reader.read()
    assert (found.whole, numbers(found)) == (True, [1, 2]), "the first files"
    add(path, 3)
    found = reader.read()
    assert (found.whole, numbers(found)) == (False, [3])


def test_what_was_appended_here_is_told_and_not_read(path, monkeypatch):
    reader = GrowingTable(path)
    reader.append(row(0), Commit("mine", 0))
    assert numbers(reader.read()) == [0]
    for n in (1, 2):
        reader.append(row(n), Commit("mine", n))
    with monkeypatch.context() as closed:
        closed.setattr(GrowingTable, "_read", None)
        found = reader.read()
        assert (found.whole, numbers(found)) == (False, [1, 2])
        assert reader.read() is None
    assert numbers(GrowingTable(path).read()) == [0, 1, 2]


def test_what_others_append_beside_it_is_read(path):
    reader = GrowingTable(path)
    reader.append(row(0), Commit("mine", 0))
    reader.read()
    reader.append(row(1), Commit("mine", 1))
    add(path, 2)
    found = reader.read()
    assert (found.whole, numbers(found)) == (False, [1, 2]), "after ours"
    add(path, 3)
    reader.append(row(4), Commit("mine", 4))
    assert numbers(reader.read()) == [3, 4], "before ours"
    reader.append(row(5), Commit("mine", 5))
    own(path).replace(row(9), DeltaTable(path).schema().to_json(), Commit("other", 1))
    found = reader.read()
    assert (found.whole, numbers(found)) == (True, [9]), "in place of it"


def test_what_was_appended_is_told_where_a_commit_changed_no_file(path):
    reader = GrowingTable(path)
    reader.append(row(0), Commit("mine", 0))
    reader.read()
    reader.append(row(1), Commit("mine", 1))
    DeltaTable(path).alter.set_table_properties({"delta.checkpointInterval": "7"})
    assert numbers(reader.read()) == [1]
    assert reader.read() is None


def row(n: int) -> pa.Table:
    return pa.table({"n": [n]}, schema=SCHEMA)


def test_rows_that_a_vector_hides_are_not_read(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"n": [5, 6, 7]}, schema=SCHEMA))
    (added,) = [a["add"] for a in actions(path, 0) if "add" in a]
    features = {f"{who}Features": ["deletionVectors"] for who in ("reader", "writer")}
    commit(
        path,
        1,
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": added["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": added | {"deletionVector": inline([1])}},
    )
    reader = GrowingTable(path)
    assert numbers(reader.read()) == [5, 7]
    add(path, 8)
    found = reader.read()
    assert (found.whole, numbers(found)) == (True, [5, 7, 8])


@pytest.mark.parametrize("few", [0, 64], ids=["files", "query"])
def test_many_files_are_read_as_files(path, monkeypatch, few):
    monkeypatch.setattr("ivm.table.growing.FEW_FILES", few)
    if few == 0:
        monkeypatch.setattr("ivm.lake.native.read", lambda *_: pytest.fail("a query"))
    for n in range(3):
        add(path, n)
    found = GrowingTable(path).read()
    assert (found.whole, numbers(found), found.rows.schema) == (True, [0, 1, 2], SCHEMA)


def test_where_files_went_all_is_read(path):
    reader = GrowingTable(path)
    add(path, 1)
    add(path, 2)
    reader.read()
    reader.keep_only(pa.table({"n": [2]}, schema=SCHEMA), "me")
    found = reader.read()
    assert (found.whole, numbers(found)) == (True, [2])


def test_another_table_in_its_place_is_read_as_a_whole_even_if_it_is_empty(path, tmp_path):
    reader = GrowingTable(path)
    add(path, 1)
    reader.read()
    shutil.rmtree(path)
    found = reader.read()
    assert (found.whole, found.rows.num_rows) == (True, 0)
    assert reader.name() is None
    GrowingTable(path).create(SCHEMA, "other", {})
    found = reader.read()
    assert (found.whole, found.rows.num_rows, reader.name()) == (True, 0, "other")


def test_what_another_process_adds_meanwhile_is_not_replaced(path):
    reader, other = GrowingTable(path), GrowingTable(path)
    add(path, 1)
    reader.read()
    add(path, 2)
    reader.keep_only(pa.table({"n": [1]}, schema=SCHEMA), "me")
    assert numbers(other.read()) == [1, 2]


def append(reader: GrowingTable, n: int) -> bool:
    return reader.append(pa.table({"n": [n]}, schema=SCHEMA), Commit("app", n))


def test_what_it_appends_itself_is_read_as_new(path):
    reader, other = GrowingTable(path), GrowingTable(path)
    assert append(reader, 1), "before it was read"
    assert numbers(reader.read()) == [1]
    add(path, 2)
    assert append(reader, 3)
    found = reader.read()
    assert (found.whole, numbers(found)) == (False, [2, 3])
    assert reader.read() is None
    assert numbers(other.read()) == [1, 2, 3]


def test_it_appends_once_whoever_did_it_before(path):
    reader = GrowingTable(path)
    add(path, 5)
    assert not append(reader, 5)
    assert append(reader, 6)
    assert not append(GrowingTable(path), 6)
    assert numbers(GrowingTable(path).read()) == [5, 6]


def test_it_appends_to_the_table_that_lies_there_now(path):
    reader = GrowingTable(path)
    append(reader, 1)
    reader.read()
    shutil.rmtree(path)
    GrowingTable(path).create(SCHEMA, "other", {})
    add(path, 2)
    assert append(reader, 3)
    found = reader.read()
    assert (found.whole, numbers(found)) == (True, [2, 3])


def test_a_log_that_was_cleaned_up_behind_a_checkpoint_is_not_read_again(path):
    reader = GrowingTable(path)
    append(reader, 1)
    reader.read()
    for n in range(2, 5):
        add(path, n)
    table = DeltaTable(path)
    table.create_checkpoint()
    for commit in (tmp := Path(path) / "_delta_log").glob("*.json"):
        if commit.stem != f"{table.version():020d}":
            commit.unlink()
    assert not (tmp / f"{1:020d}.json").exists()
    found = reader.read()
    assert (found.whole, numbers(found)) == (False, [2, 3, 4])
    assert append(reader, 5)
    assert numbers(reader.read()) == [5]


def test_an_empty_table_in_an_empty_ones_place_is_told(path):
    reader = GrowingTable(path)
    assert reader.read().whole
    shutil.rmtree(path)
    GrowingTable(path).create(SCHEMA, "other", {})
    found = reader.read()
    assert found is not None
    assert (found.whole, reader.read()) == (True, None)
