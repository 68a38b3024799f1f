"""Whether a process needs its JVM for so short a time that compiling more than once doesn't pay."""

from __future__ import annotations

from collections.abc import Iterable

from ivm.feed.source import Snapshot
from ivm.plan.kinds import StrategyKind
from ivm.refresh.context import Context
from ivm.refresh.living import living_units
from ivm.refresh.records import UnitState
from ivm.table.rust import RustTable


def is_brief(context: Context) -> bool:
    """Whether a refresh that begins, or goes on, is expected to apply small changes only.

    That is where all views are built, the open epoch builds none anew, no source that they read has more than
    `Limits.brief_rows`, and of no more than `Limits.brief_changed` rows in all the logs tell that they changed since a
    view read them.
    The session is asked for before there is a plan: that a view is to be built anew may come out later.
    """
    manifest, epoch = context.log.manifest(), context.log.open_epoch()
    tasks = context.log.plan(epoch).tasks.values() if epoch is not None else ()
    if not context.views.keys() <= manifest.units.keys() or any(t.strategy == StrategyKind.FULL for t in tasks):
        return False
    units = living_units(context, manifest).values()
    read = {relation for state in units for relation in state.cursors}
    looked = context.look_without_spark(s for name, s in context.sources.items() if name in read)
    found = [s for s in looked if isinstance(s, Snapshot)]
    if len(found) < len(looked) or not all(_holds_at_most(s, context.limits.brief_rows) for s in found):
        return False
    changed = [_changed(s, units) for s in found]
    return None not in changed and sum(n for n in changed if n is not None) <= context.limits.brief_changed


def _holds_at_most(snapshot: Snapshot, most: int) -> bool:
    """By the log of a table that delta-rs may read; False where it doesn't tell."""
    rows = None if snapshot.by_spark else RustTable(snapshot.path).snapshot().rows
    return rows is not None and rows <= most


def _changed(snapshot: Snapshot, units: Iterable[UnitState]) -> int | None:
    """About how many rows of a source changed since the unit that is furthest behind read it; None: nobody knows."""
    read = [c.version or 0 for u in units for name, c in u.cursors.items() if name == snapshot.name.lower()]
    since = min(read, default=snapshot.version) + 1
    return snapshot.commits.changed(since, snapshot.version) if since <= snapshot.version else 0
