"""What a pipeline looks like now, from its log, and what its sources will soon have forgotten."""

from __future__ import annotations

from typing import Any

from ivm.refresh.arrangements import statuses
from ivm.refresh.context import Context
from ivm.refresh.lag import source_warnings
from ivm.refresh.publish import held_back
from ivm.refresh.records import Manifest


def _trouble(manifest: Manifest, view: str) -> str:
    """Why a view is behind; "" if it isn't for a reason of its own."""
    if view in manifest.held:
        return f"held back in epoch {manifest.held[view].epoch}: {manifest.held[view].reason}"
    failure = manifest.failing.get(view)
    return f"failing since epoch {failure.epoch}: {failure.full or failure.incremental}" if failure is not None else ""


def status(context: Context) -> dict[str, Any]:
    """Epochs (newest first) and views with their strategy, rows, table version and versions read."""
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
    views = {}
    for name, view in context.views.items():
        state = manifest.units.get(name)
        outcome = next((o for e in sorted(epochs, reverse=True) if (o := log.outcomes(e).get(name))), None)
        views[view.name] = {
            "mode": view.mode,
            "rows": state.rows if state else None,
            "version": state.version if state else None,
            "epoch": state.epoch if state else None,
            "strategy": outcome.strategy if outcome else None,
            "reason": outcome.reason if outcome else "not refreshed yet",
            "error": _trouble(manifest, name),
            "table": context.layout.table(name, True),
        }
    return {
        "pipeline": context.name,
        "root": context.layout.root,
        "epoch": manifest.epoch,
        "open_epoch": log.open_epoch(),
        "sources": {n: {"version": c.version} for n, c in manifest.sources.items()},
        "warnings": source_warnings(context, manifest),
        "views": views,
        "arrangements": statuses(context),
        "epochs": sorted(epochs.values(), key=lambda e: -e["epoch"])[:20],
    }
