"""The rows an epoch reads: deltas, slices and small relations, each materialized once for all views.

One wave of units shares one `Datasets`. What it reads lies as Parquet in the epoch's scratch folder under the
root, registered with Spark by name; both lanes write there, so either may read what the other wrote, wherever Spark's
executors are.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ivm.lake import native
from ivm.lake.keys import distinct, ends, filtered, matching, wide, within
from ivm.names import ident, table_ref
from ivm.plan.nodes import IN_NEW, IN_OLD, WEIGHT, Column, Leaf
from ivm.planner.limits import EMBEDDED, Limits
from ivm.rewrite.delta_join import State
from ivm.rewrite.slices import DELTA, WHOLE, Match, Provider, Requests
from ivm.rewrite.statements import repeated
from ivm.sql.maps import comparable
from ivm.sql.render import columns_sql
from ivm.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Rows of a file that one core reads.
ROW_GROUP = 65_536


@dataclass(frozen=True)
class Index:
    """The same rows arranged by `keys`; `find` gives those that are wanted (columns, keys, scratch folder)."""

    keys: tuple[str, ...]
    find: Callable[[Sequence[str], Wanted, Location], pa.Table]


@dataclass(frozen=True)
class Accumulators:
    """A trace of accumulators, with the condition for the batches that are read."""

    path: str
    columns: tuple[Column, ...]
    before: str


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
    #: The version of the old state, where the table still has it.
    since: int | None = None
    indexes: tuple[Index, ...] = ()
    #: Of a unit that keeps them.
    accumulators: Accumulators | None = None

    def index(self, wanted: Wanted) -> Index | None:
        """The index that finds these rows, if there is one."""
        fitting = (i for i in self.indexes if not wanted.between and set(i.keys) <= set(wanted.columns))
        return max(fitting, key=lambda i: len(i.keys), default=None)


@dataclass(frozen=True)
class Wanted:
    """Rows to read: those whose columns are among the keys, or with `between` lie between two ends."""

    columns: tuple[str, ...]
    keys: pa.Table
    between: bool = False

    def of(self, rows: pa.Table) -> pa.Array:
        """Which of these rows are wanted."""
        return (within if self.between else matching)(rows, self.columns, self.keys)


class Datasets:
    """Implements `ivm.rewrite.statements.Reads` over materialized Parquet."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        scratch: Location,
        tag: str,
        inputs: Mapping[str, Input],
        limits: Limits = EMBEDDED,
    ) -> None:
        self._spark = spark
        self._scratch = scratch
        self._tag = tag
        self._limits = limits
        self.inputs = inputs
        self._slices: dict[str, pa.Table] = {}
        self._keys_of: dict[Match, pa.Table] = {}
        self._matched: dict[str, list[Wanted]] = {}
        self._whole: set[str] = set()
        self._scanned: frozenset[str] = frozenset()
        self._registered: dict[str, str] = {}
        self._lock = threading.Lock()
        self._rows_read: dict[str, int] = {}
        scratch.make()

    def load(self, requests: Requests) -> None:
        """Read all that is asked for, level by level; each relation is scanned at most once a level."""
        for relation in sorted(requests.whole):
            self._load_whole(relation)
        self._scanned = frozenset(requests.whole - self._whole)
        for relation, level in sorted(requests.matches, key=lambda s: (s[1], s[0])):
            if relation not in self._whole:
                self._load_slice(relation, level, requests.matches[relation, level])

    def rows_read(self, relations: Iterable[str]) -> int:
        """How many rows of these relations were read into slices, once for all units that share them."""
        return sum(self._rows_read.get(r, 0) for r in set(relations))

    def rows(self, relations: Iterable[str]) -> int | None:
        """How many rows of these relations statements will read, once all is loaded; None where that isn't known."""
        total = 0
        for relation in relations:
            source = self.inputs[relation]
            scanned = source.rows if relation in self._scanned else 0
            if scanned is None:
                return None
            total += scanned + (self._slices[relation].num_rows if relation in self._slices else 0)
            total += source.delta.num_rows if source.delta is not None else 0
        return total

    def read_rows(self, relation: str, rows: pa.Table) -> pa.Table:
        """The rows of a native table that equal one of `rows` in all columns that these have, NULLs equal."""
        source = self.inputs[relation]
        keys = wide(rows).rename_columns([f"k{i}" for i in range(rows.num_columns)])
        folder = self._scratch / f"{self._tag}_{relation}_rows"
        table = native.table(source.path, source.version)
        wanted = [(rows.column_names, keys, False)]
        return native.read_matching(
            table, source.schema.names, wanted, folder, literals=self._limits.literal_keys
        ).cast(source.schema)

    # -- reads ------------------------------------------------------------------------------------

    def _load_whole(self, relation: str) -> None:
        source = self.inputs[relation]
        if source.native and source.rows is not None and source.rows <= self._limits.native_whole_rows:
            self._slices[relation] = native.read(
                native.table(source.path, source.version), [c.name for c in source.columns]
            ).cast(source.schema)
            self._whole.add(relation)
            self._rows_read[relation] = self._slices[relation].num_rows

    def _load_slice(self, relation: str, level: int, matches: set[Match]) -> None:
        """Add the rows of one level to the relation's slice; rows that an earlier level found are not taken twice."""
        source = self.inputs[relation]
        wanted: dict[tuple[str, ...], list[pa.Table]] = {}
        merged = []
        for match in sorted(matches, key=repr):
            keys = self._keys(match)
            if keys.num_rows and match.between:
                merged.append(Wanted(match.columns, keys, between=True))
            elif keys.num_rows:
                wanted.setdefault(match.columns, []).append(keys)
        for mine, tables in wanted.items():
            merged.append(
                Wanted(mine, distinct(pa.concat_tables([t.rename_columns(tables[0].column_names) for t in tables])))
            )
        found = self._slices.setdefault(relation, source.schema.empty_table())
        if not merged:
            return
        columns = [c.name for c in source.columns]
        folder = self._scratch / f"{self._tag}_{relation}_{level}"
        indexes = [source.index(w) for w in merged]
        if all(indexes):
            rows = source.schema.empty_table()
            for i, (index, wanted_) in enumerate(zip(indexes, merged, strict=True)):
                assert index is not None
                more = index.find(columns, wanted_, folder / str(i)).cast(source.schema)
                for earlier in merged[:i]:
                    more = more.filter(pc.invert(earlier.of(more)))
                rows = pa.concat_tables([rows, more])
        elif source.native:
            keys = [(w.columns, w.keys, w.between) for w in merged]
            rows = native.read_matching(
                native.table(source.path, source.version), columns, keys, folder, literals=self._limits.literal_keys
            )
        else:
            rows = self._slice_by_spark(source, level, columns, merged)
        for earlier in self._matched.get(relation, []):
            rows = rows.filter(pc.invert(earlier.of(rows)))
        self._matched.setdefault(relation, []).extend(merged)
        self._slices[relation] = pa.concat_tables([found, rows.cast(source.schema)])
        self._rows_read[relation] = self._rows_read.get(relation, 0) + rows.num_rows

    def _slice_by_spark(self, source: Input, level: int, columns: Sequence[str], merged: Sequence[Wanted]) -> pa.Table:
        spark = self._spark()
        conditions = []
        for i, wanted in enumerate(merged):
            if wanted.between:
                low, high = wanted.keys.column(0).to_pylist()
                conditions.append(f"CAST(t.{ident(wanted.columns[0])} AS double) BETWEEN {low!r}D AND {high!r}D")
                continue
            name = f"__ivm_{self._tag}_{source.relation}_{level}_keys_{i}"
            spark.createDataFrame(wanted.keys).createOrReplaceTempView(name)
            on = " AND ".join(
                f"k.{ident(k)} <=> t.{ident(m)}" for m, k in zip(wanted.columns, wanted.keys.column_names, strict=True)
            )
            conditions.append(f"EXISTS (SELECT 1 FROM {ident(name)} AS k WHERE {on})")
        sql = (
            f"SELECT {columns_sql(columns, 't')} FROM {table_ref(source.path, source.version)} AS t "
            f"WHERE {' OR '.join(conditions)}"
        )
        path = self._scratch / f"{self._tag}_{source.relation}_{level}.parquet"
        spark.sql(sql).write.mode("overwrite").parquet(path.spark)
        return native.plain(native.parquet(path).to_table())

    def _keys(self, match: Match) -> pa.Table:
        """Distinct values of the provider's columns, old and new state both; NULLs only where they match."""
        if match not in self._keys_of:
            provider = match.provider
            parts = []
            delta = self.inputs[provider.relation].delta
            if delta is not None:
                parts.append(self._provided(delta, provider))
            if provider.level != DELTA and provider.relation in self._slices:
                parts.append(self._provided(self._slices[provider.relation], provider))
            keys = pa.concat_tables(parts) if parts else pa.table({})
            if match.between:
                self._keys_of[match] = ends(keys)
            else:
                self._keys_of[match] = distinct(keys if match.nulls else keys.drop_null()) if parts else keys
        return self._keys_of[match]

    def _provided(self, rows: pa.Table, provider: Provider) -> pa.Table:
        """The provider's columns, called k0, k1, ..., of those of the rows that it means."""
        rows = filtered(rows, provider.filters)
        if provider.via is not None and rows.num_rows:
            keys = self._keys(provider.via)
            rows = (
                rows.filter(Wanted(provider.via.columns, keys, provider.via.between).of(rows))
                if keys.num_rows
                else rows.slice(0, 0)
            )
        return wide(rows.select(list(provider.columns)).rename_columns([f"k{i}" for i in range(len(provider.columns))]))

    # -- registration -----------------------------------------------------------------------------

    def _name(self, relation: str, what: str, data: Callable[[], pa.Table], flags: Sequence[str]) -> str:
        """The quoted Spark name of a dataset, written and registered when a statement first reads it."""
        name = f"__ivm_{self._tag}_{relation}_{what}"
        with self._lock:
            if name not in self._registered:
                columns = [*self.inputs[relation].columns, *(Column(f, "int") for f in flags)]
                register(self._spark(), name, data(), columns, self._scratch)
                self._registered[name] = relation
        return ident(name)

    def _flagged(self, relation: str) -> pa.Table:
        """The rows of both states: those of the slice that did not change, and the delta's."""
        source = self.inputs[relation]
        delta = source.delta
        assert delta is not None
        rows = self._slices.get(relation, source.schema.empty_table())
        names = source.schema.names
        # The slice was read in one state; the delta's rows of that state are flagged below, so they leave it here.
        there = (
            delta.filter(pc.equal(delta[WEIGHT], 1 if source.base is State.NEW else -1))
            .select(names)
            .cast(source.schema)
        )
        both = pa.concat_tables([_constant(rows, WEIGHT, 1), _constant(there, WEIGHT, -1)])
        unchanged = native.consolidate(both, names) if rows.num_rows else both.slice(0, 0)
        unchanged = unchanged.filter(pc.greater(unchanged[WEIGHT], 0)).select(names)
        inserted, deleted = (
            delta.filter(pc.equal(delta[WEIGHT], w)).select(names).cast(source.schema) for w in (1, -1)
        )
        parts = [(unchanged, 1, 1), (inserted, 1, 0), (deleted, 0, 1)]
        return pa.concat_tables([_constant(_constant(t, IN_NEW, n), IN_OLD, o) for t, n, o in parts])

    # -- Reads ------------------------------------------------------------------------------------

    def changed(self, relation: str) -> bool:
        return self.inputs[relation].delta is not None

    def signed(self, leaf: Leaf, level: int) -> str | None:
        relation = leaf.relation
        if level == WHOLE and relation not in self._whole:
            return None if self.changed(relation) else self._table(relation)
        if not self.changed(relation):
            return self._name(relation, "rows", lambda: self._slices[relation], [])
        return self._name(relation, "both", lambda: self._flagged(relation), [IN_NEW, IN_OLD])

    def delta(self, leaf: Leaf) -> str:
        delta = self.inputs[leaf.relation].delta
        assert delta is not None, f"{leaf.relation} did not change"
        return self._name(leaf.relation, "delta", lambda: delta, [WEIGHT])

    def state(self, leaf: Leaf, level: int, state: State) -> tuple[str, bool]:
        signed = self.signed(leaf, level)
        source = self.inputs[leaf.relation]
        if signed is not None:
            if not self.changed(leaf.relation):
                return signed, False
            flag = IN_OLD if state is State.OLD else IN_NEW
            return f"(SELECT {columns_sql(leaf.columns) or '1'} FROM {signed} WHERE {ident(flag)} = 1)", False
        rows = self._table(leaf.relation)
        if state in (State.SAME, source.base):
            return rows, False
        listed = [ident(c) for c in leaf.columns]
        sign = "" if state is State.NEW else "-"
        one = ", ".join([*listed, f"CAST(1 AS int) AS {ident(WEIGHT)}"])
        moved = ", ".join([*listed, f"CAST({sign}{ident(WEIGHT)} AS int) AS {ident(WEIGHT)}"])
        return f"(SELECT {one} FROM {rows} UNION ALL SELECT {moved} FROM {self.delta(leaf)})", True

    def bag(self, leaf: Leaf, level: int, state: State) -> str:
        rows, weighted = self.state(leaf, level, state)
        if not weighted:
            return rows
        source = self.inputs[leaf.relation]
        if source.since is not None and state is State.OLD:
            return table_ref(source.path, source.since)
        return self._whole_bag(leaf.relation, state)

    def _whole_bag(self, relation: str, state: State) -> str:
        """All rows of the state that the table itself doesn't have, written out.

        Inside a subquery Spark 4.2 got this union wrong.
        """
        name = f"__ivm_{self._tag}_{relation}_{state.value}_rows"
        columns = self.inputs[relation].columns
        delta = self.delta(Leaf(relation, relation, tuple(c.name for c in columns)))
        with self._lock:
            if name not in self._registered:
                path = self._scratch / name.lstrip("_")
                self._spark().sql(self._bag_sql(columns, self._table(relation), delta, state)).write.mode(
                    "overwrite"
                ).parquet(path.spark)
                self._spark().read.parquet(path.spark).createOrReplaceTempView(name)
                self._registered[name] = relation
        return ident(name)

    @staticmethod
    def _bag_sql(columns: Sequence[Column], table: str, delta: str, state: State) -> str:
        # Only rows equal to one of the delta's are counted; all others are as they were.
        on = " AND ".join(f"{comparable(c, 't')} <=> {comparable(c, 'd')}" for c in columns)
        names = [c.name for c in columns]
        mine, sign = columns_sql(names, "t"), "" if state is State.NEW else "-"
        same = f"SELECT {mine} FROM {table} AS t LEFT ANTI JOIN {delta} AS d ON {on}"
        there = (
            f"SELECT {mine}, CAST(1 AS bigint) AS {ident(WEIGHT)} FROM {table} AS t LEFT SEMI JOIN {delta} AS d ON {on}"
        )
        moved = f"SELECT {columns_sql(names)}, CAST({sign}{ident(WEIGHT)} AS bigint) AS {ident(WEIGHT)} FROM {delta}"
        return f"{same} UNION ALL {repeated(f'{there} UNION ALL {moved}', columns)}"

    def stored(self, unit: str) -> str:
        if unit in self._slices:
            return self._name(unit, "stored", lambda: self._slices[unit], [])
        return self._table(unit)

    def _table(self, relation: str) -> str:
        source = self.inputs[relation]
        return table_ref(source.path, source.version)

    def accumulators(self, unit: str) -> tuple[str, bool]:
        """Small ones are handed over as Parquet, large ones scanned by Spark."""
        kept = self.inputs[unit].accumulators
        assert kept is not None, f"{unit} keeps none"
        delta = native.table(kept.path)
        if native.rows(delta) > self._limits.accumulator_rows:
            return f"(SELECT * FROM {table_ref(kept.path)} WHERE {kept.before})", True
        name = f"__ivm_{self._tag}_{unit}_accumulators"
        register(
            self._spark(),
            name,
            native.read(delta, [c.name for c in kept.columns], kept.before),
            kept.columns,
            self._scratch,
        )
        self._registered[name] = unit
        return ident(name), False

    def published(self, unit: str) -> pa.Table:
        """All of a unit's own published rows."""
        source = self.inputs[unit]
        return native.read(native.table(source.path, source.version), source.schema.names)

    def beside(self, tag: str, inputs: Mapping[str, Input]) -> Datasets:
        """Datasets of more inputs, with names of their own."""
        return Datasets(self._spark, self._scratch, f"{self._tag}_{tag}", inputs, self._limits)

    def close(self) -> None:
        """Forget the registered names."""
        for name in self._registered:
            self._spark().catalog.dropTempView(name)


def _constant(rows: pa.Table, name: str, value: int) -> pa.Table:
    return rows.append_column(name, pa.array([value], pa.int32()).take(pa.array([0] * rows.num_rows, pa.int8())))


def register(spark: SparkSession, name: str, data: pa.Table, columns: Sequence[Column], scratch: Location) -> None:
    """Write rows as one Parquet file and give it a name in Spark, with Spark's own types."""
    # A leading underscore would hide the file from Spark.
    path = scratch / f"{name.lstrip('_')}.parquet"
    native.write_parquet(data, path, ROW_GROUP)
    ddl = ", ".join(f"{ident(c.name)} {c.type}" for c in columns)
    spark.read.schema(ddl).parquet(path.spark).createOrReplaceTempView(name)
