"""The embedded engine: portable statements over few rows run in this process; whatever else they are stays with Spark.

    rows(sql) = Spark's rows of sql,  or StaysWithSparkError with the reason

It answers the handlers in Spark's place (`ivm.execute.changes.Run`). What DuckDB raises is such a reason as well:
either Spark raises in its own words, or it can compute what DuckDB can't.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ivm.engine.duck import Database
from ivm.engine.rows import StagedRows
from ivm.errors import ConfigError
from ivm.lake.shapes import plain
from ivm.plan.nodes import Column
from ivm.planner.limits import Limits
from ivm.portable.statement import NotPortableError, Relation
from ivm.portable.translations import Translations
from ivm.portable.versions import lacking


class StaysWithSparkError(Exception):
    """Why a statement isn't run in this process."""


@dataclass(frozen=True)
class Readable:
    """Rows that statements may read: what they are called, their columns, how many there are, and how to get them."""

    name: str
    columns: Sequence[Column]
    num_rows: int
    read: Callable[[], pa.Table]


#: What a FROM item of Spark's stands for: a name, or a table's path (as Spark spells it) and version; None where its
#: rows are not to be had here.
Lookup = Callable[[str, bool, "int | None"], "Readable | None"]


def check_installed() -> None:
    """Raises ConfigError where DuckDB isn't there, or is another than the list was shown for."""
    if missing := lacking():
        mend = "Install it with `pip install 'ivm[embedded]'`, or leave `engine` at spark."
        raise ConfigError(f"The engine auto {missing}.", mend)


class EmbeddedRun:
    """Runs the statements of units that share datasets, whose names have a tag; threads may share it.

    `translations` are those of statements that were run before.
    """

    def __init__(self, lookup: Lookup, tag: str, limits: Limits, translations: Translations) -> None:
        self._lookup = lookup
        self._tag = tag
        self._limits = limits
        self._translations = translations
        self._database = Database()

    def rows(self, sql: str, batch: Sequence[Column] | None = None) -> pa.Table:
        """A statement's rows. Raises StaysWithSparkError."""
        import duckdb

        read: dict[str, Readable] = {}

        def relation(name: str, path: bool, version: int | None) -> Relation | None:
            found = self._lookup(name, path, version)
            if found is None:
                return None
            read[found.name] = found
            return Relation(found.name, found.columns)

        try:
            made = self._translations.written(sql, self._tag, relation)
        except NotPortableError as reason:
            raise StaysWithSparkError(str(reason)) from reason
        wanted = [str(c.type) for c in batch or ()]
        if batch is not None and [c.type for c in made.columns] != wanted:
            raise StaysWithSparkError(f"its columns would be {[c.type for c in made.columns]}, Spark's are {wanted}")
        total = sum(r.num_rows for r in read.values())
        if total > self._limits.embedded_rows:
            raise StaysWithSparkError(f"it reads {total:,} rows, more than {self._limits.embedded_rows:,}")
        try:
            for readable in read.values():
                self._database.load(readable.name, readable.read, readable.columns)
            found = self._database.run(made)
        except duckdb.Error as error:
            raise StaysWithSparkError(f"DuckDB can't run it: {str(error).splitlines()[0]}") from error
        if found.num_rows > self._limits.result_rows:
            raise StaysWithSparkError(f"it gives {found.num_rows:,} rows")
        return plain(found)

    def stage(self, sql: str, batch: Sequence[Column] | None = None) -> StagedRows:  # noqa: ARG002 - of the protocol
        """Nothing is staged here."""
        raise StaysWithSparkError("its rows are staged")

    def collected(self, sql: str) -> pa.Table:
        """As `rows`."""
        return self.rows(sql)

    def close(self) -> None:
        """Forget all rows."""
        self._database.close()
