"""A relation at a state, as Spark reads it: the only place that knows which table, version and batches that is.

    a source at a cursor        its table at the version that was read, as long as that is the commit that was read
    a unit at its state         its published table at that version; of a stream, its accumulators up to an epoch
    a unit after epoch n        what stands in n's staging; or its state before, and batch n of its output trace

Each function returns SQL: `..._table` the name of a table, others a SELECT.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ivm.errors import StateError
from ivm.feed.source import Snapshot, other_commit
from ivm.lake.features import drop_features
from ivm.lake.shapes import arrow_schema
from ivm.names import WEIGHT, ident, parquet_ref, table_ref
from ivm.plan.kinds import Publish
from ivm.plan.nodes import EPOCH, Column, Leaf, Unit
from ivm.refresh.context import Context
from ivm.refresh.instants import clock_rows
from ivm.refresh.records import Cursor, Manifest, Outcome, UnitState
from ivm.rewrite.statements import accumulated, final_rows, repeated
from ivm.sql.render import LeafSql, columns_sql
from ivm.table.rust import RustTable
from ivm.times.ranges import within


def source_table(context: Context, name: str, cursor: Cursor) -> str:
    """A source at the commit that was read. Raises StateError where it has another one of that number now."""
    snapshot = context.snapshots({name})[name]
    why = other_commit(snapshot, cursor.version or 0, cursor.table_id or snapshot.table_id, cursor.fingerprint)
    if why:
        raise StateError(
            f"Source {name!r} is no longer what was read: {why}.",
            "Run a refresh first: it rebuilds what reads this source.",
        )
    return table_ref(context.sources[name].location, cursor.version)


def frozen_table(snapshot: Snapshot, version: int | None) -> str:
    """A source at a version of an open epoch: its commits were compared when that was planned."""
    return table_ref(snapshot.path, version)


def unit_table(context: Context, unit: str, state: UnitState, version: int | None = None) -> str:
    """A unit's published rows as of its state, or at another version."""
    return table_ref(context.layout.table(unit, state.public), state.version if version is None else version)


def published_table(context: Context, unit: str, state: UnitState) -> RustTable:
    """The same in the lane of delta-rs, to be read at the state's version.

    Raises StateError where somebody gave it a feature that this can't read.
    """
    table = RustTable(context.layout.table(unit, state.public), context.limits, ours=True)
    if strange := table.unreadable_features(state.version):
        raise StateError(
            f"The published table {table.path} has features that ivm can't read ({strange}).",
            drop_features(table.path, strange),
        )
    return table


def copies_left(context: Context, outcome: Outcome, changes: pa.Table, columns: Sequence[str], name: str) -> pa.Table:
    """`changes` (columns and WEIGHT) with the copies that a unit's published rows would hold after them, as `name`."""
    state = outcome.state
    assert state is not None
    return published_table(context, outcome.unit, state).copies_left(changes, columns, name, state.version)


def signed(rows: str, columns: Sequence[str], weight: int) -> str:
    """All rows of a FROM item with one weight."""
    return f"SELECT {columns_sql(columns)}, CAST({weight} AS bigint) AS {ident(WEIGHT)} FROM {rows}"


def batches(context: Context, unit: str, state: UnitState, columns: Sequence[str], where: str, sign: str = "") -> str:
    """Weighted rows of a unit's output trace, of the batches that meet a condition.

    With the sign "-" they are what takes those rows back.
    """
    trace = table_ref(context.layout.output_trace(unit, state.output_generation))
    weight = f"CAST(-{ident(WEIGHT)} AS bigint)" if sign else ident(WEIGHT)
    return f"SELECT {columns_sql(columns)}, {weight} AS {ident(WEIGHT)} FROM {trace} WHERE {where}"


def sums(context: Context, unit: Unit, state: UnitState, where: str = "true", of: str = "") -> str:
    """A unit's accumulators: the sums of the batches that count and meet a condition, one row a group.

    `of` names another unit whose trace it is: a companion's has the day as one more key, by which its view's unit
    needn't group.
    """
    trace = table_ref(context.layout.accumulator_trace(of or unit.name, state.generation))
    return accumulated(unit, f"(SELECT * FROM {trace} WHERE {where} AND {within(state.batches, ident(EPOCH))})")


def stream_rows(context: Context, name: str, state: UnitState, upto: int) -> str:
    """The rows of a unit that keeps none, as of an epoch, from its accumulators."""
    unit = next(u for c in context.compiled.values() for u in c.program.units if u.name == name)
    return final_rows(unit, sums(context, unit, state, f"{ident(EPOCH)} <= {upto}"))


def after_batch(context: Context, unit: str, before: UnitState, columns: Sequence[Column], epoch: int) -> str:
    """The rows that a unit will have once an epoch's batch is merged into its published ones."""
    names = [c.name for c in columns]
    published = signed(unit_table(context, unit, before), names, 1)
    return repeated(
        f"{published} UNION ALL {batches(context, unit, before, names, f'{ident(EPOCH)} = {epoch}')}", columns
    )


def after_epoch(
    context: Context,
    outcome: Outcome | None,
    unit: str,
    before: UnitState | None,
    columns: Sequence[Column],
    epoch: int,
) -> str:
    """The rows of a unit in an epoch that is being applied, whatever became of it there (None: it did not run)."""
    state = outcome.state if outcome is not None and outcome.state is not None else before
    assert state is not None
    listed = columns_sql(arrow_schema(state.schema).names)
    if outcome is not None and outcome.publish == Publish.REPLACE:
        return f"SELECT {listed} FROM {parquet_ref(outcome.staging)}"
    if not state.arranged:
        return stream_rows(context, unit, state, epoch)
    assert before is not None
    if outcome is None or outcome.publish == Publish.NONE:
        return f"SELECT {listed} FROM {unit_table(context, unit, before)}"
    return after_batch(context, unit, before, columns, epoch)


def as_read(context: Context, manifest: Manifest, reader: UnitState) -> LeafSql:
    """The leaves of a unit at the states that it has read."""

    def leaf_sql(leaf: Leaf) -> str:
        listed, cursor = columns_sql(leaf.columns) or "1", reader.cursors[leaf.relation]
        if leaf.relation in context.sources:
            return f"(SELECT {listed} FROM {source_table(context, leaf.relation, cursor)})"
        if leaf.relation in context.clocks:
            return clock_rows(context.clocks[leaf.relation], cursor)
        upstream = manifest.units[leaf.relation]
        if not upstream.arranged:
            return f"({stream_rows(context, leaf.relation, upstream, manifest.epoch)})"
        # Of the same epoch it is the newest version, whose files are there whatever others did to the older one's.
        version = upstream.version if cursor.epoch == upstream.epoch else cursor.version
        return f"(SELECT {listed} FROM {unit_table(context, leaf.relation, upstream, version)})"

    return leaf_sql
