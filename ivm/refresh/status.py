"""What a pipeline looks like now, from its log, and what its sources will soon have forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ivm.refresh.arrangements import statuses
from ivm.refresh.context import Context
from ivm.refresh.epochs import EpochLog
from ivm.refresh.freshness import freshness
from ivm.refresh.instants import as_time, instant_of
from ivm.refresh.lag import source_warnings
from ivm.refresh.living import last_broken
from ivm.refresh.publish import held_back, warned
from ivm.refresh.records import Manifest, Outcome


def _trouble(manifest: Manifest, broken: Mapping[str, tuple[int, str]], view: str) -> str:
    """Why a view is behind; "" if it isn't for a reason of its own."""
    if view in broken:
        epoch, why = broken[view]
        return f"could not be planned in epoch {epoch}: {why}"
    if view in manifest.held:
        return f"held back in epoch {manifest.held[view].epoch}: {manifest.held[view].reason}"
    failure = manifest.failing.get(view)
    return f"failing since epoch {failure.epoch}: {failure.full or failure.incremental}" if failure is not None else ""


def _instant(manifest: Manifest, view: str) -> str | None:
    """Up to when a view has read the time; None where it has no temporal filter."""
    found = instant_of(s for n, s in manifest.units.items() if n == view or n.startswith(f"{view}__"))
    return as_time(found).isoformat() if found is not None else None


def _newest(log: EpochLog, epochs: Iterable[int], views: set[str]) -> dict[str, tuple[int, Outcome]]:
    """What was applied last for each view, with its epoch; each is read once, and none that tells nothing more."""
    found: dict[str, tuple[int, Outcome]] = {}
    for epoch in epochs:
        if views <= found.keys():
            break
        found = {unit: (epoch, outcome) for unit, outcome in log.outcomes(epoch).items()} | found
    return found


def status(context: Context) -> dict[str, Any]:
    """Epochs (newest first) and views with their strategy, rows, table version, instant and freshness."""
    log = context.log
    manifest = log.manifest()
    events = log.events()
    epochs: dict[int, dict[str, Any]] = {}
    for event in events:
        entry = epochs.setdefault(event.epoch, {"epoch": event.epoch, "status": "", "at": "", "reason": ""})
        if event.status != "applied":
            entry |= {"status": event.status, "at": event.at.isoformat(timespec="seconds")}
        if event.status == "checked":
            entry["reason"] = "; ".join(
                f"{v} is held back: {h.reason}" for v, h in held_back(context, event.epoch).items()
            )
    fresh = {name: found for name in context.views if (found := freshness(context, name)) is not None}
    views, broken = {}, last_broken(context)
    outcomes = _newest(log, sorted(epochs, reverse=True), set(context.views))
    for name, view in context.views.items():
        state = manifest.units.get(name)
        epoch, outcome = outcomes.get(name, (0, None))
        views[view.name] = {
            "mode": view.mode,
            "rows": state.rows if state else None,
            "version": state.version if state else None,
            "epoch": state.epoch if state else None,
            "instant": _instant(manifest, name),
            "strategy": outcome.strategy if outcome else None,
            "reason": outcome.reason if outcome else "not refreshed yet",
            "error": _trouble(manifest, broken, name),
            "warning": warned(context, epoch).get(name, "") if epoch else "",
            "table": context.layout.table(name, True),
            "freshness": fresh[name].to_dict() if name in fresh else None,
        }
    return {
        "pipeline": context.name,
        "root": context.layout.root,
        "epoch": manifest.epoch,
        "open_epoch": log.open_epoch(),
        "sources": {n: {"version": c.version} for n, c in manifest.sources.items()},
        "warnings": source_warnings(context, manifest)
        + [f"View {n!r} misses its freshness target ({f}): {f.why}" for n, f in fresh.items() if f.late],
        "views": views,
        "arrangements": statuses(context),
        "epochs": sorted(epochs.values(), key=lambda e: -e["epoch"])[:20],
    }
