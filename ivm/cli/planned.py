"""What `ivm plan` shows of a plan: a line a view with what its refresh is expected to cost, and what would mend it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ivm.plan.kinds import StrategyKind
from ivm.refresh.context import Context
from ivm.refresh.reasons import mend
from ivm.refresh.records import EpochPlan, ViewTask

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
COLUMNS = ["view", "strategy", "changed rows", "rows read", "bytes read", "seconds", "reason"]


def rows(plan: EpochPlan | None) -> list[list[Any]]:
    """By task: the strategy that is expected, and about what it reads; nothing where nobody knows."""
    return [_row(view, task) for view, task in (plan.tasks if plan else {}).items()]


def _row(view: str, task: ViewTask) -> list[Any]:
    e = task.estimate
    if e is None:
        return [view, task.strategy, None, None, None, None, task.reason]
    return [view, e.strategy, e.changed, e.rows, readable(e.bytes), e.seconds, e.reason]


def broken_rows(broken: Mapping[str, str]) -> list[list[Any]]:
    """By view that can't be planned: why."""
    return [[view, StrategyKind.FAILED, None, None, None, None, why] for view, why in broken.items()]


def readings(plan: EpochPlan | None) -> list[str]:
    """The large relations that a view reads whole or searches, each with what would mend it."""
    estimates = {v: t.estimate for v, t in (plan.tasks if plan else {}).items()}
    return [
        f"{view}: {r.relation} ({r.rows:,} rows) is {r.how}; to mend it, {r.mend}"
        for view, e in estimates.items()
        if e is not None
        for r in e.readings
    ]


def mends(context: Context, plan: EpochPlan | None) -> dict[str, str]:
    """By view that would be refreshed in full, or may not be: what would spare it, where anything would."""
    found = {}
    for view, task in (plan.tasks if plan else {}).items():
        strategy, code = (task.estimate.strategy, task.estimate.code) if task.estimate else (task.strategy, task.code)
        compiled = context.compiled.get(view)
        if strategy in (StrategyKind.FULL, StrategyKind.FAILED) and (
            text := mend(code, compiled.program if compiled else None)
        ):
            found[view] = text
    return found


def failing(plan: EpochPlan | None) -> bool:
    """Whether a view would fail."""
    return any(t.strategy == StrategyKind.FAILED for t in (plan.tasks if plan else {}).values())


def readable(size: int | None) -> str | None:
    """A number of bytes for people.

    >>> readable(512), readable(2_500_000), readable(None)
    ('512 B', '2.5 MB', None)
    """
    if size is None:
        return None
    power = min((len(str(size)) - 1) // 3, len(_UNITS) - 1)
    return f"{size / 1000**power:,.{1 if power else 0}f} {_UNITS[power]}"
