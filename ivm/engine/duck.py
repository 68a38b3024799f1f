"""DuckDB in this process: tables from Arrow, and portable statements over them.

Nothing outside is read or written: no files, no extensions, no spilling; what needs more memory raises, and Spark is
asked. Rows go in and come out with Spark's types, as `ivm.portable.types` writes them for DuckDB.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.engine.once import Once
from ivm.names import native_ident
from ivm.plan.nodes import Column
from ivm.portable.listed import SETUP
from ivm.portable.statement import Written
from ivm.portable.types import type_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_log = logging.getLogger(__name__)

#: DuckDB 2.0's statistics lose rows that an outer join pads where a table of the join is empty.
_SETTINGS = {
    "disabled_optimizers": "statistics_propagation",
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "python_enable_replacements": False,
    # Rows are a bag; to keep the order in which they came, making a table takes twice as long.
    "preserve_insertion_order": False,
}


#: The process's one instance: making one takes as long as running some statements. None before the first.
_instance: DuckDBPyConnection | None = None
_lock = threading.Lock()
_numbers = itertools.count()


def begin() -> None:
    """Start the instance beside what the caller does next; if that fails, whoever asks for a database is told."""
    if _instance is None:
        threading.Thread(target=_begin, name="duckdb", daemon=True).start()


def _begin() -> None:
    with contextlib.suppress(Exception):
        _drop(*_schema())


def _schema() -> tuple[DuckDBPyConnection, str]:
    """A schema of its own, empty, in the process's instance; in a new one where that one fails."""
    import duckdb

    global _instance  # noqa: PLW0603 - there is one a process
    name = f"of_{next(_numbers)}"
    with _lock:
        if _instance is not None:
            try:
                _instance.execute(f"CREATE SCHEMA {name}")
            except duckdb.Error as error:  # an internal error makes an instance answer nothing any more
                _log.warning("DuckDB is started anew: %s", error)
            else:
                return _instance, name
        warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)  # see `Database.run`
        made = duckdb.connect(":memory:", config=dict(_SETTINGS))
        for statement in (*SETUP, "SET lock_configuration = true", f"CREATE SCHEMA {name}"):
            made.execute(statement)
        _instance = made
        return made, name


def _drop(instance: DuckDBPyConnection, schema: str) -> None:
    import duckdb

    try:
        instance.cursor().execute(f"DROP SCHEMA {schema} CASCADE")
    except duckdb.Error as error:
        _log.info("the schema %s stays: %s", schema, error)


class Database:
    """Tables in memory for the statements of one group of units; threads may share it."""

    def __init__(self) -> None:
        self._instance, self._schema = _schema()
        #: Forgets all tables, once, at the latest when nobody has the database any more.
        self.close = weakref.finalize(self, _drop, self._instance, self._schema)
        self.close.atexit = False
        self._loaded = Once()

    def cursor(self) -> DuckDBPyConnection:
        """A connection that finds and makes tables here."""
        cursor = self._instance.cursor()
        cursor.execute(f"SET search_path = '{self._schema},main'")
        return cursor

    def load(self, name: str, read: Callable[[], pa.Table], columns: Sequence[Column]) -> None:
        """Make a table of what `read` gives, of those columns whose types statements may read.

        One that is there already is kept. Raises ValueError for a date or time that DuckDB takes for an infinite one.
        """
        self._loaded.make(name, lambda: self._load(name, read, columns))

    def _load(self, name: str, read: Callable[[], pa.Table], columns: Sequence[Column]) -> None:
        kept = [(c, type_) for c in columns if (type_ := type_of(c.type)) is not None]
        listed = [f"{native_ident(c.name)}::{type_.duck} AS {native_ident(c.name)}" for c, type_ in kept]
        rows = _naive(read().select([c.name for c, _ in kept]))
        _check_finite(rows)
        cursor = self.cursor()
        cursor.register("__ivm_arrow", rows)
        cursor.execute(f"CREATE TABLE {native_ident(name)} AS SELECT {', '.join(listed)} FROM __ivm_arrow")
        cursor.unregister("__ivm_arrow")

    def run(self, statement: Written) -> pa.Table:
        """A statement's rows with Spark's types. Raises duckdb.Error where DuckDB can't, or must not, compute them.

        Executed, it is planned once; as a relation (`sql`), whose rows are copied once less, twice. Few rows come out,
        and planning is most of what a statement takes.
        """
        found = self.cursor().execute(statement.sql).to_arrow_table()
        return _typed(found, statement.columns)


def _naive(rows: pa.Table) -> pa.Table:
    """Times as UTC's without saying so: DuckDB would ask for a library of time zones."""
    schema = pa.schema([f.with_type(pa.timestamp("us")) if pa.types.is_timestamp(f.type) else f for f in rows.schema])
    return rows if schema == rows.schema else rows.cast(schema)


def _check_finite(rows: pa.Table) -> None:
    """The ends of the integers behind dates and times are DuckDB's infinities; Spark has none."""
    for column in rows.columns:
        bits = 32 if pa.types.is_date32(column.type) else 64 if pa.types.is_timestamp(column.type) else 0
        if bits and len(column):
            ends = pc.min_max(column.cast(pa.int32() if bits == 32 else pa.int64())).as_py()
            if 2 ** (bits - 1) - 1 in (ends["max"], -(ends["min"] or 0)):
                raise ValueError("a date or time at the end of its type")


def _typed(rows: pa.Table, columns: Sequence[Column]) -> pa.Table:
    typed: list[Any] = [
        a.cast(pa.timestamp("us", tz="UTC")) if c.type == "timestamp" else a
        for a, c in zip(rows.columns, columns, strict=True)
    ]
    return pa.table(typed, names=[c.name for c in columns])
