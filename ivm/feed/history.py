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


@dataclass(frozen=True)
class Entry:
    """What a commit's log entry says: its operation, and whether it switches the feed on or off (None: neither)."""

    operation: str
    feed: bool | None


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
            if entry.operation == "RESTORE":
                return _restored(version)
            if entry.feed is False:
                return f"the change feed was off at version {version}"
        return ""

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
        rows = self._history().where(f"version BETWEEN {int(first)} AND {int(last)}").select("version", "operation").collect()
        operations = {r["version"]: r["operation"] for r in rows}
        for version in range(first, last + 1):
            if version not in operations:
                return _gone(version)
            if operations[version] == "RESTORE":
                return _restored(version)
        return ""

    def _history(self) -> DataFrame:
        return self.spark.sql(f"DESCRIBE HISTORY {table_ref(self.location)}")


def _gone(version: int) -> str:
    return f"the log entry of version {version} is gone"


def _restored(version: int) -> str:
    return f"the source was restored at version {version}"


def _digest(entry: bytes) -> str:
    return hashlib.sha256(entry).hexdigest()[:32]


@functools.lru_cache(maxsize=KEPT_COMMITS)
def _entry(file: str, *_identity: int) -> Entry:
    """Read one log entry; `_identity` (of the file) tells apart what was written in its place."""
    operation, feed = "", None
    with Path(file).open(encoding="utf-8") as lines:
        for line in lines:
            # Most lines are files with their statistics, which needn't be parsed.
            if '"commitInfo"' not in line and '"metaData"' not in line:
                continue
            action: dict[str, Any] = json.loads(line)
            operation = (action.get("commitInfo") or {}).get("operation", operation)
            if "metaData" in action:
                configuration = action["metaData"].get("configuration") or {}
                feed = str(configuration.get(FEED, "false")).lower() == "true"
    return Entry(operation, feed)
