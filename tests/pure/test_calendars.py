"""Dates in files of Spark's old calendar are left to Spark; other files aren't even opened."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import convert_to_deltalake, write_deltalake

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
