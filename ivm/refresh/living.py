"""Whose cursors count: the manifest keeps units of views that were dropped, and no refresh brings these on."""

from __future__ import annotations

from collections.abc import Container

from ivm.errors import ViewError
from ivm.refresh.context import Context
from ivm.refresh.records import Manifest, UnitState
from ivm.sql.text import relation_tables


def declared_units(context: Context, manifest: Manifest) -> dict[str, UnitState]:
    """The units of the views that are declared."""
    return {u: s for u, s in manifest.units.items() if of_one(u, context.views)}


def living_units(context: Context, manifest: Manifest) -> dict[str, UnitState]:
    """The units of the views that are declared and, as far as the log tells, can be compiled."""
    broken = last_broken(context)
    return {u: s for u, s in declared_units(context, manifest).items() if not of_one(u, broken)}


def read_by_views(context: Context, manifest: Manifest) -> set[str]:
    """What the declared views read: those that were built by their state, the others by their text."""
    found = {relation for s in declared_units(context, manifest).values() for relation in s.cursors}
    for name in context.views.keys() - manifest.units.keys():
        try:
            found |= {table.lower() for table, *_ in relation_tables(context.views[name].sql)}
        except ViewError:  # its refresh says why
            continue
    return found


def last_broken(context: Context) -> dict[str, tuple[int, str]]:
    """By view that could not be planned when it was refreshed last: the epoch, and why."""
    log, found = context.log, dict[str, tuple[int, str]]()
    committed = {e.epoch for e in log.events() if e.status == "committed"}
    planned = {e.epoch for e in log.events() if e.status == "planned"}
    seen: set[str] = set()
    for epoch in sorted(planned & committed, reverse=True):
        if context.views.keys() <= seen:
            break
        plan = log.plan(epoch)
        found |= {view: (epoch, why) for view, why in plan.broken.items() if view not in seen}
        seen |= plan.tasks.keys() | plan.broken.keys()
    return found


def of_one(unit: str, views: Container[str]) -> bool:
    """Whether a unit is one of these views, or inside one: then its name goes on with "__" after the view's.

    A view's own name may hold "__" as well. The views are not gone through: there may be hundreds, and more units.
    """
    return unit in views or any(unit.startswith("__", end) and unit[:end] in views for end in range(1, len(unit)))
