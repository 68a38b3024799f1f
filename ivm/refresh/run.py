"""The protocol's steps in order, each resumable: the one place where Pipeline, CLI and Airflow tasks meet.

    STEPS = plan -> apply -> check -> publish        (compact is a task of its own)

Invariant: whatever step a process dies in, calling the steps again from `plan` brings the same tables.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from ivm.errors import GateError, StateError
from ivm.refresh.apply import Apply
from ivm.refresh.context import Context
from ivm.refresh.plan import INCREMENTAL, UNCHANGED, plan_epoch, quarantine_note, write_plan
from ivm.refresh.publish import publish_epoch
from ivm.refresh.records import EpochPlan, Manifest, Outcome
from ivm.trace.store import drop_epoch

#: Judges an epoch's outcomes before publishing; returns the failed expectations in words.
Gate = Callable[[Context, EpochPlan, dict[str, Outcome]], list[str]]


@dataclass(frozen=True)
class ViewReport:
    """What a refresh did for one view. `seconds` is the time in apply; rows_in are changed (or read) input rows."""

    view: str
    strategy: str
    reason: str
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    error: str = ""
    #: What makes the view costly to keep, if anything does.
    warning: str = ""


@dataclass(frozen=True)
class Report:
    """What a refresh did. `epoch` is the last committed epoch; `note` tells of an earlier epoch's end."""

    epoch: int
    views: dict[str, ViewReport] = field(default_factory=dict)
    seconds: float = 0.0
    note: str = ""

    @property
    def ok(self) -> bool:
        return not any(v.error for v in self.views.values())


def step_plan(context: Context, views: Iterable[str] | None = None, rebuild: frozenset[str] = frozenset()) -> EpochPlan | None:
    """Find the open epoch or plan the next; None where nothing changed.

    A quarantined epoch, or one planned for views that have changed since, is abandoned first: its batches are
    dropped and its number is not used again. An epoch whose publishing had begun is finished as it was.
    """
    note = ""
    open_epoch = context.log.open_epoch()
    if open_epoch is not None:
        plan = context.log.plan(open_epoch)
        if context.log.has(open_epoch, "publishing"):
            return plan
        note = quarantine_note(context, open_epoch)
        if not note and not rebuild and _still_valid(context, plan):
            return plan
        abandon(context, plan)
    fresh = plan_epoch(context, views, rebuild, note)
    if fresh is not None:
        write_plan(context, fresh)
    return fresh


def _still_valid(context: Context, plan: EpochPlan) -> bool:
    compiled = context.compile(context.snapshots())
    if any(t.code == "backfill" and t.strategy == INCREMENTAL for t in plan.tasks.values()):
        return False  # a slice is rebuilt in one go or not at all
    return all(name in compiled and compiled[name].definition == task.definition for name, task in plan.tasks.items())


def abandon(context: Context, plan: EpochPlan) -> None:
    """Drop what an epoch wrote. It was not published, so nobody has seen it."""
    outcomes = context.log.outcomes(plan.epoch)
    # A batch may have been appended before its outcome was recorded: look into every trace it can be in.
    states = [(u, s) for u, s in context.log.manifest().units.items()] + [(o.unit, o.state) for o in outcomes.values() if o.state is not None]
    for unit, state in states:
        drop_epoch(context.layout.output_trace(unit, state.output_generation), plan.epoch)
        drop_epoch(context.layout.accumulator_trace(unit, state.generation), plan.epoch)
    for unit in outcomes:
        context.layout.drop(context.layout.staging(unit, plan.epoch))
    context.layout.drop(context.layout.scratch(plan.epoch))
    context.log.record(plan.epoch, "abandoned")


def step_apply(context: Context, plan: EpochPlan) -> dict[str, Outcome]:
    """Compute the epoch's batches. Where publishing had begun, only tell what was computed."""
    if context.log.has(plan.epoch, "publishing"):
        return context.log.outcomes(plan.epoch)
    if not context.compiled:
        context.compile(context.snapshots())
    return Apply(context, plan).run()


def step_check(context: Context, plan: EpochPlan, outcomes: dict[str, Outcome], gate: Gate) -> None:
    """Run the expectations. Raises GateError and quarantines the epoch where one fails."""
    if context.log.has(plan.epoch, "publishing") or context.log.has(plan.epoch, "checked"):
        return
    failures = gate(context, plan, outcomes)
    if failures:
        reason = "; ".join(failures)
        context.log.record(plan.epoch, "quarantined", detail=json.dumps({"reason": reason}))
        raise GateError(
            f"Epoch {plan.epoch} is quarantined, nothing was published: {reason}.", "See `ivm check`; correct the source or the expectation and refresh again."
        )
    context.log.record(plan.epoch, "checked")


def step_publish(context: Context, plan: EpochPlan, outcomes: dict[str, Outcome]) -> Manifest:
    """Merge the batches into the outputs and commit the epoch."""
    return publish_epoch(context, plan, outcomes)


def view_reports(context: Context, plan: EpochPlan | None, outcomes: dict[str, Outcome], names: Iterable[str]) -> dict[str, ViewReport]:
    """One report a view; a view of several units adds their times, and takes rows out from its last."""
    reports = {}
    for name in names:
        shown = context.views[name].name if name in context.views else name
        mine = [o for o in outcomes.values() if o.view == name]
        task = plan.tasks.get(name) if plan else None
        if not mine:
            reports[shown] = ViewReport(shown, UNCHANGED, task.reason if task else "nothing that the view reads has changed")
            continue
        failed = next((o for o in mine if o.error), None)
        top = next((o for o in mine if o.unit == name), mine[-1])
        lead = failed or next((o for o in mine if o.strategy == "full"), top)
        reports[shown] = ViewReport(
            shown,
            lead.strategy,
            lead.reason,
            sum(o.rows_in for o in mine),
            top.rows_out,
            round(sum(o.seconds for o in mine), 3),
            failed.error if failed else "",
            "; ".join(o.warning for o in mine if o.warning),
        )
    return reports


def committed_or_raise(context: Context, view: str) -> Any:
    """The committed state of a view. Raises StateError where it was never refreshed."""
    state = context.log.manifest().units.get(view)
    if state is None or state.version is None:
        raise StateError(f"View {view!r} has not been refreshed yet.", "Run refresh() first.")
    return state
