"""Parquet files become files of a table by their names: once, whole, and with counts that readers may rely on."""

from __future__ import annotations

import datetime
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.errors import StateError
from ivm.lake import native
from ivm.lake.files import commit_files, staged_files, statistics, takes_files
from ivm.lake.shapes import arrow_schema
from ivm.storage.location import Location

ROWS = pa.table(
    {
        "n": pa.array([1, None, 3, 4], pa.int64()),
        "s": pa.array(["b", "a", None, "ä"]),
        "d": pa.array([datetime.date(2024, 1, 2), None, datetime.date(1999, 12, 31), datetime.date(2024, 1, 1)]),
        "nested": pa.array([[1, 2], None, [], [3]], pa.list_(pa.int32())),
        "f": pa.array([0.5, float("nan"), -0.0, None]),
        "after": pa.array([7, 7, 7, 7], pa.int32()),
    }
)
FEED = {"delta.enableChangeDataFeed": "true"}


def staged(folder, *parts: pa.Table) -> Location:
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    for i, part in enumerate(parts):
        pq.write_table(part, folder / f"part-{i:05d}.parquet")
    return Location.of(str(folder))


def rows(path: str) -> list[str]:
    return told(native.read(native.table(path)))


def told(found: pa.Table) -> list[str]:
    return sorted(map(repr, found.to_pylist()))


def test_files_make_a_table_are_appended_and_take_the_place_of_others(tmp_path):
    path, other = str(tmp_path / "t"), ROWS.slice(0, 2)
    first = staged(tmp_path / "first", ROWS.slice(0, 1), ROWS.slice(1), ROWS.slice(0, 0))
    assert commit_files(path, first, "app", 1, "append", configuration=FEED)
    assert rows(path) == told(ROWS)
    assert native.rows(native.table(path)) == 4
    assert native.last_txn(path, "app") == 1
    assert native.table(path).metadata().configuration == FEED
    assert commit_files(path, staged(tmp_path / "second", other), "app", 2, "append")
    assert native.rows(native.table(path)) == 6
    third = staged(tmp_path / "third", ROWS.slice(3))
    assert commit_files(path, third, "app", 3, "overwrite", ROWS.schema, note={"userMetadata": "a note"})
    assert rows(path) == told(ROWS.slice(3))
    assert DeltaTable(path).history(1)[0]["userMetadata"] == "a note"
    feed = native.change_feed(native.table(path), 2, 2, ["n"], 100)
    assert sorted(feed["_change_type"].to_pylist()) == ["delete"] * 6 + ["insert"]
    assert len(list((tmp_path / "third").iterdir())) == 2, "what was staged stays where it is"


def test_a_transaction_is_committed_once(tmp_path):
    path, first = str(tmp_path / "t"), staged(tmp_path / "first", ROWS)
    assert commit_files(path, first, "app", 1, "append")
    assert not commit_files(path, first, "app", 1, "append")
    assert native.rows(native.table(path)) == 4


def test_what_a_dead_attempt_left_is_met_again_by_its_repetition_only(tmp_path, monkeypatch):
    import ivm.lake.files as module

    path, first = str(tmp_path / "t"), staged(tmp_path / "first", ROWS.slice(0, 2), ROWS.slice(2))
    with monkeypatch.context() as patch:
        patch.setattr(module, "_created", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            commit_files(path, first, "app", 1, "append")
    left = {f.name: f.stat().st_ino for f in (tmp_path / "t").glob("*.parquet")}
    (tmp_path / "t" / next(iter(left))).unlink()
    (tmp_path / "t" / next(iter(left))).write_bytes(b"half of a copy")
    assert commit_files(path, first, "app", 1, "append")
    assert {f.name for f in (tmp_path / "t").glob("*.parquet")} == set(left)
    assert rows(path) == told(ROWS)
    assert commit_files(path, staged(tmp_path / "again", ROWS.slice(0, 2), ROWS.slice(2)), "app", 2, "append")
    assert native.rows(native.table(path)) == 8


def test_without_links_files_are_copied(tmp_path, monkeypatch):
    monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(OSError("no links here")))
    path = str(tmp_path / "t")
    assert commit_files(path, staged(tmp_path / "first", ROWS), "app", 1, "append")
    assert rows(path) == told(ROWS)


def test_files_of_other_columns_are_refused(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, ROWS.select(["n", "s"]))
    with pytest.raises(StateError, match="is to hold"):
        commit_files(path, staged(tmp_path / "first", ROWS), "app", 1, "append")
    other = ROWS.select(["n", "s"]).set_column(0, "n", ROWS["n"].cast(pa.int32()))
    with pytest.raises(StateError, match="is to hold"):
        commit_files(path, staged(tmp_path / "second", other), "app", 1, "append")


def test_no_rows_make_an_empty_table(tmp_path):
    path = str(tmp_path / "t")
    assert commit_files(path, staged(tmp_path / "first", ROWS.slice(0, 0)), "app", 1, "append")
    assert native.rows(native.table(path)) == 0
    assert arrow_schema(native.table(path).schema().to_json()).names == ROWS.column_names


def test_statistics_are_of_all_row_groups(tmp_path):
    pq.write_table(ROWS, tmp_path / "a.parquet", row_group_size=2)
    (file,) = staged_files(Location.of(str(tmp_path)))
    assert statistics(file.footer) == {
        "numRecords": 4,
        "minValues": {"n": 1, "s": "a", "d": "1999-12-31", "after": 7},
        "maxValues": {"n": 4, "s": "ä", "d": "2024-01-02", "after": 7},
        "nullCount": {"n": 1, "s": 1, "d": 1, "f": 1, "after": 0},
    }


def test_ends_are_told_only_where_they_are_known(tmp_path):
    strange = pa.table(
        {
            "long": pa.array(["x" * 40, "a"]),
            "late": pa.array([2_932_897, 0], pa.int32()).cast(pa.date32()),
            "none": pa.array([None, None], pa.int64()),
            "flag": pa.array([True, False]),
        }
    )
    pq.write_table(strange, tmp_path / "a.parquet")
    (file,) = staged_files(Location.of(str(tmp_path)))
    found = statistics(file.footer)
    assert found["minValues"] == found["maxValues"] == {}
    assert found["nullCount"] == {"long": 0, "late": 0, "none": 2, "flag": 0}
    assert json.dumps(found)


def test_rows_are_found_by_the_ends_that_were_told(tmp_path):
    path = str(tmp_path / "t")
    commit_files(path, staged(tmp_path / "first", ROWS.slice(0, 2), ROWS.slice(2)), "app", 1, "append")
    for where, found in (('"n" = 4', 1), ("\"s\" = 'ä'", 1), ("\"d\" < '2000-01-01'", 1), ('"n" IS NULL', 1)):
        assert native.read(native.table(path), ["after"], where).num_rows == found, where


def test_tables_that_files_can_not_replace(tmp_path):
    path = str(tmp_path / "t")
    assert takes_files(path, ROWS.schema)
    write_deltalake(path, ROWS)
    assert takes_files(path, arrow_schema(native.table(path).schema().to_json()))
    assert not takes_files(path, ROWS.select(["n"]).schema)
    write_deltalake(str(tmp_path / "u"), ROWS, configuration={"delta.enableDeletionVectors": "true"})
    assert not takes_files(str(tmp_path / "u"), ROWS.schema)
