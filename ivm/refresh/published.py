"""What became of each view since an epoch, from the log alone: published, unchanged, or the reason why it wasn't."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ivm.plan.kinds import StrategyKind
from ivm.refresh.context import Context
from ivm.refresh.run import ViewReport, view_reports


def reports_since(context: Context, first: int) -> dict[str, ViewReport]:
    """A report a view, by its shown name, over the committed epochs from `first` on (see `together`).

    Views that no such epoch planned are left out.
    """
    log = context.log
    planned = sorted({e.epoch for e in log.events() if e.status == "planned" and e.epoch >= first})
    return together(context, ((e, _reports(context, e)) for e in planned if log.has(e, "committed")))


def _reports(context: Context, epoch: int) -> dict[str, ViewReport]:
    plan = context.log.plan(epoch)
    return view_reports(context, plan, context.log.outcomes(epoch), [*plan.tasks, *plan.broken])


def together(context: Context, epochs: Iterable[tuple[int, Mapping[str, ViewReport]]]) -> dict[str, ViewReport]:
    """A report a view of what several committed epochs, in order, did for those that they planned.

    The last one counts that did something for the view. An error stands until a later epoch published the view, or
    found it to be what its sources say; of one that it lists as failing still, it only found nothing new to read.
    """
    found, well = dict[str, ViewReport](), dict[str, ViewReport]()
    for epoch, reports in epochs:
        failing = context.log.manifest(epoch).failing
        for name, report in reports.items():
            if report.error:
                found[name] = report
                continue
            if report.strategy != StrategyKind.UNCHANGED or name not in well:
                well[name] = report
            if name not in found or not found[name].error or name.lower() not in failing:
                found[name] = well[name]
    return found
