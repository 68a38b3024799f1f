"""A delta merged into a bag by writing all its files anew: one pass of DuckDB's over the rows, in both cores.

    rows of the new files = (rows - those that the delta names) + the copies of these that are left + the delta's

delta-rs's MERGE compares and writes the same rows, since it writes whole files anew, in three times as long: measured,
15 M rows of two columns with 50,000 changes in 4.4 s (8 of processors), here 1.4 s (2.5). What isn't on the list of
`ivm.lake.parquet_scan`, or holds values that engines tell apart differently, is left to it, and so is a delta that
touches few of the files.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ivm.lake.files import staged_files, types_by_name
from ivm.lake.parquet_scan import ParquetScan, UnfitError, cursor, keyed
from ivm.names import WEIGHT, native_ident, native_literal
from ivm.storage.location import Location
from ivm.zset.weighted import repeated

#: A file is full with about so many bytes.
_FILE_BYTES = 128 * 1024 * 1024


def write_merged(path: str, delta: DeltaTable, changes: pa.Table, folder: Location) -> None:
    """Write to a folder what a table holds after a delta: `changes` has its columns and WEIGHT, each row once.

    Raises UnfitError where that isn't done here, doesn't pay, or fails.
    """
    scan = ParquetScan(path, delta)
    if scan.unfit:  # DuckDB isn't there, for one
        raise UnfitError(scan.unfit)
    import duckdb

    schema = scan.schema
    if strange := [f.name for f in schema if not keyed(f.type)]:
        raise UnfitError(f"the type of {strange[0]}")
    if changes.select(schema.names).schema.types != schema.types:
        raise UnfitError("the types of the changes")
    if len(scan.hidden) or not folder.local:
        raise UnfitError("hidden rows, or no folder")
    gone = changes.filter(pc.less(changes[WEIGHT], 0)).select(schema.names)
    # Each row lies in one file or more, but nobody knows in which of those that may hold it.
    touched = min(gone.num_rows, len(scan.chosen([(schema.names, gone, False)])))
    if not touched or 2 * touched < len(scan.names):
        raise UnfitError(f"it touches {touched} of {len(scan.names)} files")
    folder.make()
    try:
        _write(scan, changes, folder)
    except (duckdb.Error, pa.ArrowException) as error:
        raise UnfitError(str(error)) from error
    for file in staged_files(folder):
        if types_by_name(file.schema) != types_by_name(schema):
            raise UnfitError(f"the new files would hold {types_by_name(file.schema)}")


def _write(scan: ParquetScan, changes: pa.Table, folder: Location) -> None:
    names = [native_ident(c) for c in scan.schema.names]
    numbered = [f"c{i}" for i in range(len(names))]
    rows = changes.select(scan.schema.names).rename_columns(numbered).append_column("w", changes[WEIGHT])
    gone, added = rows.filter(pc.less(rows["w"], 0)), rows.filter(pc.greater(rows["w"], 0))
    asked = cursor()
    asked.register("gone", gone.append_column("n", pa.array(range(gone.num_rows), pa.int64())))
    on = " AND ".join(
        f"t.{name} {'IS NOT DISTINCT FROM' if gone[c].null_count else '='} g.{c}"
        for name, c in zip(names, numbered, strict=True)
    )
    counted = f"SELECT g.n, count(*) AS there FROM {scan.rows()} JOIN gone AS g ON {on} GROUP BY g.n"
    copies = asked.sql(counted).to_arrow_table()
    touched = gone.take(copies["n"])
    left = pc.max_element_wise(pc.add(touched["w"], copies["there"]), 0)
    more = [
        repeated(touched.select(numbered), left.to_numpy()),
        repeated(added.select(numbered), added["w"].to_numpy()),
    ]
    asked.register("more", pa.concat_tables(more).select(numbered))
    selected = ", ".join(f"t.{name}" for name in names)
    others = f"SELECT {selected} FROM {scan.rows()} WHERE NOT EXISTS (SELECT 1 FROM gone AS g WHERE {on})"
    sql = f"{others} UNION ALL SELECT * FROM more"
    options = f"FORMAT parquet, COMPRESSION snappy, FILE_SIZE_BYTES {_FILE_BYTES}, OVERWRITE"
    asked.execute(f"COPY ({sql}) TO {native_literal(folder.url)} ({options})")
