"""Arrangements: relations kept sorted by other keys than their own, once for all views that ask for them.

    SELECT /*+ ARRANGE(lineitem, l_partkey) */ ...

A slice that such keys ask for is searched instead of scanned. An arrangement is a trace: (keys, needed columns, time, weight),
its times a source's versions or a view's epochs. It follows its relation by deltas, is made anew where these don't
reach back, and is removed when no view asks for it any more.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from ivm.feed.datasets import Index, Wanted
from ivm.feed.deltas import source_delta
from ivm.feed.source import Snapshot, gap
from ivm.lake import native
from ivm.names import ident, native_ident, table_ref
from ivm.plan.nodes import WEIGHT
from ivm.refresh.context import Context
from ivm.refresh.records import Cursor, UnitState
from ivm.sql.render import columns_sql
from ivm.times.frontier import Frontier
from ivm.trace.arranged import TIME, ArrangedTrace, Description
from ivm.trace.store import RETENTION_HOURS, read_batches

_log = logging.getLogger(__name__)

#: An arrangement whose later batches hold more than this share of its rows is made anew by compaction.
HISTORY = 0.1


@dataclass(frozen=True)
class Arranged:
    """An arrangement: the relation and keys that are asked for, in the columns' own spelling, and the views that do."""

    relation: str
    keys: tuple[str, ...]
    views: tuple[str, ...]

    def __str__(self) -> str:
        return f"the arrangement of {self.relation} by {', '.join(self.keys)} (asked for by {', '.join(self.views)})"


def arrangements(context: Context) -> list[Arranged]:
    """All that the compiled views ask for."""
    readers: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for view, compiled in context.compiled.items():
        for asked in compiled.arranged:
            readers.setdefault(asked, []).append(view)
    return [Arranged(relation, keys, tuple(views)) for (relation, keys), views in readers.items()]


def statuses(context: Context) -> list[dict[str, Any]]:
    """The arrangements that are there: who asks for them, their rows and the times between which they can be read."""
    found = []
    for asked in arrangements(context):
        path = str(context.layout.arrangement(asked.relation, asked.keys))
        if native.exists(path):
            now = ArrangedTrace(path).description
            times = {"since": since_of(now), "upto": upto_of(now)}
            found.append(
                {
                    "relation": asked.relation,
                    "keys": list(asked.keys),
                    "views": list(asked.views),
                    "rows": native.rows(native.table(path)),
                    **times,
                    "table": path,
                }
            )
    return found


def drop_unread(context: Context) -> None:
    """Remove the arrangements that no view asks for any more."""
    kept = {context.layout.arrangement(a.relation, a.keys) for a in arrangements(context)}
    for folder in context.layout.arrangements.iterdir() if context.layout.arrangements.exists() else ():
        if folder not in kept:
            context.layout.drop(folder)


@dataclass(frozen=True)
class Source:
    """A source up to a version, as an arrangement's collection."""

    context: Context
    snapshot: Snapshot
    at: Cursor

    @property
    def origin(self) -> str:
        return self.at.table_id

    @property
    def time(self) -> int:
        assert self.at.version is not None
        return self.at.version

    @property
    def schema(self) -> pa.Schema:
        return native.arrow_schema(self.snapshot.schema)

    @property
    def table(self) -> str:
        return table_ref(self.snapshot.path, self.at.version)

    def delta(self, after: int, columns: Sequence[str]) -> pa.Table | None:
        """What changed after a version; None where nobody can tell any more, or it is too much."""
        if gap(self.snapshot, after, self.origin):
            return None
        try:
            return source_delta(self.snapshot, after, self.time, columns, self.context.spark)
        except Exception as error:  # noqa: BLE001 - whatever keeps the feed from being read, the table itself can be
            _log.info("the arrangement of %s is made anew: its feed after version %s can't be read (%s)", self.snapshot.path, after, error)
            return None


@dataclass(frozen=True)
class Published:
    """A view as of the last committed epoch, as an arrangement's collection."""

    context: Context
    name: str
    state: UnitState

    @property
    def origin(self) -> str:
        return f"{self.state.definition}/{self.state.output_generation}"

    @property
    def time(self) -> int:
        return self.state.epoch

    @property
    def schema(self) -> pa.Schema:
        return native.arrow_schema(self.state.schema)

    @property
    def table(self) -> str:
        return table_ref(self.context.layout.table(self.name, self.state.public), self.state.version)

    def delta(self, after: int, columns: Sequence[str]) -> pa.Table | None:
        """What changed after an epoch; None where the trace doesn't reach back."""
        if self.state.since > after:
            return None
        return read_batches(self.context.layout.output_trace(self.name, self.state.output_generation), columns, after, self.time, self.schema)


Followed = Source | Published


class Arrangements:
    """The arrangements of one epoch, each brought up to date when it is first asked for."""

    def __init__(self, context: Context, columns: Callable[[str], Sequence[str]]) -> None:
        self.context = context
        self._columns = columns
        self._asked = arrangements(context)
        self._traces: dict[Arranged, ArrangedTrace] = {}

    def indexes(self, relation: str, followed: Followed, as_of: int) -> tuple[Index, ...]:
        """How a relation's rows at a time can be found by keys."""
        asked = [a for a in self._asked if a.relation == relation]
        for one in asked:
            if one not in self._traces:
                self._traces[one] = brought_up(self.context, one, followed, self._columns(relation))
        traces = {a.keys: self._traces[a] for a in asked}
        return tuple(Index(k, functools.partial(_found, t, as_of)) for k, t in traces.items() if t.description.since.reached_by(as_of))


def _found(trace: ArrangedTrace, as_of: int, columns: Sequence[str], wanted: Wanted, scratch: Path) -> pa.Table:
    return trace.matching(as_of, columns, [(wanted.columns, wanted.keys, wanted.between)], scratch)


def brought_up(context: Context, asked: Arranged, followed: Followed, needed: Sequence[str]) -> ArrangedTrace:
    """The trace of an arrangement, following its collection up to now."""
    path = str(context.layout.arrangement(asked.relation, asked.keys))
    if not native.exists(path):
        return rebuilt(context, asked, followed, needed)
    trace = ArrangedTrace(path)
    now = trace.description
    held = (*now.keys, *now.values)
    upto = upto_of(now)
    stored = native.arrow_schema(native.table(path).schema().to_json())
    same = all(stored.field(c).type == followed.schema.field(c).type for c in held if c in followed.schema.names)
    if now.origin != followed.origin or upto > followed.time or not same or not set(needed) <= set(held) <= set(followed.schema.names):
        return rebuilt(context, asked, followed, needed)
    if upto < followed.time:
        delta = followed.delta(upto, held)
        if delta is None:
            return rebuilt(context, asked, followed, needed)
        batch = delta.append_column(TIME, pa.array([followed.time] * delta.num_rows, pa.int64()))
        trace.append(batch, Frontier.of(followed.time + 1))
    return trace


def since_of(description: Description) -> int:
    """The earliest time that an arrangement can be read at."""
    return min(t for t in description.since.times if isinstance(t, int))


def upto_of(description: Description) -> int:
    """The time up to which an arrangement has followed its relation."""
    return min(t for t in description.upper.times if isinstance(t, int)) - 1


def rebuilt(context: Context, asked: Arranged, followed: Followed, needed: Sequence[str]) -> ArrangedTrace:
    """The trace of an arrangement made anew from its collection as it is: sorted by Spark, written as a stream."""
    fields = followed.schema
    columns = (*asked.keys, *(n for n in fields.names if n in needed and n not in asked.keys))
    stamps = f"CAST({followed.time} AS bigint) AS {ident(TIME)}, CAST(1 AS bigint) AS {ident(WEIGHT)}"
    order = ", ".join(ident(k) for k in asked.keys)
    in_order = context.layout.arrangements / ".sorted"
    context.spark().sql(f"SELECT {columns_sql(columns)}, {stamps} FROM {followed.table} ORDER BY {order}").write.mode("overwrite").parquet(str(in_order))
    schema = pa.schema([*((n, fields.field(n).type) for n in columns), (TIME, pa.int64()), (WEIGHT, pa.int64())])
    batches = (b for part in pads.dataset(in_order, format="parquet").to_batches() for b in native.plain(part).cast(schema).to_batches())
    path = str(context.layout.arrangement(asked.relation, asked.keys))
    trace = ArrangedTrace.load(path, asked.keys, pa.RecordBatchReader.from_batches(schema, batches), followed.time, followed.origin)
    context.layout.drop(in_order)
    return trace


def compacted(context: Context, asked: Arranged, followed: Followed) -> bool:
    """Make an arrangement anew where much of it is history; readers are at its last time. Whether it was."""
    path = str(context.layout.arrangement(asked.relation, asked.keys))
    trace = ArrangedTrace(path)
    now = trace.description
    rows = native.rows(native.table(path))
    later = native.read(native.table(path), [], f"{native_ident(TIME)} > {since_of(now)}").num_rows
    if now.origin != followed.origin or upto_of(now) > followed.time or later <= HISTORY * rows:
        return False
    rebuilt(context, asked, followed, now.values)
    native.table(path).vacuum(retention_hours=RETENTION_HOURS, dry_run=False)
    return True
