"""What an epoch reads: deltas, slices and small relations, each materialized once for all views.

One wave of units shares one `Datasets`, which answers `ivm.rewrite.statements.Reads` by names in Spark. Two kinds:

    ArrowDatasets      rows go through this process: delta-rs finds them, Parquet in scratch hands them to Spark
    StagedDatasets     rows stay with Spark: key sets, slices and states are statements over staged Parquet

Both write into the epoch's scratch folder under the root, so that either lane may read what the other wrote, wherever
Spark's executors are.
"""

from __future__ import annotations

import copy
import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.engine.embedded import Readable
from ivm.engine.once import Once
from ivm.engine.rows import Rows
from ivm.feed.bound import Bound
from ivm.feed.input import Accumulators, Input
from ivm.feed.states import shifted, taken_back
from ivm.lake.keys import wide
from ivm.names import RESERVED_PREFIX, WEIGHT, ident, spark_path, table_ref
from ivm.plan.anchors import keyable
from ivm.plan.nodes import EPOCH, IN_NEW, IN_OLD, Column, Leaf
from ivm.planner.limits import EMBEDDED, Limits
from ivm.rewrite.delta_join import State
from ivm.rewrite.rounds import Rounds
from ivm.rewrite.slices import WHOLE, Match, Requests
from ivm.rewrite.statements import Sums
from ivm.sql.render import columns_sql
from ivm.storage.location import Location
from ivm.table import whole
from ivm.table.own import own
from ivm.table.protocol import Wanted
from ivm.times.ranges import Ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


NOTHING: Mapping[str, Any] = MappingProxyType({})


class Part(Enum):
    """What a registered name stands for; each has the relation's columns."""

    #: The slice.
    ROWS = "rows"
    #: The rows of both states, flagged IN_NEW and IN_OLD.
    BOTH = "both"
    #: The delta, with WEIGHT.
    DELTA = "delta"


@dataclass(frozen=True)
class Asker:
    """One unit's part of what is read for several: its requests, and the columns that it reads of each relation.

    Of `alike` relations it can't tell the rows that came from those that went.
    """

    requests: Requests
    columns: Mapping[str, Collection[str]]
    alike: frozenset[str] = frozenset()

    def of(self, relation: str) -> frozenset[Match]:
        """What it asks for of a relation."""
        asked = [m for (r, _), m in self.requests.matches.items() if r == relation]
        return frozenset(itertools.chain.from_iterable(asked))

    def reads(self, relation: str) -> set[str]:
        """The columns that it reads of a relation, those included by which rows are found there, and from there."""
        found = set(self.columns.get(relation, ()))
        for (asked, _), matches in self.requests.matches.items():
            for match in matches:
                if asked == relation:
                    found.update(match.columns)
                for provider in match.provider.providers():
                    if provider.relation == relation:
                        found |= provider.reads
        return found


class Datasets(ABC):
    """What both kinds have in common: which name answers which question."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        scratch: Location,
        tag: str,
        inputs: Mapping[str, Input],
        limits: Limits = EMBEDDED,
        bound: Bound | None = None,
    ) -> None:
        self._spark = spark
        #: The names that stand for rows of this process.
        self.bound = bound or Bound(spark, scratch, limits.partition_rows)
        self._scratch = scratch
        #: All names have it: no two datasets share one.
        self.tag = tag
        self._limits = limits
        self.inputs = inputs
        #: How many rows the slice of a relation has, for those that have one.
        self._sliced: dict[str, int] = {}
        self._whole: set[str] = set()
        self._rounds = Rounds(Requests(), (), {})
        self._scanned: frozenset[str] = frozenset()
        self._registered = Once()
        #: What this view of the datasets takes for unchanged.
        self._alike: frozenset[str] = frozenset()
        scratch.make()
        self._begin()

    def load(
        self,
        requests: Requests,
        askers: Sequence[Asker] = (),  # noqa: ARG002 - of those that tell units apart
        later: Mapping[str, Collection[str]] = NOTHING,  # noqa: ARG002
    ) -> None:
        """Read all that is asked for, in rounds; each relation is scanned at most once a round.

        `askers` say which unit asks for what of it, `later` which columns are asked for afterwards.
        """
        for relation in sorted(requests.whole):
            self._load_whole(relation)
        self._scanned = frozenset(requests.whole - self._whole)
        self._rounds = Rounds(requests, self._whole, {r: source.rows for r, source in self.inputs.items()})
        for number in itertools.count(1):
            asked = self._rounds.take()
            if not asked:
                return
            self._load_round(number, asked)

    def seen_by(self, asker: Asker) -> Datasets:
        """What was loaded, as one of the askers reads it: at least the rows and columns that it asked for.

        To it no row changed of what is alike. Its groups would count as changed with such a row, and not all rows of
        these were asked for.
        """
        view = copy.copy(self)
        view._alike = asker.alike
        return view

    @abstractmethod
    def _begin(self) -> None:
        """Have no slices yet."""

    @abstractmethod
    def _load_whole(self, relation: str) -> None:
        """Make the whole relation its slice, if it is so small that this pays."""

    @abstractmethod
    def _load_round(self, number: int, asked: Mapping[str, set[Match]]) -> None:
        """Add the rows of one round to the relations' slices; rows that an earlier one found are not taken twice."""

    @abstractmethod
    def _register(self, name: str, relation: str, part: Part) -> None:
        """Give a part of a relation its name."""

    def rows_read(self, relations: Iterable[str]) -> int:
        """How many rows of these relations' slices who reads these datasets meets."""
        return sum(self._slice_rows(r) for r in set(relations))

    def rows(self, relations: Iterable[str]) -> int | None:
        """How many rows of these relations statements will read, once all is loaded; None where that isn't known."""
        total = 0
        for relation in relations:
            source = self.inputs[relation]
            scanned = source.rows if relation in self._scanned else 0
            if scanned is None:
                return None
            total += scanned + self._slice_rows(relation)
            total += source.delta.num_rows if source.delta is not None else 0
        return total

    def _slice_rows(self, relation: str) -> int:
        """How many rows of a relation's slice statements read."""
        return self._sliced.get(relation, 0)

    def _name_of(self, what: str, relation: str) -> str:
        """What a relation's `what` is called, and nothing else: it comes first, since relations have any names."""
        return f"{RESERVED_PREFIX}_{self.tag}_{what}_{relation}"

    def _place_of(self, what: str, relation: str) -> Location:
        """Where a relation's `what` lies in scratch, and nothing else does."""
        return self._scratch / f"{self.tag}_{what}_{relation}".lstrip("_")

    def _called(self, relation: str, part: Part) -> str:
        """What a part of a relation is called."""
        return self._name_of(part.value, relation)

    def _name(self, relation: str, part: Part) -> str:
        """The quoted name of a part of a relation, given when a statement is first written over it."""
        name = self._called(relation, part)
        self._registered.make(name, lambda: self._register(name, relation, part))
        return ident(name)

    # -- Reads ------------------------------------------------------------------------------------

    def changed(self, relation: str) -> bool:
        return self.inputs[relation].delta is not None and relation not in self._alike

    def signed(self, leaf: Leaf, level: int) -> str | None:
        relation = leaf.relation
        if level == WHOLE and relation not in self._whole:
            return None if self.changed(relation) else self._table(relation)
        if not self.changed(relation):
            return self._name(relation, Part.ROWS)
        return self._name(relation, Part.BOTH)

    def delta(self, leaf: Leaf) -> str:
        assert self.changed(leaf.relation), f"{leaf.relation} did not change"
        return self._name(leaf.relation, Part.DELTA)

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
        name = self._name_of(f"bag_{state.value}", relation)
        columns = self.inputs[relation].columns
        delta = self.delta(Leaf(relation, relation, tuple(c.name for c in columns)))

        def write() -> None:
            moved = delta if state is State.NEW else taken_back(columns, delta)
            sql = shifted(columns, self._table(relation), moved)
            self.bound.make(name, lambda: self._write_bag(name, sql))

        self._registered.make(name, write)
        return ident(name)

    def _write_bag(self, name: str, sql: str) -> None:
        path = self._scratch / name.lstrip("_")
        self.bound.ready(sql)
        self._spark().sql(sql).write.mode("overwrite").parquet(path.spark)
        self._spark().read.parquet(path.spark).createOrReplaceTempView(name)

    def stored(self, unit: str) -> str:
        return self._name(unit, Part.ROWS) if unit in self._sliced else self._table(unit)

    def _table(self, relation: str) -> str:
        source = self.inputs[relation]
        if source.given is not None:
            return self._given(relation, source.given)
        return table_ref(source.path, source.version)

    def _given(self, relation: str, rows: pa.Table) -> str:
        name = self._name_of("given", relation)
        self._registered.make(name, lambda: self.bound.bind(name, rows, self.inputs[relation].columns))
        return ident(name)

    def accumulators(self, unit: str) -> Sums:
        """Few are handed over whole; of many those that `meet` finds; where keys can't be looked for, Spark scans."""
        kept = self._kept(unit)
        table = own(kept.path, self._limits)
        known = whole.known(kept.path)
        rows = known.num_rows if known is not None else table.count()
        keyed = bool(kept.keys) and all(keyable(c.type) for c in kept.columns[: len(kept.keys)])
        if keyed and rows > self._limits.searched_rows:
            return Sums(ident(self._sums_name(unit, "met")), changes=ident(self._sums_name(unit, "changes")))
        if rows > self._limits.accumulator_rows:
            return Sums(f"(SELECT * FROM {table_ref(kept.path)} WHERE {kept.counted})", large=True)
        name = self._sums_name(unit, "accumulators")

        def bind() -> None:
            sums = _of_epochs(whole.rows(kept.path) if known is None else known, kept.batches)
            self.bound.bind(name, sums.select([c.name for c in kept.columns]), kept.columns)

        self._registered.make(name, bind)
        return Sums(ident(name))

    def meet(self, unit: str, changes: Rows) -> None:
        """Find a unit's accumulators of the groups that `changes` tells of (keys, gains), and give both their names."""
        kept = self._kept(unit)
        met, changed = self._sums_name(unit, "met"), self._sums_name(unit, "changes")
        if isinstance(changes, pa.Table):
            self.bound.bind(changed, changes, kept.columns)
            self.bound.bind(met, self._met(kept, changes), kept.columns)
        else:
            on = " AND ".join(f"t.{ident(k)} <=> a.{ident(k)}" for k in kept.keys)
            sums = f"(SELECT * FROM {table_ref(kept.path)} WHERE {kept.counted})"
            self._make(changed, f"SELECT * FROM {changes.ref}")
            self._make(met, f"SELECT t.* FROM {sums} AS t LEFT SEMI JOIN {changes.ref} AS a ON {on}")
        for name in (met, changed):
            self._registered.note(name)

    def _met(self, kept: Accumulators, changes: pa.Table) -> pa.Table:
        table, columns = own(kept.path, self._limits), [c.name for c in kept.columns]
        if not changes.num_rows:
            return table.read(columns, lambda _: "false")
        keys = wide(changes.select(list(kept.keys))).rename_columns([f"k{i}" for i in range(len(kept.keys))])
        return table.find(columns, [Wanted(kept.keys, keys)], where=lambda _: kept.counted)

    def _make(self, name: str, sql: str) -> None:
        self.bound.make(name, lambda: self._spark().sql(sql).createOrReplaceTempView(name))

    def _kept(self, unit: str) -> Accumulators:
        kept = self.inputs[unit].accumulators
        assert kept is not None, f"{unit} keeps none"
        return kept

    def _sums_name(self, unit: str, what: str) -> str:
        return self._name_of(what, unit)

    def readable(self, name: str, path: bool, version: int | None) -> Readable | None:
        """The rows that a statement calls so, or (`path`) a table's that it reads whole, called as Spark calls it.

        None where they are not in this process: delta-rs may not read them, or nobody knows how many they are.
        """
        return self._scan(name, version) if path else self.bound.readable(name)

    def _scan(self, path: str, version: int | None) -> Readable | None:
        for name, source in self.inputs.items():
            kept = source.accumulators
            if kept is not None and version is None and spark_path(kept.path) == path:
                table = own(kept.path)
                stored = (*kept.columns, Column(EPOCH, "bigint"))
                read = functools.partial(table.read, [c.name for c in stored])
                return Readable(f"{name}, accumulators", stored, table.count(), read)
            if spark_path(source.path) == path and source.native and source.rows is not None:
                read = functools.partial(self._whole_rows, source, version)
                return Readable(f"{name} {version}", source.columns, source.rows, read)
        return None

    @staticmethod
    def _whole_rows(source: Input, version: int | None) -> pa.Table:
        return own(source.path).read(source.schema.names, version=version).cast(source.schema)

    def published(self, unit: str) -> pa.Table:
        """All of a unit's own published rows."""
        source = self.inputs[unit]
        return own(source.path).read(source.schema.names, version=source.version)

    def close(self) -> None:
        """Forget the registered names."""
        self.bound.drop(self._registered)


def _of_epochs(rows: pa.Table, batches: Ranges) -> pa.Table:
    """The rows of a trace whose epochs lie in one of the ranges; all where there are none."""
    within = [pc.and_(pc.greater_equal(rows[EPOCH], a), pc.less_equal(rows[EPOCH], b)) for a, b in batches]
    if not within:
        return rows
    kept = functools.reduce(pc.or_, within)
    return rows if pc.all(kept).as_py() else rows.filter(kept)
