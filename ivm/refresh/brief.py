"""Whether a process needs its JVM for so short a time that compiling more than once doesn't pay."""

from __future__ import annotations

from ivm.feed.source import Snapshot
from ivm.lake import native
from ivm.plan.kinds import StrategyKind
from ivm.refresh.context import Context


def is_brief(context: Context) -> bool:
    """Whether the open epoch only applies changes, of sources that hold no more than `Limits.brief_rows` each.

    False where nothing is planned yet: Spark is needed to compile views then, and first builds follow.
    """
    epoch = context.log.open_epoch()
    if epoch is None:
        return False
    plan = context.log.plan(epoch)
    if any(task.strategy == StrategyKind.FULL for task in plan.tasks.values()):
        return False
    looked = context.look_without_spark(context.sources.values())
    return all(isinstance(found, Snapshot) and _holds_at_most(found, context.limits.brief_rows) for found in looked)


def _holds_at_most(snapshot: Snapshot, most: int) -> bool:
    """By the log of a table that delta-rs may read; False where it doesn't tell."""
    rows = None if snapshot.native else native.recorded_size(native.table(snapshot.path, snapshot.version))[0]
    return rows is not None and rows <= most
