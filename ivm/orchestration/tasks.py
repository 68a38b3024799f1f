"""What each Airflow task does: open the pipeline, run one step of the protocol, say what happened.

Tasks share nothing but the epoch log and the number of the epoch that their run planned, so any of them may be retried,
cleared, or run on another worker. An error that a retry can't mend (a failed gate, a bad parameter, a refused view)
fails the task at once (see `ivm.errors.may_pass`).

Invariant: a run in which a view was not published fails, also where its tasks are cleared after its epoch was
committed, until a later epoch has published that view.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from ivm.errors import ConcurrentRefreshError, ConfigError, GateError, IvmError, OpenEpochError, StateError, may_pass
from ivm.plan.kinds import StrategyKind
from ivm.refresh import protocol
from ivm.refresh.protocol import Run

if TYPE_CHECKING:
    from datetime import datetime

    from ivm.refresh.context import Context
    from ivm.refresh.epochs import EpochLog
    from ivm.refresh.records import Manifest
    from ivm.refresh.run import ViewReport


#: Seconds for which a task waits until another refresh of its pipeline (one from a shell, say) has ended, and between
#: two looks. A refresh takes minutes where Airflow's retries would be used up in half a minute.
WAITS, BETWEEN = 900.0, 5.0


def _step(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Turn errors that are final into failures without retry; add the step's own seconds to its result."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> dict[str, Any]:
        def once() -> dict[str, Any]:
            started = time.perf_counter()
            result = function(*args, **kwargs)
            return {**result, "seconds": round(time.perf_counter() - started, 3)}

        try:
            return _after_others(once)
        except IvmError as error:
            if may_pass(error):
                raise
            raise AirflowFailException(str(error)) from error

    return run


def _after_others(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Take a step when no other refresh is running. Raises ConcurrentRefreshError where one still is after WAITS."""
    deadline = time.monotonic() + WAITS
    while True:
        try:
            return step()
        except ConcurrentRefreshError as error:
            if time.monotonic() >= deadline:
                raise
            print(f"{error.message} It is tried again in {BETWEEN:.0f} s.")
            time.sleep(BETWEEN)


def _pipeline(folder: str, passing: bool = True) -> Any:
    """The pipeline, in a process that ends with its task; one that reads whole views isn't `passing`."""
    from ivm.orchestration.execution import use_connection
    from ivm.pipeline import Pipeline
    from ivm.without_pandas import tell_arrow

    tell_arrow()
    use_connection(folder)
    pipe = Pipeline.load(folder)
    pipe.passing = passing
    return pipe


def _opened(context: Context, epoch: int | None) -> Run:
    """The epoch that this run planned (the open one, where the run doesn't say), as far as it is in the log.

    Its `manifest` is there once it is committed. Raises StateError where another refresh dropped it.
    """
    from ivm.quality.gate import run_gate

    log = context.log
    number = epoch if epoch is not None else log.open_epoch()
    if number is None or (number != log.open_epoch() and not log.has(number, "committed")):
        raise StateError(
            "No epoch is open." if number is None else f"Epoch {number} was dropped by another refresh.",
            "Clear the run from `plan` on: it goes on from what is committed by now.",
        )
    manifest = log.manifest(number) if log.has(number, "committed") else None
    return Run(context, run_gate, plan=log.plan(number), outcomes=log.outcomes(number), manifest=manifest)


@_step
def plan_task(folder: str, epoch: int | None = None, began: datetime | None = None) -> dict[str, Any]:
    """Freeze the versions and decide; skip the rest of the run where nothing changed.

    An epoch that somebody left is finished here, and what came since is planned after it, as `Pipeline.refresh` does:
    views may have been edited meanwhile, which an epoch that was checked knows nothing of. The run tells of both:
    `first` is the earliest epoch that was left, also where an earlier try of the run, which `began` then, finished it.
    """
    from ivm.quality.gate import run_gate

    pipe = _pipeline(folder)
    run, log, finished = Run(pipe.context, run_gate), pipe.context.log, set[int]()
    with pipe.context.exclusive():
        left = log.open_epoch()
        protocol.plan(run)
        if run.plan is not None and run.plan.epoch == left:
            print(f"epoch {left}, which was left, is finished first")
            protocol.advance(run, first="apply", last="publish")
            finished.add(left)
            run = Run(pipe.context, run_gate)
            protocol.plan(run)
    if run.plan is None and pipe.context.broken:
        raise GateError(
            "These views can't be planned: " + "; ".join(f"{v}: {e}" for v, e in pipe.context.broken.items()),
            "See `ivm status`.",
        )
    first = min(finished | _finished_since(log, began), default=None)
    plan = log.plan(first) if run.plan is None and first is not None else run.plan
    if plan is None:
        raise AirflowSkipException("nothing changed")
    for name, task in plan.tasks.items():
        print(f"{name}: {task.strategy}, {task.reason}")
    return {"epoch": plan.epoch, "first": plan.epoch if first is None else first, "note": plan.note}


def _finished_since(log: EpochLog, began: datetime | None) -> set[int]:
    """The epochs that were committed since then: Airflow keeps nothing of a try that failed."""
    if began is None:
        return set()
    events = log.events()
    planned = {e.epoch for e in events if e.status == "planned"}
    return planned & {e.epoch for e in events if e.status == "committed" and e.at >= began}


@_step
def apply_task(folder: str, epoch: int | None = None) -> dict[str, Any]:
    """Compute the deltas.

    A view that fails is named in `errors` and doesn't stop the others: `publish` fails for it.
    """
    from ivm.refresh.run import view_reports

    pipe = _pipeline(folder)
    with pipe.context.exclusive():
        run = _opened(pipe.context, epoch)
        protocol.apply(run)
    plan = run.planned
    reports = view_reports(pipe.context, plan, run.outcomes, plan.tasks)
    for report in reports.values():
        print(
            f"{report.view}: {report.strategy}, {report.rows_in} rows in, {report.rows_out} out, {report.seconds} s. "
            f"{report.error or report.reason}"
        )
    return {
        "epoch": plan.epoch,
        "views": {n: asdict(r) for n, r in reports.items()},
        "errors": {n: r.error for n, r in reports.items() if r.error},
    }


@_step
def check_task(folder: str, epoch: int | None = None) -> dict[str, Any]:
    """Run the expectations; a view where one fails is held back, with what reads it, and named in `held`.

    The others go on.
    """
    from ivm.quality.docs import build_docs
    from ivm.quality.results import load
    from ivm.refresh.publish import warned

    pipe = _pipeline(folder)
    checks = pipe.context.layout.checks
    with pipe.context.exclusive():
        run = _opened(pipe.context, epoch)
        try:
            protocol.check(run)
        finally:
            layout = pipe.context.layout
            index = build_docs(load(layout, 50), checks, checks / "docs", pipe.name, pipe.context.checking.show)
            print(f"Data Docs: {index}")
    for view, why in run.held.items():
        print(f"{view}: held back, {why.reason}")
    for view, said in warned(pipe.context, run.planned.epoch).items():
        print(f"{view}: published with a warning, {said}")
    return {
        "epoch": run.planned.epoch,
        "checks": len(load(pipe.context.layout, 1)),
        "warnings": warned(pipe.context, run.planned.epoch),
        "held": {v: h.reason for v, h in run.held.items()},
    }


@_step
def publish_task(
    folder: str, epoch: int | None = None, judged: bool = True, first: int | None = None
) -> dict[str, Any]:
    """Merge and commit; then fail where a view failed or is held back, so that nobody takes the run for complete.

    Where it is not `judged` here, a task of its own judges each view (`view_task`). The run's `first` epoch is told of,
    too, where that was one that had been left.
    """
    from ivm.refresh.published import reports_since

    pipe = _pipeline(folder)
    with pipe.context.exclusive():
        run = _opened(pipe.context, epoch)
        if run.manifest is None:
            protocol.publish(run)
    epoch = run.planned.epoch
    first = epoch if first is None else first
    reports = reports_since(pipe.context, first)
    errors = {n: r.error for n, r in reports.items() if r.error}
    if errors and judged:
        raise GateError(
            "Published, but not these views: " + "; ".join(f"{n}: {e}" for n, e in errors.items()) + ".",
            "See `ivm status` and `ivm check`.",
        )
    manifest = pipe.context.log.manifest()
    return {
        "epoch": epoch,
        "views": {r.view: _committed(pipe.context, manifest, r, first) for r in reports.values() if not r.error},
        "errors": errors,
    }


@_step
def view_task(folder: str, view: str, first: int | None) -> dict[str, Any]:
    """Say what the epochs from `first` on made of a view; fails where it isn't published, skips where it is as it was.

    Only the log is read: the task can be cleared at any time, and is green once the view has been published.
    """
    from ivm.declarations import declared
    from ivm.refresh.published import reports_since

    context = declared(folder)
    first = first or context.log.manifest().epoch
    report = reports_since(context, first).get(view)
    if report is not None and report.error:
        raise GateError(
            f"View {view!r} was not published: {report.error}.",
            f"Mend it, and clear the run from `plan` on; or `ivm refresh {view}`, and clear this task.",
        )
    if report is None or report.strategy == StrategyKind.UNCHANGED:
        raise AirflowSkipException("nothing that the view reads has changed")
    return _committed(context, context.log.manifest(), report, first)


@_step
def look_task(folder: str) -> dict[str, Any]:
    """The number of the next epoch, before a job of Spark's begins: what `report_task` looks from."""
    from ivm.declarations import declared

    return {"epoch": declared(folder).log.manifest().epoch + 1}


@_step
def report_task(folder: str, epoch: int | None) -> dict[str, Any]:
    """Say what the epochs from one on made of all views; fails where one isn't published, skips where none changed."""
    from ivm.declarations import declared

    return _reported(declared(folder), epoch)


@_step
def report_backfill_task(folder: str, params: Mapping[str, Any], epoch: int | None) -> dict[str, Any]:
    """The same after a job that backfilled a view; skipped after a dry run."""
    from ivm.declarations import declared

    if params.get("dry_run"):
        raise AirflowSkipException("a dry run: what would be done is in the log of the job")
    return _reported(declared(folder), epoch)


def _reported(context: Context, epoch: int | None) -> dict[str, Any]:
    from ivm.refresh.published import reports_since

    first = epoch or context.log.manifest().epoch
    reports = reports_since(context, first)
    errors = {n: r.error for n, r in reports.items() if r.error}
    if errors:
        raise GateError(
            "Published, but not these views: " + "; ".join(f"{n}: {e}" for n, e in errors.items()) + ".",
            "See `ivm status` and `ivm check`.",
        )
    if not reports:
        raise AirflowSkipException("nothing changed")
    manifest = context.log.manifest()
    views = {r.view: _committed(context, manifest, r, first) for r in reports.values()}
    return {"epoch": manifest.epoch, "views": views}


def _committed(context: Context, manifest: Manifest, report: ViewReport, first: int) -> dict[str, Any]:
    """What the epochs from `first` on made of a view, as JSON; `days` are those that they changed (ISO dates)."""
    from ivm.refresh.as_of import changed_days

    days = changed_days(context, report.view.lower(), first) if report.strategy != StrategyKind.UNCHANGED else []
    state = manifest.units[report.view.lower()]
    return {
        "epoch": manifest.epoch,
        "version": state.version,
        "rows": state.rows,
        "rows_out": report.rows_out,
        "strategy": report.strategy,
        "reason": report.reason,
        "days": [day.isoformat() for day in days],
    }


@_step
def compact_task(folder: str, epoch: int | None = None, due_every: int = 1) -> dict[str, Any]:
    """Compact, in every `due_every`-th epoch; in the others there is too little to gain.

    After the `epoch` of a run, which is committed, another one's that is open is no failure of the run: it is skipped.
    """
    pipe = _pipeline(folder)
    log, of_run = pipe.context.log, epoch is not None
    epoch = epoch if epoch is not None else log.manifest().epoch
    if epoch % due_every:
        raise AirflowSkipException(f"compaction is due in epoch {epoch - epoch % due_every + due_every}")
    try:
        done = pipe.compact()
    except OpenEpochError as error:
        if of_run and log.has(epoch, "committed"):
            raise AirflowSkipException(error.message) from error
        raise
    if left_out := [f"{c.table}: {c.error}" for c in done if c.error]:
        raise StateError(
            "Compacted, but not these: " + "; ".join(left_out) + ".", "The next refresh builds anew what can't be read."
        )
    return {
        "epoch": epoch,
        "tables": len(done),
        "files": [sum(c.files_before for c in done), sum(c.files_after for c in done)],
    }


#: The task of each step of a refresh: of a folder, and of the epoch that the run has planned.
TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "plan": plan_task,
    "apply": apply_task,
    "check": check_task,
    "publish": publish_task,
    "compact": partial(compact_task, due_every=10),
}


@_step
def freshness_task(folder: str, view: str) -> dict[str, Any]:
    """Fail where a view misses its freshness target. Only logs are read, and whatever refreshes is not asked."""
    from ivm.declarations import declared
    from ivm.refresh.freshness import freshness

    found = freshness(declared(folder), view.lower())
    if found is None:
        raise AirflowSkipException(f"view {view!r} has no freshness target any more")
    print(f"{view}: behind by {found}. {found.why}")
    if found.late:
        raise StateError(f"View {view!r} misses its freshness target ({found}): {found.why}.", "See `ivm status`.")
    return found.to_dict()


@_step
def validate_backfill_task(folder: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse parameters that are out of range before anything is computed.

    For a dry run say what would be read, written and spent.
    """
    from ivm.refresh.as_of import check_days
    from ivm.refresh.backfill import check_condition
    from ivm.refresh.estimate import lines

    pipe = _pipeline(folder)
    view = pipe.known(str(params["view"]))
    where, day, until = (params.get(key) for key in ("where", "day", "until"))
    if params.get("dry_run"):
        found = pipe.estimate(view, where, day, until)
        print("\n".join(lines(found)))
        return asdict(found)
    if day is None and until is not None:
        raise ConfigError("A backfill has until without day.", "Give the first day of the range as day.")
    if where is not None or day is not None:
        pipe.context.compile(*pipe.context.survey())
    if day is not None:
        check_days(pipe.context, view, day, until, where)
    elif where is not None:
        check_condition(pipe.context, view, str(where))
    return {"view": view}


@_step
def backfill_task(folder: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Rebuild the view or the slice, or take in past days as a new revision; skipped for a dry run.

    It goes through the same check and publish as a refresh. One that was stopped goes on where it was.
    """
    if params.get("dry_run"):
        raise AirflowSkipException("a dry run: what would be done is in the log of validate")
    pipe = _pipeline(folder, passing=False)
    view, before = str(params["view"]), pipe.context.log.manifest().epoch
    report = pipe.backfill(view, params.get("where"), _progress, params.get("day"), params.get("until"))
    if not report.ok:
        raise AirflowFailException("; ".join(v.error for v in report.views.values() if v.error))
    if params.get("day") is not None:
        for r in pipe.revisions(view)[-5:]:
            print(f"revision {r.revision}: days {r.first_day} to {r.last_day}, {r.changes} sums or rows")
    manifest = pipe.context.log.manifest()
    views = {n: _committed(pipe.context, manifest, r, before + 1) for n, r in report.views.items()}
    return {"epoch": report.epoch, "views": views}


def _progress(what: str, done: int, total: int) -> None:
    print(f"{what}: {done} of {total}")


@_step
def verify_task(folder: str, view: str) -> dict[str, Any]:
    """Compare the view with a full recompute; fail where it differs."""
    result = _pipeline(folder, passing=False).verify(view)
    print(result)
    if not result:
        raise AirflowFailException(str(result))
    return {"view": view, "rows": result.rows}
