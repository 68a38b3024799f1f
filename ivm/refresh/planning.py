"""Step 1, plan: freeze the versions (and the instant) to read up to and decide, for each view, what shall happen.

Nothing is computed and nothing is written here but the `planned` event; a rerun finds it and keeps its versions.
What can't be relied on any more (a source's history, a table of ours) is found here, by comparing it with the manifest.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace

from ivm.feed.source import Snapshot, gap
from ivm.plan.kinds import StrategyKind
from ivm.planner.strategy import Full
from ivm.refresh import definitions
from ivm.refresh.context import Context
from ivm.refresh.forecast import forecast
from ivm.refresh.instants import as_instant, is_due
from ivm.refresh.integrity import TABLE, Integrity, adopt, inspect_tables, next_epoch, occupied, open_tables
from ivm.refresh.lag import lag_warnings
from ivm.refresh.living import declared_units
from ivm.refresh.modes import forbidden, warning
from ivm.refresh.records import Cursor, EpochPlan, Failure, Manifest, ViewTask, to_json
from ivm.refresh.settings import STARTED, changed, settings
from ivm.refresh.views import Compiled
from ivm.session import own_condition, starts_plain
from ivm.sql.temporal import is_clock

#: Full refreshes after which nothing of the earlier generation is relied on: tables are replaced as wholes.
ANEW = ("recovered", "damaged")


def plan_epoch(
    context: Context,
    views: Iterable[str] | None,
    rebuild: frozenset[str] = frozenset(),
    note: str = "",
    may_start: bool = True,
) -> EpochPlan | None:
    """The plan of the next epoch, or None where nothing changed.

    Not written yet; `context.broken` names all views that can't be planned, the plan those that it is asked for.
    Views that are named are planned together with the views they read, so that all see one snapshot. Without
    `may_start` no Spark session is started to compare its settings with those of the views' state.
    """
    views = None if views is None else list(views)
    snapshots, missing = context.survey()
    compiled = context.compile(snapshots, missing)
    committed = context.log.manifest()
    wanted = _with_upstream(compiled, views, context.broken)
    integrity = inspect_tables(context, committed, {u for n in wanted for u in compiled[n].unit_names})
    accepted = definitions.accepted(committed, compiled, context.layout.programs)
    manifest = adopt(committed, integrity.adopted, accepted)
    tasks: dict[str, ViewTask] = {}
    now = as_instant(context.clock())
    # Asked for once for all views: each of some forty settings is an answer of the JVM's.
    asked = functools.cache(functools.partial(_settings_now, context, may_start))
    for name in (n for n in compiled if n in wanted):
        task = _task(context, compiled[name], snapshots, manifest, integrity, tasks, now, name in rebuild, asked)
        tasks[name] = task if name in rebuild else _permitted(context, name, task)
    if all(t.strategy == StrategyKind.UNCHANGED for t in tasks.values()) and not integrity.adopted:
        return None
    sources = {n: Cursor(s.version, s.table_id, fingerprint=s.fingerprint) for n, s in snapshots.items()}
    again = [
        f"view {context.views[v].name} was quarantined in epoch {h.epoch}: {h.reason}"
        for v, h in committed.held.items()
        if v in tasks and not h.because
    ]
    notes = "; ".join([*([note] if note else []), *again])
    warnings = (*lag_warnings(snapshots, declared_units(context, manifest)), *_surprises(context, tasks))
    broken = context.broken_among(views)
    applied = [u for n, t in tasks.items() if t.strategy == StrategyKind.INCREMENTAL for u in compiled[n].unit_names]
    open_tables(context, manifest, applied, (TABLE,))
    estimates = forecast(context, tasks, snapshots, manifest)
    tasks = {n: replace(t, estimate=estimates.get(n)) for n, t in tasks.items()}
    number = next_epoch(context, integrity)
    return EpochPlan(number, sources, tasks, notes, integrity.adopted, broken, warnings, accepted, now, asked(True))


def write_plan(context: Context, plan: EpochPlan) -> None:
    """Record the plan; of two processes that plan the same epoch, one fails with ConcurrentRefreshError."""
    context.log.record(plan.epoch, "planned", detail=to_json(plan))


def _with_upstream(compiled: dict[str, Compiled], views: Iterable[str] | None, broken: dict[str, str]) -> set[str]:
    if views is None:
        return set(compiled)
    wanted: set[str] = set()
    todo = [v.lower() for v in views if v.lower() not in broken]
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo += [r for r in compiled[name].program.relations if r in compiled]
    return wanted


def _permitted(context: Context, view: str, task: ViewTask) -> ViewTask:
    """The task, or its failure where the view's mode forbids it."""
    mode, name = context.views[view].mode, context.views[view].name
    why = forbidden(mode, name, Full(task.code, task.reason)) if task.strategy == StrategyKind.FULL else ""
    return replace(task, strategy=StrategyKind.FAILED, reason=why) if why else task


def _surprises(context: Context, tasks: dict[str, ViewTask]) -> list[str]:
    """What mode warn says of the tasks."""
    full = {n: Full(t.code, t.reason) for n, t in tasks.items() if t.strategy == StrategyKind.FULL}
    return [f"view {context.views[n].name}: {w}" for n, f in full.items() if (w := warning(context.views[n].mode, f))]


def _task(
    context: Context,
    compiled: Compiled,
    snapshots: dict[str, Snapshot],
    manifest: Manifest,
    integrity: Integrity,
    tasks: dict[str, ViewTask],
    now: int,
    rebuild: bool,
    asked: Callable[[bool], dict[str, str]],
) -> ViewTask:
    program, definition = compiled.program, compiled.definition

    def task(strategy: StrategyKind, code: str, reason: str) -> ViewTask:
        return ViewTask(strategy, code, reason, definition)

    units = compiled.unit_names
    state = manifest.units.get(program.view)
    if state is None and (why := occupied(context, program.view)):
        return task(StrategyKind.FAILED, "occupied", why)
    if state is None or any(u not in manifest.units for u in units):
        return task(StrategyKind.FULL, "first_build", "the view is built for the first time")
    damaged = next((integrity.damaged[u] for u in units if u in integrity.damaged), "")
    if damaged:
        return task(StrategyKind.FULL, "damaged", f"its state is not what the last epoch left: {damaged}")
    if other := definitions.difference(state.definition, compiled, context.layout.programs):
        return task(StrategyKind.FULL, "definition_changed", other)
    if rebuild:
        return task(StrategyKind.FULL, "backfill", "a rebuild was asked for")
    due = rebuild_due(manifest, program.view)
    if due is not None:
        failed = due == manifest.failing.get(program.view)
        what = f"it failed in epoch {due.epoch}" if failed else f"its batch of epoch {due.epoch} was wrong"
        return task(StrategyKind.FULL, "recovered", f"{what}: {due.incremental}")
    if not program.deterministic:
        return task(StrategyKind.FULL, program.refusals[0].code, program.refusals[0].reason)
    moved = False
    for unit in units:
        for relation, cursor in manifest.units[unit].cursors.items():
            if relation in snapshots:
                snapshot = snapshots[relation]
                why = gap(snapshot, cursor.version or 0, cursor.table_id, cursor.fingerprint)
                if why:
                    return task(StrategyKind.FULL, "feed_gap", f"the change feed of {relation!r} has a gap: {why}")
                moved = moved or snapshot.version != cursor.version
            elif is_clock(relation):
                moved = moved or is_due(relation, cursor.version or 0, now, state.settings)
            else:
                upstream = manifest.units.get(relation)
                if (relation in tasks and tasks[relation].strategy != StrategyKind.UNCHANGED) or (
                    upstream is not None and upstream.epoch != cursor.epoch
                ):
                    moved = True
                if upstream is not None and upstream.since > cursor.epoch:
                    return task(StrategyKind.FULL, "upstream_replaced", f"{relation!r} was replaced as a whole")
    other = changed(state.settings, asked(moved) or state.settings)
    if other:
        return task(StrategyKind.FULL, "settings_changed", f"the session's settings changed: {other}")
    if not moved:
        return task(StrategyKind.UNCHANGED, "unchanged", "nothing that the view reads has changed")
    if not program.incremental:
        return task(StrategyKind.FULL, program.refusals[0].code, program.refusals[0].reason)
    return task(StrategyKind.INCREMENTAL, "incremental", "only what changed is applied")


def other_settings(context: Context, plan: EpochPlan) -> str:
    """Which of the settings that results go by are others now than where an epoch was planned; empty if none are."""
    return changed(plan.settings, _settings_now(context, may_start=True, moved=True)) if plan.settings else ""


def _settings_now(context: Context, may_start: bool, moved: bool) -> dict[str, str]:
    """The session's settings; {} where they aren't asked for.

    A refresh that finds nothing to do starts no Spark to ask, nor does one that would start a session with the settings
    of all such sessions.
    """
    if context.has_session():
        return settings(context.asked())
    if not moved:
        return {}
    if starts_plain():
        return STARTED
    return settings(context.asked()) if may_start else {}


def rebuild_due(manifest: Manifest, view: str) -> Failure | None:
    """Why nothing may be applied to a view until it was built anew; None where that may be."""
    failure, held = manifest.failing.get(view), manifest.held.get(view)
    if failure is not None and failure.incremental and not of_its_own(failure):
        return failure
    return Failure(held.epoch, held.reason) if held is not None and held.impossible else None


def of_its_own(failure: Failure) -> bool:
    """Whether a failure is the view's own SQL's.

    The full refresh failed for the same reason as the incremental one, which lies in the statement.
    """
    condition = own_condition(failure.full)
    return bool(condition) and condition == own_condition(failure.incremental)
