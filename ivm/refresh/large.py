"""Publishing a batch that is too large for this process: Spark merges it, or writes the table anew.

    table' = table + batch        as a bag, under one application transaction

Of a row that the batch takes away all copies are deleted, and as many inserted again as are to be left.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ivm.engine.rows import stage
from ivm.feed.states import shifted
from ivm.lake import native, parquet
from ivm.lake.files import commit_files, takes_files
from ivm.lake.shapes import arrow_schema
from ivm.lake.types import columns_of
from ivm.names import WEIGHT, ident, table_ref
from ivm.plan.nodes import EPOCH, Column
from ivm.refresh.context import Context
from ivm.refresh.records import UnitState
from ivm.refresh.relations import batches, unit_table
from ivm.rewrite.statements import repeated
from ivm.session import stored_as_read
from ivm.sql.maps import comparable
from ivm.sql.render import columns_sql
from ivm.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WEIGHT, _INSERT = ident(WEIGHT), "`__ivm_insert`"


@dataclass(frozen=True)
class Target:
    """A published table, what it was (`before`) and will be, and the transaction of the change with its note."""

    path: str
    before: UnitState
    after: UnitState
    app: str
    version: int
    note: Mapping[str, str]

    @property
    def done(self) -> bool:
        """Whether the change was committed already."""
        done = native.last_txn(self.path, self.app)
        return done is not None and done >= self.version


def write_anew(context: Context, unit: str, into: Target, stamp: int) -> None:
    """Write all rows that the table will have to scratch, and put these files in the place of its own."""
    if into.done:
        return
    columns = columns_of(into.after.schema)
    names = [c.name for c in columns]
    batch = f"({batches(context, unit, into.after, names, f'{ident(EPOCH)} = {int(stamp)}')})"
    sql = shifted(columns, unit_table(context, unit, into.before), batch)
    schema = arrow_schema(into.after.schema)
    staged = stage(context.spark(), sql, _place(context, unit, into.version), columns)
    if takes_files(into.path, schema):
        commit_files(into.path, staged.location, into.app, into.version, "overwrite", schema, note=into.note)
    else:
        rows = parquet.stream(staged.location, schema)
        native.overwrite(into.path, rows, into.app, into.version, note=into.note)


def _place(context: Context, unit: str, epoch: int) -> Location:
    """Each try at publishing has a place of its own."""
    return context.layout.scratch(epoch, secrets.token_hex(4)) / unit


def merge(context: Context, unit: str, into: Target, stamp: int) -> None:
    """Merge the batch by Spark."""
    if into.done:
        return
    spark, columns = context.spark(), columns_of(into.after.schema)
    names = [c.name for c in columns]
    batch = f"({batches(context, unit, into.after, names, f'{ident(EPOCH)} = {int(stamp)}')})"
    sql = merge_source(columns, unit_table(context, unit, into.before), batch)
    flagged = (*columns, Column(_INSERT.strip("`"), "boolean"))
    source = stage(spark, sql, _place(context, unit, into.version), flagged)
    same = " AND ".join(f"{comparable(c, 't')} <=> {comparable(c, 's')}" for c in columns)
    statement = (
        f"MERGE INTO {table_ref(into.path)} AS t USING (SELECT * FROM {source.ref}) AS s\n"
        f"ON NOT s.{_INSERT} AND {same}\n"
        f"WHEN MATCHED THEN DELETE\n"
        f"WHEN NOT MATCHED AND s.{_INSERT} THEN INSERT ({columns_sql(names)}) VALUES ({columns_sql(names, 's')})"
    )
    with _transaction(spark, into), stored_as_read(spark, columns):
        spark.sql(statement).collect()


def merge_source(columns: Sequence[Column], table: str, batch: str) -> str:
    """The rows to delete (once each), and those to insert (as often as they shall occur), told apart by a flag."""
    names = columns_sql([c.name for c in columns])
    gone = f"(SELECT {names}, {_WEIGHT} FROM {batch} WHERE {_WEIGHT} < 0)"
    on = " AND ".join(f"{comparable(c, 't')} <=> {comparable(c, 'd')}" for c in columns)
    mine = columns_sql([c.name for c in columns], "t")
    there = f"SELECT {mine}, CAST(1 AS bigint) AS {_WEIGHT} FROM {table} AS t LEFT SEMI JOIN {gone} AS d ON {on}"
    inserted = repeated(f"SELECT {names}, {_WEIGHT} FROM {batch} WHERE {_WEIGHT} > 0", columns)
    left = repeated(f"{there}\nUNION ALL\nSELECT {names}, {_WEIGHT} FROM {gone}", columns)
    parts = [(f"SELECT {names} FROM {gone}", "FALSE"), (inserted, "TRUE"), (left, "TRUE")]
    return "\nUNION ALL\n".join(
        f"SELECT {names}, {flag} AS {_INSERT} FROM ({rows}) AS `__ivm_rows`" for rows, flag in parts
    )


@contextmanager
def _transaction(spark: SparkSession, into: Target) -> Iterator[None]:
    """Let Spark's statements on Delta tables carry the transaction and the note."""
    (note,) = into.note.values()
    settings = {
        "spark.databricks.delta.write.txnAppId": into.app,
        "spark.databricks.delta.write.txnVersion": str(into.version),
        "spark.databricks.delta.commitInfo.userMetadata": note,
    }
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in settings:
            spark.conf.unset(key)
