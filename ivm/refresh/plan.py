"""Step 1, plan: freeze the versions to read up to and decide, for each view, what shall happen.

Nothing is computed and nothing is written here but the `planned` event; a rerun finds it and keeps its versions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ivm.feed.source import Snapshot, gap
from ivm.refresh.context import Context
from ivm.refresh.records import Cursor, EpochPlan, Manifest, ViewTask, to_json
from ivm.refresh.views import Compiled

#: Strategies a task can have.
INCREMENTAL, FULL, UNCHANGED = "incremental", "full", "unchanged"


def plan_epoch(context: Context, views: Iterable[str] | None, rebuild: frozenset[str] = frozenset(), note: str = "") -> EpochPlan | None:
    """The plan of the next epoch, or None where nothing changed. Not written yet.

    Views that are named are planned together with the views they read, so that all see one snapshot.
    """
    snapshots = context.snapshots()
    compiled = context.compile(snapshots)
    manifest = context.log.manifest()
    wanted = _with_upstream(compiled, views)
    tasks: dict[str, ViewTask] = {}
    for name in (n for n in compiled if n in wanted):
        tasks[name] = _task(context, compiled[name], snapshots, manifest, tasks, name in rebuild)
    if all(t.strategy == UNCHANGED for t in tasks.values()):
        return None
    sources = {n: Cursor(s.version, s.table_id) for n, s in snapshots.items()}
    return EpochPlan(context.log.next_epoch(), sources, tasks, note)


def write_plan(context: Context, plan: EpochPlan) -> None:
    """Record the plan; of two processes that plan the same epoch, one fails with ConcurrentRefreshError."""
    context.log.record(plan.epoch, "planned", detail=to_json(plan))


def _with_upstream(compiled: dict[str, Compiled], views: Iterable[str] | None) -> set[str]:
    if views is None:
        return set(compiled)
    wanted: set[str] = set()
    todo = [v.lower() for v in views]
    while todo:
        name = todo.pop()
        if name not in wanted:
            wanted.add(name)
            todo += [r for r in compiled[name].program.relations if r in compiled]
    return wanted


def _task(
    context: Context,
    compiled: Compiled,
    snapshots: dict[str, Snapshot],
    manifest: Manifest,
    tasks: dict[str, ViewTask],
    rebuild: bool,
) -> ViewTask:
    program, definition = compiled.program, compiled.definition

    def task(strategy: str, code: str, reason: str) -> ViewTask:
        return ViewTask(strategy, code, reason, definition)

    units = [u.name for u in program.units] or [program.view]
    state = manifest.units.get(program.view)
    if state is None or any(u not in manifest.units for u in units):
        return task(FULL, "first_build", "the view is built for the first time")
    if state.definition != definition:
        return task(FULL, "definition_changed", "the view's definition, or the columns it reads, changed")
    if rebuild:
        return task(FULL, "backfill", "a rebuild was asked for")
    if not program.deterministic:
        return task(FULL, program.refusals[0].code, program.refusals[0].reason)
    moved = False
    for unit in units:
        for relation, cursor in manifest.units[unit].cursors.items():
            if relation in snapshots:
                snapshot = snapshots[relation]
                why = gap(snapshot, cursor.version or 0, cursor.table_id)
                if why:
                    return task(FULL, "feed_gap", f"the change feed of {relation!r} has a gap: {why}")
                moved = moved or snapshot.version != cursor.version
            else:
                upstream = manifest.units.get(relation)
                if (relation in tasks and tasks[relation].strategy != UNCHANGED) or (upstream is not None and upstream.epoch != cursor.epoch):
                    moved = True
                if upstream is not None and upstream.since > cursor.epoch:
                    return task(FULL, "upstream_replaced", f"{relation!r} was replaced as a whole")
    if not moved:
        return task(UNCHANGED, "unchanged", "nothing that the view reads has changed")
    if not program.incremental:
        return task(FULL, program.refusals[0].code, program.refusals[0].reason)
    return task(INCREMENTAL, "incremental", "only what changed is applied")


def quarantine_note(context: Context, epoch: int) -> str:
    """What a quarantined epoch says about itself, for the next run."""
    detail = context.log.detail(epoch, "quarantined")
    return f"epoch {epoch} was quarantined: {json.loads(detail)['reason']}" if detail else ""
