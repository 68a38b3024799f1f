"""What the epoch log tells of units as they were: their last refreshes, and states that others have read."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection
from operator import itemgetter
from typing import Any

from ivm.errors import StateError
from ivm.parameters import AUTO
from ivm.plan.kinds import StrategyKind
from ivm.planner.choose import CHANGED
from ivm.planner.learned import MET, Past, drawn
from ivm.refresh.context import Context
from ivm.refresh.epochs import CLOSED, listed
from ivm.refresh.records import EMBEDDED, Cursor, Manifest, UnitState, from_json
from ivm.table.own import own

#: So many of a unit's last refreshes of one strategy tell what the next will take.
REMEMBERED = 8
#: The code of an outcome.
FIRST_BUILD = "first_build"


def pasts(context: Context, units: Collection[str]) -> dict[str, Past]:
    """By unit what its last successful refreshes took; incremental ones only by the engines that may run the next."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        u: {StrategyKind.INCREMENTAL: [], StrategyKind.FULL: []} for u in units
    }
    for event in reversed(context.log.events()):
        if event.status != "applied" or event.unit not in found:
            continue
        kind = StrategyKind.INCREMENTAL if '"strategy": "incremental"' in event.detail else StrategyKind.FULL
        if len(found[event.unit][kind]) < REMEMBERED:
            outcome = _told(event.detail)
            if not outcome["error"] and outcome["strategy"] == kind and _alike(context, kind, outcome):
                found[event.unit][kind].append(outcome)
    inner = {name for compiled in context.compiled.values() for name in compiled.unit_names[:-1]}
    return {
        unit: _past(kinds[StrategyKind.INCREMENTAL], kinds[StrategyKind.FULL], unit in inner, context.engine == AUTO)
        for unit, kinds in found.items()
    }


#: What is asked of an outcome.
_FIELDS = (
    "code", "strategy", "error", "engine", "seconds", "shared_seconds", "rows_in", "rows_out", "rows_read",
    "cost_incremental", "cost_full",
)  # fmt: skip


@functools.lru_cache(maxsize=4096)
def _told(detail: str) -> dict[str, Any]:
    """What an outcome tells; the same ones are asked for at each refresh, and twice."""
    outcome = json.loads(detail)
    return {field: outcome[field] for field in _FIELDS if field in outcome}


def _alike(context: Context, kind: StrategyKind, outcome: dict[str, Any]) -> bool:
    """Whether it ran where the next one would: a full refresh with Spark always, others as the `engine` is set."""
    return kind == StrategyKind.FULL or bool(outcome.get("engine")) == (context.engine == AUTO)


def _past(incremental: list[dict[str, Any]], full: list[dict[str, Any]], inner: bool, auto: bool) -> Past:
    rows_in, rows_out = sum(o["rows_in"] for o in incremental), sum(o["rows_out"] for o in incremental)
    here = [o for o in incremental if o["engine"] == EMBEDDED] if auto else []
    return Past(
        tuple((int(o["cost_incremental"]), float(o["seconds"])) for o in incremental),
        tuple((int(o["rows_in"]), float(o["seconds"])) for o in full if o["code"] != FIRST_BUILD),
        tuple((int(o["rows_in"]), float(o["seconds"])) for o in full if o["code"] == FIRST_BUILD),
        rows_out / rows_in if rows_in else None,
        _met(here or incremental) if incremental else MET,
        auto and bool(here or not incremental),
        inner,
        tuple(float(o["seconds"]) - float(o.get("shared_seconds", 0)) for o in incremental),
    )


def _met(incremental: list[dict[str, Any]]) -> float:
    """How often a row that was read was drawn for each that was expected; of most of all rows little can be told."""
    telling = [o for o in incremental if 2 * o["rows_read"] < o["cost_full"]] or incremental
    expected = sum(o["cost_incremental"] - CHANGED * o["rows_in"] for o in telling)
    return sum(drawn(o["rows_read"], o["cost_full"]) for o in telling) / expected if expected else 1.0


def manifest_of(context: Context, epoch: int | None) -> Manifest:
    """The manifest of an epoch, the last one if None, by the log or, where that has let it go, by its archive.

    Raises StateError where it was never committed.
    """
    if epoch is None or context.log.has(epoch, "committed") or epoch >= context.log.manifest().epoch:
        return context.log.manifest(epoch)
    archive = own(context.layout.archive)
    events = archive.read(None, lambda q: f"{q('epoch')} = {int(epoch)}").to_pylist() if archive.exists() else []
    # Of a log that was lost there may be others of that number.
    closed = max((e for e in events if e["status"] in CLOSED), key=itemgetter("at"), default=None)
    if closed is None or closed["status"] != "committed":
        return context.log.manifest(epoch)
    return listed(from_json(Manifest, closed["detail"]))


def when_read(context: Context, manifest: Manifest, unit: str, cursor: Cursor) -> tuple[Manifest, UnitState]:
    """A unit as another one had read it by a manifest, with the newest manifest up to there in which it was so.

    Raises StateError where none is kept any more.
    """
    epochs = {e.epoch for e in context.log.events() if e.status == "committed" and e.epoch < manifest.epoch}
    for epoch in (manifest.epoch, *sorted(epochs, reverse=True), cursor.epoch):
        then = manifest if epoch == manifest.epoch else manifest_of(context, epoch)
        if unit in then.units and then.units[unit].epoch == cursor.epoch:
            return then, then.units[unit]
    raise StateError(
        f"{unit} as of epoch {cursor.epoch}, which was read, is in the epoch log no more.",
        "The next refresh that succeeds mends it.",
    )
