"""What deletion vectors hide is read as delta-rs reads it, by the log and the vectors' own files."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.lake import native, parquet_scan, vectors
from ivm.storage.location import Location
from tests.pure.logs import SOME, add, checkpoint, commit, hide, remove, vector, z85


@pytest.fixture
def table(tmp_path):
    commit(tmp_path, 0, add("a"), add("b"), add("c"), add("d"))
    commit(tmp_path, 1, remove("a"), add("a", SOME), add("b", SOME), remove("b"))
    commit(tmp_path, 2, remove("b"), add("e", SOME))  # b is gone
    commit(tmp_path, 3, remove("a"), add("a"), add("c", SOME), remove("c"))  # a was written anew
    return tmp_path


def told(table, version: int) -> set[str] | None:
    found = vectors.of(Location.of(str(table)), version)
    return None if found is None else set(found)


def test_the_newest_action_of_a_file_tells_whether_it_has_a_vector(table):
    assert [told(table, v) for v in range(4)] == [set(), {"a", "b"}, {"a", "e"}, {"c", "e"}]


@pytest.mark.parametrize("parts", [{"": "acde"}, {f".{1:010d}.{2:010d}": "ac", f".{2:010d}.{2:010d}": "de"}])
def test_a_checkpoint_stands_for_the_commits_before_it(table, parts):
    for version in range(3):
        (table / "_delta_log" / f"{version:020d}.json").unlink()
    for name, paths in parts.items():
        checkpoint(table, 2, name, {p: p in "ae" for p in paths})
    assert told(table, 3) == {"c", "e"}
    assert vectors.of(Location.of(str(table)), 2) == dict.fromkeys("ae", vectors.Vector.logged(SOME))


def test_a_checkpoint_that_lacks_a_part_tells_nothing(table):
    checkpoint(table, 2, f".{1:010d}.{2:010d}", {"z": True})
    assert told(table, 3) == {"c", "e"}


def test_a_checkpoint_of_files_without_vectors_has_none(table):
    checkpoint(table, 2, "", dict.fromkeys("acde", False), known=False)
    assert told(table, 2) == set()


def test_a_checkpoint_whose_files_stand_elsewhere_does_not_tell(table):
    checkpoint(table, 2, "", {"a": True}, sidecar=[None, {"path": "elsewhere"}])
    assert told(table, 3) is None


def test_of_a_newer_version_only_the_commits_since_are_read(hiding, monkeypatch):
    path, hidden = hiding
    before = DeltaTable(str(path))
    assert vectors.of_table(before).keys() == hidden.keys()
    (name, _), *_ = hidden.items()
    version = before.version() + 1
    commit(path, version, remove(name), add(name))
    commit(path, version + 1, remove(name), add(name, SOME), add("new", SOME))
    expected = vectors.of(Location.of(str(path)), version + 1)
    with monkeypatch.context() as whole:
        whole.setattr(vectors, "_read", None)
        assert vectors.of_table(DeltaTable(str(path))) == expected
    assert expected.keys() == hidden.keys() | {"new"}
    assert expected[name] == expected["new"] == vectors.Vector.logged(SOME)


def test_a_log_that_was_replaced_is_read_from_its_beginning(table):
    path = str(table)
    assert vectors.of_table(DeltaTable(path)).keys() == {"c", "e"}
    for version in range(4):
        commit(table, version, *([] if version else [add("z", SOME)]))
    commit(table, 4, add("y", SOME))
    assert vectors.of_table(DeltaTable(path)).keys() == {"y", "z"}


def test_so_many_hidden_rows_are_remembered(hiding, monkeypatch):
    path, hidden = hiding
    few = sorted(map(len, hidden.values()))[-1]
    monkeypatch.setattr(vectors, "_REMEMBERED", few)
    first = vectors.hidden(DeltaTable(str(path)))
    assert {p: rows.tolist() for p, rows in first.items()} == hidden
    assert vectors._held == sum(map(len, vectors._rows.values())) <= few
    assert {p: rows.tolist() for p, rows in vectors.hidden(DeltaTable(str(path))).items()} == hidden
    with pytest.raises(ValueError, match="read-only"):
        next(iter(first.values()))[0] = 0


def some_rows(random_: random.Random, many: int) -> list[int]:
    """Rows of one kind of container or another: apart, in runs, most of them."""
    kind = random_.choice(["few", "run", "many"])
    if kind == "few":
        return sorted(random_.sample(range(many), random_.randint(1, 20)))
    first = random_.randrange(many // 2)
    return list(range(first, many)) if kind == "run" else sorted(random_.sample(range(many), many // 2))


@pytest.fixture
def hiding(tmp_path):
    """A table of five files whose vectors stand in the log, in a file of many, in one of a folder; what they hide."""
    random_, many = random.Random(7), 200_000
    rows = pa.table({"k": pa.array(range(many), pa.int64())})
    for mode in ("overwrite", *["append"] * 4):
        write_deltalake(tmp_path, rows, mode=mode)
    return tmp_path, hide(tmp_path, [0], *(some_rows(random_, many) for _ in range(4)))


def test_the_hidden_rows_are_those_that_delta_rs_finds(hiding):
    path, hidden = hiding
    delta = DeltaTable(str(path))
    found = vectors.hidden(delta)
    assert {p: rows.tolist() for p, rows in found.items()} == hidden
    by_delta_rs = {}
    for batch in map(pa.record_batch, delta.deletion_vectors()):
        for url, kept in zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True):
            by_delta_rs[url.rpartition("/")[2]] = np.flatnonzero(~np.asarray(kept.values)).tolist()
    assert by_delta_rs == hidden
    counted = native.query("SELECT count(*) AS n FROM t", {"t": delta})["n"][0].as_py()
    assert native.rows(delta) == counted == 1_000_000 - sum(map(len, hidden.values()))


def test_without_the_library_delta_rs_tells_what_is_hidden(hiding, monkeypatch):
    path, hidden = hiding
    delta = DeltaTable(str(path))
    places = {p: i for i, p in enumerate(sorted(hidden))}
    with monkeypatch.context() as without:
        without.setitem(__import__("sys").modules, "pyroaring", None)
        with pytest.raises(vectors.UntoldError, match="pyroaring"):
            vectors.hidden(delta)
        there = parquet_scan.hidden_rows(delta, places)
    here = parquet_scan.hidden_rows(delta, places)
    order = [("i", "ascending"), ("r", "ascending")]
    assert here.sort_by(order) == there.sort_by(order)
    assert pc.sum(pc.equal(here["i"], 0)).as_py() == len(hidden[min(hidden)])


def test_what_is_no_vector_is_not_taken_for_one(hiding):
    path, _ = hiding
    (file,) = path.glob("x/*.bin")
    whole = file.read_bytes()
    for broken in (whole[:-1], whole[:20] + bytes([whole[20] ^ 1]) + whole[21:], b""):
        file.write_bytes(broken)
        with pytest.raises(vectors.UntoldError):
            vectors.hidden(DeltaTable(str(path)))
    file.unlink()
    with pytest.raises(vectors.UntoldError, match="can't be read"):
        vectors.hidden(DeltaTable(str(path)))
    one = vectors.Vector("i", z85(vector([3])), 0, len(vector([3])), 1)
    assert vectors.rows_of(vector([3]), one).tolist() == [3]
    for data in (vector([3, 4]), b"\0\0\0\0" + vector([3])[4:], vector([3])[:-3], vector([3])[:4]):
        with pytest.raises(vectors.UntoldError):
            vectors.rows_of(data, one)


def test_a_log_that_can_not_be_read_tells_nothing(hiding):
    path, _ = hiding
    delta = DeltaTable(str(path))
    (path / "_delta_log" / f"{3:020d}.json").unlink()
    with pytest.raises(vectors.UntoldError, match="log"):
        vectors.of_table(delta)
    assert native.rows(delta) < 1_000_000


def test_a_table_without_the_feature_hides_nothing(tmp_path):
    write_deltalake(tmp_path, pa.table({"k": [1, 2, 3]}))
    assert vectors.hidden(DeltaTable(str(tmp_path))) == {}
    assert native.rows(DeltaTable(str(tmp_path))) == 3
    assert pq.read_table(next(iter(tmp_path.glob("*.parquet")))).num_rows == 3
