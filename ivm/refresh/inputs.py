"""The relations of one epoch: what each unit reads of them, how far it had read, and what changed since.

Each delta is read once for all units that stand equally far, and so is the reason why one can't be read.
"""

from __future__ import annotations

import functools
import itertools
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ivm.engine.rows import Rows, StagedRows, few, stage
from ivm.feed.deltas import GapError, expected_changes, fed_here, source_delta
from ivm.feed.found import FoundRows
from ivm.feed.input import Accumulators, Input
from ivm.feed.source import Snapshot, as_of, count_rows
from ivm.feed.states import ones
from ivm.lake.shapes import arrow_schema
from ivm.names import WEIGHT
from ivm.plan.anchors import keyable
from ivm.plan.kinds import StrategyKind
from ivm.plan.nodes import EPOCH, Column, Relation, Unit
from ivm.planner.arranging import KeyedRead
from ivm.planner.learned import Past
from ivm.refresh.arrangements import Arrangements, followed
from ivm.refresh.context import Context, no_session
from ivm.refresh.instants import clock_rows, clock_values
from ivm.refresh.integrity import base
from ivm.refresh.past import pasts
from ivm.refresh.records import Cursor, EpochPlan, Manifest, Outcome, UnitState
from ivm.refresh.relations import after_epoch, batches, frozen_table
from ivm.rewrite.accumulators import accumulator_columns
from ivm.rewrite.delta_join import State
from ivm.rewrite.slices import Facts
from ivm.sql.render import columns_sql
from ivm.storage.location import Location
from ivm.times.ranges import within
from ivm.trace.arranged import TIME
from ivm.trace.store import read_batches
from ivm.zset.weighted import consolidate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


class Inputs:
    """Sources at the epoch's versions, and units as the last epoch left them.

    Once units ran (`outcomes`), they are as this epoch makes them.
    """

    def __init__(self, context: Context, plan: EpochPlan, outcomes: Mapping[str, Outcome], scratch: Location) -> None:
        self.context = context
        self.plan = plan
        self.outcomes = outcomes
        self.scratch = scratch
        self.manifest: Manifest = base(context, plan)
        #: The sources as they are now, to be read as planned, and those that can't be looked at, with the reason.
        snapshots, self.missing = context.survey()
        self.snapshots = {
            n: as_of(s, plan.sources[n].version, context.lane) if n in plan.sources else s for n, s in snapshots.items()
        }
        self.units: dict[str, Unit] = {u.name: u for c in context.compiled.values() for u in c.program.units}
        self._deltas: dict[str, Rows | None] = {}
        #: Whether a delta changes some columns.
        self._touches: dict[tuple[str, frozenset[str]], bool] = {}
        self._sampled: dict[str, int | None] = {}
        self._staged = itertools.count()
        self._gaps: dict[str, GapError] = {}
        self._source_rows: dict[str, int | None] = {}
        self._facts: dict[str, Facts] = {}
        #: Rows of sources and units that a wave read by key, for the next ones.
        self.found = FoundRows(context.limits.found_rows)
        #: What any unit reads, which arrangements hold; and what those do that this epoch refreshes.
        self._needed = needed_columns(self.units.values())
        self._needed_now = needed_columns(_refreshed(context, plan))
        self._clocks = context.clocks
        self._values: dict[tuple[str, int | None], tuple[pa.Table, pa.Table]] = {}
        follow = functools.partial(
            followed,
            context,
            snapshots=self.snapshots,
            sources=plan.sources,
            units=self.manifest.units,
            read=self._read_before,
        )
        self._arrangements = Arrangements(
            context, self.manifest, follow, lambda relation: [c.name for c in self.columns(relation)]
        )

    def keyed_reads(self) -> tuple[KeyedRead, ...]:
        """What keyed reads took since that was asked last, of relations that can be arranged."""
        told = self.found.take_told()
        known = {r for c in self.context.compiled.values() for r in c.program.relations} if told else set()
        return tuple(
            read
            for read in told
            if read.relation in known and TIME not in {c.lower() for c in self._needed[read.relation]}
        )

    @functools.cached_property
    def past(self) -> dict[str, Past]:
        """What the units' last refreshes took."""
        return pasts(self.context, self.units)

    def reads(self, view: str, unit: str) -> tuple[str, ...]:
        """What a unit reads, or a view without a program."""
        if unit in self.units:
            return self.units[unit].reads
        program = self.context.compiled[view].program
        return (*program.relations, *(c.name for c in program.clocks))

    def columns(self, relation: str) -> tuple[Column, ...]:
        """The columns that the epoch's units read, of an arranged relation any unit; at least one: a row needs one."""
        needed = self._needed if relation in self._arrangements.relations else self._needed_now
        columns = (
            self.snapshots[relation].columns if relation in self.snapshots else unit_columns(self.context, relation)
        )
        plain = [c for c in columns if keyable(c.type)] or [c for c in columns if "variant" not in c.type]
        return tuple(c for c in columns if c.name in needed.get(relation, set())) or tuple(plain[:1])

    def state(self, unit: str) -> UnitState:
        """A unit's state in this epoch, whether it ran in it or not."""
        outcome = self.outcomes.get(unit)
        return outcome.state if outcome is not None and outcome.state is not None else self.manifest.units[unit]

    def cursor(self, relation: str) -> Cursor:
        """Where a reader stands after this epoch. An upstream unit's version is known once it is published."""
        if relation in self.snapshots:
            return self.plan.sources[relation]
        if relation in self._clocks:
            return Cursor(self.plan.now)
        return Cursor(None, epoch=self.state(relation).epoch)

    def rows(self, relation: str) -> int | None:
        """The rows of a source now, or of a unit at the last epoch; None for a unit whose rows are not kept."""
        if relation in self._clocks:
            return 1
        if relation not in self.snapshots:
            return self.manifest.units[relation].rows
        if relation not in self._source_rows:
            self._source_rows[relation] = count_rows(self.snapshots[relation], self.context.spark)
        return self._source_rows[relation]

    def rows_now(self, relation: str) -> int | None:
        """The rows that a full refresh in this epoch reads."""
        of_source = relation in self.snapshots or relation in self._clocks
        return self.rows(relation) if of_source else self.state(relation).rows

    def new(self, relation: str) -> str:
        """All rows of a relation in this epoch, as a FROM item for Spark."""
        if relation in self._clocks:
            return clock_rows(self._clocks[relation], self.cursor(relation))
        if relation in self.snapshots:
            snapshot = self.snapshots[relation]
            columns = columns_sql([c.name for c in snapshot.columns])
            return f"(SELECT {columns} FROM {frozen_table(snapshot, self.plan.sources[relation].version)})"
        outcome, before = self.outcomes.get(relation), self.manifest.units.get(relation)
        its_columns = unit_columns(self.context, relation)
        return f"({after_epoch(self.context, outcome, relation, before, its_columns, self.plan.epoch)})"

    def delta(self, relation: str, cursor: Cursor) -> Rows | None:
        """The consolidated delta since the cursor up to this epoch, staged if it is large; None where it is empty.

        Raises GapError where it can't be told.
        """
        key = _key(relation, cursor)
        if key in self._gaps:
            raise self._gaps[key]
        if key not in self._deltas:
            try:
                delta = self._delta_of(relation, cursor)
            except GapError as gap:
                self._gaps[key] = gap  # for each view that reads it, without reading it again
                raise
            self._deltas[key] = delta if delta.num_rows else None
        return self._deltas[key]

    def _read_before(self, relation: str, after: int) -> pa.Table | None:
        """A source's delta since a version, where it was read for a unit and is in this process."""
        key = _key(relation, Cursor(after))
        if key in self._deltas and self._deltas[key] is None:
            schema = _only(self.snapshots[relation].schema, self.columns(relation))
            return schema.append(pa.field(WEIGHT, pa.int32())).empty_table()
        delta = self._deltas.get(key)
        return delta if isinstance(delta, pa.Table) else None

    def told(self, unit: Unit, state: UnitState) -> dict[str, int]:
        """About how many rows of a unit's sources changed, by their logs; without those that don't tell, or didn't."""
        counts = {r: self._told(r, state.cursors[r]) for r in unit.reads if r in self.snapshots}
        return {r: n for r, n in counts.items() if n}

    def expected(self, unit: Unit, state: UnitState) -> dict[str, int] | None:
        """As `told`, less what cancels out of large deltas by the first rows of their feeds.

        None where these can't tell.
        """
        found: dict[str, int] = {}
        for relation, changed in self.told(unit, state).items():
            cursor = state.cursors[relation]
            few = changed <= self.context.limits.delta_rows
            expected = changed if few else self._expected(relation, cursor)
            if expected is None:
                return None
            found[relation] = expected
        return found

    def _expected(self, relation: str, cursor: Cursor) -> int | None:
        key = _key(relation, cursor)
        if key not in self._sampled:
            upto, columns = self.plan.sources[relation].version, [c.name for c in self.columns(relation)]
            snapshot = self.snapshots[relation]
            self._sampled[key] = expected_changes(snapshot, cursor.version or 0, upto or 0, columns)
        return self._sampled[key]

    def read_ahead(self, units: Iterable[str]) -> None:
        """Read the sources' deltas since these units' cursors beside each other, where delta-rs can and they are few.

        What can't be read so is read, or its reason told, when it is asked for.
        """
        states = [self.manifest.units[u] for u in units if u in self.manifest.units]
        wanted = {(r, c) for state in states for r, c in state.cursors.items() if r in self.snapshots}
        few = [(r, c) for r, c in sorted(wanted, key=repr) if self._few_changed(r, c)]
        if len(few) > 1:
            with ThreadPoolExecutor(self.context.limits.threads) as pool:
                list(pool.map(lambda one: self._try_delta(*one), few))

    def _few_changed(self, relation: str, cursor: Cursor) -> bool:
        """Whether the log tells that a delta has few rows, at least one, and is delta-rs's to read."""
        told, upto = self._told(relation, cursor), self.plan.sources[relation].version
        if told is None or not 0 < told <= self.context.limits.delta_rows:
            return False
        return fed_here(self.snapshots[relation], cursor.version or 0, upto or 0)

    def _told(self, relation: str, cursor: Cursor) -> int | None:
        """About how many rows of a source changed since a cursor, by its log; None where that doesn't tell."""
        upto = self.plan.sources.get(relation, cursor).version
        if cursor.version is None or upto is None:
            return None
        if upto <= cursor.version:
            return 0
        return self.snapshots[relation].commits.changed(cursor.version + 1, upto)

    def _try_delta(self, relation: str, cursor: Cursor) -> None:
        try:
            delta = self._source_delta(relation, cursor, no_session)
        except Exception as error:  # noqa: BLE001 - it is read again when it is asked for, and raises what that raises
            _log.debug("the delta of %s can't be read ahead: %s", relation, error)
        else:
            self._deltas[_key(relation, cursor)] = delta if delta.num_rows else None

    def _delta_of(self, relation: str, cursor: Cursor) -> Rows:
        if relation in self._clocks:
            return self._clock(relation, cursor)[1]
        if relation in self.snapshots:
            return self._source_delta(relation, cursor, self.context.spark)
        return self._unit_delta(relation, cursor)

    def deltas(self, unit: Unit, state: UnitState) -> dict[str, Rows]:
        """The deltas of what a unit reads, of those relations that changed in a column that it reads."""
        found = {r: d for r in unit.reads if (d := self.delta(r, state.cursors[r])) is not None}
        return {r: d for r, d in found.items() if unit.fixpoint or self._touched(unit, r, state.cursors[r], d)}

    def _touched(self, unit: Unit, relation: str, cursor: Cursor, delta: Rows) -> bool:
        """Whether a delta says more than that rows were replaced by others that the unit can't tell from them."""
        columns = frozenset(needed_columns([unit])[relation])
        key = _key(relation, cursor), columns
        if key not in self._touches:
            self._touches[key] = isinstance(delta, StagedRows) or _differs(delta, columns)
        return self._touches[key]

    def facts(self, relation: str, delta: Rows | None = None) -> Facts:
        """What a walk may know of a relation with this delta."""
        if relation not in self._facts:
            rows = self.rows(relation)
            small = rows is not None and rows <= self.context.limits.whole_rows
            known = relation_facts(self.context, relation, self.snapshots, rows)
            self._facts[relation] = replace(known, small=small, moved=False)
        return replace(self._facts[relation], moved=_moved(delta))

    def input(self, relation: str, reader: UnitState, units: Sequence[Unit]) -> Input:
        """A relation as units in that state read it: a source's new rows, a unit's old ones, each with its delta.

        Its columns are those that any of these units reads: what is read of a table costs by the column.
        """
        found = self._input(relation, reader)
        needed = needed_columns(units).get(relation, set())
        columns = tuple(c for c in found.columns if c.name in needed) or found.columns[:1]
        if isinstance(found.delta, StagedRows) or found.given is not None:
            return found
        names = [c.name for c in columns]
        delta = None if found.delta is None else found.delta.select([*names, WEIGHT])
        schema = pa.schema([found.schema.field(n) for n in names])
        return replace(found, columns=columns, schema=schema, delta=delta)

    def _input(self, relation: str, reader: UnitState) -> Input:
        columns = self.columns(relation)
        cursor = reader.cursors.get(relation)
        delta = self.delta(relation, cursor) if cursor is not None else None
        if relation in self._clocks:
            assert cursor is not None
            row, _ = self._clock(relation, cursor)
            return Input(relation, columns, row.schema, "", None, State.NEW, False, delta, 1, given=row)
        if relation in self.snapshots:
            assert cursor is not None
            snapshot = self.snapshots[relation]
            version = self.plan.sources[relation].version
            indexes = self._arrangements.indexes(relation, version) if version is not None else ()
            schema = _only(snapshot.schema, columns)
            return Input(
                relation,
                columns,
                schema,
                snapshot.path,
                version,
                State.NEW,
                not snapshot.by_spark,
                delta,
                self.rows(relation),
                cursor.version,
                indexes,
                searched=snapshot.searched,
            )
        state = self.manifest.units[relation]
        # Of the same epoch there may be a newer version, which only moved rows between files.
        lags = cursor is not None and cursor.version is not None and cursor.epoch != state.epoch
        version = cursor.version if lags and cursor is not None else state.version
        indexes = self._arrangements.indexes(relation, (cursor or state).epoch)
        path, schema = self.context.layout.table(relation, state.public), _only(state.schema, columns)
        kept = self._accumulators(relation, state)
        return Input(
            relation,
            columns,
            schema,
            path,
            version,
            State.OLD,
            True,
            delta,
            state.rows,
            indexes=indexes,
            accumulators=kept,
        )

    def _clock(self, relation: str, cursor: Cursor) -> tuple[pa.Table, pa.Table]:
        """A clock's row in this epoch, and its delta since the cursor."""
        key = relation, cursor.version
        if key not in self._values:
            clock, spark = self._clocks[relation], self.context.spark()
            self._values[key] = clock_values(spark, clock, cursor.version or 0, self.plan.now)
        return self._values[key]

    def _source_delta(self, relation: str, cursor: Cursor, spark: Callable[[], SparkSession]) -> Rows:
        upto = self.plan.sources[relation].version
        if upto == cursor.version:
            return pa.table({})
        columns = [c.name for c in self.columns(relation)]
        return source_delta(
            self.snapshots[relation],
            cursor.version or 0,
            upto or 0,
            columns,
            spark,
            self.context.limits.delta_rows,
            self._place(relation),
        )

    def _place(self, relation: str) -> Location:
        """Where a large delta goes."""
        return self.scratch / f"delta_{self.plan.epoch}_{relation}_{next(self._staged)}"

    def _unit_delta(self, relation: str, cursor: Cursor) -> Rows:
        state, columns = self.state(relation), [c.name for c in self.columns(relation)]
        schema = arrow_schema(state.schema)
        if state.epoch <= cursor.epoch:  # nothing was written since
            return pa.schema([*(schema.field(c) for c in columns), pa.field(WEIGHT, pa.int64())]).empty_table()
        path = self.context.layout.output_trace(relation, state.output_generation)
        counted, most = within(state.batches, EPOCH), self.context.limits.delta_rows
        before = self.manifest.units.get(relation)
        alone = state.epoch == self.plan.epoch and before is not None and before.epoch <= cursor.epoch
        found = read_batches(path, columns, cursor.epoch, self.plan.epoch, schema, counted, most, alone)
        if found is not None:
            return found
        where = f"{EPOCH} > {cursor.epoch} AND {EPOCH} <= {self.plan.epoch} AND {counted}"
        rows = ones(batches(self.context, relation, state, columns, where), self.columns(relation))
        stored = (*self.columns(relation), Column(WEIGHT, "int"))
        return few(stage(self.context.spark(), rows, self._place(relation), stored), most)

    def _accumulators(self, unit: str, state: UnitState) -> Accumulators | None:
        """The trace of a unit's accumulators before this epoch."""
        reduce = self.units[unit].reduce if unit in self.units else None
        if reduce is None or not reduce.linear:
            return None
        path = self.context.layout.accumulator_trace(unit, state.generation)
        keys = tuple(k.name for k in reduce.keys)
        columns = tuple(accumulator_columns(reduce))
        return Accumulators(path, keys, columns, state.batches)


def _key(relation: str, cursor: Cursor) -> str:
    return f"{relation}@{cursor.version}@{cursor.epoch}"


def unit_columns(context: Context, relation: str) -> tuple[Column, ...]:
    """The columns of a unit, of a view without a program, or of a clock."""
    if relation in context.clocks:
        return context.clocks[relation].relation.columns
    units = (u for c in context.compiled.values() for u in c.program.units)
    return next((u.columns for u in units if u.name == relation), None) or context.compiled[relation].program.columns


def relation_facts(context: Context, relation: str, snapshots: Mapping[str, Snapshot], rows: int | None) -> Facts:
    """What a walk may know of a source, or of a unit, that has so many rows (None: unknown), or of a clock."""
    if relation in snapshots:
        source, columns = context.sources[relation], snapshots[relation].columns
        actual = {c.name.lower(): c.name for c in columns}
        key = tuple(actual[k.lower()] for k in source.primary_key)
        return Facts(Relation(relation, "source", columns, key), rows, source.foreign_keys)
    if relation in context.clocks:
        return Facts(context.clocks[relation].relation, 1, moved=True, small=True)
    units = (u for c in context.compiled.values() for u in c.program.units)
    key = next((u.key for u in units if u.name == relation), ())
    return Facts(Relation(relation, "unit", unit_columns(context, relation), key), rows)


def _refreshed(context: Context, plan: EpochPlan) -> Iterable[Unit]:
    """The units of the views that an epoch refreshes."""
    views = [v for v, task in plan.tasks.items() if task.strategy != StrategyKind.UNCHANGED and v in context.compiled]
    return [u for v in views for u in context.compiled[v].program.units]


def needed_columns(units: Iterable[Unit]) -> dict[str, set[str]]:
    """The names of the columns that units read, by relation."""
    needed: dict[str, set[str]] = {}
    for unit in units:
        for branch in unit.core.branches:
            for leaf in branch.leaves:
                needed.setdefault(leaf.relation, set()).update(leaf.columns)
        whole = unit.fixpoint or (unit.reduce and not unit.reduce.linear)
        needed.setdefault(unit.name, set()).update(c.name for c in unit.columns if whole)
    return needed


def _only(schema: str, columns: Sequence[Column]) -> pa.Schema:
    stored = arrow_schema(schema)
    return pa.schema([stored.field(c.name) for c in columns])


def _differs(delta: pa.Table, columns: Collection[str]) -> bool:
    """Whether a delta's rows don't all cancel out in these columns."""
    mine = [c for c in delta.column_names if c in columns]
    if len(mine) == delta.num_columns - 1 or pc.sum(delta[WEIGHT]).as_py():
        return True
    return bool(consolidate(delta.select([*mine, WEIGHT]), mine).num_rows)


def _moved(delta: Rows | None) -> bool:
    """Whether a delta replaces one row by another, without NULLs: only then are its values the ends of a range."""
    if not isinstance(delta, pa.Table) or delta.num_rows != 2 or sorted(delta[WEIGHT].to_pylist()) != [-1, 1]:
        return False
    # Not as Python's values, which end with the year 9999.
    finite = (pc.all(pc.is_finite(c)).as_py() for c in delta.columns if pa.types.is_floating(c.type))
    return not any(c.null_count for c in delta.columns) and all(finite)
