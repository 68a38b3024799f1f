"""What a pipeline looks like now, from its log alone."""

from __future__ import annotations

import json
from typing import Any

from ivm.refresh.arrange import statuses
from ivm.refresh.context import Context


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
        if event.status == "quarantined":
            entry["reason"] = json.loads(event.detail)["reason"]
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
            "table": context.layout.table(name, True),
        }
    return {
        "pipeline": context.name,
        "root": context.layout.root,
        "epoch": manifest.epoch,
        "open_epoch": log.open_epoch(),
        "sources": {n: {"version": c.version} for n, c in manifest.sources.items()},
        "views": views,
        "arrangements": statuses(context),
        "epochs": sorted(epochs.values(), key=lambda e: -e["epoch"])[:20],
    }
