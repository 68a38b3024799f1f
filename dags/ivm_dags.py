"""Every folder with a pipeline.yml below $IVM_PIPELINES (default: pipelines/ beside dags/) becomes DAGs."""

import os
from pathlib import Path

from airflow.sdk import DAG  # noqa: F401 - the DAG processor only reads files that name it

from ivm.orchestration.folders import refresh_dags

_ROOT = Path(os.environ.get("IVM_PIPELINES", Path(__file__).resolve().parent.parent / "pipelines"))

globals().update(refresh_dags(_ROOT))
