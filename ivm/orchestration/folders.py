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
    """By id, the DAGs that `build_dags` makes of each folder.

    A refused one where its files are not right, and where an earlier folder has an id of it.
    """
    found = _folders(root)
    dags = [d for f, c in found for d in ([refused_dag(f, c)] if isinstance(c, str) else build_dags(c))]
    return {dag.dag_id: dag for dag in dags}


def check_dags(root: Path) -> dict[str, DAG]:
    """By id, the DAGs that `build_check_dags` makes of each folder; of one that is refused, `refresh_dags` tells."""
    found = _folders(root)
    return {dag.dag_id: dag for _, c in found if not isinstance(c, str) for dag in build_check_dags(c)}


def dag_ids(config: PipelineConfig) -> list[str]:
    """The ids of all DAGs of a pipeline."""
    kinds = ["", "_backfill", "_maintenance", "_quarantine"]
    kinds += ["_freshness"] if any(v.freshness for v in config.views) else []
    kinds += ["_audit"] if config.audit is not None else []
    return [f"ivm_{config.name}{kind}" for kind in kinds]


def _folders(root: Path) -> Iterator[tuple[Path, PipelineConfig | str]]:
    """The pipeline folders in order, each with its configuration, read once, or the reason why it may have no DAGs."""
    taken: dict[str, Path] = {}
    for file in sorted(root.glob("*/pipeline.yml")):
        folder = file.parent
        try:
            config = load_folder(folder)
        except IvmError as error:
            yield folder, str(error)
            continue
        ids = dag_ids(config)
        if clash := next((i for i in ids if i in taken), ""):
            yield folder, f"Its DAG {clash!r} would be that of {taken[clash]}: give its pipeline another name."
        else:
            taken |= dict.fromkeys(ids, folder)
            yield folder, config
