"""The DAGs of `dags/`, made as there, with a gate at each task; tries follow each other after a second, not ten.

The tasks of a refresh find no Spark: they run in the embedded engine, in a part of the time. All others find one.
"""

import functools
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG

from ivm.orchestration.execution import REMOTE
from ivm.orchestration.folders import check_dags, refresh_dags
from tests.airflow.gates import SPARK, gated

_ROOT = Path(os.environ["IVM_PIPELINES"])


def _refreshes(dag: DAG) -> bool:
    return "plan" in dag.task_ids


def _on_spark(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        os.environ[REMOTE] = os.environ[SPARK]
        return function(*args, **kwargs)

    return run


def _with_gates(dag: DAG) -> DAG:
    for task in dag.tasks:
        function = task.python_callable if _refreshes(dag) else _on_spark(task.python_callable)
        task.python_callable = gated(f"{dag.dag_id}.{task.task_id}", function)
        if task.retries:
            task.retry_delay = timedelta(seconds=1)
    return dag


globals().update({name: _with_gates(dag) for name, dag in (refresh_dags(_ROOT) | check_dags(_ROOT)).items()})
