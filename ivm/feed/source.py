"""A source: a Delta table with a change feed, and what a refresh must know of it before it starts.

Invariant: a version range is answered with its exact delta, or with the reason why there is none (a gap); a
gap is never an empty delta.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from deltalake.exceptions import DeltaError, TableNotFoundError

from ivm.errors import SourceError, StorageError
from ivm.feed.history import FEED, Commits, LogFolder, SparkHistory, feed_is_on
from ivm.lake import native
from ivm.lake.calendars import old_calendar
from ivm.lake.commits import commit_file
from ivm.lake.types import columns_of
from ivm.names import is_path, literal, table_ref
from ivm.parameters import location
from ivm.plan.nodes import Column
from ivm.planner.lanes import Lane, reads
from ivm.session import error_text
from ivm.storage.location import Location, served
from ivm.storage.objects import trouble
from ivm.table.spark import SparkTable

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

#: What tells a day, as the types of an effective date.
DATED = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Source:
    """A declared source. `primary_key` and `foreign_keys` (columns -> source) only steer the planner.

    `effective_date` is the column that tells from which day a row holds, "" where rows hold as soon as they are there.
    """

    name: str
    location: str
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[tuple[tuple[str, ...], str], ...] = ()
    effective_date: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The source `name` as it is now. `path` is its folder; `by_spark` is empty if delta-rs may read it, else why not.

    `schema` is Delta's own, in JSON. `fingerprint` identifies the newest commit, whatever its number. Of a `searched`
    one Spark reads all but what is looked for by keys, for which DuckDB's reader does what delta-rs can't, and changes
    of which few deletion vectors tell.
    """

    name: str
    version: int
    table_id: str
    columns: tuple[Column, ...]
    path: str
    by_spark: str
    schema: str
    fingerprint: str
    configuration: Mapping[str, str] = field(repr=False, compare=False)
    commits: Commits = field(repr=False, compare=False)
    searched: bool = False


#: Gives a session when one is needed; None where none shall be started.
Session = Callable[[], "SparkSession"] | None


def inspect(source: Source, spark: Session, lane: str) -> Snapshot:
    """Look at a source. Raises SourceError where it isn't a Delta table with a change feed.

    `spark` is asked for catalog identifiers and for tables that delta-rs can't open: of a scheme that it doesn't know,
    or in a store that only Spark has the credentials for.
    """
    path = source.location
    if not is_path(path):
        path = _catalog_location(source, spark)
    place = served(path)
    if place is None:
        return _inspect_spark(source, path, spark, lane, f"it doesn't serve {path}")
    try:
        return _inspect_native(source, place, lane)
    except StorageError as error:
        if lane == "native" or spark is None:
            raise SourceError(f"Source {source.name!r}: {error.message}", error.hint) from error
        return _inspect_spark(source, path, spark, lane, error.message)


def is_newest(source: Source, snapshot: Snapshot) -> bool:
    """Whether a table is still as it was looked at, by two look-ups; False where that isn't told by its log alone."""
    if not is_path(source.location) or not isinstance(snapshot.commits, LogFolder) or not snapshot.fingerprint:
        return False
    same = snapshot.commits.fingerprint(snapshot.version) == snapshot.fingerprint
    return same and not commit_file(snapshot.path, snapshot.version + 1).exists()


def _inspect_native(source: Source, place: Location, lane: str) -> Snapshot:
    path = place.url
    if not place.exists():
        raise SourceError(f"Source {source.name!r}: there is nothing at {path}.", "Check the path of the source.")
    try:
        delta = native.table(path)
    except (TableNotFoundError, DeltaError) as error:
        if not (place / "_delta_log").exists():
            raise SourceError(
                f"Source {source.name!r}: {path} is not a Delta table (it has no _delta_log).",
                f"For a folder of Parquet files run CONVERT TO DELTA parquet.`{path}` first.",
            ) from error
        raise SourceError(
            f"Source {source.name!r}: {path} can't be opened ({error}).", "Check the table's log."
        ) from error
    except OSError as error:
        if place.local:
            raise
        raise trouble(path, error) from error
    metadata = delta.metadata()
    if untold := native.refusal_of_files(delta):
        _require_feed(source, metadata.configuration, f", and its files alone don't tell its changes ({untold})")
    schema = delta.schema().to_json()
    columns = columns_of(schema)
    _require_declared(source, columns)
    version = delta.version()
    commits = LogFolder(path, version, by_files=not feed_is_on(metadata.configuration))
    refused, searched = _read_by(source.name, path, delta, lane)
    return Snapshot(
        source.name, version, str(metadata.id), columns, path, refused, schema,
        commits.fingerprint(version), metadata.configuration, commits, searched,
    )  # fmt: skip


def as_of(snapshot: Snapshot, version: int | None, lane: str) -> Snapshot:
    """A snapshot whose rows are read as of a version: by whom is asked of the files that it held.

    Raises SourceError as `inspect` does. What only Spark reads stays so.
    """
    if version in (None, snapshot.version) or (snapshot.by_spark and not snapshot.searched):
        return snapshot
    try:
        delta = native.table(snapshot.path, version)
    except (DeltaError, OSError, StorageError):  # it is gone, which whoever reads it says
        return snapshot
    refused, searched = _read_by(snapshot.name, snapshot.path, delta, lane)
    return replace(snapshot, by_spark=refused, searched=searched)


def _read_by(name: str, path: str, delta: DeltaTable, lane: str) -> tuple[str, bool]:
    """Why Spark reads a table, "" where delta-rs does, and whether DuckDB's reader may find rows in it."""
    refused = _refused(name, path, native.refusal(delta) or old_calendar(path, delta), lane)
    return refused, lane == "auto" and refused != "" and refused == native.many_vectors(delta)


def _refused(name: str, place: str, why: str, lane: str) -> str:
    """Why Spark reads a source, "" where delta-rs does.

    Raises SourceError where the native lane is set and delta-rs can't be trusted with it.
    """
    found = reads(lane, why)
    if found.lane is Lane.NOBODY:
        raise SourceError(
            f"Source {name!r} ({place}) can't be read by delta-rs alone, as the lane native asks: {why}.",
            "Set lane auto: Spark then reads this source, and delta-rs those that it can.",
        )
    return found.reason if found.lane is Lane.SPARK else ""


def _inspect_spark(source: Source, path: str, spark: Session, lane: str, why: str) -> Snapshot:
    refused = _refused(source.name, source.location, why, lane)
    if spark is None:
        raise SourceError(
            f"Source {source.name!r} at {path} needs a Spark session to be read.",
            "Pass spark= or set IVM_SPARK_REMOTE.",
        )
    session, ref = spark(), table_ref(source.location)
    try:
        detail = session.sql(f"DESCRIBE DETAIL {ref}").first()
        commits = SparkHistory(source.location, session)
        version = commits.newest()
        schema = session.sql(f"SELECT * FROM {ref} LIMIT 0").schema
    except Exception as error:  # a file system inside Spark raises classes of its own
        raise SourceError(
            (
                f"Source {source.name!r}: {source.location} can't be read as a Delta table: "
                f"Spark says {error_text(error)}, and delta-rs can't since {why}"
            ),
            "See docs/locations.md for what each of them needs.",
        ) from error
    assert detail is not None
    _require_feed(source, detail["properties"] or {})
    columns = tuple(Column(f.name, f.dataType.simpleString()) for f in schema.fields)
    _require_declared(source, columns)
    return Snapshot(
        source.name, version, str(detail["id"]), columns, path, refused, schema.json(),
        commits.fingerprint(version), detail["properties"], commits,
    )  # fmt: skip


def count_rows(snapshot: Snapshot, spark: Session) -> int | None:
    """The rows of a source, for the planner: no source is too remote or strange to have a size.

    delta-rs counts what it reads exactly; of other tables it sums the files' statistics. Where it can't open the table
    or a file lacks them Spark counts, from the same statistics where it can. None without a session to do so.
    """
    if served(snapshot.path) is not None:
        try:
            delta = native.table(snapshot.path, snapshot.version)
            known = native.recorded_size(delta)[0] if snapshot.by_spark else native.rows(delta)
        except (DeltaError, OSError, StorageError):
            known = None  # it may serve neither this table nor this store
        if known is not None:
            return known
    if spark is None:
        return None
    return SparkTable(snapshot.path, spark).count(snapshot.version)


def count_bytes(snapshot: Snapshot) -> int | None:
    """The bytes of a source's data files, by its log. None where delta-rs can't open the table."""
    if served(snapshot.path) is None:
        return None
    try:
        return native.recorded_size(native.table(snapshot.path, snapshot.version))[2]
    except (DeltaError, OSError, StorageError):
        return None


def _catalog_location(source: Source, spark: Session) -> str:

    if spark is None:
        raise SourceError(
            f"Source {source.name!r} is a catalog identifier ({source.location}), which needs a Spark session.",
            "Pass spark= or give a path.",
        )
    session = spark()
    try:
        row = session.sql(f"DESCRIBE DETAIL {table_ref(source.location)}").first()
    except Exception as error:  # a file system inside Spark raises classes of its own
        raise SourceError(
            f"Source {source.name!r}: the catalog has no table {source.location!r}.",
            f"A path must contain a slash. Spark says: {str(error).splitlines()[0]}",
        ) from error
    if row is None or row["format"] != "delta":
        raise SourceError(
            f"Source {source.name!r}: {source.location} is not a Delta table.", "Convert it with CONVERT TO DELTA."
        )
    return location(str(row["location"]), f"Source {source.name!r}: its location")


def _require_feed(source: Source, properties: Mapping[str, str], why: str = "") -> None:
    if not feed_is_on(properties):
        raise SourceError(
            f"Source {source.name!r} ({source.location}) has no change data feed{why}.",
            f"Switch it on with: ALTER TABLE {table_ref(source.location)} SET TBLPROPERTIES ({literal(FEED)} = 'true')",
        )


def _require_declared(source: Source, columns: tuple[Column, ...]) -> None:
    """Raises SourceError where a column that was declared isn't there, or can't be what it was declared as."""
    types = {c.name.lower(): c.type for c in columns}
    declared = [
        *source.primary_key,
        *(c for cs, _ in source.foreign_keys for c in cs),
        *([source.effective_date] if source.effective_date else []),
    ]
    missing = [k for k in declared if k.lower() not in types]
    if missing:
        raise SourceError(
            f"Source {source.name!r}: the declared key column(s) {', '.join(missing)} don't exist.",
            f"There are: {', '.join(c.name for c in columns)}.",
        )
    day = source.effective_date
    if day and types[day.lower()] not in DATED:
        raise SourceError(
            f"Source {source.name!r}: its effective date {day!r} is a column of the type {types[day.lower()]}.",
            f"Name one of the type {', '.join(DATED[:-1])} or {DATED[-1]}, or let the source's writer add one.",
        )


def gap(snapshot: Snapshot, version: int, table_id: str, fingerprint: str) -> str:
    """Why the feed can't tell what changed since a commit of a table that was read; empty if it can.

    An empty `fingerprint` (state of an ivm that kept none) is taken for the right one.
    """
    replaced = other_commit(snapshot, version, table_id, fingerprint)
    if replaced or snapshot.version == version:
        return replaced
    if fingerprint and not snapshot.commits.fingerprint(version):
        return (
            f"the log entry of version {version}, up to which the source was read, is gone: "
            "nothing shows that its history is still the same"
        )
    return snapshot.commits.broken(version + 1, snapshot.version)


def other_commit(snapshot: Snapshot, version: int, table_id: str, fingerprint: str) -> str:
    """Why a commit that was read, or planned to be, is not one of this table's.

    Empty if it is, or if its log entry is gone.
    """
    if snapshot.table_id != table_id:
        return "the source was replaced by another table"
    if snapshot.version < version:
        return f"the source went back from version {version} to {snapshot.version}"
    found = (
        snapshot.fingerprint
        if version == snapshot.version
        else snapshot.commits.fingerprint(version)
        if fingerprint
        else ""
    )
    if fingerprint and found and found != fingerprint:
        return (
            f"version {version} of the source is not the commit that was read: "
            "the table was restored from a copy, or its log was rewritten"
        )
    return ""
