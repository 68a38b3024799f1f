"""Rows somewhere: in this process as Arrow, or as Parquet that Spark wrote under the root.

    Rows  =  pa.Table  |  StagedRows              both have `num_rows`

Invariant: rows beyond a profile's limits (`ivm.planner.limits`) are staged; of these, only counts and capped samples
come into this process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from ivm.errors import StateError
from ivm.lake import parquet
from ivm.lake.shapes import plain
from ivm.lake.types import columns_of
from ivm.names import ident, parquet_ref
from ivm.plan.nodes import Column
from ivm.session import stored_as_read
from ivm.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class StagedRows:
    """So many rows with these columns, as Parquet files in a folder."""

    location: Location
    columns: tuple[Column, ...]
    num_rows: int

    @property
    def ref(self) -> str:
        """The rows as a FROM item of Spark."""
        return parquet_ref(self.location.url)

    def collect(self, limit: int) -> pa.Table:
        """The rows, or the first of them where there are more than `limit`."""
        return plain(parquet.dataset(self.location).head(limit))


@dataclass(frozen=True)
class QueriedRows:
    """Rows that a SELECT of Spark's gives, read where they lie by the statement that takes them."""

    sql: str
    columns: tuple[Column, ...]

    @property
    def ref(self) -> str:
        """The rows as a FROM item of Spark."""
        return f"({self.sql})"


Rows: TypeAlias = pa.Table | StagedRows


def stage(
    spark: SparkSession,
    sql: str,
    folder: Location,
    columns: Sequence[Column] | None = None,
    stamps: Mapping[str, int] = MappingProxyType({}),
    row_group_bytes: int | None = None,
) -> StagedRows:
    """Write a statement's rows; with `columns` under these names and types (by position), and a column for each stamp.

    `row_group_bytes` are those of the files, by default Spark's own.

    Raises StateError as `write_counted`.
    """
    if columns is not None:
        named = ", ".join(ident(f"c{i}") for i in range(len(columns)))
        listed = [f"CAST({ident(f'c{i}')} AS {c.type}) AS {ident(c.name)}" for i, c in enumerate(columns)]
        listed += [f"CAST({value} AS bigint) AS {ident(name)}" for name, value in stamps.items()]
        sql = f"SELECT {', '.join(listed)} FROM ({sql}) AS `__ivm_staged`({named})"
        columns = (*columns, *(Column(name, "bigint") for name in stamps))
    frame = spark.sql(sql)
    columns = columns_of(frame.schema.json()) if columns is None else columns
    with stored_as_read(spark, columns):
        return StagedRows(folder, tuple(columns), write_counted(frame, folder, row_group_bytes))


def few(rows: StagedRows, most: int) -> Rows:
    """The rows in this process where they are at most so many."""
    return rows.collect(most) if rows.num_rows <= most else rows


def write_counted(frame: DataFrame, folder: Location, row_group_bytes: int | None = None) -> int:
    """Write rows as Parquet to a folder that isn't there yet; returns how many.

    Raises StateError where not as many rows lie there as were written: executors that have another disk, or somebody
    else's job.
    """
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    written = Observation()
    writer = frame.observe(written, count(lit(1)).alias("rows")).write.option("compression", "zstd")
    if row_group_bytes is not None:
        writer = writer.option("parquet.block.size", row_group_bytes)
    writer.parquet(folder.spark)
    found = int(parquet.dataset(folder).count_rows()) if folder.exists() else 0
    if found != written.get["rows"]:
        raise StateError(
            f"Spark wrote {written.get['rows']:,} rows to {folder}, and {found:,} are there.",
            "Spark's executors and this process must see one root, to which nobody else writes (docs/clusters.md); "
            "run the refresh again.",
        )
    return found
