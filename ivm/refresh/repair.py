"""Bring a pipeline back whose state was damaged: say what is wrong and what would be done, then do it.

    finding -> mend:   a table or trace that isn't what the last epoch left, a view that failed
                       -> built anew
                       an epoch log that is lost or can't be read
                       -> known again from the tables' own commits, or built anew

A published table is never emptied first: its replacement is one commit. What is put aside is moved to `_ivm/lost`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from ivm.errors import StateError
from ivm.lake.log import NOTE, actions_of, foreign_change, head_of
from ivm.plan.nodes import EPOCH
from ivm.refresh.context import Context
from ivm.refresh.definitions import difference
from ivm.refresh.guard import step
from ivm.refresh.integrity import ACCUMULATORS, OUTPUT, TABLE, inspect_tables, paths
from ivm.refresh.records import Cursor, Manifest, UnitState, from_json, to_json
from ivm.refresh.run import Report
from ivm.sql.temporal import is_clock
from ivm.storage.location import Location
from ivm.table.own import own
from ivm.trace.store import holds


@dataclass(frozen=True)
class Finding:
    """What is wrong, and what mends it; `view` is "" where it is the epoch log."""

    view: str
    what: str
    mend: str
    #: Whether the view is built anew.
    rebuild: bool = True


@dataclass(frozen=True)
class Repair:
    """What was found, the refresh that mended it, and the views known again from their tables.

    The refresh is None where nothing was done.
    """

    findings: tuple[Finding, ...]
    report: Report | None = None
    known_again: tuple[str, ...] = ()


def findings(context: Context) -> list[Finding]:
    """What is wrong with a pipeline's state. Nothing is written."""
    try:
        manifest = context.log.manifest()
    except StateError as error:
        return [Finding("", error.message, _LOST, rebuild=False)]
    if (
        manifest.epoch == 0
        and not context.log.events()
        and any(own(context.layout.table(v, True)).exists() for v in context.views)
    ):
        return [Finding("", "There is no epoch log, but there are published tables.", _LOST, rebuild=False)]
    damaged = inspect_tables(context, manifest).damaged
    found = []
    for name, view in context.views.items():
        units = context.compiled[name].unit_names if name in context.compiled else (name,)
        for unit in units:
            if unit in damaged:
                found.append(
                    Finding(view.name, damaged[unit], "it is built anew, and its table replaced in one commit")
                )
        if name in context.broken:
            found.append(
                Finding(
                    view.name,
                    context.broken[name],
                    "mend the source or the view's SQL; nothing can be done here",
                    rebuild=False,
                )
            )
        if name in manifest.failing:
            failure = manifest.failing[name]
            found.append(
                Finding(
                    view.name,
                    f"failed in epoch {failure.epoch}: {failure.full or failure.incremental}",
                    "it is built anew",
                )
            )
        if name in manifest.held and not manifest.held[name].because:
            held = manifest.held[name]
            mend = "correct the source or the expectation and refresh, or `ivm release` or `ivm discard` it"
            found.append(Finding(view.name, f"held back in epoch {held.epoch}: {held.reason}", mend, rebuild=False))
    return found


_LOST = "the log is begun anew; views whose tables say what they hold go on from there, others are built anew"


@step
def recover_log(context: Context) -> list[str]:
    """Begin a new epoch log, with the state of all units whose tables still tell it.

    Returns the views that go on from there.
    """
    layout = context.layout
    if (log := Location.of(layout.epochs)).exists():
        log.move(layout.lost / f"epochs_{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    context.log.forget_all()
    context.compile(*context.survey())
    # Copies of relations at epochs of the lost log, whose numbers come again.
    layout.arrangements.drop()
    units = _known_again(context)
    if units:
        epoch = 1 + max(b for s in units.values() for _, b in s.batches)
        sources: dict[str, Cursor] = {}
        for state in units.values():
            sources |= {r: c for r, c in state.cursors.items() if r in context.sources}
        context.log.record(epoch, "committed", detail=to_json(Manifest(epoch, sources, units)))
    return [v for v in context.views if v in units]


def _known_again(context: Context) -> dict[str, UnitState]:
    """Units in dependency order, as far as what they read is known again as well and they have read all of it."""
    units: dict[str, UnitState] = {}
    for view, compiled in context.compiled.items():
        found: dict[str, UnitState] = {}
        for name in compiled.unit_names:
            state = _noted(context, name, name == view)
            if state is None or difference(state.definition, compiled, context.layout.programs):
                break
            known = units | found
            cursors = {}
            for relation, cursor in state.cursors.items():
                upstream = known.get(relation)
                of_unit = relation not in context.sources and not is_clock(relation)
                if of_unit and (upstream is None or upstream.epoch != cursor.epoch):
                    break
                cursors[relation] = Cursor(upstream.version, epoch=upstream.epoch) if upstream is not None else cursor
            if len(cursors) != len(state.cursors):
                break
            found[name] = replace(state, cursors=cursors)
        if len(found) == len(compiled.unit_names):
            units |= found
    return units


def _noted(context: Context, unit: str, public: bool) -> UnitState | None:
    """A unit's state from the last commit to its table that changed rows, if that is ours and its traces still fit."""
    path = context.layout.table(unit, public)
    if not own(path).exists():
        return None
    head = head_of(path)
    for version in range(head.version, -1, -1):
        actions = actions_of(path, version) or ()
        note: Any = next((a["commitInfo"].get(NOTE) for a in actions if "commitInfo" in a), None)
        if note:
            try:
                state = from_json(UnitState, str(note))
            except StateError:
                return None
            rows = own(path).count()
            heads = {what: head_of(p) for what, p in paths(context, unit, state).items() if own(p).exists()}
            if not _traces_fit(context, unit, state):
                return None
            # Compaction may have dropped batches that this state has still.
            return replace(state, since=state.epoch, version=head.version, rows=rows, heads=heads)
        if not actions or foreign_change(actions):
            return None
    return None


def _traces_fit(context: Context, unit: str, state: UnitState) -> bool:
    """Whether the traces hold no later epochs, and compaction has summed none up with the earlier ones."""
    last = max((b for _, b in state.batches), default=0)
    for what, path in paths(context, unit, state).items():
        if what == TABLE:
            continue
        if not own(path).exists():
            if what == OUTPUT:
                continue
            return not _has_accumulators(context, unit)
        if holds(path, lambda q: f"{q(EPOCH)} > {last}") or (what == ACCUMULATORS and _last_batch(path) > last):
            return False
    return True


def _last_batch(path: str) -> float:
    """The epoch of the batch that was appended to a trace last, by its log; infinite where that tells none any more.

    Of a group that went with a later batch compaction leaves no row that would tell.
    """
    version = head_of(path).version
    while (actions := actions_of(path, version)) is not None:
        if (txn := next((a["txn"] for a in actions if "txn" in a), None)) is not None:
            return int(txn["version"])
        version -= 1
    return math.inf


def _has_accumulators(context: Context, unit: str) -> bool:
    """Whether a unit is a linear grouping, which keeps accumulators."""
    units = (u for c in context.compiled.values() for u in c.program.units)
    return any(u.name == unit and u.reduce is not None and u.reduce.linear for u in units)


def to_rebuild(found: Iterable[Finding], views: Iterable[str] | None) -> frozenset[str]:
    """The views to build anew: those that were named, or those with findings that a rebuild mends."""
    if views is not None:
        return frozenset(views)
    return frozenset(f.view.lower() for f in found if f.rebuild and f.view)
