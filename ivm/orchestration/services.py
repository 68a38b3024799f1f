"""The processes of the embedded default: one Spark Connect server that all tasks share, and Airflow standalone.

Both listen on loopback only, and are ended by the process id they were started with.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from ivm.errors import IvmError
from ivm.jars import spark_home
from ivm.session import started_conf

HOST = "127.0.0.1"
#: Seconds that a service may take to listen: some on a machine with nothing else to do, minutes on one that is busy.
PATIENCE = 300


def free_port() -> int:
    with socket.socket() as s:
        s.bind((HOST, 0))
        return int(s.getsockname()[1])


@dataclass
class Service:
    """A started process with its log file."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def stop(self) -> None:
        """End the process and all it started, also what has a process group of its own, as Airflow's tasks have."""
        if self.process.poll() is None:
            started = started_by(self.process.pid)  # each knows when it began: its number is not another's later
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
            for process in started:
                with suppress(psutil.NoSuchProcess):
                    process.kill()


def started_by(process: int) -> list[psutil.Process]:
    """The processes that one has started, those that these have started, and so on."""
    try:
        return list(psutil.Process(process).children(recursive=True))
    except psutil.NoSuchProcess:
        return []


def _start(name: str, command: list[str], env: dict[str, str], log: Path) -> Service:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, start_new_session=True)
    return Service(name, process, log)


def _await_port(service: Service, port: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if service.process.poll() is not None:
            break
        with socket.socket() as s:
            s.settimeout(1)
            if s.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.2)
    service.stop()
    tail = "\n".join(service.log.read_text(errors="replace").splitlines()[-5:])
    raise IvmError(
        f"{service.name} did not start on port {port} within {PATIENCE} s.", f"The end of {service.log}:\n{tail}"
    )


def start_connect_server(port: int, log: Path) -> Service:
    """A Spark Connect server with Delta on loopback; clients use sc://127.0.0.1:port."""
    service = _start("Spark Connect", connect_command(port, log.parent / "warehouse"), spark_environment(), log)
    _await_port(service, port)
    return service


def spark_environment() -> dict[str, str]:
    """What programs of Spark's take from the environment: where it lies, and which Python functions run with."""
    return {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(spark_home())}


def connect_command(port: int, warehouse: Path, schemes: Collection[str] = ()) -> list[str]:
    """The command of a Spark Connect server on loopback, with the jars for these schemes."""
    conf = {
        **started_conf(schemes),
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": HOST,
        "spark.sql.warehouse.dir": str(warehouse),
    }
    options = [o for k, v in conf.items() for o in ("--conf", f"{k}={v}")]
    return [
        str(spark_home() / "bin" / "spark-submit"),
        "--master",
        "local[*]",
        "--class",
        "org.apache.spark.sql.connect.service.SparkConnectServer",
        *options,
        "spark-internal",
    ]


def airflow_environment(home: Path, dags: Path, port: int, extra: dict[str, str]) -> dict[str, str]:
    """Airflow standalone on SQLite with LocalExecutor, on a port of its own."""
    url = f"http://{HOST}:{port}"
    settings = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        # With a port other than 8080 the tasks must be told where the execution API is, or they fail without a word.
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__HOST": HOST,
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "AIRFLOW__SCHEDULER__SCHEDULER_HEARTBEAT_SEC": "1",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "GX_ANALYTICS_ENABLED": "false",
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, **settings, **extra, "PATH": path}


def start_airflow(env: dict[str, str], log: Path, wait: bool = True) -> Service:
    """`airflow standalone`; up when its API answers, or, where nobody waits, after `await_airflow`."""
    service = _start("Airflow", [str(Path(sys.executable).with_name("airflow")), "standalone"], env, log)
    if wait:
        await_airflow(service, env)
    return service


def await_airflow(service: Service, env: dict[str, str]) -> None:
    """Wait until its API answers. Raises IvmError where it doesn't, and ends it."""
    _await_port(service, int(env["AIRFLOW__API__PORT"]))
