"""python -m tests.airflow.again DAG.TASK FOLDER JSON: does what a task of Airflow does, in a process beside it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from airflow.sdk.exceptions import AirflowSkipException

from ivm.orchestration import tasks


def again(task: str, folder: str, given: dict[str, Any]) -> dict[str, Any]:
    """`given` is {epoch} for a task of the refresh, the parameters for one of a backfill."""
    dag, step = task.split(".", 1)
    if dag.endswith("_backfill"):
        if step == "verify":
            return tasks.verify_task(folder, given["view"])
        return {"validate": tasks.validate_backfill_task, "backfill": tasks.backfill_task}[step](folder, given)
    if dag.endswith("_maintenance"):
        return tasks.compact_task(folder)
    if step.startswith("views."):
        return tasks.view_task(folder, step.removeprefix("views."), given["epoch"])
    function = partial(tasks.publish_task, judged=False) if step == "publish" else tasks.TASKS[step]
    return function(folder, given["epoch"])


def main(arguments: Sequence[str]) -> None:
    """Prints the result, or why it was skipped."""
    task, folder, given = arguments
    try:
        print(again(task, folder, json.loads(given)))
    except AirflowSkipException as skipped:
        print(f"skipped: {skipped}")


if __name__ == "__main__":
    main(sys.argv[1:])
