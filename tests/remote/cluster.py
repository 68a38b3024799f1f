"""Spark that shares no folder with this process: a standalone cluster, or a Connect server, in mount namespaces.

In such a namespace empty file systems lie over the folders for temporary files, over the packages of this repository
and over the jars: what is there for this process isn't for Spark. Both reach each other by loopback alone.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from ivm.jars import jars_folder, spark_home
from ivm.orchestration.services import HOST, Service, connect_command, spark_environment
from tests.remote.run import REPOSITORY
from tests.s3 import free_port

#: Mounts over each folder before the "--", then becomes what follows it.
_HIDE = 'while [ "$1" != -- ]; do mount -t tmpfs hidden "$1" || exit 9; shift; done; shift; exec "$@"'


def need_namespaces() -> None:
    """Skips the test where this process may not make mount namespaces."""
    tried = shutil.which("unshare") and subprocess.run(["unshare", "--mount", "true"], capture_output=True)
    if not tried or tried.returncode:
        pytest.skip("mount namespaces can't be made here (unshare --mount needs root)")


def hidden(command: Sequence[str], folders: Sequence[Path]) -> list[str]:
    """A command to which these folders are empty."""
    outer = [f for f in folders if not any(f != other and f.is_relative_to(other) for other in folders)]
    return ["unshare", "--mount", "sh", "-c", _HIDE, "hide", *map(str, outer), "--", *command]


def _private(temporary: Path) -> list[Path]:
    """What is of this process alone; `temporary` holds the folders of tests."""
    return [temporary, Path("/tmp"), REPOSITORY / "ivm", REPOSITORY / "pipelines"]


@contextmanager
def _started(name: str, command: Sequence[str], env: Mapping[str, str], log: Path) -> Iterator[Service]:
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=dict(env), start_new_session=True, cwd="/")
    service = Service(name, process, log)
    try:
        yield service
    finally:
        service.stop()


def _await(service: Service, url: str, wanted: str, seconds: int = 90) -> None:
    """Wait until a page says what is wanted."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and service.process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as page:
            if wanted in page.read().decode():
                return
        time.sleep(0.3)
    raise AssertionError(f"{service.name} is not ready:\n{service.log.read_text()[-2000:]}")


@contextmanager
def standalone(folder: Path, temporary: Path, memory: str = "700m", workers: int = 2) -> Iterator[dict[str, str]]:
    """A master and workers of one core each; the environment in which `ivm` uses them.

    Logs and settings lie in `folder`.
    """
    folder.mkdir()
    port, pages = free_port(), free_port()
    own = {k: v for k, v in spark_environment().items() if not k.startswith("AWS_")}  # the driver hands on its own
    daemons = {**own, "SPARK_LOCAL_IP": HOST, "SPARK_DAEMON_MEMORY": "256m"}
    program, package = str(spark_home() / "bin" / "spark-class"), "org.apache.spark.deploy"
    with ExitStack() as stack:
        master = [program, f"{package}.master.Master", "--host", HOST, "--port", str(port), "--webui-port", str(pages)]
        first = stack.enter_context(_started("the master", master, daemons, folder / "master.log"))
        _await(first, f"http://{HOST}:{pages}/json/", '"status" : "ALIVE"')
        for i in range(workers):
            # Each is another host: executors of one host read each other's shuffle files, which here they can't.
            host = f"127.0.0.{i + 2}"
            options = ["--host", host, "--webui-port", str(free_port()), "--cores", "1", "--memory", "2g"]
            options += ["--work-dir", f"/tmp/work{i}"]
            worker = [program, f"{package}.worker.Worker", *options, f"spark://{HOST}:{port}"]
            command = hidden(worker, [*_private(temporary), jars_folder()])
            env = {**daemons, "SPARK_LOCAL_IP": host}
            stack.enter_context(_started(f"worker {i}", command, env, folder / f"worker{i}.log"))
        _await(first, f"http://{HOST}:{pages}/json/", f'"aliveworkers" : {workers}')
        conf = (REPOSITORY / "infra" / "standalone" / "spark-defaults.conf").read_text()
        (folder / "spark-defaults.conf").write_text(f"{conf}\nspark.executor.memory {memory}\nspark.executor.cores 1\n")
        yield {"IVM_SPARK_MASTER": f"spark://{HOST}:{port}", "SPARK_CONF_DIR": str(folder), "SPARK_LOCAL_IP": HOST}


@contextmanager
def connect(folder: Path, temporary: Path) -> Iterator[dict[str, str]]:
    """A Connect server, with the client's credentials; the environment in which `ivm` uses it."""
    folder.mkdir()
    port = free_port()
    command = hidden(connect_command(port, Path("/tmp/warehouse"), {"s3"}), _private(temporary))
    env = {**spark_environment(), "IVM_DRIVER_MEMORY": "1g"}
    with _started("Spark Connect", command, env, folder / "connect.log") as server:
        deadline = time.monotonic() + 90
        while not _listens(port):
            waiting = server.process.poll() is None and time.monotonic() < deadline
            assert waiting, server.log.read_text()[-2000:]
            time.sleep(0.3)
        yield {"IVM_SPARK_REMOTE": f"sc://{HOST}:{port}"}


def _listens(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex((HOST, port)) == 0
