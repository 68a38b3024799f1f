"""Names that stand for rows of this process in statements: each engine gets those that a statement of its own reads.

bind(name, rows)      nothing is written
ready(sql)            Spark knows each name in the statement: its rows are one Parquet file in scratch
readable(name)        the rows themselves, for an engine in this process
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ivm.engine.embedded import Readable
from ivm.engine.once import Once
from ivm.lake import parquet
from ivm.names import ident
from ivm.plan.nodes import Column
from ivm.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Rows of a file that one core reads.
ROW_GROUP = 65_536


class Bound:
    """The names of an epoch's wave, shared by its datasets."""

    def __init__(self, spark: Callable[[], SparkSession], scratch: Location, partition_rows: int) -> None:
        self._spark = spark
        self._scratch = scratch
        self._partition_rows = partition_rows
        self._rows: dict[str, tuple[pa.Table, tuple[Column, ...]]] = {}
        self._made: dict[str, Callable[[], None]] = {}
        #: The names that Spark has.
        self._ready = Once()
        self._lock = threading.Lock()

    def bind(self, name: str, rows: pa.Table, columns: Sequence[Column]) -> None:
        """Let a name stand for rows."""
        with self._lock:
            self._rows[name] = (rows, tuple(columns))

    def make(self, name: str, made: Callable[[], None]) -> None:
        """Let a name stand for what Spark makes when a statement of its own first reads it."""
        with self._lock:
            self._made[name] = made

    def readable(self, name: str) -> Readable | None:
        """The rows of a name; None where there are none in this process."""
        found = self._rows.get(name)
        if found is None:
            return None
        rows, columns = found
        return Readable(name, columns, rows.num_rows, lambda: rows)

    def ready(self, sql: str) -> None:
        """Give Spark the names that a statement reads, as far as it doesn't have them yet."""
        with self._lock:
            names = [n for n in (*self._rows, *self._made) if ident(n) in sql]
        for name in names:
            self._ready.make(name, functools.partial(self._give, name))

    def _give(self, name: str) -> None:
        if name in self._made:
            self._made[name]()
        else:
            rows, columns = self._rows[name]
            register(self._spark(), name, rows, columns, self._scratch, self._partition_rows)
            # Spark has them now, and no engine in this process asks after Spark did. Until then others wait for it.
            with self._lock:
                self._rows.pop(name, None)

    def drop(self, names: Iterable[str]) -> None:
        """Forget these names."""
        for name in names:
            with self._lock:
                self._rows.pop(name, None)
                self._made.pop(name, None)
            if self._ready.forget(name):
                self._spark().catalog.dropTempView(name)


def register(
    spark: SparkSession,
    name: str,
    data: pa.Table,
    columns: Sequence[Column],
    scratch: Location,
    partition_rows: int,
) -> None:
    """Write rows as one Parquet file and give it a name in Spark, with Spark's own types.

    Up to `partition_rows` are one partition.
    """
    # A leading underscore would hide the file from Spark.
    path = scratch / f"{name.lstrip('_')}.parquet"
    parquet.write(data, path, ROW_GROUP)
    ddl = ", ".join(f"{ident(c.name)} {c.type}" for c in columns)
    frame = spark.read.schema(ddl).parquet(path.spark)
    if data.num_rows <= partition_rows:
        frame = frame.coalesce(1)  # said, so that Spark shuffles nothing to group what it joins
    frame.createOrReplaceTempView(name)
