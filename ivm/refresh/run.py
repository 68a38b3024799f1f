"""What the protocol's steps do, what drops an epoch, and what is reported of one.

The order of the steps stands in `ivm.refresh.protocol`. What a step does is imported when it runs: most refreshes end
with the plan, since nothing has changed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ivm.errors import ConcurrentRefreshError, StateError
from ivm.feed.source import other_commit
from ivm.plan.kinds import StrategyKind
from ivm.refresh.context import Context
from ivm.refresh.guard import step
from ivm.refresh.integrity import inspect_tables, referenced
from ivm.refresh.planning import ANEW, other_settings, plan_epoch, rebuild_due, write_plan
from ivm.refresh.publish import held_back, publish_epoch, warned
from ivm.refresh.records import EMBEDDED, EpochPlan, Held, Manifest, Outcome
from ivm.session import error_text
from ivm.trace.store import drop_epoch

_log = logging.getLogger(__name__)


class Verdict(list[str]):
    """The failed expectations of a view for which it is held back, in words.

    `warnings` are failed ones for which it isn't; a `final` verdict can't be overruled by a release. What is
    `impossible` is wrong whatever the data: nor can that be released, and the next refresh builds the view anew.
    """

    def __init__(
        self,
        failures: Iterable[str] = (),
        warnings: Iterable[str] = (),
        final: bool = False,
        impossible: bool = False,
    ) -> None:
        super().__init__(failures)
        self.warnings = tuple(warnings)
        self.final = final or impossible
        self.impossible = impossible


#: Judges an epoch's outcomes before publishing; returns the failed expectations in words, by view.
Gate = Callable[[Context, EpochPlan, dict[str, Outcome]], Mapping[str, list[str]]]


@dataclass(frozen=True)
class ViewReport:
    """What a refresh did for one view. `seconds` is the time in apply; rows_in are changed (or read) input rows."""

    view: str
    strategy: StrategyKind
    reason: str
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    error: str = ""
    #: What makes the view costly to keep, if anything does.
    warning: str = ""
    #: Where both engines may run its statements: what ran them, and why Spark if it was Spark.
    engine: str = ""


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


@step
def step_plan(
    context: Context, views: Iterable[str] | None = None, rebuild: frozenset[str] = frozenset()
) -> EpochPlan | None:
    """Find the open epoch or plan the next; None where nothing changed.

    An epoch that was checked is published as it was. One that was planned for views or state that have changed since,
    or that doesn't build anew what `rebuild` names, is abandoned: its batches are dropped and its number is not used
    again. Leftovers of dead attempts are removed.
    """
    open_epoch = context.log.open_epoch()
    if open_epoch is not None:
        plan = context.log.plan(open_epoch)
        asked = all(builds(plan, view) for view in rebuild)
        if context.log.has(open_epoch, "checked") or (asked and _still_valid(context, plan)):
            return plan
        abandon(context, plan)
    context.layout.sweep(set(referenced(context, context.log.manifest())))
    fresh = plan_epoch(context, views, rebuild)
    if fresh is not None:
        write_plan(context, fresh)
    return fresh


def builds(plan: EpochPlan, view: str) -> bool:
    """Whether an epoch is a backfill that builds a view anew."""
    task = plan.tasks.get(view)
    return task is not None and task.code == "backfill" and task.strategy != StrategyKind.INCREMENTAL


def _still_valid(context: Context, plan: EpochPlan) -> bool:
    if context.log.has(plan.epoch, "abandoning"):
        return False
    snapshots, missing = context.survey()
    compiled = context.compile(snapshots, missing)
    planned = {n: c for n, c in plan.sources.items() if n in snapshots and c.version is not None}
    if any(other_commit(snapshots[n], c.version or 0, c.table_id, c.fingerprint) for n, c in planned.items()):
        return False  # a source went another way since
    if other_settings(context, plan):
        return False  # what its state would say that it was built under
    if in_one_go(plan) or any(
        name not in compiled or compiled[name].definition != task.definition for name, task in plan.tasks.items()
    ):
        return False
    return not inspect_tables(context, context.log.manifest(), _relied_on(context, plan)).damaged


def _relied_on(context: Context, plan: EpochPlan) -> set[str]:
    """The units whose state an epoch reads as the last one left it."""
    views = [v for v, t in plan.tasks.items() if t.strategy != StrategyKind.FAILED and t.code not in ANEW]
    return {unit for view in views for unit in context.compiled[view].unit_names}


def in_one_go(plan: EpochPlan) -> bool:
    """Whether an epoch is finished in one go or not at all: a slice that is rebuilt, batches that are released."""
    return any(
        t.code == "released" or (t.code == "backfill" and t.strategy == StrategyKind.INCREMENTAL)
        for t in plan.tasks.values()
    )


def abandon(context: Context, plan: EpochPlan) -> None:
    """Drop what an epoch wrote. It was not published, so nobody has seen it.

    That it is being dropped is recorded first: it is never gone on with once a batch may be missing, and a stop in
    between is followed by the rest.
    """
    outcomes, manifest = context.log.outcomes(plan.epoch), context.log.manifest()
    context.log.record(plan.epoch, "abandoning")
    # A batch may have been appended before its outcome was recorded: look into every trace it can be in.
    states = [*manifest.units.items(), *((o.unit, o.state) for o in outcomes.values() if o.state is not None)]
    # What is damaged may not be readable, and nothing of it counts any more.
    damaged = inspect_tables(context, manifest).damaged
    for unit, state in [(u, s) for u, s in states if u not in damaged]:
        drop_epoch(context.layout.output_trace(unit, state.output_generation), plan.epoch, context.log.identity)
        drop_epoch(context.layout.accumulator_trace(unit, state.generation), plan.epoch, context.log.identity)
    context.log.record(plan.epoch, "abandoned")


def drop_held(context: Context, plan: EpochPlan, before: Mapping[str, Held]) -> None:
    """Drop the batches that were held back before of views that the epoch planned anew, and so are held no more."""
    for view, held in before.items():
        if view in plan.tasks and plan.tasks[view].code != "released":
            drop_batches(context, held.epoch, [view])


def drop_batches(context: Context, epoch: int, views: Collection[str]) -> None:
    """Drop what an epoch wrote for some views and did not publish."""
    for outcome in context.log.outcomes(epoch).values():
        if outcome.view in views and outcome.state is not None:
            stamp, owner = outcome.stamp or epoch, context.log.identity
            drop_epoch(context.layout.output_trace(outcome.unit, outcome.state.output_generation), stamp, owner)
            drop_epoch(context.layout.accumulator_trace(outcome.unit, outcome.state.generation), stamp, owner)


@step
def step_apply(context: Context, plan: EpochPlan, goes_on: bool = False) -> dict[str, Outcome]:
    """Compute the epoch's batches. Where it was checked already, only tell what was computed.

    Where the process `goes_on` to the check, outcomes of a moment's work are left for that to record.
    Raises StateError where another process planned it, and a view, a source's history or state is another one since.
    """
    from ivm.refresh.apply import Apply

    if context.log.has(plan.epoch, "checked"):
        return context.log.outcomes(plan.epoch)
    if context.log.has(plan.epoch, "abandoning") or (not context.compiled and not _still_valid(context, plan)):
        raise StateError(
            f"Views, sources or stored state are no longer as epoch {plan.epoch} was planned for.",
            "Begin again with the plan: it abandons that epoch.",
        )
    return Apply(context, plan, goes_on).run()


def _compiled(context: Context) -> None:
    if not context.compiled:
        context.compile(*context.survey())


@step
def step_check(context: Context, plan: EpochPlan, outcomes: dict[str, Outcome], gate: Gate) -> dict[str, Held]:
    """Run the expectations; returns the views that are held back: those where one fails, and those that read them.

    Outcomes that are not in the log yet are recorded with the verdict. Raises StateError where the epoch was not
    computed, ConcurrentRefreshError where another process checked it meanwhile, whose outcomes and verdicts may be
    others.
    """
    if context.log.has(plan.epoch, "checked"):
        return held_back(context, plan.epoch)
    _compiled(context)
    _computed_or_raise(context, plan, outcomes)
    # By what was read, not by what can be compiled now: a source may be gone meanwhile.
    verdicts = {
        v.lower(): t if isinstance(t, Verdict) else Verdict(t) for v, t in gate(context, plan, outcomes).items()
    }
    # What is held back isn't published: the state that a rebuild came in place of is still wrong.
    before = context.log.manifest()
    wrong = {v for v, t in plan.tasks.items() if t.strategy == StrategyKind.FULL and rebuild_due(before, v) is not None}
    wrong |= {v for v, t in verdicts.items() if t.impossible}
    held = {v: Held(plan.epoch, "; ".join(t), final=t.final, impossible=v in wrong) for v, t in verdicts.items() if t}
    while waiting := {
        o.view: r
        for o in outcomes.values()
        if o.state is not None and o.view not in held
        for r in o.state.cursors
        if r in held
    }:
        held |= {
            v: Held(plan.epoch, f"{context.views[r].name} is held back, which it reads", r, v in wrong)
            for v, r in waiting.items()
        }
    warnings = {v: "; ".join(t.warnings) for v, t in verdicts.items() if t.warnings}
    detail = {"held": {v: asdict(h) for v, h in held.items()}, "warned": warnings}
    known = context.log.applied(plan.epoch)
    new = [o for unit, o in outcomes.items() if not o.error and (unit not in known or known[unit].error)]
    if not context.log.record_checked(plan.epoch, json.dumps(detail), new):
        raise ConcurrentRefreshError(
            f"Another process checked epoch {plan.epoch} meanwhile.", "Run it again: it goes on from there."
        )
    return held


def _computed_or_raise(context: Context, plan: EpochPlan, outcomes: Mapping[str, Outcome]) -> None:
    """Raises StateError where a unit of a view that the epoch planned has no outcome, or its batches may be gone.

    Who takes the steps one by one may leave one out: a task of Airflow's can be marked successful by hand.
    """
    if context.log.has(plan.epoch, "abandoning"):
        raise StateError(f"Epoch {plan.epoch} is being dropped.", "Begin again with the plan: it drops the rest.")
    todo = [view for view, task in plan.tasks.items() if task.strategy != StrategyKind.UNCHANGED]
    lacking = [view for view in todo if not set(_to_compute(context, plan, view)) <= outcomes.keys()]
    if lacking:
        raise StateError(
            f"Epoch {plan.epoch} was not computed for: {', '.join(lacking)}.",
            "Take the step `apply` first: clear its task, or run `ivm refresh`, which goes on with the epoch.",
        )


def _to_compute(context: Context, plan: EpochPlan, view: str) -> tuple[str, ...]:
    """The units of a planned view; where they aren't known any more, the last one, which shows it."""
    compiled = context.compiled.get(view)
    # A slice is computed for the last one only.
    if compiled is None or compiled.definition != plan.tasks[view].definition or in_one_go(plan):
        return (view,)
    return compiled.unit_names


@step
def step_publish(context: Context, plan: EpochPlan, outcomes: dict[str, Outcome]) -> Manifest:
    """Merge the batches into the outputs and commit the epoch; then drop the batches that it came in place of.

    Raises StateError where it was not checked: nobody has asked yet whether they may be seen.
    """
    if not context.log.has(plan.epoch, "checked"):
        raise StateError(
            f"Epoch {plan.epoch} was not checked.",
            "Take the step `check` first: clear its task, or run `ivm refresh`, which goes on with the epoch.",
        )
    held = context.log.manifest().held
    manifest = publish_epoch(context, plan, outcomes)
    drop_held(context, plan, held)
    return manifest


def step_compact(context: Context) -> None:
    """Make the arrangements that pay, and compact where it is due (see `Retention`).

    Its failure is logged: the epoch is committed, and what failed is tried again after the next one.
    """
    every, manifest = context.retention.compact_every, context.log.manifest()
    due = bool(every) and manifest.epoch - manifest.compacted >= every
    if not due and not any(account.made for account in manifest.accounts):
        return
    try:
        _compiled(context)
        if due:
            from ivm.refresh.compact import compact

            for left_out in (c for c in compact(context, context.limits.kept_apart, every // 2) if c.error):
                _log.warning("compaction left out %s: %s", left_out.table, left_out.error)
        else:
            from ivm.refresh.paying import make_paying

            make_paying(context, manifest)
    except Exception as error:  # noqa: BLE001 - what was published stays published
        _log.warning("compaction after epoch %s failed: %s", manifest.epoch, error_text(error) or type(error).__name__)


def view_reports(
    context: Context, plan: EpochPlan | None, outcomes: dict[str, Outcome], names: Iterable[str]
) -> dict[str, ViewReport]:
    """One report a view; a view of several units adds their times, and takes rows out from its last.

    The `error` of a view that is not as new as its sources says why: it failed, it is held back, it can't be compiled.
    """
    reports = {}
    warnings = {v: [text] for v, text in warned(context, plan.epoch).items()} if plan is not None else {}
    unpublished = _unpublished(context, plan, names)
    for name in names:
        shown = context.views[name].name if name in context.views else name
        mine = [o for o in outcomes.values() if o.view == name]
        task = plan.tasks.get(name) if plan else None
        error = unpublished.get(name, "")
        if not mine:
            reports[shown] = ViewReport(
                shown,
                StrategyKind.UNCHANGED,
                task.reason if task else "nothing that the view reads has changed",
                error=error,
            )
            continue
        failed = next((o for o in mine if o.error), None)
        top = next((o for o in mine if o.unit == name), mine[-1])
        lead = failed or next((o for o in mine if o.strategy == StrategyKind.FULL), top)
        reports[shown] = ViewReport(
            shown,
            lead.strategy,
            lead.reason,
            sum(o.rows_in for o in mine),
            top.rows_out,
            round(sum(o.seconds for o in mine), 3),
            failed.error if failed else error,
            "; ".join([*(o.warning for o in mine if o.warning), *warnings.get(name, [])]),
            "; ".join(dict.fromkeys(o.engine for o in sorted(mine, key=lambda o: o.engine == EMBEDDED) if o.engine)),
        )
    return reports


def _unpublished(context: Context, plan: EpochPlan | None, views: Iterable[str]) -> dict[str, str]:
    """Why views were not published in an epoch (or, without one, can't be planned); without those that were."""
    broken = {**(plan.broken if plan is not None else {}), **{v: why for v, why in context.broken.items() if why}}
    found = {view: broken[view] for view in views if view in broken}
    if plan is None or not context.log.has(plan.epoch, "checked"):
        return found
    held = held_back(context, plan.epoch)
    # Its own manifest: a later epoch may be of other views.
    failing = context.log.manifest(plan.epoch).failing if context.log.has(plan.epoch, "committed") else {}
    for view in views:
        failure = failing.get(view)
        if view in found:
            continue
        if view in held:
            found[view] = f"held back in epoch {held[view].epoch}: {held[view].reason}"
        elif failure is not None and failure.epoch == plan.epoch:
            found[view] = failure.full or failure.incremental
    return found


def committed_or_raise(context: Context, view: str) -> Any:
    """The committed state of a view. Raises StateError where it was never refreshed."""
    state = context.log.manifest().units.get(view)
    if state is None or state.version is None:
        raise StateError(f"View {view!r} has not been refreshed yet.", "Run refresh() first.")
    return state
