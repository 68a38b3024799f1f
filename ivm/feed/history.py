"""A table's commits: what identifies each, and what each says about the change feed.

    identity of a commit = its version and the fingerprint of its log entry

Two tables that went the same way up to a version have the same fingerprint there; a folder that was restored from a
copy and then written to has another one. Commits never change, so what was read of one is kept.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ivm.names import table_ref

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEED = "delta.enableChangeDataFeed"
#: Commits of which a process keeps what they say: thousands in the range of a lagging view are read once, not once a view.
KEPT_COMMITS = 100_000


class Commits(Protocol):
    """The commits of one table, by version."""

    def fingerprint(self, version: int) -> str:
        """Identifies the commit; empty where its log entry is gone."""

    def broken(self, first: int, last: int) -> str:
        """Why the feed of these versions can't be read as one; empty where nothing speaks against it."""

    def gained(self, first: int, last: int) -> int | None:
        """How many rows the table has more after these versions than before them; None where the log doesn't say."""

    def at(self, version: int) -> datetime | None:
        """When the commit was made; None where its log entry is gone."""


@dataclass(frozen=True)
class Entry:
    """What a commit's log entry says.

    `feed`: whether it switches the feed on or off (None: neither). `gained`: by how many rows it made the table longer, None
    where a file comes or goes without a count. `at` is in milliseconds.
    """

    at: int
    operation: str
    engine: str
    feed: bool | None
    gained: int | None


@dataclass(frozen=True)
class LogFolder:
    """The commits in a local `_delta_log`."""

    path: str

    def _file(self, version: int) -> Path:
        return Path(self.path) / "_delta_log" / f"{version:020d}.json"

    def fingerprint(self, version: int) -> str:
        try:
            return _digest(self._file(version).read_bytes())
        except FileNotFoundError:
            return ""

    def broken(self, first: int, last: int) -> str:
        for version in range(first, last + 1):
            try:
                entry = self.entry(version)
            except FileNotFoundError:
                return _gone(version)
            why = _untold(version, entry.operation, entry.engine)
            if why:
                return why
            if entry.feed is False:
                return f"the change feed was off at version {version}"
        return ""

    def gained(self, first: int, last: int) -> int | None:
        try:
            gains = [self.entry(v).gained for v in range(first, last + 1)]
        except FileNotFoundError:
            return None
        return None if None in gains else sum(g for g in gains if g is not None)

    def at(self, version: int) -> datetime | None:
        try:
            return datetime.fromtimestamp(self.entry(version).at / 1000, UTC)
        except FileNotFoundError:
            return None

    def entry(self, version: int) -> Entry:
        """Raises FileNotFoundError where it is gone."""
        file = self._file(version)
        found = file.stat()
        return _entry(str(file), found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class SparkHistory:
    """The commits of a table that only Spark reaches, by DESCRIBE HISTORY. A feed that was off for a while Spark itself refuses to read."""

    location: str
    spark: SparkSession
    _known: dict[int, str] = field(default_factory=dict, repr=False, compare=False)

    def fingerprint(self, version: int) -> str:
        if version not in self._known:
            told = ("version", "unix_micros(timestamp) AS at", "operation", "operationParameters", "operationMetrics")
            row = self._history().where(f"version = {int(version)}").selectExpr(*told).first()
            self._known[version] = _digest(json.dumps(row.asDict(recursive=True), sort_keys=True).encode()) if row is not None else ""
        return self._known[version]

    def broken(self, first: int, last: int) -> str:
        rows = self._history().where(f"version BETWEEN {int(first)} AND {int(last)}").select("version", "operation", "engineInfo").collect()
        told = {r["version"]: _untold(r["version"], r["operation"], r["engineInfo"] or "") for r in rows}
        return next((why for v in range(first, last + 1) if (why := told.get(v, _gone(v)))), "")

    def gained(self, first: int, last: int) -> int | None:  # noqa: ARG002 - its operations' metrics are no exact counts
        return None

    def at(self, version: int) -> datetime | None:
        row = self._history().where(f"version = {int(version)}").selectExpr("unix_millis(timestamp) AS at").first()
        return datetime.fromtimestamp(row["at"] / 1000, UTC) if row is not None else None

    def _history(self) -> DataFrame:
        return self.spark.sql(f"DESCRIBE HISTORY {table_ref(self.location)}")


def _gone(version: int) -> str:
    return f"the log entry of version {version} is gone"


def _untold(version: int, operation: str, engine: str) -> str:
    """Why an operation's change files don't tell all that it changed."""
    if operation == "RESTORE":
        return f"the source was restored at version {version}"
    if operation == "UPDATE" and engine.startswith("delta-rs"):
        # Seen in deltalake 1.6.6: rows of the rewritten files that equal one on the other side are left out, whichever rows were updated.
        return f"version {version} is an UPDATE by delta-rs, whose change files leave out rows that equal others"
    return ""


def _digest(entry: bytes) -> str:
    return hashlib.sha256(entry).hexdigest()[:32]


@functools.lru_cache(maxsize=KEPT_COMMITS)
def _entry(file: str, *_identity: int) -> Entry:
    """Read one log entry; `_identity` (of the file) tells apart what was written in its place."""
    commit: dict[str, Any] = {}
    feed: bool | None = None
    gained: int | None = 0
    with Path(file).open(encoding="utf-8") as lines:
        for line in lines:
            action: dict[str, Any] = json.loads(line) if line.strip() else {}
            commit = action.get("commitInfo") or commit
            if metadata := action.get("metaData"):
                feed = str((metadata.get("configuration") or {}).get(FEED, "false")).lower() == "true"
            for kind, sign in (("add", 1), ("remove", -1)):
                if (moved := action.get(kind)) and moved.get("dataChange", True):
                    rows = _live_rows(moved)
                    gained = None if gained is None or rows is None else gained + sign * rows
    at = commit.get("inCommitTimestamp") or commit.get("timestamp") or int(Path(file).stat().st_mtime * 1000)
    return Entry(int(at), commit.get("operation") or "", commit.get("engineInfo") or commit.get("clientVersion") or "", feed, gained)


def _live_rows(file: dict[str, Any]) -> int | None:
    """The rows of a data file that its deletion vector leaves; None without statistics."""
    rows = json.loads(file.get("stats") or "{}").get("numRecords")
    return None if rows is None else int(rows) - int((file.get("deletionVector") or {}).get("cardinality", 0))
