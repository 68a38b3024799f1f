"""Dates in files of Spark's old calendar are left to Spark; other files aren't even opened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, convert_to_deltalake, write_deltalake
from deltalake.transaction import AddAction

from ivm.feed.deltas import fed_here, source_delta
from ivm.feed.source import Source, as_of, inspect
from ivm.lake import calendars, native
from ivm.lake.calendars import old_calendar

OLD, NEW = date(1, 1, 1), date(1582, 10, 15)
LEGACY = {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}


def converted(path, rows: pa.Table, told: dict[str, str]) -> str:
    path.mkdir()
    pq.write_table(rows.replace_schema_metadata(told), path / "part-0.parquet")
    convert_to_deltalake(str(path))
    return old_calendar(str(path), native.table(str(path)))


@pytest.mark.parametrize(
    ("day", "told", "old"),
    [
        (OLD, LEGACY, True),
        (OLD, {"org.apache.spark.version": "2.4.8"}, True),
        (OLD, {"org.apache.spark.version": "3.5.1"}, False),
        (OLD, {}, False),
        (NEW, LEGACY, False),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_file_and_its_days_tell(tmp_path, day, told, old, nested):
    rows = pa.table({"s": [{"d": day}]} if nested else {"d": [day]})
    assert bool(converted(tmp_path / "t", rows, told)) == old


def test_days_that_no_statistics_tell_are_taken_for_old(tmp_path):
    assert converted(tmp_path / "nulls", pa.table({"d": pa.array([None], pa.date32()), "k": [1]}), LEGACY)
    assert converted(tmp_path / "list", pa.table({"d": [[NEW]], "e": [NEW]}), LEGACY)


def test_a_file_that_can_not_be_read_is_asked_again(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(calendars.pq, "read_metadata", lambda *_, **__: (_ for _ in ()).throw(OSError("gone for now")))
        assert converted(tmp_path / "t", pa.table({"d": [OLD]}), LEGACY) == ""
    path = str(tmp_path / "t")
    assert old_calendar(path, native.table(path))


def test_recent_days_and_other_types_open_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(calendars, "_is_old", None)
    for name, rows in {"t": pa.table({"d": [NEW]}), "u": pa.table({"k": [1]})}.items():
        path = str(tmp_path / name)
        write_deltalake(path, rows)
        assert old_calendar(path, native.table(path)) == ""


class SparkAskedError(Exception):
    """Instead of a session."""


def asked():
    raise SparkAskedError


@pytest.fixture(params=[False, True], ids=["files", "feed"])
def path(request, tmp_path: Path) -> Path:
    """A table whose version 0 has recent days, with a feed and without."""
    feed = {"delta.enableChangeDataFeed": str(request.param).lower()}
    write_deltalake(str(tmp_path / "t"), pa.table({"d": [NEW]}), configuration=feed)
    return tmp_path / "t"


def put_old(path: Path, name: str = "old.parquet", stats: str = '{"numRecords":1}') -> None:
    pq.write_table(pa.table({"d": [OLD]}).replace_schema_metadata(LEGACY), path / name)
    table = DeltaTable(str(path))
    added = AddAction(name, (path / name).stat().st_size, {}, 0, True, stats)
    table.create_write_transaction([added], "append", table.schema())


def rewrite(path: Path) -> None:
    """All rows anew, by a writer of the new calendar."""
    write_deltalake(str(path), pa.table({"d": [NEW, OLD]}), mode="overwrite")


def compact(path: Path) -> None:
    """Only what rows lie in, and the file of the old calendar isn't there any more."""
    rows = native.read(DeltaTable(str(path)))
    DeltaTable(str(path)).optimize.compact()
    assert native.read(DeltaTable(str(path))).num_rows == rows.num_rows


@pytest.mark.parametrize("later", [rewrite, compact])
def test_files_that_came_and_went_are_sparks(path, later: Callable[[Path], None]):
    put_old(path)
    later(path)
    seen = inspect(Source("t", str(path)), None, "auto")
    assert seen.by_spark == "", "nothing old is there any more"
    with pytest.raises(SparkAskedError):
        source_delta(seen, 0, 2, ["d"], asked)


def test_old_files_that_went_are_sparks(path):
    put_old(path)
    rewrite(path)
    seen = inspect(Source("t", str(path)), None, "auto")
    with pytest.raises(SparkAskedError):
        source_delta(seen, 1, 2, ["d"], asked)
    write_deltalake(str(path), pa.table({"d": [NEW]}), mode="append")
    seen = inspect(Source("t", str(path)), None, "auto")
    assert source_delta(seen, 2, 3, ["d"], asked)["d"].to_pylist() == [NEW]


def test_statistics_of_the_version_before_tell_of_files_that_went(path, monkeypatch):
    """Spark's commits tell nothing of what they remove but its name."""
    write_deltalake(str(path), pa.table({"d": [NEW]}), mode="overwrite")
    log = path / "_delta_log" / f"{1:020d}.json"
    lines = [line.replace('"stats":', '"__":') if '"remove"' in line else line for line in log.read_text().splitlines()]
    log.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(calendars, "_is_old", None)
    assert fed_here(inspect(Source("t", str(path)), None, "auto"), 0, 1)


def test_an_older_version_is_read_by_what_it_held(path):
    put_old(path)
    rewrite(path)
    seen = inspect(Source("t", str(path)), None, "auto")
    assert as_of(seen, 1, "auto").by_spark
    assert as_of(seen, 0, "auto").by_spark == as_of(seen, 2, "auto").by_spark == ""


def test_changes_that_a_commit_keeps_by_themselves_are_looked_into(tmp_path):
    path = tmp_path / "t"
    rows = pa.table({"d": [NEW, OLD], "k": [1, 2]})
    write_deltalake(str(path), rows, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(str(path)).update(predicate="k = 1", updates={"k": "3"})
    assert fed_here(inspect(Source("t", str(path)), None, "auto"), 0, 1)
    for file in (path / "_change_data").iterdir():
        pq.write_table(pq.read_table(file).replace_schema_metadata(LEGACY), file)
    calendars._is_old.cache_clear()
    assert not fed_here(inspect(Source("t", str(path)), None, "auto"), 0, 1)
