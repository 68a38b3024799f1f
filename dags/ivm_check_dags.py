"""Audits and the quarantine of every folder with a pipeline.yml below $IVM_PIPELINES, as DAGs beside the refreshes'."""

import os
from pathlib import Path

from airflow.sdk import DAG  # noqa: F401 - the DAG processor only reads files that name it

from ivm.orchestration.folders import check_dags

_ROOT = Path(os.environ.get("IVM_PIPELINES", Path(__file__).resolve().parent.parent / "pipelines"))

globals().update(check_dags(_ROOT))
