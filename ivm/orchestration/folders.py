"""All pipeline folders below a root to DAGs, each id once.

Airflow keeps one DAG of an id, and says nothing of the other. Whose folder has it is decided before any DAG is made,
since a DAG registers itself as soon as it is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from airflow.sdk import DAG

from ivm.config import PipelineConfig, load_folder
from ivm.errors import IvmError
from ivm.orchestration.audit import build_check_dags
from ivm.orchestration.factory import build_dags, refused_dag


def refresh_dags(root: Path) -> dict[str, DAG]:
    """By id, the DAGs that `build_dags` makes of each folder; a refused one where an earlier folder has an id of it."""
    dags = [d for f, why in _folders(root) for d in ([refused_dag(f, why)] if why else build_dags(f))]
    return {dag.dag_id: dag for dag in dags}


def check_dags(root: Path) -> dict[str, DAG]:
    """By id, the DAGs that `build_check_dags` makes of each folder that is not refused."""
    return {dag.dag_id: dag for f, why in _folders(root) if not why for dag in build_check_dags(f)}


def dag_ids(config: PipelineConfig) -> list[str]:
    """The ids of all DAGs of a pipeline."""
    kinds = ["", "_backfill", "_maintenance", "_quarantine"]
    kinds += ["_freshness"] if any(v.freshness for v in config.views) else []
    kinds += ["_audit"] if config.audit is not None else []
    return [f"ivm_{config.name}{kind}" for kind in kinds]


def _folders(root: Path) -> Iterator[tuple[Path, str]]:
    """The pipeline folders in order, each with the reason why it may have no DAGs; "" if it may."""
    taken: dict[str, Path] = {}
    for file in sorted(root.glob("*/pipeline.yml")):
        folder = file.parent
        try:
            ids = dag_ids(load_folder(folder))
        except IvmError:  # its DAG tells
            ids = []
        if clash := next((i for i in ids if i in taken), ""):
            yield folder, f"Its DAG {clash!r} would be that of {taken[clash]}: give its pipeline another name."
        else:
            taken |= dict.fromkeys(ids, folder)
            yield folder, ""
