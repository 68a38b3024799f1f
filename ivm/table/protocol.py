"""The verbs of a Delta table, which each lane has all of.

    lane A, verb v, table T:  A.capability(v, T) = ""   implies   what A reads or leaves behind is what Spark would

Invariant: a lane does a verb as Spark would, or says beforehand, in words, why it doesn't
(tests/spark/test_table_conformance.py holds every verb of both lanes against it). Which lane does a verb is not decided
here but in `ivm.planner.lanes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

import pyarrow as pa

from ivm.engine.rows import QueriedRows, Rows
from ivm.lake.keys import matching, within
from ivm.lake.types import beyond_arrow
from ivm.plan.nodes import Column


class Verb(Enum):
    """What can be done with a table."""

    SNAPSHOT = "snapshot"
    COLUMNS = "columns"
    COUNT = "count"
    READ = "read"
    QUERY = "query"
    FIND = "find"
    FEED = "feed"
    TRANSACTION = "transaction"
    APPEND = "append"
    MERGE = "merge"
    REPLACE = "replace"
    DELETE = "delete"
    COMPACT = "compact"
    VACUUM = "vacuum"

    @property
    def writes(self) -> bool:
        """Whether it commits to the table's log.

        >>> Verb.VACUUM.writes, Verb.FEED.writes
        (True, False)
        """
        return self in _WRITING


_WRITING = {Verb.APPEND, Verb.MERGE, Verb.REPLACE, Verb.DELETE, Verb.COMPACT, Verb.VACUUM}
#: Those that take rows away, which a table may forbid (delta.appendOnly).
TAKING = {Verb.MERGE, Verb.REPLACE, Verb.DELETE}

#: Those that tell of a table what its log says.
TELLING = {Verb.SNAPSHOT, Verb.COLUMNS, Verb.TRANSACTION}
#: Those that make a table where there is none, or find nothing there.
MAKING = {Verb.APPEND, Verb.REPLACE, Verb.TRANSACTION}

#: A condition in SQL over a table's columns, given how its lane quotes a column's name.
Condition: TypeAlias = Callable[[Callable[[str], str]], str]
#: A SELECT in SQL that both lanes read, given what its lane calls the table, and how it quotes a column's name.
Query: TypeAlias = Callable[[str, Callable[[str], str]], str]


@dataclass(frozen=True)
class Snapshot:
    """A table as its newest version is: its columns with Spark's types, features by Delta's names.

    `rows` is by the files' statistics, None where the lane doesn't know them; rows that deletion vectors hide are
    counted. `files` counts its data files, `bytes` are theirs. `schema` is Delta's own, in JSON.
    """

    version: int
    table_id: str
    columns: tuple[Column, ...]
    partition_columns: tuple[str, ...]
    features: frozenset[str]
    properties: Mapping[str, str]
    rows: int | None
    files: int
    bytes: int
    schema: str = field(repr=False)


@dataclass(frozen=True)
class Commit:
    """Whose a commit is.

    With an application's transaction it is made once: a second one of the same or a lower `version` changes nothing.
    `note` is kept in the commit as Spark's userMetadata. `owner` marks a commit without a transaction as ours.
    """

    app: str = ""
    version: int = 0
    note: str = ""
    owner: str = ""


@dataclass(frozen=True)
class Wanted:
    """Rows to read: those whose columns are among the keys, or with `between` lie between two ends.

    The keys' columns are those of `columns`, by position. NULL finds NULL.
    """

    columns: tuple[str, ...]
    keys: pa.Table
    between: bool = False

    def of(self, rows: pa.Table) -> pa.Array:
        """Which of these rows are wanted."""
        return (within if self.between else matching)(rows, self.columns, self.keys)


class Table(Protocol):
    """One Delta table in one lane.

    What reads takes a version, the newest by default. What writes raises ConcurrentRefreshError where another writer
    was first.
    """

    @property
    def path(self) -> str:
        """Where it lies, or its name in the catalog."""

    def capability(self, verb: Verb) -> str:
        """Why this lane doesn't do a verb on the table as it is now, in words; "" where it does."""

    def exists(self) -> bool:
        """Whether there is a table, readable or not."""

    def snapshot(self) -> Snapshot:
        """The table as it is now."""

    def columns(self, version: int | None = None) -> tuple[Column, ...]:
        """Its columns with Spark's types."""

    def count(self, version: int | None = None) -> int:
        """Its rows."""

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        version: int | None = None,
        most: int | None = None,
    ) -> pa.Table:
        """Its rows, only some columns of them, optionally filtered. Raises LargeReadError after `most` rows."""

    def query(self, sql: Query, version: int | None = None) -> pa.Table:
        """The rows of a SELECT over it, which are few: sums, counts."""

    def find(
        self,
        columns: Sequence[str],
        wanted: Sequence[Wanted],
        version: int | None = None,
        most: int | None = None,
        where: Condition | None = None,
    ) -> pa.Table:
        """Its rows that match any of the `wanted`, each once, and the condition.

        Raises LargeReadError after `most` rows.
        """

    def feed(self, first: int, last: int, columns: Sequence[str], most: int) -> pa.Table:
        """The change feed of versions first..last: `columns` and `_change_type`.

        Stops after `most` rows, which it exceeds then.
        """

    def transaction(self, app: str) -> int | None:
        """The last version that an application committed; None before the first, and where there is no table."""

    def append(self, rows: Rows, commit: Commit, configuration: Mapping[str, str] = ...) -> bool:
        """Add rows, by the names of their columns; makes the table where there is none, with the configuration.

        False where the application's transaction was there already.
        """

    def merge(self, changes: Rows | QueriedRows, key: Sequence[str], commit: Commit) -> None:
        """Apply a delta to a bag: `changes` holds all columns and WEIGHT (any integer).

        Rows are compared whole, NULLs equal; `key` only makes the search faster. Raises StateError where there is no
        table.
        """

    def replace(
        self,
        rows: Rows,
        schema: str,
        commit: Commit,
        configuration: Mapping[str, str] = ...,
        where: Condition | None = None,
    ) -> None:
        """Put rows in the place of all, and their columns (Delta's schema, in JSON) in the place of its own.

        With `where` only in the place of the rows that meet it, as they do; the columns stay. Makes the table where
        there is none.
        """

    def delete(self, where: Condition, commit: Commit) -> None:
        """Take the rows away that meet a condition."""

    def compact(self, commit: Commit, target: int | None = None) -> None:
        """Rewrite small files together, up to `target` bytes each (by default the table's or the lane's)."""

    def vacuum(self, hours: int, commit: Commit) -> None:
        """Remove files that the newest version doesn't hold and that are older than `hours`."""


def forbidden(verb: Verb, snapshot: Snapshot) -> str:
    """Why nobody does a verb on a table, whatever the lane: the table itself forbids it; "" where it doesn't.

    >>> log = Snapshot(0, "", (), (), frozenset(), {"delta.appendOnly": "true"}, 0, 0, 0, '{"fields": []}')
    >>> forbidden(Verb.DELETE, log), forbidden(Verb.APPEND, log)
    ('the table is append-only', '')
    """
    if verb in TAKING and str(snapshot.properties.get("delta.appendOnly", "")).lower() == "true":
        return "the table is append-only"
    if verb is Verb.FEED and str(snapshot.properties.get("delta.enableChangeDataFeed", "")).lower() != "true":
        return "the table has no change data feed"
    if verb in {Verb.MERGE, Verb.REPLACE} and "identityColumns" in snapshot.features:
        return "the table may give a column its values itself (identity)"
    if verb is Verb.MERGE and (strange := beyond_arrow(snapshot.schema)):
        return f"nothing tells rows apart by column {strange[0]!r}"
    return ""
