"""Arrangements: relations kept sorted by other keys than their own, once for all views that ask for them.

    SELECT /*+ ARRANGE(lineitem, l_partkey) */ ...

A slice that such keys ask for is searched instead of scanned. An arrangement is a trace: (keys, needed columns, time,
weight), its times a source's versions or a view's epochs. It follows its relation by deltas, is made anew where these
don't reach back, and is removed when no view asks for it any more. It is only a copy: one that can't be read, or that
somebody else changed, is dropped and made anew. One that no view asks for, but that pays (`ivm.refresh.paying`), is
made once the epoch that tells so is committed, not by a refresh that waits for it.
"""

from __future__ import annotations

import functools
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ivm import parameters
from ivm.engine.rows import stage
from ivm.errors import ViewError
from ivm.feed.deltas import source_delta
from ivm.feed.input import Index
from ivm.feed.source import Snapshot, gap
from ivm.lake.shapes import arrow_schema
from ivm.names import WEIGHT, ident
from ivm.plan.nodes import EPOCH
from ivm.planner.arranging import made
from ivm.refresh.context import Context
from ivm.refresh.records import Cursor, Manifest, UnitState
from ivm.refresh.relations import frozen_table, unit_table
from ivm.refresh.views import View
from ivm.session import error_text
from ivm.sql.render import columns_sql
from ivm.sql.text import arrange_hints
from ivm.storage.location import Location
from ivm.table.own import own
from ivm.table.protocol import Commit, Wanted
from ivm.times.frontier import Frontier
from ivm.times.ranges import within
from ivm.trace.arranged import ROW_GROUP_BYTES, TIME, ArrangedTrace, Description
from ivm.trace.store import read_batches

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Arranged:
    """An arrangement: its relation and keys, in the columns' own spelling, and the views that ask for it.

    One that no view asks for is there since it pays.
    """

    relation: str
    keys: tuple[str, ...]
    views: tuple[str, ...]

    def __str__(self) -> str:
        why = f"asked for by {', '.join(self.views)}" if self.views else "made since it pays"
        return f"the arrangement of {self.relation} by {', '.join(self.keys)} ({why})"


def arrangements(context: Context, manifest: Manifest) -> list[Arranged]:
    """All that the compiled views ask for, and those that pay, of what they read."""
    readers: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for view, compiled in context.compiled.items():
        for asked in compiled.arranged:
            readers.setdefault(asked, []).append(view)
    if context.arrange == parameters.AUTO and manifest.accounts:
        read = {r for c in context.compiled.values() for r in c.program.relations}
        for paying in made(manifest.accounts):
            if paying[0] in read:
                readers.setdefault(paying, [])
    return [Arranged(relation, keys, tuple(views)) for (relation, keys), views in readers.items()]


def statuses(context: Context) -> list[dict[str, Any]]:
    """The arrangements that are there: who asks for them, their rows and the times between which they can be read.

    Of one that nobody asks for `balance` and `price` (seconds) tell how much speaks for it. Nothing is compiled for it.
    """
    readers: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for view in context.views.values():
        for asked in _hints(view):
            readers.setdefault(asked, []).append(view.name)
    paying = made(context.log.manifest().accounts) if context.arrange == parameters.AUTO else {}
    for one in paying:
        readers.setdefault(one, [])
    found = []
    for (relation, keys), views in readers.items():
        path = context.layout.arrangement(relation, keys)
        if own(path).exists():
            unknown = {"rows": None, "since": None, "upto": None}
            shown: dict[str, Any] = {
                "relation": relation,
                "keys": list(keys),
                "views": views,
                "balance": round(paying[relation, keys].balance, 3) if not views else None,
                "price": round(paying[relation, keys].price, 3) if not views else None,
                **unknown,
                "table": path,
                "error": "",
            }
            try:
                now = ArrangedTrace(path).description
                shown |= {
                    "keys": list(now.keys),
                    "rows": own(path).count(),
                    "since": since_of(now),
                    "upto": upto_of(now),
                }
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is made anew
                shown["error"] = (
                    f"it is made anew when it is next asked for: {error_text(error) or type(error).__name__}"
                )
            found.append(shown)
    return found


def _hints(view: View) -> tuple[tuple[str, tuple[str, ...]], ...]:
    try:
        return arrange_hints(view.sql)
    except ViewError:  # its refresh says so
        return ()


def drop_unread(context: Context, manifest: Manifest) -> None:
    """Remove the arrangements that no view asks for any more, and that don't pay any more."""
    kept = {context.layout.arrangement(a.relation, a.keys) for a in arrangements(context, manifest)}
    for folder in context.layout.arrangements.list():
        if folder.url not in kept:
            folder.drop()


@dataclass(frozen=True)
class Followed:
    """A relation as of a time, as an arrangement follows it."""

    #: Another origin is another collection.
    origin: str
    time: int
    #: The fingerprint of a source's commit of that time; "" for a view.
    mark: str
    schema: pa.Schema
    #: For Spark's SQL.
    table: str
    #: The weighted rows (these columns) that changed after a time with its mark, each with the TIME from which it
    #: counts; None where nobody can tell any more, or it is too much.
    delta: Callable[[int, str, Sequence[str]], pa.Table | None]


def followed(
    context: Context,
    relation: str,
    snapshots: Mapping[str, Snapshot],
    sources: Mapping[str, Cursor],
    units: Mapping[str, UnitState],
    read: Callable[[str, int], pa.Table | None] = lambda _relation, _after: None,
) -> Followed:
    """A source up to its cursor, its times versions; or a view as of the last committed epoch, its times epochs.

    `read` gives a source's delta after a version where that was read before, of the columns that views read.
    """
    if relation not in sources:
        state = units[relation]
        schema = arrow_schema(state.schema)
        trace = context.layout.output_trace(relation, state.output_generation)

        def published(after: int, _: str, columns: Sequence[str]) -> pa.Table | None:
            if state.since > after or not own(trace).exists():
                return None
            counted, timed = within(state.batches, EPOCH), schema.append(pa.field(EPOCH, pa.int64()))
            most = context.limits.delta_rows
            found = read_batches(trace, [*columns, EPOCH], after, state.epoch, timed, counted, most)
            return None if found is None else found.rename_columns([*columns, TIME, WEIGHT])

        return Followed(
            f"{state.definition}/{state.output_generation}",
            state.epoch,
            "",
            schema,
            unit_table(context, relation, state),
            published,
        )

    snapshot, at = snapshots[relation], sources[relation]
    assert at.version is not None
    upto = at.version

    def changed(after: int, mark: str, columns: Sequence[str]) -> pa.Table | None:
        if gap(snapshot, after, at.table_id, mark):
            return None
        known = read(relation, after)
        if known is not None and set(columns) <= set(known.column_names):
            return known.select([*columns, WEIGHT])
        try:
            found = source_delta(snapshot, after, upto, columns, context.spark, context.limits.delta_rows)
            return found if isinstance(found, pa.Table) else None
        except Exception as error:  # noqa: BLE001 - whatever keeps the feed from being read, the table itself can be
            _log.info(
                "the arrangement of %s is made anew: its feed after version %s can't be read (%s)",
                snapshot.path,
                after,
                error,
            )
            return None

    def fed(after: int, mark: str, columns: Sequence[str]) -> pa.Table | None:
        found = changed(after, mark, columns)
        # In one step: whoever reads a source reads it as of its cursor, unlike a view, behind which readers may lag.
        return None if found is None else found.append_column(TIME, pa.array([upto] * found.num_rows, pa.int64()))

    return Followed(at.table_id, upto, at.fingerprint, arrow_schema(snapshot.schema), frozen_table(snapshot, upto), fed)


class Arrangements:
    """The arrangements of one epoch, each brought up to date when it is first asked for."""

    def __init__(
        self,
        context: Context,
        manifest: Manifest,
        follow: Callable[[str], Followed],
        columns: Callable[[str], Sequence[str]],
    ) -> None:
        self.context = context
        self._follow = follow
        self._columns = columns
        self._asked = arrangements(context, manifest)
        #: What is arranged.
        self.relations = frozenset(a.relation for a in self._asked)
        self._traces: dict[Arranged, ArrangedTrace | None] = {}

    def indexes(self, relation: str, as_of: int) -> tuple[Index, ...]:
        """How a relation's rows at a time can be found by keys."""
        asked = [a for a in self._asked if a.relation == relation]
        for one in asked:
            if one not in self._traces:
                self._traces[one] = brought_up(self.context, one, self._follow(relation), self._columns(relation))
        traces = {a: trace for a in asked if (trace := self._traces[a]) is not None}
        return tuple(
            Index(one.keys, functools.partial(self._found, one, as_of))
            for one, trace in traces.items()
            if trace.description.since.reached_by(as_of)
        )

    def _found(
        self, asked: Arranged, as_of: int, columns: Sequence[str], wanted: Wanted, scratch: Location
    ) -> pa.Table | None:
        """The rows that are wanted at a time; None where the arrangement can't be read, which it is told once."""
        trace = self._traces[asked]
        if trace is None:
            return None
        keys = [(wanted.columns, wanted.keys, wanted.between)]
        try:
            return trace.matching(as_of, columns, keys, scratch, self.context.limits.literal_keys)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the copy, its relation is there
            drop_damaged(self.context, asked, error)
            self._traces[asked] = None
            return None


def brought_up(context: Context, asked: Arranged, followed: Followed, needed: Sequence[str]) -> ArrangedTrace | None:
    """The trace of an arrangement, following its collection up to now.

    None for one that nobody asks for and that would have to be made anew: it is when the epoch is committed.
    """
    path = context.layout.arrangement(asked.relation, asked.keys)
    try:
        if own(path).exists() and (trace := _carried_on(path, followed, needed)) is not None:
            return trace
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the copy, its relation is there
        drop_damaged(context, asked, error)
    if not asked.views:
        Location.of(path).drop()
        return None
    return rebuilt(context, asked, followed, needed)


def drop_damaged(context: Context, asked: Arranged, error: Exception) -> None:
    """Remove an arrangement with which something is wrong: it is made anew when it is next asked for."""
    _log.warning("%s is dropped and made anew: %s", asked, error_text(error) or type(error).__name__)
    Location.of(context.layout.arrangement(asked.relation, asked.keys)).drop()


def _carried_on(path: str, followed: Followed, needed: Sequence[str]) -> ArrangedTrace | None:
    """The trace that is there, with what its relation changed since; None where that can't be told.

    Raises where it is damaged.
    """
    trace = ArrangedTrace(path)
    now = trace.description
    held = (*now.keys, *now.values)
    upto = upto_of(now)
    stored = arrow_schema(own(path).snapshot().schema)
    same = all(stored.field(c).type == followed.schema.field(c).type for c in held if c in followed.schema.names)
    other = (
        now.origin != followed.origin or upto > followed.time or (upto == followed.time and now.mark != followed.mark)
    )
    if other or not same or not set(needed) <= set(held) <= set(followed.schema.names):
        return None
    if upto < followed.time:
        delta = followed.delta(upto, now.mark, held)
        if delta is None:
            return None
        trace.append(delta, Frontier.of(followed.time + 1), followed.mark)
    return trace


def since_of(description: Description) -> int:
    """The earliest time that an arrangement can be read at."""
    return min(t for t in description.since.times if isinstance(t, int))


def upto_of(description: Description) -> int:
    """The time up to which an arrangement has followed its relation."""
    return min(t for t in description.upper.times if isinstance(t, int)) - 1


def rebuilt(context: Context, asked: Arranged, followed: Followed, needed: Sequence[str]) -> ArrangedTrace:
    """The trace of an arrangement made anew from its collection as it is: Spark sorts it and writes its files."""
    fields = followed.schema
    columns = (*asked.keys, *(n for n in fields.names if n in needed and n not in asked.keys))
    stamps = f"CAST({followed.time} AS bigint) AS {ident(TIME)}, CAST(1 AS bigint) AS {ident(WEIGHT)}"
    order = ", ".join(ident(k) for k in asked.keys)
    # A folder of its own: a dead client's job may still write into an earlier one.
    scratch = context.layout.scratch(followed.time, secrets.token_hex(4))
    sql = f"SELECT {columns_sql(columns)}, {stamps} FROM {followed.table} ORDER BY {order}"
    staged = stage(context.spark(), sql, scratch / "sorted", row_group_bytes=ROW_GROUP_BYTES)
    schema = pa.schema([*((n, fields.field(n).type) for n in columns), (TIME, pa.int64()), (WEIGHT, pa.int64())])
    path = context.layout.arrangement(asked.relation, asked.keys)
    trace = ArrangedTrace.load(path, asked.keys, staged.location, schema, followed.time, followed.origin, followed.mark)
    scratch.drop()
    return trace


def compacted(context: Context, asked: Arranged, followed: Followed) -> None:
    """Make an arrangement anew where much of it is history; readers are at its last time."""
    path = context.layout.arrangement(asked.relation, asked.keys)
    now = ArrangedTrace(path).description
    sums = own(path).query(
        lambda t, q: f"SELECT count(*) AS n, count(CASE WHEN {q(TIME)} > {since_of(now)} THEN 1 END) AS later FROM {t}"
    )
    (held,) = sums.to_pylist()
    if (
        now.origin == followed.origin
        and upto_of(now) <= followed.time
        and held["later"] > context.limits.history_share * held["n"]
    ):
        rebuilt(context, asked, followed, now.values)
        own(path).vacuum(context.retention.hours, Commit())
