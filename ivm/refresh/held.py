"""Batches that a failed expectation holds back: published after all (release), or dropped (discard).

Without either, the next refresh plans the view anew: it drops them, and applies what changed since the last published epoch.
"""

from __future__ import annotations

from dataclasses import replace

from ivm.errors import StateError
from ivm.refresh.context import Context
from ivm.refresh.guard import step
from ivm.refresh.integrity import referenced
from ivm.refresh.plan import write_plan
from ivm.refresh.records import EpochPlan, Held, Manifest, Outcome, UnitState, ViewTask, to_json
from ivm.refresh.run import Report, drop_batches, step_check, step_publish, view_reports


@step
def release(context: Context, view: str) -> Report:
    """Publish what is held back of a view, and of the views that wait for it only, as an epoch of its own.

    Raises StateError where nothing is held back of it, where it waits for another view, and while an epoch is open.
    """
    manifest, held = _held_or_raise(context, view)
    if held.because:
        raise StateError(f"{view!r} waits for {held.because!r}, which is held back.", f"Release that one: it takes {view!r} along.")
    views = _with_waiting(manifest, view, held.epoch)
    outcomes = [o for o in context.log.outcomes(held.epoch).values() if o.view in views]
    reason = f"released: {held.reason}"
    tasks = {o.view: ViewTask(o.strategy, "released", reason, o.state.definition) for o in outcomes if o.state is not None}
    plan = EpochPlan(context.log.next_epoch(), manifest.sources, tasks)
    write_plan(context, plan)
    stamped = [replace(o, stamp=o.stamp or held.epoch, code="released", reason=reason, state=_since_then(o, manifest)) for o in outcomes]
    done = context.log.record_outcomes(plan.epoch, stamped)
    step_check(context, plan, done, lambda *_: {})
    step_publish(context, plan, done)
    return Report(plan.epoch, view_reports(context, plan, done, tasks))


def _since_then(outcome: Outcome, manifest: Manifest) -> UnitState | None:
    """The state that an outcome leads to, on top of what compaction did to the unit's traces meanwhile."""
    state, now = outcome.state, manifest.units.get(outcome.unit)
    if state is None or now is None or now.output_generation != state.output_generation:
        return state
    return replace(state, since=max(state.since, now.since), batches=tuple(sorted({*now.batches, *state.batches})))


@step
def discard(context: Context, view: str) -> Report:
    """Drop what is held back of a view and of those that wait for it; they stay as published, until the next refresh plans them anew."""
    manifest, held = _held_or_raise(context, view)
    views = _with_waiting(manifest, view, held.epoch)
    drop_batches(context, held.epoch, views)
    epoch = context.log.next_epoch()
    left = {v: h for v, h in manifest.held.items() if v not in views}
    context.log.record(epoch, "committed", detail=to_json(replace(manifest, epoch=epoch, held=left)))
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


def _with_waiting(manifest: Manifest, view: str, epoch: int) -> list[str]:
    """A held view, and those of the same epoch that wait for it."""
    found = [view]
    for name, held in manifest.held.items():  # in dependency order
        if held.because in found and held.epoch == epoch and name not in found:
            found.append(name)
    return found
