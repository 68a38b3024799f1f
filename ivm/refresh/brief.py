"""Whether a process needs its JVM for so short a time that compiling more than once doesn't pay."""

from __future__ import annotations

from ivm.feed.source import Snapshot
from ivm.plan.kinds import StrategyKind
from ivm.refresh.context import Context
from ivm.table.rust import RustTable


def is_brief(context: Context) -> bool:
    """Whether a refresh that begins, or goes on, is expected to apply changes only.

    That is where all views are built, the open epoch builds none anew, and no source has more than `Limits.brief_rows`.
    The session is asked for before there is a plan: that a view is to be built anew may come out later.
    """
    units, epoch = context.log.manifest().units, context.log.open_epoch()
    tasks = context.log.plan(epoch).tasks.values() if epoch is not None else ()
    if not context.views.keys() <= units.keys() or any(t.strategy == StrategyKind.FULL for t in tasks):
        return False
    looked = context.look_without_spark(context.sources.values())
    return all(isinstance(found, Snapshot) and _holds_at_most(found, context.limits.brief_rows) for found in looked)


def _holds_at_most(snapshot: Snapshot, most: int) -> bool:
    """By the log of a table that delta-rs may read; False where it doesn't tell."""
    rows = None if snapshot.by_spark else RustTable(snapshot.path).snapshot().rows
    return rows is not None and rows <= most
