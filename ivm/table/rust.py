"""The lane of delta-rs: Arrow in and out, no session."""

from __future__ import annotations

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
from ivm.lake.log import NOTE, tagged
from ivm.lake.shapes import arrow_schema
from ivm.lake.types import beyond_arrow, columns_of, padded_columns
from ivm.names import native_ident
from ivm.plan.nodes import Column
from ivm.planner.limits import EMBEDDED, Limits
from ivm.session import error_text
from ivm.storage.location import Location
from ivm.table.protocol import MAKING, TELLING, Commit, Condition, Snapshot, Verb, Wanted, forbidden


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

    def find(
        self, columns: Sequence[str], wanted: Sequence[Wanted], version: int | None = None, most: int | None = None
    ) -> pa.Table:
        keys = [(w.columns, w.keys, w.between) for w in wanted]
        with tempfile.TemporaryDirectory(prefix="ivm_") as folder:
            reader = KeyedReader(self.path, native.table(self.path, version), self.limits.literal_keys)
            return reader.find(columns, keys, Location.of(folder), most=most)

    def feed(self, first: int, last: int, columns: Sequence[str], most: int) -> pa.Table:
        return native.change_feed(native.table(self.path, last), first, last, columns, most)

    def feed_into(self, first: int, last: int, columns: Sequence[str], folder: Location) -> None:
        """The feed as Parquet files in a folder, of any size: little of it is held at a time."""
        parts = native.change_feed_parts(native.table(self.path, last), first, last, columns)
        for number, rows in enumerate(_together(parts, _FILE_ROWS)):
            parquet.write(rows, folder / f"{number}.parquet", _FILE_ROWS)

    def transaction(self, app: str) -> int | None:
        return native.last_txn(self.path, app)

    def append(self, rows: Rows, commit: Commit, configuration: Mapping[str, str] = MappingProxyType({})) -> None:
        if isinstance(rows, pa.Table):
            native.append(self.path, rows, commit.app, commit.version, configuration, _note(commit))
        elif not native.exists(self.path) or self.takes_files(self.snapshot().schema):
            place, note = rows.location, _note(commit)
            commit_files(self.path, place, commit.app, commit.version, "append", None, configuration, note)
        else:
            batches = parquet.stream(rows.location, arrow_schema(self.snapshot().schema))
            native.append(self.path, batches, commit.app, commit.version, configuration, _note(commit))

    def merge(self, changes: Rows | QueriedRows, key: Sequence[str], commit: Commit) -> None:
        assert not isinstance(changes, QueriedRows), "what Spark is to query, Spark merges"
        rows = changes if isinstance(changes, pa.Table) else changes.collect(changes.num_rows)
        bags.merge(self.path, rows, key, commit.app, commit.version, _note(commit))

    def replace(
        self, rows: Rows, schema: str, commit: Commit, configuration: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        columns, note = arrow_schema(schema), _note(commit)
        if isinstance(rows, pa.Table):
            native.overwrite(self.path, rows.cast(columns), commit.app, commit.version, configuration, note)
        elif rows.num_rows > self.limits.compare_rows and self.takes_files(schema):
            place = rows.location
            commit_files(self.path, place, commit.app, commit.version, "overwrite", columns, configuration, note)
        else:
            batches = parquet.stream(rows.location, columns)
            native.overwrite(self.path, batches, commit.app, commit.version, configuration, note)

    def takes_files(self, schema: str) -> bool:
        """Whether files that Spark wrote can take the place of all rows, whatever passes through this process else."""
        return not padded_columns(schema) and takes_files(self.path, arrow_schema(schema))

    def delete(self, where: Condition, commit: Commit) -> None:
        delta = native.writable(self.path)
        if _done(delta, commit):
            return
        with native.committing(self.path):
            delta.delete(where(native_ident), commit_properties=_properties(commit))

    def compact(self, commit: Commit) -> None:
        native.writable(self.path).optimize.compact(commit_properties=_properties(commit))

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
    rows, size = native.recorded_size(delta)
    return Snapshot(
        delta.version(),
        str(metadata.id),
        columns_of(schema),
        tuple(metadata.partition_columns),
        features(protocol.min_writer_version, protocol.reader_features, protocol.writer_features),
        dict(metadata.configuration),
        rows,
        size,
        schema,
    )


def _done(delta: DeltaTable, commit: Commit) -> bool:
    done = delta.transaction_version(commit.app) if commit.app else None
    return done is not None and int(done) >= commit.version


def _note(commit: Commit) -> dict[str, str]:
    return {NOTE: commit.note} if commit.note else {}


def _properties(commit: Commit) -> CommitProperties:
    return native.properties(commit.app, commit.version, _note(commit)) if commit.app else tagged(commit.owner)
