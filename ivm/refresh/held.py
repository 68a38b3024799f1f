"""Batches that a failed expectation holds back: published after all (release), or dropped (discard).

Without either, the next refresh plans the view anew: it drops them, and applies what changed since the last published
epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from ivm.errors import StateError
from ivm.refresh.context import Context
from ivm.refresh.guard import step
from ivm.refresh.integrity import inspect_tables, next_epoch, referenced
from ivm.refresh.planning import write_plan
from ivm.refresh.protocol import Run, advance
from ivm.refresh.publish import with_upstream_versions
from ivm.refresh.records import EpochPlan, Failure, Held, Manifest, Outcome, UnitState, ViewTask, to_json
from ivm.refresh.run import Report, drop_batches, view_reports


@step
def release(context: Context, view: str) -> Report:
    """Publish what is held back of a view, and of the views that wait for it only, as an epoch of its own.

    Raises StateError where nothing is held back of it, where it waits for another view, where what failed may not be
    overruled, where a table is not what the last epoch left, and while an epoch is open.
    """
    manifest, held = _held_or_raise(context, view)
    if held.because in manifest.held:
        raise StateError(
            f"{view!r} waits for {held.because!r}, which is held back.", f"Release that one: it takes {view!r} along."
        )
    if held.final:
        raise StateError(
            f"{view!r} can't be released: an expectation that failed has the severity `gate` ({held.reason}).",
            "Correct the data or the check, then run a refresh, which plans the view anew; `ivm discard` drops it.",
        )
    then, all_held = context.log.manifest(held.epoch), context.log.outcomes(held.epoch).values()
    lacking = _unpublished(all_held, {view}, then, manifest)
    if lacking:
        raise StateError(
            f"What is held back of {view!r} builds on a batch of {lacking!r} that was not published.",
            f"Release {lacking!r} first if it is held back, or run a refresh: it plans {view!r} anew.",
        )
    views = _with_waiting(
        manifest,
        view,
        lambda name, found: (
            bool(manifest.held[name].because) and not _unpublished(all_held, {*found, name}, then, manifest)
        ),
    )
    outcomes = [o for o in all_held if o.view in views]
    integrity = inspect_tables(context, manifest, {o.unit for o in outcomes})
    if integrity.damaged:
        raise StateError(
            f"The state of {view!r} is not what the last epoch left: {next(iter(integrity.damaged.values()))}.",
            f"Run a refresh: it builds {view!r} anew.",
        )
    reason = f"released: {held.reason}"
    tasks = {
        o.view: ViewTask(o.strategy, "released", reason, o.state.definition) for o in outcomes if o.state is not None
    }
    plan = EpochPlan(next_epoch(context, integrity), manifest.sources, tasks)
    write_plan(context, plan)
    stamped = [
        replace(o, stamp=o.stamp or held.epoch, code="released", reason=reason, state=_since_then(o, then, manifest))
        for o in outcomes
    ]
    run = Run(context, lambda *_: {}, plan=plan, outcomes=context.log.record_outcomes(plan.epoch, stamped))
    advance(run, "check", "publish")
    return Report(plan.epoch, view_reports(context, plan, run.outcomes, tasks))


def _unpublished(outcomes: Collection[Outcome], views: Collection[str], *manifests: Manifest) -> str:
    """A unit of which these views read a batch that is neither in a manifest nor their own.

    Empty if there is none.
    """
    own = {o.unit for o in outcomes if o.view in views}
    for outcome in outcomes:
        for relation, cursor in (
            outcome.state.cursors.items() if outcome.view in views and outcome.state is not None else ()
        ):
            known = [m.units[relation].epoch for m in manifests if relation in m.units]
            if cursor.version is None and relation not in own and cursor.epoch not in known:
                return relation
    return ""


def _since_then(outcome: Outcome, then: Manifest, manifest: Manifest) -> UnitState | None:
    """The state that an outcome leads to: it has read others as they were `then`.

    What compaction did to its own traces since is kept.
    """
    if outcome.state is None:
        return None
    state, now = with_upstream_versions(outcome.state, then.units), manifest.units.get(outcome.unit)
    if now is None or now.output_generation != state.output_generation:
        return state
    return replace(state, since=max(state.since, now.since), batches=tuple(sorted({*now.batches, *state.batches})))


@step
def discard(context: Context, view: str) -> Report:
    """Drop what is held back of a view and of those that wait for it.

    They stay as published, until the next refresh plans them anew. A view that must be built anew fails until it is.
    """
    manifest, held = _held_or_raise(context, view)
    outcomes = context.log.outcomes(held.epoch).values()
    reads = {
        v: {r for o in outcomes if o.view == v and o.state is not None for r in o.state.cursors} for v in manifest.held
    }
    views = _with_waiting(manifest, view, lambda name, found: bool(reads[name] & set(found)))
    epoch = context.log.next_epoch()
    left = {v: h for v, h in manifest.held.items() if v not in views}
    dropped = {v: manifest.held[v] for v in views if manifest.held[v].impossible}
    failing = manifest.failing | {v: Failure(h.epoch, h.reason) for v, h in dropped.items()}
    after = replace(manifest, epoch=epoch, held=left, failing=failing)
    context.log.record(epoch, "committed", detail=to_json(after))
    drop_batches(context, held.epoch, views)
    context.layout.sweep(set(referenced(context, context.log.manifest())))
    return Report(epoch, {}, note=f"discarded: {', '.join(context.views[v].name for v in views if v in context.views)}")


def _held_or_raise(context: Context, view: str) -> tuple[Manifest, Held]:
    manifest = context.log.manifest()
    if context.log.open_epoch() is not None:
        raise StateError("An epoch is open: an earlier refresh did not end.", "Run a refresh first.")
    if view not in manifest.held:
        waiting = ", ".join(sorted(manifest.held)) or "none"
        raise StateError(f"Nothing of {view!r} is held back.", f"Held back are: {waiting}.")
    return manifest, manifest.held[view]


def _with_waiting(manifest: Manifest, view: str, joins: Callable[[str, Collection[str]], bool]) -> list[str]:
    """A held view, and those of the same epoch that `joins` adds to what was found before."""
    found = [view]
    left = [name for name, held in manifest.held.items() if held.epoch == manifest.held[view].epoch and name != view]
    while name := next((n for n in left if joins(n, found)), ""):
        left.remove(name)
        found.append(name)
    return found
