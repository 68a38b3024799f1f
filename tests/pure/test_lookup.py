"""Keyed reads of Delta tables: few keys as literals find what many keys as a table find."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ivm.lake import native
from ivm.lake.keyed import KeyedReader
from ivm.lake.parquet_scan import ParquetScan, UnfitError
from ivm.storage.location import Location

ROWS = pa.table(
    {
        "n": pa.array([-(2**63), 2**63 - 1, 0, -5, None, 0], pa.int64()),
        "s": pa.array(["it's", 'a"b', "x\\y", "", "é", None]),
        "i": pa.array([1, 2, -3, 4, 5, 1], pa.int8()),
    }
)


def unfit(*_):
    raise UnfitError("a test")


@pytest.mark.parametrize(("reader", "literals"), [("duckdb", 0), ("datafusion", 0), ("datafusion", 100)])
@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("n", [-(2**63), 2**63 - 1]),
        ("n", [0, 7]),
        ("n", [0, None]),
        ("s", ["it's", 'a"b']),
        ("s", ["x\\y", "", "z"]),
        ("i", [1, -3, 2**40]),
        ("i", []),
    ],
)
def test_the_rows_with_these_keys(tmp_path, monkeypatch, reader, literals, column, wanted):
    write_deltalake(str(tmp_path / "t"), ROWS)
    type_ = pa.string() if column == "s" else pa.int64()
    keys = pa.table({"k0": pa.array(wanted, type_)})
    asked = (["n", "s", "i"], [((column,), keys, False)])
    path = str(tmp_path / "t")
    if reader == "datafusion":
        monkeypatch.setattr(ParquetScan, "find", unfit)
    found = KeyedReader(path, native.table(path), literals).find(*asked, Location.of(str(tmp_path / "keys")))
    expected = [r for r in ROWS.to_pylist() if r[column] in wanted]
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected))
