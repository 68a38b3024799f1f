"""Audits and quarantine as DAGs of their own: what looks at views, beside what refreshes them.

ivm_NAME_audit         a task a view, on the schedule of the pipeline's `audit` block; it fails where the view differs
ivm_NAME_quarantine    by hand: look at what is held back of a view, then release or discard it
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from ivm.config import PipelineConfig
from ivm.orchestration.assets import assets_of, describe, outlets_of, published

_RETRIES: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=10)}
LOOK, RELEASE, DISCARD = "look", "release", "discard"


def build_check_dags(config: PipelineConfig) -> list[DAG]:
    """The DAGs of one pipeline."""
    return [quarantine_dag(config), *([audit_dag(config)] if config.audit is not None else [])]


def audit_dag(config: PipelineConfig) -> DAG:
    """A task for each view to audit; they run one after the other, since each may read all sources."""
    folder, audits = str(config.folder), config.audit
    assert audits is not None
    with DAG(
        f"ivm_{config.name}_audit",
        schedule=audits.schedule,
        catchup=False,
        max_active_runs=1,
        max_active_tasks=1,
        default_args=_RETRIES,
        tags=["ivm", config.name],
        doc_md=f"Compares views of pipeline **{config.name}** with a recompute ({audits.how}).",
    ) as dag:
        for view in audits.views:
            _audit_task(folder, view, audits.how, audits.sample)
    return dag


def _audit_task(folder: str, view: str, how: str, sample: float) -> None:
    @task(task_id=view)
    def run() -> dict[str, Any]:
        from ivm.orchestration.check_tasks import audit_task

        return audit_task(folder, view, how, sample)

    run()


def quarantine_dag(config: PipelineConfig) -> DAG:
    """Started by hand, with the view and what to do with its batches; the parameters are validated by Airflow."""
    folder, names, outlets = str(config.folder), [v.name for v in config.views], outlets_of(config)
    with DAG(
        f"ivm_{config.name}_quarantine",
        schedule=None,
        catchup=False,
        max_active_runs=1,
        tags=["ivm", config.name],
        params={
            "view": Param(names[0] if names else None, type="string", enum=names, description="The view held back."),
            "action": Param(
                LOOK,
                type="string",
                enum=[LOOK, RELEASE, DISCARD],
                description="Only look at the failing rows, or publish, or drop, the batches after that.",
            ),
        },
    ) as dag:

        @task
        def look() -> dict[str, Any]:
            from ivm.orchestration.check_tasks import look_task

            return look_task(folder, str(get_current_context()["params"]["view"]))

        @task(outlets=assets_of(outlets))
        def act() -> dict[str, Any]:
            from ivm.orchestration.check_tasks import act_task

            params = get_current_context()["params"]
            done = act_task(folder, str(params["view"]), str(params["action"]))
            describe(folder, published(outlets, done["views"]), done["views"])
            return done

        look() >> act()
    return dag
