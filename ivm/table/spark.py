"""The lane of Spark: whatever Delta knows, by statements and DataFrames that a Spark Connect server takes too."""

from __future__ import annotations

import re
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from ivm.engine.rows import QueriedRows, Rows, stage
from ivm.errors import LargeReadError
from ivm.lake import parquet
from ivm.lake.log import note_of
from ivm.lake.shapes import plain
from ivm.lake.types import columns_of, padded_columns
from ivm.names import ident, is_path, literal, parquet_ref, spark_path, table_ref
from ivm.plan.nodes import Column
from ivm.session import configured, error_text, stored_as_read
from ivm.sql.render import columns_sql
from ivm.storage.location import Location, served
from ivm.table.merging import INSERT, merge_source, merge_sql
from ivm.table.protocol import MAKING, Commit, Condition, Query, Snapshot, Verb, Wanted, forbidden
from ivm.table.slices import Picked, slice_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Rows of Arrow are handed over in groups of so many.
_ROW_GROUP = 100_000
_TRANSACTION = "txn STRUCT<appId: STRING, version: BIGINT>"
#: Hadoop's file systems take these in a name for a pattern.
_PATTERN = re.compile(r"([{}\[\]*?\\])")
#: What Spark says where there is no table.
_NO_TABLE = (
    "DELTA_MISSING_DELTA_TABLE",
    "DELTA_TABLE_NOT_FOUND",
    "DELTA_PATH_DOES_NOT_EXIST",
    "TABLE_OR_VIEW_NOT_FOUND",
)
#: A transaction is told to Spark by settings of the session, which all threads share.
_COMMITTING = threading.Lock()
#: Files of at least the first so many bytes are left alone; those that are made have up to the second.
_SIZES = ("spark.databricks.delta.optimize.minFileSize", "spark.databricks.delta.optimize.maxFileSize")
#: Delta refuses to remove files that are younger than a week unless it is told not to look.
_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@dataclass(frozen=True)
class SparkTable:
    """A table in the lane of Spark, by its path or its name in the catalog.

    `session` gives Spark; None where none shall be started. `scratch` is where rows are handed over to it, which a
    table that is only read doesn't need.
    """

    path: str
    session: Callable[[], SparkSession] | None
    scratch: Location | None = None

    @property
    def spark(self) -> SparkSession:
        assert self.session is not None, "a lane without a session refuses every verb"
        return self.session()

    @property
    def ref(self) -> str:
        """The table in a statement."""
        return table_ref(self.path)

    def capability(self, verb: Verb) -> str:
        if self.session is None:
            return "there is no Spark session"
        place = served(self.path) if is_path(self.path) else None
        if verb.writes and place is not None and not place.local:
            return "in an object store only delta-rs commits"
        try:
            snapshot = self._if_there()
        except Exception as error:  # noqa: BLE001 - a file system inside Spark raises classes of its own
            return f"Spark can't open it ({error_text(error)})"
        if snapshot is None:
            return "" if verb in MAKING else "there is no table"
        return forbidden(verb, snapshot)

    def _if_there(self) -> Snapshot | None:
        try:
            return self.snapshot()
        except Exception as error:  # a file system inside Spark raises classes of its own
            if any(condition in str(error) for condition in _NO_TABLE):
                return None
            raise

    # -- reading ----------------------------------------------------------------------------------

    def exists(self) -> bool:
        return self._if_there() is not None

    def snapshot(self) -> Snapshot:
        detail = self.spark.sql(f"DESCRIBE DETAIL {self.ref}").collect()[0]
        newest = self.spark.sql(f"DESCRIBE HISTORY {self.ref} LIMIT 1").collect()[0]
        schema = self._schema(None)
        return Snapshot(
            int(newest["version"]),
            str(detail["id"]),
            columns_of(schema),
            tuple(detail["partitionColumns"]),
            frozenset(detail["tableFeatures"]),
            dict(detail["properties"]),
            None,
            int(detail["numFiles"]),
            int(detail["sizeInBytes"]),
            schema,
        )

    def _schema(self, version: int | None) -> str:
        return str(self.spark.sql(f"SELECT * FROM {self._at(version)} LIMIT 0").schema.json())

    def _at(self, version: int | None) -> str:
        return table_ref(self.path, version)

    def columns(self, version: int | None = None) -> tuple[Column, ...]:
        return columns_of(self._schema(version))

    def count(self, version: int | None = None) -> int:
        return int(self.spark.sql(f"SELECT count(*) AS n FROM {self._at(version)}").collect()[0]["n"])

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        version: int | None = None,
        most: int | None = None,
    ) -> pa.Table:
        listed = "*" if columns is None else columns_sql(columns) or "1 AS `__ivm_one`"
        condition = f" WHERE {where(ident)}" if where is not None else ""
        return self._collected(f"SELECT {listed} FROM {self._at(version)}{condition}", most)

    def query(self, sql: Query, version: int | None = None) -> pa.Table:
        return self._collected(sql(self._at(version), ident), None)

    def _collected(self, sql: str, most: int | None) -> pa.Table:
        frame = self.spark.sql(sql)
        rows = plain((frame if most is None else frame.limit(most + 1)).toArrow())
        if most is not None and rows.num_rows > most:
            raise LargeReadError(f"more than {most:,} rows")
        return rows

    def find(
        self,
        columns: Sequence[str],
        wanted: Sequence[Wanted],
        version: int | None = None,
        most: int | None = None,
        where: Condition | None = None,
    ) -> pa.Table:
        with picked_by(self.spark, wanted, f"__ivm_keys_{secrets.token_hex(8)}") as picked:
            table = self._at(version)
            table = f"(SELECT * FROM {table} WHERE {where(ident)})" if where is not None else table
            return self._collected(slice_sql(table, columns, picked, []), most)

    def feed(self, first: int, last: int, columns: Sequence[str], most: int) -> pa.Table:
        return plain(self.feed_frame(first, last, columns).limit(most + 1).toArrow())

    def feed_frame(self, first: int, last: int, columns: Sequence[str]) -> DataFrame:
        """The same as a DataFrame, for more rows than this process may hold."""
        reader = self.spark.read.format("delta").option("readChangeFeed", "true")
        reader = reader.option("startingVersion", first).option("endingVersion", last)
        found = reader.load(spark_path(self.path)) if is_path(self.path) else reader.table(self.path)
        return found.select(*(ident(c) for c in (*columns, "_change_type")))

    def transaction(self, app: str) -> int | None:
        # No statement tells it; the log does, in commits and in checkpoints.
        folder = self.path if is_path(self.path) else self._location()
        log = _PATTERN.sub(r"\\\1", spark_path(folder)) + "/_delta_log"
        found = []
        for kind, pattern in (("json", "*.json"), ("parquet", "*.checkpoint*.parquet")):
            reader = self.spark.read.schema(_TRANSACTION)
            try:
                actions = reader.format(kind).load(f"{log}/{pattern}")
                sought = actions.where(f"txn.appId = {literal(app)}").selectExpr("max(txn.version) AS v")
                found += [row["v"] for row in sought.collect() if row["v"] is not None]
            except Exception as error:  # a file system inside Spark raises classes of its own
                if "PATH_NOT_FOUND" not in str(error):
                    raise
        return max(found, default=None)

    def _location(self) -> str:
        return str(self.spark.sql(f"DESCRIBE DETAIL {self.ref}").collect()[0]["location"])

    # -- writing ----------------------------------------------------------------------------------

    def append(self, rows: Rows, commit: Commit, configuration: Mapping[str, str] = MappingProxyType({})) -> bool:
        done = self.transaction(commit.app) if commit.app else None
        if done is not None and done >= commit.version:
            return False
        frame = self._frame(rows)
        self._write(frame, columns_of(frame.schema.json()), "append", commit, configuration)
        return True

    def _write(
        self,
        frame: DataFrame,
        columns: Sequence[Column],
        mode: str,
        commit: Commit,
        configuration: Mapping[str, str],
        partitions: Sequence[str] = (),
    ) -> None:
        writer = frame.write.format("delta").mode(mode)
        writer = writer.partitionBy(*partitions) if partitions else writer
        for key, value in configuration.items():
            writer = writer.option(key, value)
        with self._committing(commit), stored_as_read(self.spark, columns):
            writer.save(spark_path(self.path)) if is_path(self.path) else writer.saveAsTable(self.path)

    def merge(self, changes: Rows | QueriedRows, key: Sequence[str], commit: Commit) -> None:  # noqa: ARG002 - Spark looks everywhere
        columns = self.columns()
        sql = merge_source(columns, self.ref, self._item(changes))
        source = stage(self.spark, sql, self.place(), (*columns, Column(INSERT, "boolean")))
        with self._committing(commit), stored_as_read(self.spark, columns):
            self.spark.sql(merge_sql(columns, self.ref, source.ref)).collect()

    def replace(
        self,
        rows: Rows,
        schema: str,
        commit: Commit,
        configuration: Mapping[str, str] = MappingProxyType({}),
        where: Condition | None = None,
    ) -> None:
        before = self._if_there()
        if before is not None and where is not None:
            replaced = {**configuration, "replaceWhere": where(ident)}
            self._write(self._frame(rows), columns_of(schema), "overwrite", commit, replaced)
            return
        same = before is not None and _stored_alike(before.schema, schema)
        clustered = [] if before is None else self._clustering()
        columns = columns_of(schema)
        partitions = [] if before is None or same else before.partition_columns
        settings = {**configuration, **({} if same else {"overwriteSchema": "true"})}
        self._write(self._frame(rows), columns, "overwrite", commit, settings, partitions)
        if clustered and set(clustered) <= {c.name for c in columns}:
            # Delta forgets it when rows are replaced. A stop in between leaves the right rows, as they come.
            with self._committing(Commit()):
                self.spark.sql(f"ALTER TABLE {self.ref} CLUSTER BY ({columns_sql(clustered)})").collect()

    def _clustering(self) -> list[str]:
        """The columns by which the table's owner had it clustered."""
        return list(self.spark.sql(f"DESCRIBE DETAIL {self.ref}").collect()[0]["clusteringColumns"])

    def delete(self, where: Condition, commit: Commit) -> None:
        with self._committing(commit):
            self.spark.sql(f"DELETE FROM {self.ref} WHERE {where(ident)}").collect()

    def compact(self, commit: Commit, target: int | None = None) -> None:
        sizes = {} if target is None else dict.fromkeys(_SIZES, str(target))
        with self._committing(commit), stored_as_read(self.spark, self.columns()), configured(self.spark, sizes):
            self.spark.sql(f"OPTIMIZE {self.ref}").collect()

    def vacuum(self, hours: int, commit: Commit) -> None:
        with self._committing(commit), configured(self.spark, {_CHECK: "false"}):
            self.spark.sql(f"VACUUM {self.ref} RETAIN {int(hours)} HOURS").collect()

    # -- how ---------------------------------------------------------------------------------------

    def place(self) -> Location:
        """Each hand-over has a place of its own."""
        assert self.scratch is not None, "rows are handed over somewhere"
        return self.scratch / secrets.token_hex(8)

    def _item(self, rows: Rows | QueriedRows) -> str:
        """Rows as a FROM item; those of this process lie in scratch then."""
        if not isinstance(rows, pa.Table):
            return rows.ref
        file = self.place() / "rows.parquet"
        file.parent.make()
        parquet.write(rows, file, _ROW_GROUP)
        return parquet_ref(file.url)

    def _frame(self, rows: Rows) -> DataFrame:
        return self.spark.sql(f"SELECT * FROM {self._item(rows)}")

    @contextmanager
    def _committing(self, commit: Commit) -> Iterator[None]:
        """Let Spark's statements on Delta tables carry the transaction and the note; one thread after another."""
        note = commit.note or (note_of(commit.owner) if commit.owner else "")
        given = {"spark.databricks.delta.commitInfo.userMetadata": note} if note else {}
        if commit.app:
            given["spark.databricks.delta.write.txnAppId"] = commit.app
            given["spark.databricks.delta.write.txnVersion"] = str(commit.version)
        with _COMMITTING, configured(self.spark, given):
            yield


@contextmanager
def picked_by(spark: SparkSession, wanted: Sequence[Wanted], view: str) -> Iterator[list[Picked]]:
    """What is wanted as conditions; the keys of the i-th are a temporary view meanwhile, called by `view` and i."""
    picked, views = [], []
    try:
        for i, one in enumerate(wanted):
            if one.between:
                low, high = one.keys.column(0).to_pylist()
                picked.append(Picked(one.columns, ends=(low, high)))
                continue
            keys = one.keys.rename_columns([f"k{n}" for n in range(len(one.columns))])
            views.append(f"{view}_{i}")
            spark.createDataFrame(keys).createOrReplaceTempView(views[-1])
            picked.append(Picked(one.columns, ident(views[-1]), nulls=True))
        yield picked
    finally:
        for name in views:
            spark.catalog.dropTempView(name)


def _stored_alike(one: str, other: str) -> bool:
    """Whether the columns of two of Delta's schemas hold the same, whatever they are called to do beside."""
    return (columns_of(one), padded_columns(one)) == (columns_of(other), padded_columns(other))
