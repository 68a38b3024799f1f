"""A small pipeline in the shape `views`, one that waits for commits, and a real Airflow that refreshes both."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from ivm.declarations import declared
from ivm.orchestration.api import call
from ivm.orchestration.execution import REMOTE
from ivm.orchestration.services import (
    HOST,
    Service,
    airflow_environment,
    free_port,
    start_airflow,
    start_connect_server,
    started_by,
)
from ivm.pipeline import Pipeline
from ivm.refresh.history import all_events
from ivm.refresh.records import Manifest
from ivm.testing.recovery import leftovers
from tests.airflow.gates import GATES, SPARK, Gate

REPO = Path(__file__).resolve().parents[2]
VIEWS = {
    "totals": "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer",
    "rich": "SELECT customer, total FROM totals WHERE total > 100",
    "counted": "SELECT count(*) AS orders FROM orders",
}
SETTINGS = """engine: auto
schedule: null
airflow: {shape: views}
audit: {schedule: null, how: full, views: [totals]}
"""
#: A worker or scheduler that was killed is noticed soon, so that the test need not wait for minutes.
SOON = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
}
REFRESH = "ivm_shop"


class Shop:
    """The pipelines, their source, and the Airflow that refreshes them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.source, self.root = folder, folder / "orders", folder / "shop"
        self.pipeline = folder / "pipelines" / "shop"
        self.rows: list[tuple[str, int]] = []
        self.services: list[Service] = []
        self.env: dict[str, str] = {}
        self._runs = 0
        self.write("shop", SETTINGS, VIEWS)
        self.write("watched", "engine: auto\nschedule: {on: commits, poll: 1s}\n", {"counted": VIEWS["counted"]})
        checks = "totals:\n  state:\n    - expect_column_values_to_be_between: {column: total, max_value: 1000}\n"
        (self.pipeline / "checks.yml").write_text(checks)

    def write(self, name: str, settings: str, views: dict[str, str]) -> None:
        folder = self.folder / "pipelines" / name
        (folder / "views").mkdir(parents=True)
        sources = f"sources: {{orders: {{path: {self.source}}}}}\n"
        (folder / "pipeline.yml").write_text(f"name: {name}\nroot: {self.folder}/{name}\n{sources}{settings}")
        for view, sql in views.items():
            (folder / "views" / f"{view}.sql").write_text(sql)

    def start(self) -> None:
        spark_port, port = free_port(), free_port()
        self.services.append(start_connect_server(spark_port, self.folder / "connect.log"))
        extra = {
            "IVM_PIPELINES": f"{self.folder}/pipelines",
            SPARK: f"sc://{HOST}:{spark_port}",
            "PYTHONPATH": f"{REPO}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
            GATES: f"{self.folder}/gates",
            **SOON,
        }
        self.env = airflow_environment(self.folder / "home", Path(__file__).with_name("dags"), port, extra)
        self.services.append(start_airflow(self.env, self.folder / "airflow.log"))
        found = {REFRESH, "ivm_watched"}
        until(lambda: found <= {d["dag_id"] for d in call(self.env, "GET", "/dags")["dags"]})

    def restart_scheduler(self, spared: int) -> None:
        """Kill the scheduler and what it started, but for a task's process, and start another one."""
        roots = [s.process.pid for s in reversed(self.services)]
        ours = (p for root in roots for p in (psutil.Process(root), *started_by(root)))
        scheduler = next(p for p in ours if "airflow scheduler" in _arguments(p))
        for process in (*started_by(scheduler.pid), scheduler):
            if process.pid != spared:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        log = self.folder / "scheduler.log"
        with log.open("ab") as out:
            command = [str(Path(sys.executable).with_name("airflow")), "scheduler"]
            started = subprocess.Popen(command, stdout=out, stderr=out, env=self.env, start_new_session=True)
        self.services.append(Service("Scheduler", started, log))

    def stop(self) -> None:
        for held in (self.folder / "gates").glob("*.held"):  # a task outlives its Airflow, and would wait for ever
            held.unlink()
        for service in reversed(self.services):
            service.stop()

    def refresh(self, spark: Any = None, pipeline: str = "shop") -> None:
        """Refresh in this process; without a Spark what needs none."""
        report = Pipeline.load(self.folder / "pipelines" / pipeline, spark=spark).refresh()
        assert report.ok, report

    # -- the source ---------------------------------------------------------------------------------

    def order(self, customer: str = "a", amount: int = 1) -> None:
        """Commit one order."""
        self.rows.append((customer, amount))
        row = pa.table({"customer": [customer], "amount": pa.array([amount], pa.int64())})
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(self.source), row, mode="append", configuration=feed)

    def take_back(self, customer: str, amount: int) -> None:
        self.rows.remove((customer, amount))
        DeltaTable(str(self.source)).delete(f"customer = '{customer}' AND amount = {amount}")

    # -- runs ---------------------------------------------------------------------------------------

    def begin(self, dag: str = REFRESH, **conf: Any) -> str:
        """Trigger a DAG; returns the run's path in the API."""
        self._runs += 1
        body = {"dag_run_id": f"run_{self._runs}", "logical_date": None, "conf": conf}
        call(self.env, "POST", f"/dags/{dag}/dagRuns", body)
        return f"/dags/{dag}/dagRuns/run_{self._runs}"

    def tasks(self, run: str) -> dict[str, dict[str, Any]]:
        return {t["task_id"]: t for t in call(self.env, "GET", f"{run}/taskInstances")["task_instances"]}

    def state(self, run: str) -> str:
        found: str = call(self.env, "GET", run)["state"]
        return found

    def ended(self, run: str) -> str:
        """The state in which a run ends."""
        until(lambda: self.state(run) not in ("queued", "running"), 600)
        return self.state(run)

    def states(self, run: str) -> dict[str, str]:
        return {name: t["state"] for name, t in self.tasks(run).items()}

    def clear(self, run: str, **which: Any) -> None:
        _, _, dag, _, name = run.split("/")
        body = {"dry_run": False, "only_failed": False, "dag_run_id": name, **which}
        call(self.env, "POST", f"/dags/{dag}/clearTaskInstances", body)

    def mark_failed(self, run: str) -> None:
        """Mark a run failed, as a person does who sees that it stays so.

        A scheduler that looks at the run in the same moment takes its skipped last tasks for success. Airflow locks the
        run's row where the database can; SQLite can't.
        """
        for _ in range(3):
            call(self.env, "PATCH", run, {"state": "failed"})
            time.sleep(2)
            if self.state(run) == "failed":
                return

    def pause(self, dag: str, paused: bool = True) -> None:
        call(self.env, "PATCH", f"/dags/{dag}", {"is_paused": paused})

    def gate(self, dag: str, task: str) -> Gate:
        return Gate(self.folder / "gates", f"{dag}.{task}")

    def beside(self, task: str, given: str) -> subprocess.Popen[str]:
        """Another process that does what a task of the pipeline does; `task` is DAG and task."""
        env = self.env if task.startswith(f"{REFRESH}.") else {**self.env, REMOTE: self.env[SPARK]}
        command = [sys.executable, "-u", "-m", "tests.airflow.again", task, str(self.pipeline), given]
        out = subprocess.PIPE
        return subprocess.Popen(command, env=env, cwd=REPO, text=True, stdout=out, stderr=subprocess.STDOUT)

    # -- judgement ----------------------------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        return declared(self.pipeline).log.manifest()

    def read_up_to(self, pipeline: str) -> int | None:
        """The version of the source that a pipeline has read, None as long as an epoch is open or none committed."""
        log = declared(self.folder / "pipelines" / pipeline).log
        cursor = log.manifest().sources.get("orders")
        return cursor.version if cursor is not None and log.open_epoch() is None else None

    def written(self) -> dict[str, int]:
        """The version of each table, and how many events there are."""
        versions = {view: DeltaTable(f"{self.root}/{view}").version() for view in VIEWS}
        return {**versions, "events": len(declared(self.pipeline).log.events())}

    def right(self, pipeline: str = "shop") -> None:
        """The tables hold what the source says, each epoch is there once, nobody holds the lock, nothing is left."""
        totals = Counter[str]()
        for customer, amount in self.rows:
            totals[customer] += amount
        expected = {
            "totals": Counter(totals.items()),
            "rich": Counter((c, t) for c, t in totals.items() if t > 100),
            "counted": Counter([(len(self.rows),)]),
        }
        context = declared(self.folder / "pipelines" / pipeline)
        log = context.log
        for view in (v for v in expected if v in log.manifest().units):
            rows = DeltaTable(f"{self.folder}/{pipeline}/{view}").to_pyarrow_table().to_pylist()
            assert Counter(tuple(r.values()) for r in rows) == expected[view], view
        events = Counter((e.epoch, e.status) for e in all_events(context) if e.status != "applied")
        assert max(events.values()) == 1, f"an event twice: {events}"
        epochs = sorted({epoch for epoch, _ in events})
        assert epochs == list(range(1, epochs[-1] + 1)), f"an epoch is lost: {epochs}"
        closed = {epoch for epoch, status in events if status in ("committed", "abandoned")}
        assert closed == set(epochs), f"an epoch is left open: {events}"
        with context.exclusive():
            assert leftovers(SimpleNamespace(context=context)) == []  # type: ignore[arg-type]


def until(true: Callable[[], Any], seconds: float = 300) -> None:
    """Wait; how long at most matters only where it never comes: the machine may be slow, and busy with other tests."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.2)


def _arguments(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def gone(process: int) -> bool:
    """Whether a process has ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False
