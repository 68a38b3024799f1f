"""The native lane: small reads and commits by delta-rs, without Spark.

Only tables on the allow-list are read here (`refusal`); anything else, or any error, goes to Spark. No scalar
expression of a view is evaluated here: reads are keyed or whole, writes are appends, overwrites and merges of
finished rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from ivm.errors import ConcurrentRefreshError, LargeReadError, StateError
from ivm.lake import handles, hiding, vectors
from ivm.lake.features import drop_features
from ivm.lake.shapes import plain
from ivm.lake.types import beyond_arrow, padded_columns, unreadable
from ivm.names import literal, native_ident, table_ref
from ivm.storage.location import Location

#: Opening a table in an object store, delta-rs 1.6.6 lets threads of its runtime wait for each other, of which it has
#: one a core: with two cores it was seen to wait for ever, with 16 threads never. Read when the runtime starts, at the
#: first call.
os.environ.setdefault("TOKIO_WORKER_THREADS", str(max(16, 2 * (os.cpu_count() or 1))))

#: Reader features whose tables delta-rs was seen to read exactly as Spark does (tests/spark/test_lanes.py).
READABLE_FEATURES = frozenset({"deletionVectors", "timestampNtz", "v2Checkpoint"})
#: Writer features of tables that delta-rs was seen to write (tests/spark/test_table_features.py). It refuses others.
WRITABLE_FEATURES = READABLE_FEATURES | {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "generatedColumns",
    "invariants",
}
_APPEND_ONLY = "delta.appendOnly"
_COLUMN_MAPPING = "delta.columnMapping.mode"
_CDF_COLUMNS = ("_change_type", "_commit_version", "_commit_timestamp")


def exists(path: str) -> bool:
    """Whether a table's log holds commits, readable or not.

    Files that a dead writer left before its first commit are none.
    """
    return holds_commits(log_names(path))


def log_names(path: str) -> frozenset[str]:
    """The names of the files of a table's log; none where there is no table."""
    return frozenset((Location.of(path) / "_delta_log").names())


def holds_commits(names: Iterable[str]) -> bool:
    """Whether there are commits among the files of a log."""
    return any(name.endswith(".json") or ".checkpoint." in name for name in names)


def table(path: str, version: int | None = None) -> DeltaTable:
    """A table to read, at a version where one is given; others may share it (see `ivm.lake.handles`)."""
    return handles.shared(path, version)


def writable(path: str) -> DeltaTable:
    """A table to write to, which nobody shares until it is kept (see `ivm.lake.handles`)."""
    return handles.own(path)


def refusal(delta: DeltaTable) -> str:
    """Why a table is not read natively; empty if it is."""
    return _elsewhere(delta) or unreadable(delta.schema().to_json()) or many_vectors(delta)


def refusal_of_files(delta: DeltaTable) -> str:
    """Why the rows of a table are not those that its files hold, column by column; empty if they are."""
    schema = delta.schema().to_json()
    if strange := [*(c.name for c in padded_columns(schema)), *beyond_arrow(schema)]:
        return f"the type of column {strange[0]!r}"
    return _elsewhere(delta)


def _elsewhere(delta: DeltaTable) -> str:
    """What of a table's rows or their names stands elsewhere than in its files."""
    protocol = delta.protocol()
    strange = set(protocol.reader_features or []) - READABLE_FEATURES
    if strange:
        return f"reader features {sorted(strange)}"
    if protocol.min_reader_version == 2:
        return "column mapping"
    if delta.metadata().partition_columns:
        return "partition columns"
    return ""


def many_vectors(delta: DeltaTable) -> str:
    """Why delta-rs should not read the rows of a table whose files DuckDB's reader may read; empty if it may."""
    if vectors.FEATURE in (delta.protocol().reader_features or []):
        many = hiding.hiding(delta, len(delta.file_uris()))
        if many > hiding.HIDING:
            return f"{many:,} files with deletion vectors, and it may never end reading more than {hiding.HIDING}"
    return ""


def unwritable(delta: DeltaTable) -> str:
    """The features by which delta-rs can't merge into a table or replace its rows; empty if it can."""
    strange = set(delta.protocol().writer_features or []) - WRITABLE_FEATURES
    if delta.metadata().configuration.get(_COLUMN_MAPPING, "none") != "none":
        strange.add("columnMapping")
    return ", ".join(sorted(strange))


def query(sql: str, tables: Mapping[str, DeltaTable], most: int | None = None) -> pa.Table:
    """Run a DataFusion query over Delta tables. Raises LargeReadError after `most` rows."""
    builder = QueryBuilder()
    for name, delta in tables.items():
        builder = builder.register(name, delta)
    with hiding.reading(tables.values()):
        reader = _reader(builder.execute(sql))
        if most is None:
            return plain(reader)
        batches, seen = [], 0
        for batch in reader:
            batches.append(batch)
            seen += batch.num_rows
            if seen > most:
                raise LargeReadError(f"more than {most:,} rows")
        return plain(pa.Table.from_batches(batches, reader.schema))


def _reader(rows: Any) -> pa.RecordBatchReader:
    """What delta-rs reads, by Arrow: its own reader holds the interpreter while it waits, and all threads with it."""
    return pa.RecordBatchReader.from_stream(rows)


def actions(delta: DeltaTable) -> pa.Table:
    """A table's files (one a row) with what the log says of each; not by pa.table(), which imports pandas."""
    return _reader(delta.get_add_actions(flatten=True)).read_all()


class LoggedFile(NamedTuple):
    """A data file as a table's log has it: its bytes, and when it was written (milliseconds since 1970)."""

    location: Location
    size: int
    modified: int


def logged_files(path: str, delta: DeltaTable) -> list[LoggedFile]:
    """The data files of a table of ours, which has no partitions; delta-rs's own URIs are percent-encoded."""
    columns = actions(delta).select(["path", "size_bytes", "modification_time"]).to_pydict()
    return [LoggedFile(Location.of(path) / n, *of) for n, *of in zip(*columns.values(), strict=True)]


def file_names(delta: DeltaTable) -> list[str]:
    """The same files by their names in the log, without what else it says of them."""
    return [str(name) for name in actions(delta)["path"].to_pylist()]


def data_files(path: str, delta: DeltaTable) -> list[Location]:
    """The same files as locations."""
    return [Location.of(path) / name for name in file_names(delta)]


def rows(delta: DeltaTable) -> int:
    """Live rows of a table: by its log, or counted where that lacks any."""
    try:
        hidden = sum(vector.rows for vector in vectors.of_table(delta).values())
        recorded = recorded_size(delta)[0]
    except vectors.UntoldError:
        recorded = None
    if recorded is not None:
        return recorded - hidden
    return int(query("SELECT count(*) AS n FROM t", {"t": delta})["n"][0].as_py())


def recorded_size(delta: DeltaTable) -> tuple[int | None, int, int]:
    """Rows (None without complete statistics), files and bytes of a table, by its log.

    Rows that deletion vectors hide are counted. Needs no right or ability to read the files.
    """
    files = actions(delta)
    size = pc.sum(files["size_bytes"]).as_py() or 0
    if files.num_rows == 0:
        return 0, 0, size
    known = "num_records" in files.column_names and files["num_records"].null_count == 0
    return (int(pc.sum(files["num_records"]).as_py()) if known else None), files.num_rows, size


def read(delta: DeltaTable, columns: Sequence[str] | None = None, where: str = "", most: int | None = None) -> pa.Table:
    """All rows of a table, only some columns of them, optionally filtered. Raises LargeReadError after `most` rows."""
    selected = ", ".join(native_ident(c) for c in columns) if columns else "*" if columns is None else "1 AS __ivm_one"
    return query(f"SELECT {selected} FROM t{' WHERE ' + where if where else ''}", {"t": delta}, most)


def change_feed(delta: DeltaTable, first: int, last: int, columns: Sequence[str], most: int) -> pa.Table:
    """The change feed of versions first..last: `columns` and the change type.

    Stops after `most` rows, which it exceeds then.
    """
    parts, seen = [], 0
    with hiding.feeding(delta, first, last):
        for part in change_feed_parts(delta, first, last, columns):
            parts.append(part)
            seen += part.num_rows
            if seen > most:
                break
    return pa.concat_tables(parts)


def change_feed_parts(delta: DeltaTable, first: int, last: int, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The same in parts as they are read, at least one; not all of them are held at a time."""
    # Unquoted, names with capitals or dots are taken for others.
    quoted = [native_ident(c) for c in (*columns, *_CDF_COLUMNS)]
    reader = _reader(delta.load_cdf(starting_version=first, ending_version=last, columns=quoted))
    wanted = [*columns, _CDF_COLUMNS[0]]
    yield plain(reader.schema.empty_table()).select(wanted)
    for batch in reader:
        yield plain(pa.Table.from_batches([batch])).select(wanted)


def vacuum(path: str, hours: int, properties: CommitProperties | None = None) -> None:
    """Remove files that the newest version doesn't hold and that are older than `hours`, known to the log or not.

    The log forgets removed files after the same time; those, and change data, only a look at the folder finds. It
    doesn't know deletion vectors for what they are: of tables that have some, only files that the log knows are
    removed.
    """
    delta = writable(path)
    whole = "deletionVectors" not in (delta.protocol().writer_features or [])
    delta.vacuum(
        retention_hours=hours, dry_run=False, enforce_retention_duration=False, commit_properties=properties, full=whole
    )


def last_txn(path: str, app: str) -> int | None:
    """The last version an application committed to a table; None before the first."""
    try:
        return _last_txn(table(path), app)
    except TableNotFoundError:
        return None


def opened(path: str, app: str) -> tuple[DeltaTable | None, int | None]:
    """A table to write to, None where there is none yet, and the last version that an application committed to it."""
    try:
        delta = writable(path)
    except TableNotFoundError:
        return None, None
    return delta, _last_txn(delta, app) if app else None


def _last_txn(delta: DeltaTable, app: str) -> int | None:
    version = delta.transaction_version(app)
    return None if version is None else int(version)


def properties(app: str, version: int, note: Mapping[str, str] | None = None) -> CommitProperties:
    """Of a commit under an application's transaction, or of one without (`app` is "")."""
    if not app:
        return CommitProperties(custom_metadata=dict(note or {}))
    return CommitProperties(
        app_transactions=[Transaction(app, version)], custom_metadata=dict(note or {}), max_commit_retries=3
    )


@contextmanager
def committing(path: str) -> Iterator[None]:
    """Says why a commit to a table failed.

    Raises ConcurrentRefreshError where another writer was first, StateError where the table gives no row away.
    """
    try:
        yield
    except CommitFailedError as error:
        if exists(path) and table(path).metadata().configuration.get(_APPEND_ONLY) == "true":
            unset = f"ALTER TABLE {table_ref(path)} UNSET TBLPROPERTIES ({literal(_APPEND_ONLY)})"
            raise StateError(
                f"Somebody made the table {path} append-only: no row of it can be changed.", f"Undo it: {unset}"
            ) from error
        if refused := unwritable(table(path)) if exists(path) else "":
            raise StateError(
                f"The table {path} has features that ivm can't write ({refused}).", drop_features(path, refused)
            ) from error
        raise ConcurrentRefreshError(
            f"Another writer committed to {path} at the same moment ({error}).", "It wins; run the refresh again."
        ) from error


def append(
    path: str,
    data: pa.Table | pa.RecordBatchReader,
    app: str,
    version: int,
    configuration: Mapping[str, str] | None = None,
    note: Mapping[str, str] | None = None,
) -> bool:
    """Append under an application transaction (none where `app` is ""), with a `note` in the commit.

    False if it was there already. Raises ConcurrentRefreshError where another writer commits the same transaction at
    the same moment.
    """
    return _write(path, data, app, version, "append", configuration, note)


def append_by(delta: DeltaTable, path: str, data: pa.Table, app: str, version: int) -> bool:
    """The same by a handle that is at the table's newest version and nobody shares; it stands at the commit then."""
    return _write_by(delta, path, data, app, version, "append", {})


def overwrite(
    path: str,
    data: pa.Table | pa.RecordBatchReader,
    app: str,
    version: int,
    configuration: Mapping[str, str] | None = None,
    note: Mapping[str, str] | None = None,
    where: str = "",
) -> bool:
    """Replace rows and schema, or only the rows that meet a condition, likewise. False if it was done already."""
    return _write(path, data, app, version, "overwrite", configuration, note, where)


def _write(
    path: str,
    data: pa.Table | pa.RecordBatchReader,
    app: str,
    version: int,
    mode: Any,
    configuration: Mapping[str, str] | None,
    note: Mapping[str, str] | None = None,
    where: str = "",
) -> bool:
    delta, _ = opened(path, "")
    if not _write_by(delta, path, data, app, version, mode, configuration or {}, note, where):
        return False
    if delta is not None:
        handles.keep(path, delta)
    return True


def _write_by(
    delta: DeltaTable | None,
    path: str,
    data: pa.Table | pa.RecordBatchReader,
    app: str,
    version: int,
    mode: Any,
    configuration: Mapping[str, str],
    note: Mapping[str, str] | None = None,
    where: str = "",
) -> bool:
    done = _last_txn(delta, app) if delta is not None and app else None
    if done is not None and done >= version:
        return False
    with committing(path):
        write_deltalake(
            path if delta is None else delta,
            data,
            mode=mode,
            schema_mode="overwrite" if mode == "overwrite" and not where else None,
            predicate=where if delta is not None and where else None,
            configuration=dict(configuration),
            commit_properties=properties(app, version, note),
        )
    return True
