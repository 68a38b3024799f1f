"""What follows for views that read a view that failed: nothing of them is published either.

    published(view) => no unit of the view failed, and published(u) for each view u that it read in the epoch

A view's units are published together, so a reader may have read a unit that is fine of a view that failed. And a full
refresh is recorded at once: what it read may fail in a later attempt.
"""

from __future__ import annotations

from collections.abc import Mapping

from ivm.plan.kinds import Publish, StrategyKind
from ivm.refresh.records import Outcome


def upstream_failed(unit: str, view: str, strategy: StrategyKind, failed: str) -> Outcome:
    """The outcome of a unit that may not count, since what it reads failed."""
    why = f"{failed} failed, which it reads"
    return Outcome(unit, view, strategy, "upstream_failed", "", Publish.NONE, None, error=why)


def with_readers_failed(outcomes: Mapping[str, Outcome]) -> dict[str, Outcome]:
    """The outcomes of an epoch by unit; those of units that read a view that failed become failures."""
    found = dict(outcomes)
    failed = {o.view for o in found.values() if o.error}
    while behind := {
        o.unit: view for o in found.values() if not o.error and (view := _failed_upstream(o, found, failed))
    }:
        found |= {u: upstream_failed(u, found[u].view, found[u].strategy, view) for u, view in behind.items()}
        failed |= {found[u].view for u in behind}
    return found


def _failed_upstream(outcome: Outcome, outcomes: Mapping[str, Outcome], failed: set[str]) -> str:
    """Another view that failed, of which a unit read something in this epoch; empty if none did."""
    cursors = outcome.state.cursors if outcome.state is not None else ()
    views = (outcomes[relation].view for relation in cursors if relation in outcomes)
    return next((view for view in views if view in failed and view != outcome.view), "")
