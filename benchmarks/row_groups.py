"""How long rows of some parts take to find in lineitem: by a scan, or in a copy sorted by part, by rows a row group.

Prints seconds and (processor seconds), the middle of three reads each; every reader must find the same number of rows.
DuckDB reads as `ivm.lake.parquet_scan` has it read; Arrow is told the row groups whose least and greatest part allow a
match. What follows from it: docs/design/2026-11-30-small-row-groups.md.

    python -m benchmarks.row_groups FOLDER [--scale 10]      (FOLDER keeps lineitem and the copies: 10 GB at SF10)
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivm.demo.tpch import generate
from ivm.lake.parquet_scan import cursor

COLUMNS = (
    "l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_discount",
    "l_returnflag", "l_shipdate", "l_commitdate", "l_receiptdate",
)  # fmt: skip
ROW_GROUPS = (122_880, 16_384, 4_096, 2_048)
#: Parts, of 200,000 a unit of scale, and what else a change of 0.01 % at SF10 asks for beside 210 of them.
PARTS = (210, 1_070, 10_700)
LISTS = {
    "orders": (5_078, 6_000_000, "l_orderkey IN (SELECT k FROM orders)"),
    "parts": (210, 200_000, "l_partkey IN (SELECT k FROM parts)"),
    "suppliers": (10, 10_000, "l_suppkey IN (SELECT k FROM suppliers)"),
    "pairs": (859, 200_000, "EXISTS (SELECT 1 FROM pairs WHERE k = l_partkey AND other = l_suppkey)"),
}
ASKED = (tuple(LISTS), ("orders", "suppliers"), ("orders",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=10)
    asked = parser.parse_args()
    generate(asked.folder, asked.scale)
    lineitem = asked.folder / "lineitem.parquet"
    random = np.random.default_rng(1)
    parts = {n: _keys(random, n, int(200_000 * asked.scale)) for n in PARTS}
    found = _found("lineitem, DuckDB", partial(_by_duckdb, lineitem), parts)
    for rows in ROW_GROUPS:
        copy = asked.folder / f"by_part_{rows}.parquet"
        if not copy.exists():
            _sorted_copy(lineitem, copy, rows)
        print(f"{copy.name}: {copy.stat().st_size / 1e9:.2f} GB")
        readers = {"DuckDB": partial(_by_duckdb, copy), "Arrow": _Search(copy)}
        for name, read in readers.items():
            assert _found(f"{rows:,} a group, {name}", read, parts) == found, "readers disagree"
    _lists(lineitem, asked.scale, random)


def _found(reader: str, read: Callable[[pa.Table], int], parts: dict[int, pa.Table]) -> dict[int, int]:
    return {n: _shown(reader, n, partial(read, keys)) for n, keys in parts.items()}


def _keys(random: np.random.Generator, count: int, upto: int) -> pa.Table:
    return pa.table({"k": np.sort(random.choice(upto, count, replace=False) + 1)})


def _sorted_copy(lineitem: Path, copy: Path, rows: int) -> None:
    with duckdb.connect() as database:
        database.execute(
            f"COPY (SELECT {', '.join(COLUMNS)} FROM '{lineitem}' ORDER BY l_partkey, l_suppkey) "
            f"TO '{copy}' (FORMAT parquet, ROW_GROUP_SIZE {rows}, COMPRESSION snappy)"
        )


def _by_duckdb(file: Path, keys: pa.Table) -> int:
    asked = cursor()
    asked.register("parts", keys)
    return _read(asked, file, LISTS["parts"][2])


class _Search:
    """Rows by part in a file sorted by it, whose footer is parsed once."""

    def __init__(self, file: Path) -> None:
        started = time.perf_counter()
        footer = pq.read_metadata(file)
        print(f"a footer of {footer.serialized_size:,} bytes parsed in {time.perf_counter() - started:.2f} s")
        at = footer.schema.names.index("l_partkey")
        ends = [footer.row_group(i).column(at).statistics for i in range(footer.num_row_groups)]
        self._low, self._high = np.array([e.min for e in ends]), np.array([e.max for e in ends])
        self._file = pq.ParquetFile(file, metadata=footer, memory_map=True)

    def __call__(self, keys: pa.Table) -> int:
        values = keys["k"].to_numpy()
        some = np.searchsorted(values, self._high, "right") > np.searchsorted(values, self._low, "left")
        rows = self._file.read_row_groups(np.flatnonzero(some).tolist(), columns=list(COLUMNS))
        return int(rows.filter(pc.is_in(rows["l_partkey"], keys["k"].combine_chunks())).num_rows)


def _lists(lineitem: Path, scale: float, random: np.random.Generator) -> None:
    asked = cursor()
    for name, (count, unit, _) in LISTS.items():
        keys = _keys(random, count, int(unit * scale))
        asked.register(name, keys.append_column("other", pa.array(random.integers(1, int(10_000 * scale), count))))
    for names in ASKED:
        condition = " OR ".join(LISTS[n][2] for n in names)
        _shown("lineitem, DuckDB", ", ".join(names), partial(_read, asked, lineitem, condition))


def _read(asked: duckdb.DuckDBPyConnection, file: Path, condition: str) -> int:
    sql = f"SELECT {', '.join(COLUMNS)} FROM read_parquet('{file}') WHERE {condition}"
    return int(asked.sql(sql).to_arrow_table().num_rows)


def _shown(reader: str, asked_for: object, read: Callable[[], int]) -> int:
    """The rows that a read finds, and its seconds printed."""
    taken = []
    for _ in range(3):
        clock, processor = time.perf_counter(), time.process_time()
        rows = read()
        taken.append((time.perf_counter() - clock, time.process_time() - processor))
    seconds, of_processors = sorted(taken)[1]
    print(f"{reader:24} {asked_for!s:32} {seconds:6.2f} s ({of_processors:.2f})  {rows:,} rows", flush=True)
    return rows


if __name__ == "__main__":
    main()
