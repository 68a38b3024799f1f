"""A pipeline folder to its DAGs: refresh, backfill, maintenance, freshness. Thin: what a task does is in `tasks`.

Built from the folder's files alone, so that the DAG processor imports no Spark and no delta-rs, and the compiler only
where views have tasks of their own and read each other.

    shape steps    plan > apply > check > publish > compact
    shape views    plan > apply > check > publish > compact,  publish > a task a view, after those of the views it reads

Invariant: one epoch a run, and one writer a root: whatever writes is one task after another. The tasks of views judge
what became of each (see docs/airflow.md for why they don't compute it).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk import (
    DAG,
    Asset,
    AssetAny,
    AssetWatcher,
    Param,
    TaskGroup,
    TriggerRule,
    chain,
    get_current_context,
    task,
)

from ivm.config import PipelineConfig
from ivm.durations import written
from ivm.errors import IvmError
from ivm.orchestration.assets import Outlets, assets_of, describe, outlets_of, published, uri_of
from ivm.orchestration.reads import reads
from ivm.refresh.protocol import NAMES
from ivm.scheduling import OnAssets, OnCommits

#: Steps may be run again at any time (see ivm.refresh.protocol), so every task is retried; an error that a retry can't
#: mend ends that at once (see ivm.orchestration.tasks).
RETRIES: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=10)}
#: How long the maintenance waits for an epoch that is open: a try a minute, so that the pool's slot is free between
#: them for the tasks that go on with it.
PATIENT: dict[str, Any] = {"retries": 15, "retry_delay": timedelta(minutes=1)}
#: Of DAGs whose schedule is a length of time.
START = datetime(2020, 1, 1, tzinfo=UTC)
#: How often freshness is looked at: this part of the shortest target, and not more often than that.
LOOKS, LEAST = 4, timedelta(minutes=1)


def build_dags(config: PipelineConfig) -> list[DAG]:
    """The DAGs of one pipeline.

    Where they can't be made, one that fails with the reason: the other pipelines' stay as they are.
    """
    try:
        dags = [refresh_dag(config), backfill_dag(config), maintenance_dag(config)]
    except IvmError as error:
        return [refused_dag(config.folder, str(error))]
    return [*dags, freshness_dag(config)] if any(v.freshness for v in config.views) else dags


def refused_dag(folder: Path, reason: str) -> DAG:
    """A DAG that runs once an hour and fails, for as long as the folder's files are not right.

    So nobody takes the folder's views for fresh.
    """
    with DAG(
        f"ivm_{re.sub(r'[^A-Za-z0-9_.-]', '_', folder.name)}_refused",
        schedule="@hourly",
        start_date=START,
        catchup=False,
        max_active_runs=1,
        tags=["ivm", "refused"],
        doc_md=f"The files of this pipeline are not right, it is not refreshed:\n\n```\n{reason}\n```",
    ) as dag:

        @task
        def load() -> None:
            from airflow.sdk.exceptions import AirflowFailException

            raise AirflowFailException(reason)

        load()
    return dag


def _arguments(config: PipelineConfig) -> dict[str, Any]:
    """The default arguments of tasks that write: retried, and in the pipeline's pool."""
    return {**RETRIES, **({"pool": config.airflow.pool} if config.airflow.pool else {})}


def schedule_of(config: PipelineConfig) -> Any:
    """The schedule as Airflow takes it: a cron expression, Assets, an Asset that a trigger watches over, or None."""
    match config.schedule:
        case OnCommits(poll):
            from ivm.orchestration.triggers import CommitTrigger

            trigger = CommitTrigger(str(config.folder), poll.total_seconds())
            return [Asset(f"{config.name}.commits", watchers=[AssetWatcher(name="commits", trigger=trigger)])]
        case OnAssets(of):
            named = of or tuple(uri_of(s.location) for s in config.sources)
            # References, since an Asset belongs to the DAG that updates it.
            return AssetAny(*(Asset.ref(uri=n) if "://" in n else Asset.ref(name=n) for n in named))
        case cron:
            return cron


# -- refresh ----------------------------------------------------------------------------------------


def refresh_dag(config: PipelineConfig) -> DAG:
    """A visible task for each step of the protocol, in its order; in the shape `views` one for each view besides.

    All are skipped where plan finds that nothing changed. Raises ConfigError for views that read each other in a cycle,
    and where a package is missing that the execution needs.
    """
    by_view = config.airflow.shape == "views"
    with DAG(
        f"ivm_{config.name}",
        schedule=schedule_of(config),
        catchup=False,
        max_active_runs=1,
        default_args=_arguments(config),
        tags=["ivm", config.name],
        doc_md=f"Keeps the views of pipeline **{config.name}** up to date by applying only what changed.",
    ) as dag:
        if config.airflow.execution == "submit":
            first, last = _submitted_refresh(config)
        else:
            steps = {name: _step_task(name, config, by_view) for name in NAMES}
            chain(*steps.values())
            first, last = steps["plan"], steps["publish"]
        if by_view:
            _view_tasks(config, first.operator.task_id, last)
    return dag


def _step_task(step: str, config: PipelineConfig, by_view: bool) -> Any:
    folder = str(config.folder)
    outlets = outlets_of(config) if step == "publish" and not by_view else {}

    @task(task_id=step, outlets=assets_of(outlets))
    def run() -> dict[str, Any]:
        from ivm.orchestration.tasks import TASKS

        function = TASKS[step]
        if step == "plan":
            function = partial(function, began=_began())
        elif step == "publish":
            function = partial(function, judged=not by_view, first=_first("plan"))
        done: dict[str, Any] = function(folder, None if step == "plan" else _epoch("plan"))
        describe(folder, outlets, done.get("views", {}))
        return done

    return run()


def _submitted_refresh(config: PipelineConfig) -> tuple[Any, Any]:
    """All steps as one job of spark-submit, between a look at the log before and, in the shape `steps`, one after."""
    folder = str(config.folder)
    first, job = _look_task(config), _submitted(config, "refresh", "refresh")
    chain(first, job)
    if config.airflow.shape == "steps":
        outlets = outlets_of(config)

        @task(outlets=assets_of(outlets))
        def publish() -> dict[str, Any]:
            from ivm.orchestration.tasks import report_task

            done = report_task(folder, _epoch("look"))
            describe(folder, outlets, done["views"])
            return done

        chain(job, publish())
    return first, job


def _look_task(config: PipelineConfig) -> Any:
    folder = str(config.folder)

    @task
    def look() -> dict[str, Any]:
        from ivm.orchestration.tasks import look_task

        return look_task(folder)

    return look()


def _view_tasks(config: PipelineConfig, planning: str, after: Any) -> None:
    """A task a view, after those of the views that it reads, which says what became of it.

    One that is as it was is skipped, which holds back nobody; one that fails holds back those that read it.
    """
    outlets, made = outlets_of(config), {}
    with TaskGroup("views"):
        for view, read in reads(config).items():
            made[view] = _view_task(view, str(config.folder), planning, outlets[view])
            chain([after, *(made[r] for r in read)], made[view])


def _view_task(view: str, folder: str, planning: str, of: Outlets) -> Any:
    outlets = {view: of}

    @task(
        task_id=view,
        outlets=assets_of(outlets),
        trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS,
        pool="default_pool",
    )
    def run() -> dict[str, Any]:
        from ivm.orchestration.tasks import view_task

        done = view_task(folder, view, _first(planning))
        describe(folder, outlets, {view: done})
        return done

    return run()


def _epoch(planning: str) -> int | None:
    """The epoch that the run's first task told; None where it was marked successful by hand."""
    told = get_current_context()["ti"].xcom_pull(task_ids=planning)
    return int(told["epoch"]) if told else None


def _first(planning: str) -> int | None:
    """The first epoch that the run published: an earlier one than its own where it finished what was left."""
    told = get_current_context()["ti"].xcom_pull(task_ids=planning)
    return int(told.get("first", told["epoch"])) if told else None


def _began() -> datetime:
    """When the first try of a run's first task began; of a later try, when its run did, which is what Airflow tells."""
    context = get_current_context()
    started = context["dag_run"].start_date if context["ti"].try_number > 1 else None
    return started or datetime.now(UTC)


def _submitted(config: PipelineConfig, task_id: str, verb: str, **more: Any) -> Any:
    """A job of spark-submit (see `ivm.orchestration.job`); `given` is its JSON, as a template."""
    from ivm.orchestration.execution import submit_operator

    given = more.pop("given", None)
    return submit_operator()(
        task_id=task_id,
        conn_id=config.airflow.connection,
        name=f"ivm_{config.name}_{verb}",
        application=str(Path(__file__).with_name("job.py")),
        application_args=[str(config.folder), verb, *([given] if given else [])],
        **more,
    )


# -- backfill ---------------------------------------------------------------------------------------


def backfill_dag(config: PipelineConfig) -> DAG:
    """Rebuild a view, or a slice of it, by hand; the parameters are validated before anything is computed."""
    folder, outlets = str(config.folder), outlets_of(config)
    with DAG(
        f"ivm_{config.name}_backfill",
        schedule=None,
        catchup=False,
        max_active_runs=1,
        default_args=_arguments(config),
        tags=["ivm", config.name],
        doc_md=_BACKFILL,
        params=_parameters(config),
    ) as dag:
        if config.airflow.execution == "submit":
            _submitted_backfill(config)
            return dag

        @task
        def validate() -> dict[str, Any]:
            from ivm.orchestration.tasks import validate_backfill_task

            return validate_backfill_task(folder, dict(get_current_context()["params"]))

        @task(outlets=assets_of(outlets))
        def backfill() -> dict[str, Any]:
            from ivm.orchestration.tasks import backfill_task

            done = backfill_task(folder, dict(get_current_context()["params"]))
            describe(folder, published(outlets, done["views"]), done["views"])
            return done

        @task
        def verify() -> dict[str, Any]:
            from ivm.orchestration.tasks import verify_task

            return verify_task(folder, str(get_current_context()["params"]["view"]))

        validate() >> backfill() >> verify()
    return dag


def _submitted_backfill(config: PipelineConfig) -> None:
    """One job, which updates no Asset since it may be a dry run, and after it what its epochs tell.

    The job tries again by itself what may pass, so that a condition that is refused isn't submitted three times.
    """
    folder, outlets = str(config.folder), outlets_of(config)

    @task(outlets=assets_of(outlets))
    def publish() -> dict[str, Any]:
        from ivm.orchestration.tasks import report_backfill_task

        done = report_backfill_task(folder, dict(get_current_context()["params"]), _epoch("look"))
        describe(folder, published(outlets, done["views"]), done["views"])
        return done

    job = _submitted(config, "backfill", "backfill", given="{{ params | tojson }}", retries=0)
    chain(_look_task(config), job, publish())


_BACKFILL = """Builds a view anew, or a slice of it, or takes in past days. Readers see the old rows until the new ones
are published, all at once. A run that was stopped goes on where it was when it is cleared or triggered again.

With **dry_run** the first task (the job, where one is submitted) says what would be read, written and spent, and the
others are skipped."""


def _parameters(config: PipelineConfig) -> dict[str, Param]:
    """What the form asks for, in its order."""
    names = [v.name for v in config.views]
    day: dict[str, Any] = {"type": ["null", "string"], "format": "date"}
    return {
        "view": Param(names[0] if names else None, type="string", enum=names, description="The view to rebuild."),
        "where": Param(
            None,
            type=["null", "string"],
            minLength=1,
            maxLength=2000,
            description="Only this slice: a condition over the view's columns (its group keys).",
        ),
        "day": Param(
            None,
            **day,
            description="Take in what has come for this past day as a new revision, and check what is kept of it.",
        ),
        "until": Param(None, **day, description="With day: the last one of a range of days."),
        "dry_run": Param(False, type="boolean", description="Only say what would be read, written and spent."),
    }


# -- upkeep -----------------------------------------------------------------------------------------


def maintenance_dag(config: PipelineConfig) -> DAG:
    """Compact traces and rewrite small files once a day, where the pipeline has a schedule at all."""
    folder = str(config.folder)
    with DAG(
        f"ivm_{config.name}_maintenance",
        schedule="@daily" if config.schedule else None,
        catchup=False,
        max_active_runs=1,
        default_args=_arguments(config),
        tags=["ivm", config.name],
    ) as dag:
        if config.airflow.execution == "submit":
            _submitted(config, "compact", "compact", **PATIENT)
            return dag

        @task(**PATIENT)
        def compact() -> dict[str, Any]:
            from ivm.orchestration.tasks import compact_task

            return compact_task(folder)

        compact()
    return dag


def freshness_dag(config: PipelineConfig) -> DAG:
    """A task for each view with a freshness target, which fails while the view misses it.

    A DAG of its own, so that it tells also when the refresh doesn't run; not retried, since it is run again soon.
    """
    targets = {v.name: v.freshness for v in config.views if v.freshness}
    with DAG(
        f"ivm_{config.name}_freshness",
        schedule=max(LEAST, min(targets.values()) / LOOKS),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        default_args={"retries": 0},
        tags=["ivm", config.name],
        doc_md="\n".join(f"- **{view}** may be {written(target)} behind" for view, target in targets.items()),
    ) as dag:
        for view in targets:
            _freshness_task(view, str(config.folder))
    return dag


def _freshness_task(view: str, folder: str) -> None:
    @task(task_id=view)
    def run() -> dict[str, Any]:
        from ivm.orchestration.tasks import freshness_task

        return freshness_task(folder, view)

    run()
