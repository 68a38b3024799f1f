"""What each Airflow task does: open the pipeline, run one step of the protocol, say what happened.

Tasks share nothing but the epoch log, so any of them may be retried, or run on another worker. An error that a
retry can't mend (a failed gate, a bad parameter, a refused view) fails the task at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from airflow.exceptions import AirflowFailException, AirflowSkipException

from ivm.errors import ConcurrentRefreshError, GateError, IvmError, StateError
from ivm.refresh import protocol
from ivm.refresh.protocol import Run

if TYPE_CHECKING:
    from ivm.refresh.context import Context


def _step(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Turn errors that are final into failures without retry; add the step's own seconds to its result."""

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> dict[str, Any]:
        started = time.perf_counter()
        try:
            result = function(*args, **kwargs)
        except ConcurrentRefreshError:
            raise
        except IvmError as error:
            raise AirflowFailException(str(error)) from error
        return {**result, "seconds": round(time.perf_counter() - started, 3)}

    return run


def _pipeline(folder: str) -> Any:
    from ivm.pipeline import Pipeline

    return Pipeline.load(folder)


def _opened(context: Context) -> Run:
    """The open epoch, as far as it is in the log."""
    from ivm.quality.gate import run_gate

    epoch = context.log.open_epoch()
    if epoch is None:
        raise AirflowSkipException("no epoch is open")
    return Run(context, run_gate, plan=context.log.plan(epoch), outcomes=context.log.outcomes(epoch))


@_step
def plan_task(folder: str) -> dict[str, Any]:
    """Freeze the versions and decide; skip the rest of the run where nothing changed."""
    from ivm.quality.gate import run_gate

    pipe = _pipeline(folder)
    run = Run(pipe.context, run_gate)
    with pipe.context.exclusive():
        protocol.plan(run)
    plan = run.plan
    if plan is None and pipe.context.broken:
        raise GateError(
            "These views can't be planned: " + "; ".join(f"{v}: {e}" for v, e in pipe.context.broken.items()),
            "See `ivm status`.",
        )
    if plan is None:
        raise AirflowSkipException("nothing changed")
    for name, task in plan.tasks.items():
        print(f"{name}: {task.strategy}, {task.reason}")
    return {"epoch": plan.epoch, "note": plan.note}


@_step
def apply_task(folder: str) -> dict[str, Any]:
    """Compute the deltas.

    A view that fails is named in `errors` and doesn't stop the others: `publish` fails for it.
    """
    from ivm.refresh.run import view_reports

    pipe = _pipeline(folder)
    with pipe.context.exclusive():
        run = _opened(pipe.context)
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
def check_task(folder: str) -> dict[str, Any]:
    """Run the expectations; a view where one fails is held back, with what reads it, and named in `held`.

    The others go on.
    """
    from ivm.quality.docs import build_docs
    from ivm.quality.results import load

    pipe = _pipeline(folder)
    checks = pipe.context.layout.checks
    with pipe.context.exclusive():
        run = _opened(pipe.context)
        try:
            protocol.check(run)
        finally:
            index = build_docs(load(checks, 50), checks, checks / "docs", pipe.name)
            print(f"Data Docs: {index}")
    for view, why in run.held.items():
        print(f"{view}: held back, {why.reason}")
    return {
        "epoch": run.planned.epoch,
        "checks": len(load(checks, 1)),
        "held": {v: h.reason for v, h in run.held.items()},
    }


@_step
def publish_task(folder: str) -> dict[str, Any]:
    """Merge and commit; then fail where a view failed or is held back, so that nobody takes the run for complete."""
    from ivm.refresh.run import view_reports

    pipe = _pipeline(folder)
    with pipe.context.exclusive():
        run = _opened(pipe.context)
        protocol.publish(run)
    plan, manifest = run.planned, run.manifest
    assert manifest is not None
    errors = {
        n: r.error
        for n, r in view_reports(pipe.context, plan, run.outcomes, [*plan.tasks, *plan.broken]).items()
        if r.error
    }
    if errors:
        raise GateError(
            "Published, but not these views: " + "; ".join(f"{n}: {e}" for n, e in errors.items()) + ".",
            "See `ivm status` and `ivm check`.",
        )
    return {"epoch": manifest.epoch, "versions": {n: s.version for n, s in manifest.units.items() if s.public}}


@_step
def compact_task(folder: str, due_every: int = 1) -> dict[str, Any]:
    """Compact, in every `due_every`-th epoch; in the others there is too little to gain."""
    pipe = _pipeline(folder)
    epoch = pipe.context.log.manifest().epoch
    if epoch % due_every:
        raise AirflowSkipException(f"compaction is due in epoch {epoch - epoch % due_every + due_every}")
    done = pipe.compact()
    if left_out := [f"{c.table}: {c.error}" for c in done if c.error]:
        raise StateError(
            "Compacted, but not these: " + "; ".join(left_out) + ".", "The next refresh builds anew what can't be read."
        )
    return {
        "epoch": epoch,
        "tables": len(done),
        "files": [sum(c.files_before for c in done), sum(c.files_after for c in done)],
    }


#: The task of each step of a refresh.
TASKS: dict[str, Callable[[str], dict[str, Any]]] = {
    "plan": plan_task,
    "apply": apply_task,
    "check": check_task,
    "publish": publish_task,
    "compact": partial(compact_task, due_every=10),
}


@_step
def validate_backfill_task(folder: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse parameters that are out of range before anything is computed."""
    from ivm.refresh.as_of import check_day
    from ivm.refresh.backfill import check_condition

    pipe = _pipeline(folder)
    view = pipe.known(str(params["view"]))
    where, day = params.get("where"), params.get("day")
    if where is not None or day is not None:
        pipe.context.compile(*pipe.context.survey())
    if day is not None:
        check_day(pipe.context, view, str(day), where)
    elif where is not None:
        check_condition(pipe.context, view, str(where))
    return {"view": view}


@_step
def backfill_task(folder: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Rebuild the view or the slice, or take in a past day as a new revision.

    It goes through the same check and publish as a refresh.
    """
    pipe = _pipeline(folder)
    report = pipe.backfill(str(params["view"]), params.get("where"), day=params.get("day"))
    if not report.ok:
        raise AirflowFailException("; ".join(v.error for v in report.views.values() if v.error))
    if params.get("day") is not None:
        for r in pipe.revisions(str(params["view"]))[-5:]:
            print(f"revision {r.revision}: days {r.first_day} to {r.last_day}, {r.changes} sums or rows")
    return {"epoch": report.epoch, "views": {n: asdict(r) for n, r in report.views.items()}}


@_step
def verify_task(folder: str, view: str) -> dict[str, Any]:
    """Compare the view with a full recompute; fail where it differs."""
    result = _pipeline(folder).verify(view)
    print(result)
    if not result:
        raise AirflowFailException(str(result))
    return {"view": view, "rows": result.rows}
