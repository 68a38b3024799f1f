"""The lane of delta-rs: Arrow in and out, no session."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from ivm.engine.rows import QueriedRows, Rows
from ivm.lake import bags, native, parquet
from ivm.lake.features import features
from ivm.lake.files import commit_files, takes_files
from ivm.lake.keyed import KeyedReader
from ivm.lake.log import NOTE, tag
from ivm.lake.parquet_merge import write_merged
from ivm.lake.parquet_scan import UnfitError
from ivm.lake.shapes import arrow_schema
from ivm.lake.types import beyond_arrow, columns_of, padded_columns
from ivm.names import native_ident
from ivm.plan.nodes import Column
from ivm.planner.limits import EMBEDDED, Limits
from ivm.session import error_text
from ivm.storage.location import Location
from ivm.table.protocol import MAKING, TELLING, Commit, Condition, Query, Snapshot, Verb, Wanted, forbidden

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RustTable:
    """A table in the lane of delta-rs.

    `ours` says that nobody but ivm writes its rows: then its timestamps are stored as delta-rs reads them. `limits`
    tell which rows are few.
    """

    path: str
    limits: Limits = EMBEDDED
    ours: bool = False

    def capability(self, verb: Verb) -> str:
        try:
            delta = native.table(self.path)
        except TableNotFoundError:
            return "" if verb in MAKING else "there is no table"
        except DeltaError as error:
            return f"delta-rs can't open it ({error_text(error)})"
        return forbidden(verb, _snapshot(delta)) or self._refusal(delta, verb)

    def refusal(self, verb: Verb) -> str:
        """Why delta-rs doesn't do a verb that the table itself may allow; "" where it does, or there is no table."""
        return self._refusal(native.table(self.path), verb) if native.exists(self.path) else ""

    def _refusal(self, delta: DeltaTable, verb: Verb) -> str:
        if verb in TELLING:
            return ""
        if verb.writes and (named := native.unwritable(delta)):
            return f"features that delta-rs can't write ({named})"
        if self.ours and verb in {Verb.APPEND, Verb.REPLACE, Verb.VACUUM}:  # which look at none of its rows
            return ""
        return self._unread(delta, delta.schema().to_json())

    def _unread(self, delta: DeltaTable, schema: str) -> str:
        if not self.ours:
            return native.refusal(delta)
        strange = beyond_arrow(schema)
        return f"the type of column {strange[0]!r}" if strange else ""

    def exists(self) -> bool:
        return native.exists(self.path)

    def snapshot(self) -> Snapshot:
        return _snapshot(native.table(self.path))

    def columns(self, version: int | None = None) -> tuple[Column, ...]:
        return columns_of(native.table(self.path, version).schema().to_json())

    def count(self, version: int | None = None) -> int:
        return native.rows(native.table(self.path, version))

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        version: int | None = None,
        most: int | None = None,
    ) -> pa.Table:
        condition = where(native_ident) if where is not None else ""
        return native.read(native.table(self.path, version), columns, condition, most)

    def query(self, sql: Query, version: int | None = None) -> pa.Table:
        return native.query(sql("t", native_ident), {"t": native.table(self.path, version)})

    def copies_left(self, changes: pa.Table, columns: Sequence[str], name: str, version: int | None = None) -> pa.Table:
        """`changes` (columns and WEIGHT, each row once) with the copies that it would hold after them, as `name`."""
        return bags.copies_left(native.table(self.path, version), changes, columns, name)

    def unreadable_features(self, version: int | None = None) -> str:
        """The features by which delta-rs can't read it, as somebody may have given them to a table of ours."""
        features = native.table(self.path, version).protocol().reader_features or []
        return ", ".join(sorted(set(features) - native.READABLE_FEATURES - {"columnMapping"}))

    def unwritable_features(self) -> str:
        """The features by which delta-rs can't write it; empty if it can, or there is no table."""
        return native.unwritable(native.table(self.path)) if self.exists() else ""

    def find(
        self,
        columns: Sequence[str],
        wanted: Sequence[Wanted],
        version: int | None = None,
        most: int | None = None,
        where: Condition | None = None,
    ) -> pa.Table:
        keys = [(w.columns, w.keys, w.between) for w in wanted]
        condition = where(lambda name: f"t.{native_ident(name)}") if where is not None else "true"
        with tempfile.TemporaryDirectory(prefix="ivm_") as folder:
            reader = KeyedReader(self.path, native.table(self.path, version), self.limits.literal_keys)
            return reader.find(columns, keys, Location.of(folder), condition, most)

    def feed(self, first: int, last: int, columns: Sequence[str], most: int) -> pa.Table:
        return native.change_feed(native.table(self.path, last), first, last, columns, most)

    def feed_into(self, first: int, last: int, columns: Sequence[str], folder: Location) -> None:
        """The feed as Parquet files in a folder, of any size: little of it is held at a time."""
        parts = native.change_feed_parts(native.table(self.path, last), first, last, columns)
        for number, rows in enumerate(_together(parts, _FILE_ROWS)):
            parquet.write(rows, folder / f"{number}.parquet", _FILE_ROWS)

    def transaction(self, app: str) -> int | None:
        return native.last_txn(self.path, app)

    def append(self, rows: Rows, commit: Commit, configuration: Mapping[str, str] = MappingProxyType({})) -> bool:
        app, version, note = commit.app, commit.version, _note(commit)
        if isinstance(rows, pa.Table):
            return native.append(self.path, rows, app, version, configuration, note)
        if not native.exists(self.path) or self.takes_files(self.snapshot().schema):
            return commit_files(self.path, rows.location, app, version, "append", None, configuration, note)
        batches = parquet.stream(rows.location, arrow_schema(self.snapshot().schema))
        return native.append(self.path, batches, app, version, configuration, note)

    def merge(self, changes: Rows | QueriedRows, key: Sequence[str], commit: Commit) -> None:
        assert not isinstance(changes, QueriedRows), "what Spark is to query, Spark merges"
        rows = changes if isinstance(changes, pa.Table) else changes.collect(changes.num_rows)
        bags.merge(self.path, rows, key, commit.app, commit.version, _note(commit))

    def merge_anew(self, changes: pa.Table, commit: Commit, folder: Location) -> bool:
        """As `merge`, by new files for all rows, made in a folder: cheaper where a delta touches most of the files.

        The feed then tells of all rows. False where it isn't done so (see `ivm.lake.parquet_merge`).
        """
        if _done(native.table(self.path), commit):
            return True
        try:  # by a handle that isn't held: the commit takes one that nobody reads with
            write_merged(self.path, native.table(self.path), changes, folder)
        except UnfitError as reason:
            _log.debug("%s: merged by delta-rs: %s", self.path, reason)
            return False
        commit_files(self.path, folder, commit.app, commit.version, "overwrite", None, None, _note(commit))
        return True

    def replace(
        self,
        rows: Rows,
        schema: str,
        commit: Commit,
        configuration: Mapping[str, str] = MappingProxyType({}),
        where: Condition | None = None,
    ) -> None:
        columns, app, version, note = arrow_schema(schema), commit.app, commit.version, _note(commit)
        few = isinstance(rows, pa.Table) or rows.num_rows <= self.limits.compare_rows
        if few or where is not None or not self.takes_files(schema):
            data = rows.cast(columns) if isinstance(rows, pa.Table) else parquet.stream(rows.location, columns)
            condition = where(native_ident) if where is not None else ""
            native.overwrite(self.path, data, app, version, configuration, note, condition)
        else:
            commit_files(self.path, rows.location, app, version, "overwrite", columns, configuration, note)

    def takes_files(self, schema: str) -> bool:
        """Whether files that Spark wrote can take the place of all rows, whatever passes through this process else."""
        return not padded_columns(schema) and takes_files(self.path, arrow_schema(schema))

    def delete(self, where: Condition, commit: Commit) -> None:
        delta = native.writable(self.path)
        if _done(delta, commit):
            return
        with native.committing(self.path):
            delta.delete(where(native_ident), commit_properties=_properties(commit))

    def compact(self, commit: Commit, target: int | None = None) -> None:
        native.writable(self.path).optimize.compact(target_size=target, commit_properties=_properties(commit))

    def vacuum(self, hours: int, commit: Commit) -> None:
        native.vacuum(self.path, hours, _properties(commit))


#: Rows of a file that is handed to Spark.
_FILE_ROWS = 500_000


def _together(parts: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Small parts together, until they are about so many rows."""
    held: list[pa.Table] = []
    for part in parts:
        held.append(part)
        if sum(p.num_rows for p in held) >= rows:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _snapshot(delta: DeltaTable) -> Snapshot:
    metadata, protocol, schema = delta.metadata(), delta.protocol(), delta.schema().to_json()
    rows, files, size = native.recorded_size(delta)
    return Snapshot(
        delta.version(),
        str(metadata.id),
        columns_of(schema),
        tuple(metadata.partition_columns),
        features(protocol.min_writer_version, protocol.reader_features, protocol.writer_features),
        dict(metadata.configuration),
        rows,
        files,
        size,
        schema,
    )


def _done(delta: DeltaTable, commit: Commit) -> bool:
    done = delta.transaction_version(commit.app) if commit.app else None
    return done is not None and int(done) >= commit.version


def _note(commit: Commit) -> dict[str, str]:
    owner = {} if commit.app else tag(commit.owner)
    return {NOTE: commit.note, **owner} if commit.note else owner


def _properties(commit: Commit) -> CommitProperties:
    return native.properties(commit.app, commit.version, _note(commit))
