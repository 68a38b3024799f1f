"""A delta merged by new files gives the same bag as delta-rs's MERGE, or is left to it."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.lake import parquet_scan
from ivm.lake.keys import hashable
from ivm.names import WEIGHT
from ivm.storage.location import Location
from ivm.table.protocol import Commit
from ivm.table.rust import RustTable

SCHEMA = pa.schema(
    [
        ("k", pa.int32()),
        ("s", pa.string()),
        ("d", pa.decimal128(38, 2)),
        ("t", pa.date32()),
        ("b", pa.binary()),
        ("f", pa.bool_()),
    ]
)
ROWS = [
    (1, "a", Decimal("1.50"), date(2024, 1, 1), b"x", True),
    (1, "a", Decimal("1.50"), date(2024, 1, 1), b"x", None),
    (None, "", Decimal("-" + "9" * 36 + ".99"), date(1, 1, 1), b"", False),
    (None, None, None, None, None, None),
    (2, "odd ' name", Decimal("0.00"), date(9999, 12, 31), b"\x00", True),
]


def table(rows) -> pa.Table:
    return pa.table([[r[i] for r in rows] for i in range(len(SCHEMA))], schema=SCHEMA)


def counted(rows: pa.Table) -> Counter:
    return Counter(zip(*map(hashable, rows.select(SCHEMA.names).columns), strict=True))


def changes(weights) -> pa.Table:
    some = [(row, w) for row, w in zip(ROWS, weights, strict=True) if w]
    return table([r for r, _ in some]).append_column(WEIGHT, pa.array([w for _, w in some], pa.int64()))


@given(
    there=st.lists(st.integers(0, 3), min_size=len(ROWS), max_size=len(ROWS)).filter(any),
    files=st.integers(1, 2),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_new_files_hold_the_bag_and_the_delta(there, files, data):
    weights = [data.draw(st.integers(-n, 2)) for n in there]
    with tempfile.TemporaryDirectory() as folder:
        one = table([r for row, n in zip(ROWS, there, strict=True) for r in [row] * n])
        lane = RustTable(f"{folder}/t", ours=True)
        for part in range(files):
            write_deltalake(
                f"{folder}/t", one.take(pa.array(range(part, one.num_rows, files), pa.int64())), mode="append"
            )
        scratch = Location.of(f"{folder}/scratch")
        if not any(w < 0 for w in weights):
            assert not lane.merge_anew(changes(weights), Commit("app", 7, "a note"), scratch), "an append costs less"
            return
        assert lane.merge_anew(changes(weights), Commit("app", 7, "a note"), scratch)
        expected = Counter(
            dict(zip(counted(table(ROWS)), [n + w for n, w in zip(there, weights, strict=True)], strict=True))
        )
        assert counted(lane.read()) == +expected
        assert lane.count() == expected.total()
        version = lane.snapshot().version
        assert lane.merge_anew(changes(weights), Commit("app", 7), Location.of(f"{folder}/again"))
        assert (lane.snapshot().version, counted(lane.read())) == (version, +expected)


@pytest.mark.parametrize(
    ("column", "kept"),
    [
        (pa.array([1.5, None]), "double"),
        (pa.array([[1], None]), "array"),
        (pa.array([0, 1], pa.timestamp("us", "UTC")), "timestamp"),
    ],
)
def test_values_that_engines_tell_apart_differently_are_left_to_delta_rs(tmp_path, column, kept):
    rows = pa.table({"x": column})
    write_deltalake(tmp_path / kept, rows)
    lane = RustTable(str(tmp_path / kept), ours=True)
    gone = rows.slice(0, 1).append_column(WEIGHT, pa.array([-1], pa.int64()))
    assert not lane.merge_anew(gone, Commit("app", 1), Location.of(str(tmp_path / "scratch")))
    assert DeltaTable(tmp_path / kept).version() == 0


def test_a_delta_that_touches_few_of_the_files_is_left_to_delta_rs(tmp_path):
    for part in range(6):
        rows = table([(part * 2 + i, *ROWS[0][1:]) for i in range(2)])
        write_deltalake(tmp_path / "t", rows, mode="append")
    lane, scratch = RustTable(str(tmp_path / "t"), ours=True), Location.of(str(tmp_path / "scratch"))
    one = table([(3, *ROWS[0][1:])]).append_column(WEIGHT, pa.array([-1], pa.int64()))
    assert not lane.merge_anew(one, Commit("app", 1), scratch)
    near = table([(i, *ROWS[0][1:]) for i in range(4)]).append_column(WEIGHT, pa.array([-1] * 4, pa.int64()))
    assert not lane.merge_anew(near, Commit("app", 1), scratch), "four rows, of two files by the statistics"
    far = table([(i, *ROWS[0][1:]) for i in (0, 4, 8)]).append_column(WEIGHT, pa.array([-1] * 3, pa.int64()))
    assert lane.merge_anew(far, Commit("app", 1), scratch)
    assert sorted(lane.read()["k"].to_pylist()) == [1, 2, 3, 5, 6, 7, 9, 10, 11]


def test_without_duckdb_all_is_left_to_delta_rs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    monkeypatch.setattr(parquet_scan, "lacking", lambda: "needs DuckDB")
    write_deltalake(tmp_path / "t", table(ROWS))
    lane = RustTable(str(tmp_path / "t"), ours=True)
    assert not lane.merge_anew(changes([-1, 0, 0, 0, 0]), Commit("app", 1), Location.of(str(tmp_path / "scratch")))


def test_a_table_may_lose_all_its_rows(tmp_path):
    write_deltalake(tmp_path / "t", table(ROWS[:2]))
    lane = RustTable(str(tmp_path / "t"), ours=True)
    assert lane.merge_anew(changes([-1, -1, 0, 0, 0]), Commit("app", 1), Location.of(str(tmp_path / "scratch")))
    assert lane.count() == 0
    assert lane.snapshot().columns[0].name == "k"
    assert not lane.merge_anew(changes([1, 0, 0, 0, 0]), Commit("app", 2), Location.of(str(tmp_path / "more")))
