"""The rows an epoch reads: deltas, slices and small relations, each materialized once for all views.

One wave of units shares one `Datasets`. What it reads lies as Parquet in the epoch's scratch folder under the
root, registered with Spark by name; both lanes write there, so either may read what the other wrote.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from ivm.lake import native
from ivm.names import ident, table_ref
from ivm.plan.nodes import WEIGHT, Column, Leaf
from ivm.rewrite.delta_join import State
from ivm.rewrite.slices import DELTA, WHOLE, Match, Requests
from ivm.sql.render import columns_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Up to this many rows a relation is loaded whole by the native lane; above, Spark scans it.
NATIVE_WHOLE_ROWS = 20_000


@dataclass(frozen=True)
class Input:
    """A relation in an epoch: its snapshot that is read, which state that is, and its delta.

    `delta` is None where nothing changed; its rows have the needed columns and WEIGHT +1 or -1.
    """

    relation: str
    columns: tuple[Column, ...]
    schema: pa.Schema
    path: str
    version: int | None
    base: State
    native: bool
    delta: pa.Table | None
    rows: int | None


class Datasets:
    """Implements `ivm.rewrite.statements.Reads` over materialized Parquet."""

    def __init__(self, spark: Callable[[], SparkSession], scratch: Path, tag: str, inputs: Mapping[str, Input]) -> None:
        self._spark = spark
        self._scratch = scratch
        self._tag = tag
        self._inputs = inputs
        self._tables: dict[tuple[str, int], pa.Table] = {}
        self._registered: dict[tuple[str, int], str] = {}
        self._lock = threading.Lock()
        self.rows_read = 0
        scratch.mkdir(parents=True, exist_ok=True)

    def load(self, requests: Requests) -> None:
        """Read all that is asked for, level by level; each relation is scanned at most once a level."""
        for relation in sorted(requests.whole):
            self._load_whole(relation)
        for relation, level in sorted(requests.matches, key=lambda s: (s[1], s[0])):
            self._load_slice(relation, level, requests.matches[relation, level])

    # -- reads ------------------------------------------------------------------------------------

    def _load_whole(self, relation: str) -> None:
        source = self._inputs[relation]
        if source.native and source.rows is not None and source.rows <= NATIVE_WHOLE_ROWS:
            data = native.read(native.table(source.path, source.version), [c.name for c in source.columns])
            self._put(relation, WHOLE, data)

    def _load_slice(self, relation: str, level: int, matches: set[Match]) -> None:
        source = self._inputs[relation]
        wanted: dict[tuple[str, ...], list[pa.Table]] = {}
        for match in sorted(matches):
            keys = self._keys(match)
            if keys.num_rows:
                wanted.setdefault(match.columns, []).append(keys)
        columns = [c.name for c in source.columns]
        merged = [(mine, _distinct(pa.concat_tables([t.rename_columns(tables[0].column_names) for t in tables]))) for mine, tables in wanted.items()]
        if not merged:
            self._put(relation, level, source.schema.empty_table())
        elif source.native:
            folder = self._scratch / f"{self._tag}_{relation}_{level}"
            self._put(relation, level, native.read_matching(native.table(source.path, source.version), columns, merged, folder))
        else:
            self._slice_by_spark(source, level, columns, merged)

    def _slice_by_spark(self, source: Input, level: int, columns: Sequence[str], keys: Sequence[tuple[Sequence[str], pa.Table]]) -> None:
        spark = self._spark()
        conditions = []
        for i, (mine, wanted) in enumerate(keys):
            name = f"__ivm_{self._tag}_{source.relation}_{level}_keys_{i}"
            spark.createDataFrame(wanted).createOrReplaceTempView(name)
            on = " AND ".join(f"k.{ident(k)} <=> t.{ident(m)}" for m, k in zip(mine, wanted.column_names, strict=True))
            conditions.append(f"EXISTS (SELECT 1 FROM {ident(name)} AS k WHERE {on})")
        sql = f"SELECT {columns_sql(columns, 't')} FROM {table_ref(source.path, source.version)} AS t WHERE {' OR '.join(conditions)}"
        path = self._scratch / f"{self._tag}_{source.relation}_{level}.parquet"
        spark.sql(sql).write.mode("overwrite").parquet(str(path))
        self._put(source.relation, level, native.plain(pads.dataset(path, format="parquet").to_table()))

    def _keys(self, match: Match) -> pa.Table:
        """Distinct values of the provider's columns, old and new state both; NULLs only where they match."""
        provider = match.provider
        parts = []
        delta = self._inputs[provider.relation].delta
        if delta is not None:
            parts.append(delta.select(list(provider.columns)))
        if provider.level != DELTA:
            parts.append(self._tables[provider.relation, provider.level].select(list(provider.columns)))
        if not parts:
            return pa.table({})
        keys = pa.concat_tables(parts).rename_columns([f"k{i}" for i in range(len(provider.columns))])
        return _distinct(keys if match.nulls else keys.drop_null())

    # -- registration -----------------------------------------------------------------------------

    def _put(self, relation: str, level: int, data: pa.Table) -> None:
        self._tables[relation, level] = data
        self.rows_read += data.num_rows

    def _name(self, relation: str, level: int) -> str:
        """The Spark name of a dataset, written and registered when a statement first reads it."""
        with self._lock:
            if (relation, level) not in self._registered:
                name = f"__ivm_{self._tag}_{relation}_{'whole' if level == WHOLE else level}"
                data = self._tables[relation, level]
                register(self._spark(), name, data, [*self._inputs[relation].columns, *([Column(WEIGHT, "int")] if level == DELTA else [])], self._scratch)
                self._registered[relation, level] = name
        return self._registered[relation, level]

    # -- Reads ------------------------------------------------------------------------------------

    def delta(self, leaf: Leaf) -> str:
        delta = self._inputs[leaf.relation].delta
        assert delta is not None, f"{leaf.relation} did not change"
        self._tables.setdefault((leaf.relation, DELTA), delta)
        return ident(self._name(leaf.relation, DELTA))

    def state(self, leaf: Leaf, level: int, state: State) -> tuple[str, bool]:
        source = self._inputs[leaf.relation]
        rows = ident(self._name(leaf.relation, level)) if (leaf.relation, level) in self._tables else table_ref(source.path, source.version)
        if state in (State.SAME, source.base) or source.delta is None:
            return rows, False
        columns = columns_sql(leaf.columns)
        sep = ", " if columns else ""
        sign = "" if state is State.NEW else "-"
        return (
            f"(SELECT {columns}{sep}CAST(1 AS int) AS {ident(WEIGHT)} FROM {rows}"
            f" UNION ALL SELECT {columns}{sep}CAST({sign}{ident(WEIGHT)} AS int) AS {ident(WEIGHT)} FROM {self.delta(leaf)})"
        ), True

    def stored(self, relation: str, level: int) -> str:
        """The unit's own published rows, or those of the affected groups."""
        source = self._inputs[relation]
        return ident(self._name(relation, level)) if (relation, level) in self._tables else table_ref(source.path, source.version)

    def close(self) -> None:
        """Forget the registered names."""
        for name in self._registered.values():
            self._spark().catalog.dropTempView(name)


def _distinct(keys: pa.Table) -> pa.Table:
    return keys.group_by(keys.column_names, use_threads=False).aggregate([]) if keys.num_rows else keys


def register(spark: SparkSession, name: str, data: pa.Table, columns: Sequence[Column], scratch: Path) -> None:
    """Write rows as one Parquet file and give it a name in Spark, with Spark's own types."""
    # A leading underscore would hide the file from Spark.
    path = scratch / f"{name.lstrip('_')}.parquet"
    pq.write_table(data, path, compression="NONE")
    ddl = ", ".join(f"{ident(c.name)} {c.type}" for c in columns)
    spark.read.schema(ddl).parquet(str(path)).createOrReplaceTempView(name)

