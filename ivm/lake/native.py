"""The native lane: small reads and commits by delta-rs, without Spark.

Only tables on the allow-list are read here (`refusal`); anything else, or any error, goes to Spark. No scalar
expression of a view is evaluated here: reads are keyed or whole, writes are appends, overwrites and merges of
finished rows.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from ivm.errors import ConcurrentRefreshError
from ivm.lake.keys import hashable
from ivm.lake.types import unreadable
from ivm.names import native_ident, native_literal
from ivm.plan.nodes import WEIGHT
from ivm.planner.limits import EMBEDDED
from ivm.storage.location import Location

if TYPE_CHECKING:
    import pyarrow.dataset as pads

#: Opening a table in an object store, delta-rs 1.6.6 lets threads of its runtime wait for each other, of which it has
#: one a core: with two cores it was seen to wait for ever, with 16 threads never. Read when the runtime starts, at the
#: first call.
os.environ.setdefault("TOKIO_WORKER_THREADS", str(max(16, 2 * (os.cpu_count() or 1))))

#: Reader features whose tables delta-rs was seen to read exactly as Spark does (tests/spark/test_lanes.py).
READABLE_FEATURES = frozenset({"deletionVectors", "timestampNtz", "v2Checkpoint"})
_CDF_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def exists(path: str) -> bool:
    """Whether a table's log holds commits, readable or not.

    Files that a dead writer left before its first commit are none.
    """
    return any(name.endswith(".json") or ".checkpoint." in name for name in (Location.of(path) / "_delta_log").names())


def table(path: str, version: int | None = None) -> DeltaTable:
    """Open a table, at a version where one is given."""
    return DeltaTable(path, version=version)


def refusal(delta: DeltaTable) -> str:
    """Why a table is not read natively; empty if it is."""
    protocol = delta.protocol()
    strange = set(protocol.reader_features or []) - READABLE_FEATURES
    if strange:
        return f"reader features {sorted(strange)}"
    if protocol.min_reader_version == 2:
        return "column mapping"
    if delta.metadata().partition_columns:
        return "partition columns"
    return unreadable(delta.schema().to_json())


def plain(data: Any) -> pa.Table:
    """An Arrow table without view types, which Spark and Parquet readers don't share, and nullable at every level.

    What is NOT NULL in one version of a source may be NULL in the next: nothing of ours keeps such a promise.
    """
    # pa.table() looks whether it is given a DataFrame, and imports pandas for it.
    table_ = (
        pa.RecordBatchReader.from_stream(data).read_all() if hasattr(data, "__arrow_c_stream__") else pa.table(data)
    )
    return table_.cast(_plain_schema(table_.schema))


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_type(_plain_type(f.type)).with_nullable(True) for f in schema])


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(type_) or pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_binary_view(type_) or pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_list_view(type_):
        return pa.list_(type_.value_field.with_type(_plain_type(type_.value_type)).with_nullable(True))
    if pa.types.is_struct(type_):
        return pa.struct(
            [
                type_.field(i).with_type(_plain_type(type_.field(i).type)).with_nullable(True)
                for i in range(type_.num_fields)
            ]
        )
    if pa.types.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain_type(type_.item_type))
    return type_


def parquet(*files: Location) -> pads.Dataset:
    """Parquet files that Spark wrote (a folder of them, or each by name), to be read as Spark reads them."""
    import pyarrow.dataset as pads  # it imports pandas, which costs more than a refresh that finds nothing to do

    # Spark writes timestamps as INT96 by default, which Arrow would read as nanoseconds:
    # the years before 1678 and after 2262 would come out as others.
    format_ = pads.ParquetFileFormat(read_options=pads.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
    file_system, first = files[0].arrow()
    return pads.dataset(
        first if len(files) == 1 else [f.arrow()[1] for f in files], format=format_, filesystem=file_system
    )


def stream(folder: Location, schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows of Parquet files, read as they are asked for and cast to a schema."""

    def batches() -> Iterator[pa.RecordBatch]:
        for part in parquet(folder).to_batches():
            yield from plain(part).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def total(folder: Location, column: str) -> int:
    """The sum of a column of integers over Parquet files, batch by batch."""
    parts = parquet(folder).scanner([column]).to_batches()
    return sum(pc.sum(part.column(0)).as_py() or 0 for part in parts)


def write_parquet(data: pa.Table, file: Location, row_group: int) -> None:
    """One file with these rows, for Spark to read."""
    buffer = pa.BufferOutputStream()
    pq.write_table(data, file.url if file.local else buffer, compression="NONE", row_group_size=row_group)
    if not file.local:
        file.write(buffer.getvalue().to_pybytes())


def arrow_schema(schema_json: str) -> pa.Schema:
    """The Arrow schema of a Delta (and Spark) schema in JSON."""
    return _plain_schema(pa.schema(Schema.from_json(schema_json).to_arrow()))


class LargeReadError(Exception):
    """A read gave more rows than this process may hold."""


def query(sql: str, tables: Mapping[str, DeltaTable], most: int | None = None) -> pa.Table:
    """Run a DataFusion query over Delta tables. Raises LargeReadError after `most` rows."""
    builder = QueryBuilder()
    for name, delta in tables.items():
        builder = builder.register(name, delta)
    reader = builder.execute(sql)
    if most is None:
        return plain(reader.read_all())
    batches, seen = [], 0
    schema = pa.schema(reader.schema)
    for batch in reader:
        batches.append(pa.record_batch(batch))
        seen += batches[-1].num_rows
        if seen > most:
            raise LargeReadError(f"more than {most:,} rows")
    return plain(pa.Table.from_batches(batches, schema))


def _actions(delta: DeltaTable) -> pa.Table:
    """A table's files with what the log says of each; not by pa.table(), which imports pandas."""
    return pa.RecordBatchReader.from_stream(delta.get_add_actions(flatten=True)).read_all()


def data_files(path: str, delta: DeltaTable) -> list[Location]:
    """The data files of a table of ours, which has no partitions; delta-rs's own URIs are percent-encoded."""
    return [Location.of(path) / str(name) for name in _actions(delta)["path"].to_pylist()]


def rows(delta: DeltaTable) -> int:
    """Live rows of a table, from its statistics where they are complete."""
    return int(query("SELECT count(*) AS n FROM t", {"t": delta})["n"][0].as_py())


def recorded_size(delta: DeltaTable) -> tuple[int | None, int]:
    """Rows (None without complete statistics) and bytes of a table's files, by its log.

    Rows that deletion vectors hide are counted. Needs no right or ability to read the files.
    """
    files = _actions(delta)
    size = pc.sum(files["size_bytes"]).as_py() or 0
    if files.num_rows == 0:
        return 0, size
    known = "num_records" in files.column_names and files["num_records"].null_count == 0
    return (int(pc.sum(files["num_records"]).as_py()) if known else None), size


def files(delta: DeltaTable) -> tuple[int, int]:
    """How many files a table has, and their bytes."""
    sizes = _actions(delta)["size_bytes"].to_pylist()
    return len(sizes), sum(sizes)


def read(delta: DeltaTable, columns: Sequence[str] | None = None, where: str = "", most: int | None = None) -> pa.Table:
    """All rows of a table, only some columns of them, optionally filtered. Raises LargeReadError after `most` rows."""
    selected = ", ".join(native_ident(c) for c in columns) if columns else "*" if columns is None else "1 AS __ivm_one"
    return query(f"SELECT {selected} FROM t{' WHERE ' + where if where else ''}", {"t": delta}, most)


def read_matching(
    delta: DeltaTable,
    columns: Sequence[str],
    keys: Sequence[tuple[Sequence[str], pa.Table, bool]],
    scratch: Location,
    where: str = "true",
    literals: int = EMBEDDED.literal_keys,
    most: int | None = None,
) -> pa.Table:
    """Rows that match any of `keys`, and `where`, in one scan.

    Returns the table's columns, a table of their wanted values, and whether these are two ends.
    A NULL among the wanted values matches NULL; between two ends (doubles) lies what isn't less or greater.
    Up to so many wanted values of a column are written as `literals`. Raises LargeReadError after `most` rows.
    """
    with scratch.near() as folder:
        return _read_matching(delta, columns, keys, folder, where, literals, most)


def _read_matching(
    delta: DeltaTable,
    columns: Sequence[str],
    keys: Sequence[tuple[Sequence[str], pa.Table, bool]],
    folder: str,
    where: str,
    literals: int,
    most: int | None,
) -> pa.Table:
    tables = {"t": delta}
    conditions = []
    for i, (mine, wanted, between) in enumerate(keys):
        if between:
            conditions.append(_between(f"t.{native_ident(mine[0])}", *wanted.column(0).to_pylist()))
            continue
        if among := _literals(mine, wanted, literals):
            conditions.append(among)
            continue
        path = f"{folder}/keys_{i}"
        write_deltalake(path, wanted, mode="overwrite")
        tables[f"k{i}"] = DeltaTable(path)
        if len(mine) == 1:
            column = f"t.{native_ident(mine[0])}"
            conditions.append(
                f"{column} IN (SELECT {native_ident(wanted.column_names[0])} FROM k{i} "
                f"WHERE {native_ident(wanted.column_names[0])} IS NOT NULL)"
            )
            if wanted.column(0).null_count:
                conditions.append(f"{column} IS NULL")
        else:
            equal = "IS NOT DISTINCT FROM" if any(c.null_count for c in wanted.columns) else "="
            on = " AND ".join(
                f"(k{i}.{native_ident(k)} {equal} t.{native_ident(m)})"
                for m, k in zip(mine, wanted.column_names, strict=True)
            )
            conditions.append(f"EXISTS (SELECT 1 FROM k{i} WHERE {on})")
    selected = ", ".join("t." + native_ident(c) for c in columns)
    return query(f"SELECT {selected} FROM t WHERE ({' OR '.join(conditions)}) AND {where}", tables, most)


def _between(column: str, low: Any, high: Any) -> str:
    """Between two ends, as `ivm.lake.keys.ends` gives them.

    >>> _between("t.a", 1.0, 2.0)
    'CAST(t.a AS DOUBLE) BETWEEN 1.0 AND 2.0'
    """
    if isinstance(low, float):
        return f"CAST({column} AS DOUBLE) BETWEEN {low!r} AND {high!r}"
    zone = 'Some("UTC")' if isinstance(low, datetime) and low.tzinfo is not None else "None"
    type_ = f"Timestamp(Microsecond, {zone})" if isinstance(low, datetime) else "Date32"
    one, other = (f"arrow_cast({native_literal(end.isoformat())}, {native_literal(type_)})" for end in (low, high))
    return f"{column} BETWEEN {one} AND {other}"


def _literals(columns: Sequence[str], wanted: pa.Table, most: int) -> str:
    """A condition on one column with few integers or strings to find; '' where it takes a join."""
    if wanted.num_rows == 0:
        return "false"
    if len(columns) != 1 or wanted.num_rows > most or wanted.column(0).null_count:
        return ""
    type_ = wanted.schema.field(0).type
    if not pa.types.is_integer(type_) and not pa.types.is_string(type_):
        return ""
    listed = ", ".join(native_literal(v) if isinstance(v, str) else str(v) for v in wanted.column(0).to_pylist())
    return f"t.{native_ident(columns[0])} IN ({listed})"


def change_feed(delta: DeltaTable, first: int, last: int, columns: Sequence[str], most: int) -> pa.Table:
    """The change feed of versions first..last: `columns` and the change type.

    Stops after `most` rows, which it exceeds then.
    """
    reader = delta.load_cdf(starting_version=first, ending_version=last, columns=[*columns, *_CDF_COLUMNS])
    batches, seen = [], 0
    schema = pa.schema(reader.schema)
    for batch in reader:
        batches.append(pa.record_batch(batch))
        seen += batches[-1].num_rows
        if seen > most:
            break
    return plain(pa.Table.from_batches(batches, schema)).select([*columns, _CDF_COLUMNS[0]])


def weighted(feed: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Turn change types into WEIGHT: -1 for deletes and pre-images, +1 for inserts and post-images."""
    gone = pc.is_in(feed["_change_type"], pa.array(["delete", "update_preimage"]))
    weight = pc.if_else(gone, pa.scalar(-1, pa.int32()), pa.scalar(1, pa.int32()))
    return feed.select(list(columns)).append_column(WEIGHT, weight)


def consolidate(rows_: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Sum the weights of equal rows, drop zeros, repeat the rest so that every weight is +1 or -1."""
    if rows_.num_rows == 0:
        return rows_
    if not columns:
        total = pc.sum(rows_[WEIGHT]).as_py()
        return pa.table({WEIGHT: pa.array([1 if total > 0 else -1] * abs(total), pa.int32())})
    ends = pc.min_max(rows_[WEIGHT])
    if ends["min"] == ends["max"] and abs(ends["min"].as_py()) == 1:
        return rows_.select(list(columns)).append_column(WEIGHT, rows_[WEIGHT].cast(pa.int32()))  # nothing can cancel
    summed = sum_weights(rows_, columns)
    return _repeated(summed.select(list(columns)), summed[WEIGHT].to_numpy())


def sum_weights(rows_: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Each row once with the sum of its weights, where that is not zero."""
    if rows_.num_rows == 0:
        return rows_.select([*columns, WEIGHT])
    if any(pa.types.is_nested(rows_.schema.field(c).type) for c in columns):
        summed = _sum_nested(rows_, columns)
    else:
        summed = (
            rows_.group_by(list(columns), use_threads=False)
            .aggregate([(WEIGHT, "sum")])
            .rename_columns([*columns, WEIGHT])
        )
    return summed.filter(pc.not_equal(summed[WEIGHT], 0))


def _repeated(rows_: pa.Table, weights: Any) -> pa.Table:
    import numpy as np

    taken = rows_.take(pa.array(np.repeat(np.arange(len(weights)), np.abs(weights))))
    signs = np.repeat(np.sign(weights), np.abs(weights)).astype("int32")
    return taken.append_column(WEIGHT, pa.array(signs, pa.int32()))


def _sum_nested(rows_: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Arrow can't group nested values: count by their exact Python form (a delta's rows, not a table's)."""
    import numpy as np

    places: dict[tuple[Any, ...], int] = {}
    weights = np.zeros(rows_.num_rows, dtype="int64")
    values = [hashable(rows_[c]) for c in columns]
    for i, (weight, *row) in enumerate(zip(rows_[WEIGHT].to_pylist(), *values, strict=True)):
        weights[places.setdefault(tuple(row), i)] += weight
    return rows_.select(list(columns)).append_column(WEIGHT, pa.array(weights, pa.int64()))


def vacuum(path: str, hours: int, properties: CommitProperties | None = None) -> None:
    """Remove files that the newest version doesn't hold and that are older than `hours`, known to the log or not.

    The log forgets removed files after the same time; those, and change data, only a look at the folder finds. It
    doesn't know deletion vectors for what they are: of tables that have some, only files that the log knows are
    removed.
    """
    delta = table(path)
    whole = "deletionVectors" not in (delta.protocol().writer_features or [])
    delta.vacuum(
        retention_hours=hours, dry_run=False, enforce_retention_duration=False, commit_properties=properties, full=whole
    )


def last_txn(path: str, app: str) -> int | None:
    """The last version an application committed to a table; None before the first."""
    try:
        version = table(path).transaction_version(app)
    except TableNotFoundError:
        return None
    return None if version is None else int(version)


def properties(app: str, version: int, note: Mapping[str, str] | None = None) -> CommitProperties:
    return CommitProperties(
        app_transactions=[Transaction(app, version)], custom_metadata=dict(note or {}), max_commit_retries=3
    )


def append(
    path: str,
    data: pa.Table | pa.RecordBatchReader,
    app: str,
    version: int,
    configuration: Mapping[str, str] | None = None,
) -> bool:
    """Append under an application transaction; False if it was there already.

    Raises ConcurrentRefreshError where another writer commits the same transaction at the same moment.
    """
    return _write(path, data, app, version, "append", configuration)


def overwrite(
    path: str,
    data: pa.Table | pa.RecordBatchReader,
    app: str,
    version: int,
    configuration: Mapping[str, str] | None = None,
    note: Mapping[str, str] | None = None,
) -> bool:
    """Replace rows and schema under an application transaction, with a `note` in the commit.

    False if it was done already.
    """
    return _write(path, data, app, version, "overwrite", configuration, note)


def _write(
    path: str,
    data: pa.Table | pa.RecordBatchReader,
    app: str,
    version: int,
    mode: Any,
    configuration: Mapping[str, str] | None,
    note: Mapping[str, str] | None = None,
) -> bool:
    done = last_txn(path, app)
    if done is not None and done >= version:
        return False
    try:
        write_deltalake(
            path,
            data,
            mode=mode,
            schema_mode="overwrite" if mode == "overwrite" else None,
            configuration=dict(configuration or {}),
            commit_properties=properties(app, version, note),
        )
    except CommitFailedError as error:
        raise ConcurrentRefreshError(
            f"Another writer committed to {path} at the same moment ({error}).", "It wins; run the refresh again."
        ) from error
    return True


def merge(
    path: str, changes: pa.Table, key: Sequence[str], app: str, version: int, note: Mapping[str, str] | None = None
) -> bool:
    """Apply a delta to a bag: `changes` holds the columns and WEIGHT (any integer); False if it was done already.

    Rows are compared whole, NULLs equal; `key` only makes the search faster. All copies of a touched row are deleted
    and the right number is inserted again, so duplicates survive.
    """
    done = last_txn(path, app)
    if done is not None and done >= version:
        return False
    columns = [c for c in changes.column_names if c != WEIGHT]
    target = table(path)
    negative = changes.filter(pc.less(changes[WEIGHT], 0))
    source = _merge_source(target, changes, negative, columns, key)
    try:
        if negative.num_rows == 0:
            inserted = source.filter(source["__ivm_insert"]).select(columns)
            write_deltalake(target, inserted, mode="append", commit_properties=properties(app, version, note))
        else:
            same = _equal(changes, columns, key, "s")
            (
                target.merge(
                    source,
                    f"{same} AND (s.__ivm_insert = false)",
                    source_alias="s",
                    target_alias="t",
                    commit_properties=properties(app, version, note),
                )
                .when_matched_delete()
                .when_not_matched_insert(
                    {native_ident(c): f"s.{native_ident(c)}" for c in columns}, predicate="s.__ivm_insert = true"
                )
                .execute()
            )
    except CommitFailedError as error:
        raise ConcurrentRefreshError(
            f"Another writer committed to {path} at the same moment ({error}).", "It wins; run the refresh again."
        ) from error
    return True


def _equal(changes: pa.Table, columns: Sequence[str], key: Sequence[str], alias: str) -> str:
    """A condition: a row `t` is exactly one of the changes, NULLs equal.

    Columns of the key that have none are compared so that a join is hashed.
    DataFusion takes -0.0 for 0.0, unless they are elements of an array.
    """
    conditions = []
    for c in columns:
        mine, other = f"t.{native_ident(c)}", f"{alias}.{native_ident(c)}"
        if pa.types.is_floating(changes.schema.field(c).type):
            conditions.append(f"(make_array({mine}) IS NOT DISTINCT FROM make_array({other}))")
        elif c in key and changes[c].null_count == 0:
            conditions.append(f"{mine} = {other}")
        else:
            conditions.append(f"({mine} IS NOT DISTINCT FROM {other})")
    return " AND ".join(conditions)


def _merge_source(
    target: DeltaTable, changes: pa.Table, negative: pa.Table, columns: Sequence[str], key: Sequence[str]
) -> pa.Table:
    """The rows to delete (once each) and the rows to insert (as often as they shall occur)."""
    import numpy as np

    positive = changes.filter(pc.greater(changes[WEIGHT], 0))
    inserts = positive.select(columns).take(
        pa.array(np.repeat(np.arange(positive.num_rows), positive[WEIGHT].to_numpy()))
    )
    survivors = _survivors(target, negative, columns, key)
    inserts = pa.concat_tables([inserts, survivors.cast(inserts.schema)]) if survivors.num_rows else inserts
    flagged = [negative.select(columns).append_column("__ivm_insert", pa.array(np.zeros(negative.num_rows, bool)))]
    flagged.append(inserts.append_column("__ivm_insert", pa.array(np.ones(inserts.num_rows, bool))))
    return pa.concat_tables(flagged)


def _survivors(target: DeltaTable, negative: pa.Table, columns: Sequence[str], key: Sequence[str]) -> pa.Table:
    """Copies to keep of rows that a delta takes some, not all, copies of."""
    import numpy as np

    if negative.num_rows == 0:
        return negative.select(list(columns))
    counts = copies_left(target, negative, columns, "__ivm_left", key)
    left = np.maximum(counts["__ivm_left"].to_numpy(), 0)
    return counts.select(list(columns)).take(pa.array(np.repeat(np.arange(len(left)), left)))


def copies_left(
    target: DeltaTable, changes: pa.Table, columns: Sequence[str], name: str, key: Sequence[str] = ()
) -> pa.Table:
    """`changes` (columns and WEIGHT, each row once) with the copies the target would hold after them, as `name`."""
    marked = "(SELECT *, 1 AS __ivm_one FROM t) AS t"
    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, changes.append_column("__ivm_row", pa.array(range(changes.num_rows), pa.int64())))
        counts = query(
            f"SELECT n.__ivm_row, count(t.__ivm_one) + min(n.{native_ident(WEIGHT)}) AS left_of_it FROM n "
            f"LEFT JOIN {marked} "
            f"ON {_equal(changes, columns, key, 'n')} GROUP BY n.__ivm_row",
            {"t": target, "n": DeltaTable(folder)},
        )
    return (
        changes.take(counts["__ivm_row"])
        .select(list(columns))
        .append_column(name, counts["left_of_it"].cast(pa.int64()))
    )
