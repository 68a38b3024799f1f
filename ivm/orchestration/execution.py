"""Where a task's Spark runs: in its process, on a Connect server, or as a job of spark-submit.

Connections are Airflow's: nothing of theirs stands in a pipeline's files, and no secret of theirs is printed.
"""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

from ivm.config import load_folder
from ivm.errors import ConfigError

#: The environment variable that names the Connect server (see `ivm.session.get_session`).
REMOTE = "IVM_SPARK_REMOTE"
PROVIDER = "apache-airflow-providers-apache-spark"


def use_connection(folder: str) -> None:
    """Let this process's Spark be that of the pipeline's connection, where it has one for Connect.

    Raises ConfigError where the connection names no server.
    """
    from pathlib import Path

    settings = load_folder(Path(folder)).airflow
    if settings.execution == "connect":
        from airflow.sdk import BaseHook

        os.environ[REMOTE] = connect_url(BaseHook.get_connection(settings.connection))


def connect_url(connection: Any) -> str:
    """The URL of a Spark Connect server: host and port, the login as user, the password as token, `use_ssl` of extra.

    Raises ConfigError for a connection without a host.
    """
    host = str(connection.host or "").removeprefix("sc://")
    if not host or set(host) & set(";/ ="):
        raise ConfigError(
            f"The connection {connection.conn_id!r} names no Spark Connect server.",
            "Set its host (and its port, 15002 by default).",
        )
    given = {
        "user_id": connection.login,
        "token": connection.password,
        "use_ssl": "true" if connection.extra_dejson.get("use_ssl") else None,
    }
    options = "".join(f"{key}={quote(str(value), safe='')};" for key, value in given.items() if value)
    return f"sc://{host}:{connection.port or 15002}" + (f"/;{options.rstrip(';')}" if options else "")


def submit_operator() -> Any:
    """SparkSubmitOperator. Raises ConfigError where its provider is not installed."""
    try:
        from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    except ImportError as error:
        raise ConfigError(
            f"airflow.execution is submit, which needs the package {PROVIDER}.",
            "Install it beside Airflow, or choose connect or process.",
        ) from error
    return SparkSubmitOperator
