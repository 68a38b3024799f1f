"""What each epoch did, from the log and its archive: by view strategy, reason, rows, seconds, expected and actual.

    an epoch's line    what was planned (with its estimate), applied, held back by checks, and committed

Nothing is computed and no Spark is started.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ivm.plan.kinds import Publish, StrategyKind
from ivm.planner.estimate import Estimate
from ivm.refresh.context import Context
from ivm.refresh.epochs import Event
from ivm.refresh.records import EpochPlan, Manifest, Outcome, from_json
from ivm.table.own import own

#: What became of a view in an epoch.
PUBLISHED, SAME, HELD, ERROR, ABANDONED, OPEN = "published", "unchanged", "held back", "failed", "abandoned", "open"


@dataclass(frozen=True)
class Refreshed:
    """What an epoch did for one view; sums over its units.

    `rows_in` are changed (or, in full, read) rows, `rows_read` those that an incremental refresh met. `version` is that
    of the view's table which the epoch published, `full_seconds` what the view's last full refresh up to here took.
    """

    epoch: int
    at: str
    view: str
    result: str
    strategy: StrategyKind
    code: str
    reason: str
    rows_in: int = 0
    rows_read: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    version: int | None = None
    estimate: Estimate | None = None
    error: str = ""
    warning: str = ""
    full_seconds: float | None = None

    @property
    def saved(self) -> float | None:
        """Seconds less than the view's last full refresh took; None for a full one, or one that ended otherwise."""
        if self.strategy == StrategyKind.FULL or self.full_seconds is None or self.result not in (PUBLISHED, SAME):
            return None
        return round(self.full_seconds - self.seconds, 3)


@dataclass(frozen=True)
class Passed:
    """An epoch: when it was planned, what became of it, and of each view that it had something to do for."""

    epoch: int
    at: str
    status: str
    views: tuple[Refreshed, ...] = ()
    note: str = ""

    @property
    def strategies(self) -> dict[str, int]:
        """How many views were refreshed by each strategy."""
        names = [v.strategy for v in self.views]
        return {name: names.count(name) for name in dict.fromkeys(names)}


@dataclass
class _Epoch:
    """The events of one epoch."""

    planned: Event | None = None
    applied: dict[str, tuple[Event, Outcome]] = field(default_factory=dict)
    held: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    closed: Event | None = None

    def take(self, event: Event) -> None:
        if event.status == "planned":
            self.planned = event
        elif event.status == "applied":  # of several attempts the last, of a success the first
            known = self.applied.get(event.unit)
            if known is None or known[1].error:
                self.applied[event.unit] = event, from_json(Outcome, event.detail)
        elif event.status == "checked":
            self.held = json.loads(event.detail or "{}").get("held", {})
        else:
            self.closed = event


def history(context: Context, view: str = "", limit: int = 20) -> list[Passed]:
    """The last epochs, the newest first; with a view (its kept name), those that had something to do for it."""
    found: list[Passed] = []
    full: dict[str, float] = {}
    for number, epoch in sorted(_epochs(context).items()):
        passed = _passed(context, number, epoch, full)
        if view:
            mine = tuple(v for v in passed.views if v.view.lower() == view)
            passed = Passed(passed.epoch, passed.at, passed.status, mine, passed.note)
        if passed.views or not view:
            found.append(passed)
    return found[::-1][:limit]


def all_events(context: Context) -> list[Event]:
    """Those of the log and of its archive, by epoch; one that a stop left in both counts once."""
    events = {(e.epoch, e.status, e.unit, e.at): e for e in (*_archived(context), *context.log.events())}
    return sorted(events.values(), key=lambda e: (e.epoch, e.at))


def _epochs(context: Context) -> dict[int, _Epoch]:
    found: dict[int, _Epoch] = {}
    for event in all_events(context):
        found.setdefault(event.epoch, _Epoch()).take(event)
    return found


def _archived(context: Context) -> Iterable[Event]:
    table = own(context.layout.archive)
    return (Event(**row) for row in table.read().to_pylist()) if table.exists() else ()


def _passed(context: Context, number: int, epoch: _Epoch, full: dict[str, float]) -> Passed:
    plan = from_json(EpochPlan, epoch.planned.detail) if epoch.planned is not None else EpochPlan(number, {}, {})
    committed = epoch.closed if epoch.closed is not None and epoch.closed.status == "committed" else None
    manifest = from_json(Manifest, committed.detail) if committed is not None and committed.detail else None
    by_view: dict[str, list[tuple[Event, Outcome]]] = {}
    for event, outcome in epoch.applied.values():
        by_view.setdefault(outcome.view, []).append((event, outcome))
    status = epoch.closed.status if epoch.closed is not None else OPEN
    views = [_refreshed(context, number, plan, epoch, status, manifest, v, full) for v in by_view.items()]
    when = next((e.at for e in (epoch.planned, epoch.closed) if e is not None), None)
    at = when.isoformat(timespec="seconds") if when is not None else ""
    broken = [
        Refreshed(number, at, _shown(context, v), ERROR, StrategyKind.FAILED, "broken", "", error=why)
        for v, why in plan.broken.items()
    ]
    return Passed(number, at, status, (*views, *broken), plan.note)


def _refreshed(
    context: Context,
    number: int,
    plan: EpochPlan,
    epoch: _Epoch,
    status: str,
    manifest: Manifest | None,
    applied: tuple[str, Sequence[tuple[Event, Outcome]]],
    full: dict[str, float],
) -> Refreshed:
    """What an epoch did for a view; notes in `full` what its full refresh took."""
    view, mine = applied[0], [o for _, o in applied[1]]
    failed = next((o for o in mine if o.error), None)
    top = next((o for o in mine if o.unit == view), mine[-1])
    lead = failed or next((o for o in mine if o.strategy == StrategyKind.FULL), top)
    error = failed.error if failed is not None else ""
    failure = manifest.failing.get(view) if manifest is not None else None
    if not error and failure is not None and failure.epoch == number:
        error = failure.full or failure.incremental
    held = epoch.held.get(view)
    result = (
        ERROR if error
        else status if status != "committed"
        else HELD if held is not None
        else SAME if all(o.publish == Publish.NONE for o in mine)
        else PUBLISHED
    )  # fmt: skip
    seconds = round(sum(o.seconds for o in mine), 3)
    if lead.strategy == StrategyKind.FULL and not error:
        full[view] = seconds
    task, state = plan.tasks.get(view), manifest.units.get(view) if manifest is not None else None
    return Refreshed(
        number,
        max(e.at for e, _ in applied[1]).isoformat(timespec="seconds"),
        _shown(context, view),
        result,
        lead.strategy,
        lead.code,
        lead.reason,
        sum(o.rows_in for o in mine),
        sum(o.rows_read for o in mine),
        top.rows_out,
        seconds,
        state.version if state is not None and result == PUBLISHED else None,
        task.estimate if task is not None else None,
        error or (str(held.get("reason", "")) if held is not None else ""),
        "; ".join(o.warning for o in mine if o.warning),
        full.get(view),
    )


def _shown(context: Context, view: str) -> str:
    return context.views[view].name if view in context.views else view
