"""The plugin of Airflow's web server: the pages of `ivm ui` under /ivm/, and an entry in Airflow's menu.

Invariant: importing it costs nothing. Airflow imports plugins in every process, tasks too; what serves the pages
(`ivm.orchestration.web`) is imported with the first request, which only the web server gets.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

#: Where the pages begin, below the address of Airflow's web server.
PREFIX = "/ivm"


async def pages(scope: Any, receive: Any, send: Any) -> None:
    """The pages, as an ASGI application."""
    from ivm.orchestration.web import app

    await app(scope, receive, send)


def _address() -> str:
    """Where the pages begin for a browser: behind a proxy Airflow's own address has a path."""
    return f"{urlsplit(conf.get('api', 'base_url', fallback='') or '').path.rstrip('/')}{PREFIX}/"


class IvmPlugin(AirflowPlugin):
    """Registered as the entry point `ivm` of `airflow.plugins`: it is there where the package is installed."""

    name = "ivm"
    fastapi_apps = [{"name": "ivm", "app": pages, "url_prefix": PREFIX}]  # noqa: RUF012 - Airflow's way
    external_views = [{"name": "ivm", "href": _address(), "destination": "nav", "url_route": "ivm"}]  # noqa: RUF012
