"""What became of each view since an epoch, from the log alone: published, unchanged, or the reason why it wasn't."""

from __future__ import annotations

from ivm.plan.kinds import StrategyKind
from ivm.refresh.context import Context
from ivm.refresh.run import ViewReport, view_reports


def reports_since(context: Context, first: int) -> dict[str, ViewReport]:
    """A report a view, by its shown name, over the committed epochs from `first` on.

    Of several epochs the last one counts that did something for the view: what failed and was mended since has no
    error any more. Views that no such epoch planned are left out.
    """
    log = context.log
    planned = {e.epoch for e in log.events() if e.status == "planned" and e.epoch >= first}
    found: dict[str, ViewReport] = {}
    for epoch in sorted(e for e in planned if log.has(e, "committed")):
        plan = log.plan(epoch)
        done = view_reports(context, plan, log.outcomes(epoch), [*plan.tasks, *plan.broken])
        found |= {n: r for n, r in done.items() if n not in found or r.strategy != StrategyKind.UNCHANGED or r.error}
    return found
