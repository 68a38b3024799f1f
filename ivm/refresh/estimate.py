"""What a backfill would read, write and cost; nothing is computed of it, and nothing is written.

Rows and bytes are those of the tables' logs; seconds are what the view's last full refresh took, as far as the epoch
log still knows one.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from ivm.feed.source import count_bytes, count_rows
from ivm.lake import native
from ivm.plan.kinds import StrategyKind
from ivm.refresh.backfill import check_condition
from ivm.refresh.context import Context
from ivm.refresh.planning import plan_epoch
from ivm.refresh.records import ViewTask
from ivm.refresh.relations import unit_table
from ivm.refresh.run import committed_or_raise


@dataclass(frozen=True)
class Reading:
    """A source or a view that is read, at a version; bytes are None where delta-rs can't open its table."""

    relation: str
    version: int | None
    rows: int | None
    bytes: int | None


@dataclass(frozen=True)
class Work:
    """What is done for one view. `rows` are those that are written anew, at most; None where that isn't known yet."""

    view: str
    strategy: StrategyKind
    reason: str
    reads: tuple[Reading, ...]
    rows: int | None
    #: What its last full refresh took; None where the epoch log knows none.
    seconds: float | None


@dataclass(frozen=True)
class Estimate:
    """`later` are views that the next refresh brings along, since they read what is built anew."""

    what: str
    work: tuple[Work, ...]
    later: tuple[str, ...] = ()
    note: str = ""


def lines(found: Estimate) -> list[str]:
    """An estimate as text, for a log."""
    told = []
    for work in found.work:
        told.append(f"{work.view}: {work.strategy}, {work.reason}; {work.rows} rows, {work.seconds} s the last time")
        told += [f"  reads {r.relation}: {r.rows} rows, {r.bytes} bytes" for r in work.reads]
    return [f"nothing was done; {found.what}:", *told]


def estimate_whole(context: Context, view: str) -> Estimate:
    """A view that is built anew, together with what it reads as far as that has changed."""
    plan = plan_epoch(context, [view], frozenset({view}))
    tasks = plan.tasks if plan is not None else {}
    return Estimate(
        f"view {context.views[view].name} is built anew", _work(context, tasks.items()), _readers(context, view)
    )


def estimate_days(context: Context, view: str, first: datetime.date, last: datetime.date) -> Estimate:
    """A view that takes in past days: what has changed is applied, then what is kept of the days is compared."""
    plan = plan_epoch(context, [view])
    tasks = plan.tasks if plan is not None else {}
    again = _work(
        context, [(view, ViewTask(StrategyKind.FULL, "backfill", "only where a day differs from its sources", ""))]
    )
    return Estimate(
        f"view {context.views[view].name} takes in the days {first} to {last}",
        _work(context, ((v, t) for v, t in tasks.items())) + again,
        _readers(context, view),
        "the sources' rows of these days are read once more, to compare them with what is kept",
    )


def estimate_slice(context: Context, view: str, where: str) -> Estimate:
    """A slice that is recomputed, of which only the difference is written.

    Raises ConfigError for a condition that isn't one over the view's columns (group keys), StateError before the first
    refresh.
    """
    state = committed_or_raise(context, view)
    condition = check_condition(context, view, where)
    table = unit_table(context, view, state)
    rows = context.spark().sql(f"SELECT count(*) AS n FROM {table} WHERE {condition}").collect()[0][0]
    task = ViewTask(
        StrategyKind.INCREMENTAL, "backfill", f"the slice {where} is recomputed; what differs is written", ""
    )
    (work,) = _work(context, [(view, task)])
    return Estimate(
        f"a slice of view {context.views[view].name} is built anew",
        (Work(work.view, work.strategy, work.reason, work.reads, int(rows), work.seconds),),
        _readers(context, view),
    )


def _work(context: Context, tasks: Iterable[tuple[str, ViewTask]]) -> tuple[Work, ...]:
    units = context.log.manifest().units
    return tuple(
        Work(
            context.views[view].name,
            task.strategy,
            task.reason,
            tuple(_reading(context, r) for r in context.compiled[view].program.relations),
            units[view].rows if task.strategy == StrategyKind.FULL and view in units else None,
            _seconds(context, view),
        )
        for view, task in tasks
        if task.strategy != StrategyKind.UNCHANGED
    )


def _reading(context: Context, relation: str) -> Reading:
    if relation in context.sources:
        snapshot = context.snapshots({relation})[relation]
        rows = count_rows(snapshot, context.spark)
        return Reading(relation, snapshot.version, rows, count_bytes(snapshot))
    state = context.log.manifest().units.get(relation)
    if state is None or state.version is None:
        return Reading(relation, None, None, None)
    return Reading(relation, state.version, *_size(context.layout.table(relation, state.public), state.version))


def _size(path: str, version: int) -> tuple[int, int]:
    """Rows of a table of ours at a version, and the bytes of its files."""
    table = native.table(path, version)
    return native.rows(table), native.recorded_size(table)[2]


def _seconds(context: Context, view: str) -> float | None:
    """What the view's units took in the last epoch that refreshed it in full."""
    epochs = sorted({e.epoch for e in context.log.events() if e.status == "committed"}, reverse=True)
    for epoch in epochs:
        mine = [o for o in context.log.outcomes(epoch).values() if o.view == view]
        if any(o.unit == view and o.strategy == StrategyKind.FULL and not o.error for o in mine):
            return round(sum(o.seconds for o in mine), 3)
    return None


def _readers(context: Context, view: str) -> tuple[str, ...]:
    """The views that read a view, directly or through others."""
    found = {view}
    for name, compiled in context.compiled.items():
        if found & set(compiled.program.relations):
            found.add(name)
    return tuple(context.views[v].name for v in context.compiled if v in found and v != view)
