"""What the tasks of audits and of the quarantine do."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from ivm.errors import ConfigError
from ivm.orchestration.tasks import _committed, _pipeline, _step


@_step
def audit_task(folder: str, view: str, how: str, sample: float) -> dict[str, Any]:
    """Compare the view with a recompute; fail where it differs."""
    found = _pipeline(folder, passing=False).audit(view, how, sample)
    print(found)
    if not found:
        raise AirflowFailException(str(found))
    return asdict(found)


@_step
def look_task(folder: str, view: str) -> dict[str, Any]:
    """Tell what is held back of a view, and the rows for which its expectations fail, as far as they may be shown."""
    found = _pipeline(folder).quarantine(view)
    print(f"{found.view} is held back in epoch {found.epoch}: {found.reason}")
    for failing in found.failing:
        arguments = json.dumps(dict(failing.arguments), default=str)
        print(f"{failing.scope}, {failing.expectation} {arguments}: {failing.message}")
        for row in failing.rows:
            print(f"  {json.dumps(row, default=str)}")
    return {"view": found.view, "epoch": found.epoch, "failing": len(found.failing)}


@_step
def act_task(folder: str, view: str, action: str) -> dict[str, Any]:
    """Release or discard what is held back of a view; skipped where it is only to be looked at.

    `views` are those that were published, with what was committed of each: none of them where it was discarded.
    """
    if action == "look":
        raise AirflowSkipException("only looked at")
    pipe = _pipeline(folder)
    if action == "release":
        report = pipe.release(view)
    elif action == "discard":
        report = pipe.discard(view)
    else:
        raise ConfigError(f"There is no action {action!r}.", "Choose one of: look, release, discard.")
    if not report.ok:
        raise AirflowFailException("; ".join(v.error for v in report.views.values() if v.error))
    manifest = pipe.context.log.manifest()
    views = {n: _committed(pipe.context, manifest, r, report.epoch) for n, r in report.views.items()}
    return {"epoch": report.epoch, "views": views, "note": report.note}
