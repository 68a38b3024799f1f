"""NaN is one value, whatever its bits are: -NaN in the JVM or in DuckDB, others in files that numpy wrote."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.lake import bags, native
from ivm.lake.parquet_scan import ParquetScan
from ivm.lake.shapes import plain
from ivm.names import WEIGHT
from ivm.testing.recovery import Scene, differences
from tests.pure.duck_session import WRITES, DuckSession

ROWS = pa.schema([("k", pa.int32()), ("x", pa.float64())])
FED = {"delta.enableChangeDataFeed": "true"}
NEGATED = "WITH RECURSIVE r (k, x) AS (SELECT k, x FROM base UNION SELECT k, -x FROM r) SELECT k, x FROM r"
#: The NaN that files of ours hold; what the processor makes of infinities; one with a payload.
BITS = np.array([0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) | 1], "u8")
NANS = pa.array(BITS.view("f8"))
SHORT = pa.array(np.array([0x7FC0 << 16, 0xFFC0 << 16, (0x7FC0 << 16) | 1], "u4").view("f4"))
PLACES = pa.array([0, 1, 3], pa.int32())
NESTED = {
    "float": SHORT,
    "array": pa.ListArray.from_arrays(PLACES, NANS),
    "struct": pa.StructArray.from_arrays([pa.array([1, 2, 3]), NANS], ["n", "x"]),
    "map": pa.MapArray.from_arrays(PLACES, pa.array(["a", "b", "c"]), NANS),
    "both": pa.ListArray.from_arrays(PLACES, pa.StructArray.from_arrays([SHORT], ["x"])),
}


def bits(values):
    """The bits of all floats in an array."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_struct(values.type):
        return bits(values.flatten()[-1])
    if pa.types.is_map(values.type):
        return bits(values.items)
    if pa.types.is_list(values.type):
        return bits(values.flatten())
    return values.to_numpy(zero_copy_only=False).view(f"u{values.type.bit_width // 8}")


@pytest.mark.parametrize("kind", ["double", *NESTED])
def test_what_comes_into_the_process_has_one_nan(kind):
    values = NESTED.get(kind, NANS)
    for some in (values, values.slice(1), pa.concat_arrays([values.slice(1), pa.nulls(1, values.type)])):
        made = plain(pa.table({"v": some}))["v"]
        assert set(bits(made.drop_null())) == {0x7FC00000 if kind in ("float", "both") else 0x7FF8 << 48}
        told = made.combine_chunks().is_null().to_pylist()
        assert told == some.is_null().to_pylist()
        assert str(made.to_pylist()) == str(some.to_pylist())


def test_what_duckdb_reads_of_files_has_one_nan_too(tmp_path):
    write_deltalake(tmp_path / "t", pa.table({"k": pa.array([1, 1, 2], pa.int64()), "v": NANS, "w": SHORT}))
    keys = pa.table({"k": pa.array([1], pa.int64())})
    scan = ParquetScan(str(tmp_path / "t"), native.table(str(tmp_path / "t")))
    found = scan.find(["v", "w"], [(("k",), keys, False)], "true", None)
    assert bits(found["v"]).tolist() == [0x7FF8 << 48] * 2
    assert bits(found["w"]).tolist() == [0x7FC0 << 16] * 2


def test_other_values_stay_as_they_are():
    values = pa.array([[{"x": 0.0}, {"x": -0.0}], None, [], [None, {"x": None}], [{"x": 1.5}]])
    for some in (values, values.slice(1, 3)):
        assert str(plain(pa.table({"v": some}))["v"].to_pylist()) == str(some.to_pylist())
    column = pa.chunked_array([pa.array([0.0, -0.0, None])])
    assert plain(pa.table({"v": column}))["v"].chunk(0).buffers()[1].address == column.chunk(0).buffers()[1].address


@pytest.mark.usefixtures("without_a_jvm")
def test_a_negated_nan_is_no_second_row_of_a_recursion(tmp_path):
    scene = Scene(DuckSession(), tmp_path, {"v": NEGATED}, ("base",), writes=WRITES)
    base = tmp_path / "sources" / "base"
    write_deltalake(base, _rows((1, np.nan), (2, 1.5)), configuration=FED)
    assert scene.pipeline(tmp_path).refresh().ok
    write_deltalake(base, _rows((3, np.nan), (3, np.nan), (1, 2.0)), mode="append")
    pipe = scene.pipeline(tmp_path)
    assert pipe.refresh().views["v"].strategy == "incremental"
    assert sorted(map(str, pipe.read("v").collect())) == [
        "(1, -2.0)", "(1, 2.0)", "(1, nan)", "(2, -1.5)", "(2, 1.5)", "(3, nan)",
    ]  # fmt: skip


@pytest.mark.usefixtures("without_a_jvm")
@pytest.mark.parametrize("sql", ["SELECT k, x FROM base", "SELECT k, -x AS x FROM base"])
def test_one_of_two_nans_leaves_a_view_whatever_their_bits(tmp_path, sql):
    """The source's own files hold other bits than Spark writes and makes."""
    scene = Scene(DuckSession(), tmp_path, {"v": sql}, ("base",), writes=WRITES)
    base = tmp_path / "sources" / "base"
    rows = pa.table({"k": pa.array([1, 1, 1], pa.int32()), "x": NANS, "n": pa.array([1, 2, 3], pa.int32())})
    write_deltalake(base, rows.slice(0, 1), configuration=FED)
    assert scene.pipeline(tmp_path).refresh().ok
    for step in (rows.slice(1), "n = 1", "n = 3"):
        if isinstance(step, str):
            DeltaTable(base).delete(step)
        else:
            write_deltalake(base, step, mode="append")
        pipe = scene.pipeline(tmp_path)
        assert {v.strategy for v in pipe.refresh().views.values()} == {"incremental"}
        assert differences(pipe, scene.recomputed(tmp_path)) == []
    assert len(pipe.read("v").collect()) == 1


@pytest.mark.parametrize("kind", ["double", "array", "struct", "map"])
@pytest.mark.parametrize("most", [10_000, 0])
def test_copies_are_counted_and_taken_by_one_equality(tmp_path, monkeypatch, kind, most):
    """What lies in a table as Spark wrote it, deleted by what was read of a source's file."""
    monkeypatch.setattr(bags, "_FEW_ROWS", most)
    monkeypatch.setattr(bags, "_FEW_COPIES", most)
    row = pa.table({"k": pa.array([1], pa.int32()), "v": NESTED.get(kind, NANS).slice(1, 1)})
    write_deltalake(tmp_path / "t", pa.concat_tables([plain(row)] * 3))
    write_deltalake(tmp_path / "source", row)
    gone = native.read(native.table(str(tmp_path / "source"))).append_column(WEIGHT, pa.array([-1]))
    assert bags.merge(str(tmp_path / "t"), gone, ["k"], "app", 1)
    assert native.rows(native.table(str(tmp_path / "t"))) == 2


def _rows(*rows):
    return pa.Table.from_pylist([{"k": k, "x": x} for k, x in rows], ROWS)
