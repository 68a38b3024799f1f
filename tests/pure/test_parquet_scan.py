"""DuckDB's keyed reads of Delta tables are DataFusion's, or are left to it with a reason."""

from __future__ import annotations

import json
import string
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.errors import LargeReadError
from ivm.lake import native, vectors
from ivm.lake.keyed import KeyedReader
from ivm.lake.keys import ends
from ivm.lake.parquet_scan import ParquetScan, UnfitError
from ivm.storage.location import Location

TYPES = {
    "i": (pa.int32(), st.integers(-3, 3)),
    "n": (pa.int64(), st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])),
    "b": (pa.int8(), st.integers(-2, 2)),
    "s": (pa.string(), st.sampled_from(["", "a", "A", "a\x00", "\u00e9", "e\u0301"])),
    "x": (pa.binary(), st.sampled_from([b"", b"\x00", b"\xff"])),
    "d": (pa.date32(), st.sampled_from([date(1, 1, 1), date(1582, 10, 4), date(2024, 2, 29), date(9999, 12, 31)])),
    "p": (pa.decimal128(38, 10), st.sampled_from([Decimal("9" * 28), Decimal("-0.0000000001"), Decimal(0)])),
    "o": (pa.bool_(), st.booleans()),
    "f": (pa.float64(), st.sampled_from([0.0, -0.0, float("nan"), 1.5])),
    "t": (
        pa.timestamp("us", tz="UTC"),
        st.sampled_from([datetime(1, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)]),
    ),
}
KEYED = [c for c in TYPES if c not in ("f", "t")]
SCHEMA = pa.schema([(name, type_) for name, (type_, _) in TYPES.items()])
ROW = st.fixed_dictionaries({c: st.none() | values for c, (_, values) in TYPES.items()})


def key_sets(draw):
    columns = draw(st.lists(st.sampled_from(KEYED), min_size=1, max_size=3, unique=True))
    rows = draw(st.lists(st.tuples(*(st.none() | TYPES[c][1] for c in columns)), max_size=4))
    arrays = [pa.array([r[i] for r in rows], TYPES[c][0]) for i, c in enumerate(columns)]
    widened = [a.cast(pa.int64()) if pa.types.is_integer(a.type) else a for a in arrays]
    keys = pa.table(widened, names=[f"k{i}" for i in range(len(columns))])
    return tuple(columns), keys if draw(st.booleans()) else keys.drop_null(), False


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_keys_of_any_columns_find_the_same_rows(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("scan")
    path = str(folder / "t")
    for rows in data.draw(st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=3)):
        write_deltalake(path, pa.Table.from_pylist(rows, SCHEMA), mode="append")
    wanted = [key_sets(data.draw) for _ in range(data.draw(st.integers(1, 3)))]
    columns = data.draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, unique=True))
    delta = native.table(path)
    found = ParquetScan(path, delta).find(columns, wanted, "true", None)
    expected = KeyedReader(path, delta)._by_datafusion(columns, wanted, str(folder), "true", None)
    assert found.schema == expected.schema
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


NUMBERS = pa.table({"k": pa.array(range(100), pa.int64()), "v": pa.array(range(100), pa.int32())})


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "t")
    for start in (0, 50):
        write_deltalake(path, NUMBERS.slice(start, 50), mode="append")
    return path


def test_a_range_and_more_conditions(path):
    delta = native.table(path)
    keys = [(("k",), ends(pa.table({"k0": pa.array([10, 12])})), True)]
    found = ParquetScan(path, delta).find(["k"], keys, "t.v <> 11", None)
    assert sorted(found["k"].to_pylist()) == [10, 12]


def test_files_without_a_match_are_not_opened(path):
    delta = native.table(path)
    for name in delta.file_uris():
        if pq.read_table(name)["k"][0].as_py() == 50:
            Location.of(name.removeprefix("file://")).drop()
    keys = pa.table({"k0": pa.array([-5, 3, 200])})
    assert ParquetScan(path, delta).find(["v"], [(("k",), keys, False)], "true", None)["v"].to_pylist() == [3]
    with pytest.raises(UnfitError, match="No files found"):
        ParquetScan(path, delta).find(["v"], [(("k",), pa.table({"k0": pa.array([70])}), False)], "true", None)


@pytest.mark.parametrize("wanted", [0, 49, 50, 99])
def test_the_ends_of_a_file_are_in_it(path, wanted):
    keys = pa.table({"k0": pa.array([wanted])})
    found = ParquetScan(path, native.table(path)).find(["v"], [(("k",), keys, False)], "true", None)
    assert found["v"].to_pylist() == [wanted]


def test_a_name_with_a_point_is_not_a_field_of_a_struct(tmp_path):
    """The log's statistics of both are called `min.a.b`."""
    path = str(tmp_path / "t")
    for start in (0, 100):
        rows = pa.table({"a": [{"b": start}], "a.b": pa.array([start + 7], pa.int64()), "v": [start]})
        write_deltalake(path, rows, mode="append")
    scan = ParquetScan(path, native.table(path))
    found = scan.find(["v"], [(("a.b",), pa.table({"k0": pa.array([107])}), False)], "true", None)
    assert found["v"].to_pylist() == [100]


def z85(data: bytes) -> str:
    """Base 85 with ZeroMQ's letters, as Delta writes a deletion vector into its log."""
    letters = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
    words = struct.unpack(f">{len(data) // 4}I", data)
    return "".join(letters[word // 85**i % 85] for word in words for i in (4, 3, 2, 1, 0))


def hide(path: str, rows: list[int], version: int = 1) -> None:
    """Commit a deletion vector of some rows of a table's first file, which delta-rs itself doesn't write."""
    log = Path(path) / "_delta_log"
    (add,) = [a["add"] for a in map(json.loads, (log / f"{0:020}.json").read_text().splitlines()) if "add" in a]
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    data = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    data += bytes(-len(data) % 4)
    vector = {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": len(rows)}
    features = {f"{who}Features": ["deletionVectors"] for who in ("reader", "writer")}
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}},
        {"add": add | {"deletionVector": vector}},
    ]
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


@pytest.mark.parametrize("told", [True, False])
def test_files_that_are_called_alike_in_their_folders_have_vectors_of_their_own(path, told, monkeypatch):
    place, log = Path(path), Path(path) / "_delta_log"
    for version, day in enumerate(("2024-01-01", "2024-01-02/data")):
        commit = log / f"{version:020}.json"
        (name,) = [a["add"]["path"] for a in map(json.loads, commit.read_text().splitlines()) if "add" in a]
        (place / day).mkdir(parents=True)
        (place / name).rename(place / day / "data.parquet")
        commit.write_text(commit.read_text().replace(name, f"{day}/data.parquet"))
    hide(path, [3], version=2)
    if not told:
        monkeypatch.setattr(vectors, "hidden", untold)
    keys = [(("k",), pa.table({"k0": pa.array([2, 3, 52, 53])}), False)]
    found = ParquetScan(path, native.table(path)).find(["k"], keys, "true", None)
    assert sorted(found["k"].to_pylist()) == [2, 52, 53]


def untold(delta):
    raise vectors.UntoldError("as where something isn't installed")


def test_what_a_deletion_vector_hides_is_not_found(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, NUMBERS)
    hide(path, [0, 7, 99])
    delta = native.table(path)
    keys = [(("k",), pa.table({"k0": pa.array([0, 1, 7, 98, 99])}), False)]
    assert sorted(ParquetScan(path, delta).find(["v"], keys, "true", None)["v"].to_pylist()) == [1, 98]
    found = KeyedReader(path, delta)._by_datafusion(["v"], keys, str(tmp_path / "keys"), "true", None)
    assert sorted(found["v"].to_pylist()) == [1, 98]


def test_no_more_rows_than_may_be_held(path):
    keys = pa.table({"k0": pa.array(range(100))})
    with pytest.raises(LargeReadError):
        KeyedReader(path, native.table(path)).find(["v"], [(("k",), keys, False)], Location.of(path + "_"), most=99)


def test_a_widened_column_is_read_whole_in_either_order_of_its_files(tmp_path):
    """Where the first file holds a narrower type, or lacks a column, DataFusion reads."""
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"k": pa.array([1, 2])}))
    write_deltalake(path, pa.table({"k": pa.array([1]), "v": pa.array(["new"])}), mode="append", schema_mode="merge")
    keys = [(("k",), pa.table({"k0": pa.array([1])}), False)]
    found = KeyedReader(path, DeltaTable(path)).find(["k", "v"], keys, Location.of(str(tmp_path / "keys")))
    assert sorted(map(repr, found["v"].to_pylist())) == ["'new'", "None"]


DOUBLES = pa.table({"f": [0.0, -0.0], "k": [1, 2]})
REFUSED = {
    "doubles as keys": (DOUBLES, ("f",), pa.table({"k0": [0.0]}), "its keys are double"),
    "a nested column": (pa.table({"l": [[1]], "k": [1]}), ("k",), pa.table({"k0": [1]}), "the type of l"),
    "a name of DuckDB's": (pa.table({"File_Index": [1], "k": [1]}), ("k",), pa.table({"k0": [1]}), "called file_index"),
    "another scale": (
        pa.table({"k": pa.array([Decimal("1.5")], pa.decimal128(10, 2))}),
        ("k",),
        pa.table({"k0": pa.array([Decimal("1.50")], pa.decimal128(12, 3))}),
        "its keys are decimal",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_left_to_datafusion(tmp_path, case):
    rows, columns, keys, reason = REFUSED[case]
    path = str(tmp_path / "t")
    write_deltalake(path, rows)
    with pytest.raises(UnfitError, match=reason):
        ParquetScan(path, native.table(path)).find(rows.column_names, [(columns, keys, False)], "true", None)


def test_without_duckdb_datafusion_reads(path, monkeypatch, tmp_path):
    monkeypatch.setattr("ivm.lake.parquet_scan.lacking", lambda: "needs DuckDB, and there is none")
    keys = [(("k",), pa.table({"k0": pa.array([7])}), False)]
    with pytest.raises(UnfitError, match="there is none"):
        ParquetScan(path, native.table(path)).find(["v"], keys, "true", None)
    found = KeyedReader(path, native.table(path)).find(["v"], keys, Location.of(str(tmp_path / "keys")))
    assert found["v"].to_pylist() == [7]
