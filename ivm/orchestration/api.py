"""Calls of Airflow's REST API on loopback, as the demo and the tests make them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

#: Seconds between the calls of one that the server could not answer. Airflow on SQLite needs them: an endpoint that
#: waits for the database's lock blocks the server's event loop, and with it the request that holds the lock; after
#: SQLite's five seconds both are answered with 500, and nothing of theirs is written. Its own tasks repeat likewise.
WAITS = (0.5, 1, 2, 4, 8)


def call(env: dict[str, str], method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """Call the API of the Airflow with this environment; its simple auth manager gives everybody an admin's token.

    A call that the server fails (5xx) is made again; one that creates a thing by name, and is then told that it exists,
    has succeeded, with {} as its answer. Raises urllib.error.HTTPError for all else that isn't an answer.
    """
    base = env["AIRFLOW__API__BASE_URL"]
    if "IVM_TOKEN" not in env:
        with urllib.request.urlopen(f"{base}/auth/token", timeout=30) as response:
            env["IVM_TOKEN"] = json.load(response)["access_token"]
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Authorization": f"Bearer {env['IVM_TOKEN']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{base}/api/v2{path}", data=data, headers=headers, method=method)
    failed = False
    for wait in (*WAITS, None):
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                result: dict[str, Any] = json.load(response)
                return result
        except urllib.error.HTTPError as e:
            if failed and e.code == 409:
                return {}
            if e.code < 500 or wait is None:
                raise
            failed = True
            time.sleep(wait)
    raise AssertionError("the last call returns or raises")


def trigger(
    env: dict[str, str],
    dag: str,
    run: str,
    conf: dict[str, Any] | None = None,
    seconds: int = 600,
    told: Callable[[list[str]], None] | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    """Trigger a DAG and wait for its end; returns its state and its task instances.

    Meanwhile `told` is given the names of the tasks that are at work.
    """
    call(env, "POST", f"/dags/{dag}/dagRuns", {"dag_run_id": run, "logical_date": None, "conf": conf or {}})
    deadline = time.monotonic() + seconds
    state = "queued"
    while state in ("queued", "running") and time.monotonic() < deadline:
        time.sleep(0.5)
        if told is not None:
            told([t["task_id"] for t in _tasks(env, dag, run) if t["state"] == "running"])
        state = call(env, "GET", f"/dags/{dag}/dagRuns/{run}")["state"]
    return state, _tasks(env, dag, run)


def _tasks(env: dict[str, str], dag: str, run: str) -> list[dict[str, Any]]:
    return list(call(env, "GET", f"/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"])
