"""The pages of `ivm ui` behind Airflow's own authentication and permissions.

Airflow checks nothing for the applications of plugins. So each address asks Airflow who it is (by its cookie or token;
401 or 403 else) and whether they may see its website; and the pipeline NAME is there for those who may read the DAG
`ivm_NAME`. All is GET or HEAD, and nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagDetails
from airflow.api_fastapi.core_api.security import get_user, requires_access_view
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, FastAPI, Request, Response

from ivm.ui.facts import folders
from ivm.ui.site import Site, headers

#: No pages about the API: there is none.
app = FastAPI(
    title="ivm",
    openapi_url=None,
    dependencies=[Depends(requires_access_view(AccessView.WEBSITE))],
)


@app.api_route("/{path:path}", methods=["GET", "HEAD"])
def page(request: Request, path: str, user: Any = Depends(get_user)) -> Response:  # noqa: B008 - FastAPI's way
    """One page; Airflow's own pages may show it inside."""
    base = request.scope["root_path"]
    site = Site(lambda: _readable(folders(place()), user), base)
    status, kind, text = site.answer(f"{base}/{quote(path)}")
    return Response(text, int(status), {**headers("'self'"), "Content-Type": kind})


def place() -> Path:
    """Where the DAG files look for pipelines: $IVM_PIPELINES, or pipelines/ beside the folder of DAGs."""
    beside = Path(conf.get("core", "dags_folder")).parent / "pipelines"
    return Path(os.environ.get("IVM_PIPELINES", beside))


def _readable(found: Mapping[str, Path], user: Any) -> dict[str, Path]:
    """The pipelines whose DAG a user may read."""
    dags = {name: f"ivm_{name}" for name in found}
    teams = DagModel.get_dag_id_to_team_name_mapping(list(dags.values()))
    manager = get_auth_manager()
    return {
        name: folder
        for name, folder in found.items()
        if manager.is_authorized_dag(
            method="GET", details=DagDetails(id=dags[name], team_name=teams.get(dags[name])), user=user
        )
    }
