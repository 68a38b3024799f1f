"""A pipeline folder to its DAGs: refresh, backfill, maintenance. Thin: what a task does is in `tasks`.

Built from the folder's files alone, so that the DAG processor imports no Spark, no delta-rs and no compiler.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, Param, chain, get_current_context, task

from ivm.config import PipelineConfig, load_folder
from ivm.errors import IvmError
from ivm.refresh.protocol import NAMES

#: Steps may be run again at any time (see ivm.refresh.protocol), so every task is retried.
RETRIES: dict[str, Any] = {"retries": 2, "retry_delay": timedelta(seconds=10)}


def build_dags(folder: Path) -> list[DAG]:
    """The DAGs of one pipeline folder.

    Where its files are not right, one that fails with the reason: the other folders' stay as they are.
    """
    try:
        config = load_folder(folder)
    except IvmError as error:
        return [refused_dag(folder, str(error))]
    return [refresh_dag(config), backfill_dag(config), maintenance_dag(config)]


def refused_dag(folder: Path, reason: str) -> DAG:
    """A DAG that runs once an hour and fails, for as long as the folder's files are not right.

    So nobody takes the folder's views for fresh.
    """
    with DAG(
        f"ivm_{re.sub(r'[^A-Za-z0-9_.-]', '_', folder.name)}_refused",
        schedule="@hourly",
        start_date=datetime(2020, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["ivm", "refused"],
        doc_md=f"The files of this pipeline are not right, it is not refreshed:\n\n```\n{reason}\n```",
    ) as dag:

        @task
        def load() -> None:
            from airflow.exceptions import AirflowFailException

            raise AirflowFailException(reason)

        load()
    return dag


def output_assets(config: PipelineConfig) -> list[Asset]:
    """An Asset for each view's table; other DAGs can be scheduled on them."""
    return [Asset(name=f"{config.name}.{v.name}", uri=_uri(config.root, v.name)) for v in config.views]


def _uri(root: str, view: str) -> str:
    return f"{root}/{view}" if "://" in root else f"file://{root}/{view}"


def refresh_dag(config: PipelineConfig) -> DAG:
    """A visible task for each step of the protocol, in its order.

    All are skipped where plan finds that nothing changed.
    """
    folder = str(config.folder)
    with DAG(
        f"ivm_{config.name}",
        schedule=config.schedule,
        catchup=False,
        max_active_runs=1,
        default_args=RETRIES,
        tags=["ivm", config.name],
        doc_md=f"Keeps the views of pipeline **{config.name}** up to date by applying only what changed.",
    ) as dag:
        made = [_refresh_task(step, folder, output_assets(config) if step == "publish" else []) for step in NAMES]
        chain(*made)
    return dag


def _refresh_task(step: str, folder: str, outlets: list[Asset]) -> Any:
    @task(task_id=step, outlets=outlets)
    def run() -> dict[str, Any]:
        from ivm.orchestration.tasks import TASKS

        return TASKS[step](folder)

    return run()


def backfill_dag(config: PipelineConfig) -> DAG:
    """Rebuild a view, or a slice of it, by hand; the parameters are validated before anything is computed."""
    folder = str(config.folder)
    names = [v.name for v in config.views]
    with DAG(
        f"ivm_{config.name}_backfill",
        schedule=None,
        catchup=False,
        max_active_runs=1,
        default_args=RETRIES,
        tags=["ivm", config.name],
        params={
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
                type=["null", "string"],
                format="date",
                description="Take in what has come for this past day as a new revision, and check what is kept of it.",
            ),
        },
    ) as dag:

        @task
        def validate() -> dict[str, Any]:
            from ivm.orchestration.tasks import validate_backfill_task

            return validate_backfill_task(folder, dict(get_current_context()["params"]))

        @task(outlets=output_assets(config))
        def backfill() -> dict[str, Any]:
            from ivm.orchestration.tasks import backfill_task

            return backfill_task(folder, dict(get_current_context()["params"]))

        @task
        def verify() -> dict[str, Any]:
            from ivm.orchestration.tasks import verify_task

            return verify_task(folder, str(get_current_context()["params"]["view"]))

        validate() >> backfill() >> verify()
    return dag


def maintenance_dag(config: PipelineConfig) -> DAG:
    """Compact traces and rewrite small files once a day, where the pipeline has a schedule at all."""
    folder = str(config.folder)
    with DAG(
        f"ivm_{config.name}_maintenance",
        schedule="@daily" if config.schedule else None,
        catchup=False,
        max_active_runs=1,
        default_args=RETRIES,
        tags=["ivm", config.name],
    ) as dag:

        @task
        def compact() -> dict[str, Any]:
            from ivm.orchestration.tasks import compact_task

            return compact_task(folder)

        compact()
    return dag
