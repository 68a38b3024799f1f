"""A table's commits: what identifies each, and what each says about the change feed.

    identity of a commit = its version and the fingerprint of its log entry

Two tables that went the same way up to a version have the same fingerprint there; a folder that was restored from a
copy and then written to has another one. Commits never change, so what was read of one is kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from ivm.lake import native
from ivm.lake.commits import commit_file, fingerprint
from ivm.lake.log import read_actions
from ivm.names import table_ref
from ivm.storage.location import Location, Stat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEED = "delta.enableChangeDataFeed"


def feed_is_on(properties: Mapping[str, Any] | None) -> bool:
    """Whether a table has a feed by its properties, in which Delta leaves the case of `true` as it was written."""
    return str((properties or {}).get(FEED, "false")).lower() == "true"


#: Commits of which a process keeps what they say: thousands in the range of a lagging view are read once,
#: not once a view.
KEPT_COMMITS = 100_000


class Commits(Protocol):
    """The commits of one table, by version."""

    def fingerprint(self, version: int) -> str:
        """Identifies the commit; empty where its log entry is gone."""

    def broken(self, first: int, last: int) -> str:
        """Why the feed of these versions can't be read as one; empty where nothing speaks against it."""

    def fed(self, first: int, last: int) -> bool:
        """Whether the feed was on before these versions and at the newest; else their files tell what changed."""

    def gained(self, first: int, last: int) -> int | None:
        """How many rows the table has more after these versions than before them; None where the log doesn't say."""

    def changed(self, first: int, last: int) -> int | None:
        """About how many rows the feed of these versions holds, for estimates; None where the log doesn't say."""

    def at(self, version: int) -> datetime | None:
        """When the commit was made; None where its log entry is gone."""


@dataclass(frozen=True)
class Entry:
    """What a commit's log entry says.

    `feed`: whether it switches the feed on or off (None: neither). `gained`: by how many rows it made the table longer,
    None where a file comes or goes without a count. `shape` is what the table looks like from then on, None where it
    says nothing of it. `at` is in milliseconds. `changed`: about how many rows its part of the feed has, None where
    that isn't told.
    """

    at: int
    operation: str
    engine: str
    feed: bool | None
    gained: int | None
    shape: Shape | None = None
    changed: int | None = None


@dataclass(frozen=True)
class Shape:
    """What a feed must not be read across.

    That is the columns that a table is partitioned by, and the name in its files of each field, by its name.
    """

    partitions: tuple[str, ...]
    stored: Mapping[str, str]

    @classmethod
    def of(cls, partitions: Iterable[str], schema_json: str) -> Shape:
        return cls(tuple(partitions), dict(_stored(json.loads(schema_json))))

    def broken(self, later: Shape) -> str:
        """Why rows of both shapes can't be read as one feed; empty where they can."""
        if self.partitions != later.partitions:
            # Read across such a change, Spark's feed gives NULL for the partition columns of rows in older files.
            return "the partitioning changed"
        other = [name for name, stored in later.stored.items() if self.stored.get(name, stored) != stored]
        # Of such a column the feed gives NULL for the rows of older files, whatever these hold.
        return f"another column took the name of {other[0].lstrip('.')!r}" if other else ""


@dataclass(frozen=True)
class LogFolder:
    """The commits in a `_delta_log`, read without Spark.

    `by_files`: the table has no feed; its changes are those of its files (`ivm.feed.moved_files`), which every commit
    tells. Whether it has one is known of the version `newest`.
    """

    path: str
    newest: int
    by_files: bool = False

    def fingerprint(self, version: int) -> str:
        return fingerprint(self.path, version)

    def broken(self, first: int, last: int) -> str:
        before: Shape | None = None
        for version in range(first, last + 1):
            try:
                entry = self.entry(version)
            except FileNotFoundError:
                return _gone(version)
            why = "" if self.by_files else _untold(version, entry.operation, entry.engine)
            if why:
                return why
            if entry.feed is False and not self.by_files:
                return f"the change feed was off at version {version}"
            if entry.shape is not None:
                before = before or self._shape(first - 1)
                why = (
                    before.broken(entry.shape)
                    if before
                    else "what the table looked like before can't be read; its shape was set"
                )
                if why:
                    return f"{why} at version {version}"
        return ""

    def fed(self, first: int, last: int) -> bool:
        if self.by_files:
            return False
        try:
            switched = any(self.entry(v).feed for v in range(first, max(last, self.newest) + 1))
            return not switched or feed_is_on(native.table(self.path, first - 1).metadata().configuration)
        except Exception:  # noqa: BLE001 - whatever keeps that version from being opened, the feed isn't relied on
            return False

    def _shape(self, version: int) -> Shape | None:
        """What the table looked like at a version; None where that can't be opened any more."""
        try:
            delta = native.table(self.path, version)
            return Shape.of(delta.metadata().partition_columns, delta.schema().to_json())
        except Exception:  # noqa: BLE001 - whatever keeps it from being opened, it can't be told
            return None

    def gained(self, first: int, last: int) -> int | None:
        try:
            gains = [self.entry(v).gained for v in range(first, last + 1)]
        except FileNotFoundError:
            return None
        return None if None in gains else sum(g for g in gains if g is not None)

    def changed(self, first: int, last: int) -> int | None:
        try:
            found = [self.entry(v).changed for v in range(first, last + 1)]
        except FileNotFoundError:
            return None
        return None if None in found else sum(n for n in found if n is not None)

    def at(self, version: int) -> datetime | None:
        try:
            return datetime.fromtimestamp(self.entry(version).at / 1000, UTC)
        except FileNotFoundError:
            return None

    def entry(self, version: int) -> Entry:
        """Raises FileNotFoundError where it is gone."""
        file = commit_file(self.path, version)
        found = file.stat()
        if found is None:
            raise FileNotFoundError(file.url)
        return _entry(file, found)


@dataclass(frozen=True)
class SparkHistory:
    """The commits of a table that only Spark reaches, by DESCRIBE HISTORY.

    A feed that was off for a while Spark itself refuses to read.
    """

    location: str
    spark: SparkSession
    _known: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    def newest(self) -> int:
        """The table's version. Raises what Spark raises."""
        return max(self._ask(" LIMIT 1", "true"))

    def fingerprint(self, version: int) -> str:
        row = self._row(version)
        told = ("version", "at", "operation", "operationParameters", "operationMetrics")
        return (
            hashlib.sha256(json.dumps({name: row[name] for name in told}, sort_keys=True).encode()).hexdigest()[:16]
            if row
            else ""
        )

    def broken(self, first: int, last: int) -> str:
        for version in range(first, last + 1):
            row = self._row(version)
            why = _untold(version, row["operation"], row["engineInfo"] or "") if row else _gone(version)
            if why:
                return why
            if "REPLACE" in row["operation"] or (row["operationParameters"] or {}).get("mode") == "Overwrite":
                return f"the source was overwritten at version {version}, which may have changed its partitioning"
            if row["operation"] in _RENAMING:
                return f"columns were renamed or dropped at version {version}"
        return ""

    def fed(self, first: int, last: int) -> bool:  # noqa: ARG002 - Spark itself refuses to read across a switch
        return True

    def gained(self, first: int, last: int) -> int | None:  # noqa: ARG002 - its operations' metrics are no exact counts
        return None

    def changed(self, first: int, last: int) -> int | None:
        rows = [self._row(v) for v in range(first, last + 1)]
        told = [_told_rows(row.get("operationMetrics") or {}) for row in rows]
        return None if None in told else sum(n for n in told if n is not None)

    def at(self, version: int) -> datetime | None:
        row = self._row(version)
        return datetime.fromtimestamp(row["at"] / 1e6, UTC) if row else None

    def _row(self, version: int) -> dict[str, Any]:
        """Empty where it is gone. What is asked of one commit is asked of those after it as well."""
        if version not in self._known:
            self._ask("", f"version >= {int(version)}")
        return self._known.setdefault(version, {})

    def _ask(self, limit: str, where: str) -> dict[int, dict[str, Any]]:
        told = (
            "version",
            "unix_micros(timestamp) AS at",
            "operation",
            "operationParameters",
            "operationMetrics",
            "engineInfo",
        )
        rows = (
            self.spark.sql(f"DESCRIBE HISTORY {table_ref(self.location)}{limit}")
            .where(where)
            .selectExpr(*told)
            .collect()
        )
        self._known.update({r["version"]: r.asDict(recursive=True) for r in rows})
        return self._known


#: After these another column may have a name that was read before.
_RENAMING = ("RENAME COLUMN", "DROP COLUMNS", "REPLACE COLUMNS")


def _stored(type_: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Each field of a Delta type, by its path, with its name in the table's files.

    >>> field = {"name": "b", "type": "int", "metadata": {"delta.columnMapping.physicalName": "col-1"}}
    >>> inner = {"type": "struct", "fields": [field]}
    >>> dict(_stored({"type": "struct", "fields": [{"name": "a", "type": {"type": "array", "elementType": inner}}]}))
    {'.a': 'a', '.a.b': 'col-1'}
    """
    if not isinstance(type_, dict):
        return
    for field_ in type_.get("fields", ()):
        name = f"{path}.{field_['name'].lower()}"
        yield name, (field_.get("metadata") or {}).get("delta.columnMapping.physicalName", field_["name"])
        yield from _stored(field_["type"], name)
    for inner in ("elementType", "keyType", "valueType"):
        yield from _stored(type_.get(inner), path)


def _gone(version: int) -> str:
    return f"the log entry of version {version} is gone"


def _untold(version: int, operation: str, engine: str) -> str:
    """Why an operation's change files don't tell all that it changed."""
    if operation == "RESTORE":
        return f"the source was restored at version {version}"
    if operation == "UPDATE" and engine.startswith("delta-rs"):
        # Seen in deltalake 1.6.6: rows of the rewritten files that equal one on the other side are left out,
        # whichever rows were updated.
        return f"version {version} is an UPDATE by delta-rs, whose change files leave out rows that equal others"
    return ""


@functools.lru_cache(maxsize=KEPT_COMMITS)
def _entry(file: Location, as_it_is: Stat) -> Entry:
    """Read one log entry; `as_it_is` tells apart what was written in its place."""
    commit: Mapping[str, Any] = {}
    feed: bool | None = None
    shape: Shape | None = None
    gained: int | None = 0
    files: dict[str, int | None] = {}
    kinds: set[str] = set()
    for action in read_actions(file):
        kinds |= action.keys()
        commit = action.get("commitInfo") or commit
        if metadata := action.get("metaData"):
            feed = feed_is_on(metadata.get("configuration"))
            shape = Shape.of(metadata.get("partitionColumns") or (), metadata["schemaString"])
        for kind, sign in (("add", 1), ("remove", -1)):
            if (moved := action.get(kind)) and moved.get("dataChange", True):
                rows = _live_rows(moved)
                gained = None if gained is None or rows is None else gained + sign * rows
                before = files.get(moved["path"], 0)
                files[moved["path"]] = None if before is None or rows is None else before + sign * rows
    at = commit.get("inCommitTimestamp") or commit.get("timestamp") or int(as_it_is.modified.timestamp() * 1000)
    return Entry(
        int(at),
        commit.get("operation") or "",
        commit.get("engineInfo") or commit.get("clientVersion") or "",
        feed,
        gained,
        shape,
        _changed(files, kinds, commit.get("operationMetrics") or {}),
    )


def _changed(files: Mapping[str, int | None], kinds: Collection[str], metrics: Mapping[str, Any]) -> int | None:
    """About how many changes a commit's feed has, by its files' rows and the kinds of its actions.

    Without change files they are the rows of the files that came and went; with them, or where these aren't counted,
    what the writer says that it did. An overwrite says only what it wrote.
    """
    if "cdc" in kinds or None in files.values():
        overwritten = "remove" in kinds and not any(name in _plain(metrics) for name in _ROWS_TOLD)
        return None if overwritten else _told_rows(metrics)
    return sum(abs(rows) for rows in files.values() if rows is not None)


#: What writers call their rows, without underscores and capitals, and how many changes each is in the feed.
_ROWS_TOLD = {
    "numdeletedrows": 1,
    "numupdatedrows": 2,
    "numtargetrowsinserted": 1,
    "numtargetrowsupdated": 2,
    "numtargetrowsdeleted": 1,
}
_ROWS_WRITTEN = ("numoutputrows", "numaddedrows")


def _told_rows(metrics: Mapping[str, Any]) -> int | None:
    """The changes that an operation's metrics tell of; None where they tell of none.

    >>> _told_rows({"numTargetRowsInserted": "3", "numTargetRowsUpdated": "2", "numOutputRows": "9"})
    7
    >>> _told_rows({"num_added_rows": 4}), _told_rows({"numFiles": 1})
    (4, None)
    """
    plain = _plain(metrics)
    told = [int(plain[name]) * each for name, each in _ROWS_TOLD.items() if name in plain]
    return sum(told) if told else next((int(plain[name]) for name in _ROWS_WRITTEN if name in plain), None)


def _plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "").lower(): value for name, value in metrics.items()}


def _live_rows(file: Mapping[str, Any]) -> int | None:
    """The rows of a data file that its deletion vector leaves; None without statistics."""
    rows = json.loads(file.get("stats") or "{}").get("numRecords")
    return None if rows is None else int(rows) - int((file.get("deletionVector") or {}).get("cardinality", 0))
