"""What people and machines do to runs, in a real Airflow: killed, failed by hand, cleared, twice at once, restarted.

One small pipeline in the shape `views`, one that waits for commits. After each: tables equal, no epoch lost or doubled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.declarations import declared
from ivm.errors import ConcurrentRefreshError
from ivm.orchestration.api import call
from ivm.orchestration.services import (
    HOST,
    Service,
    airflow_environment,
    free_port,
    start_airflow,
    start_connect_server,
)
from ivm.pipeline import Pipeline

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

REPO = Path(__file__).resolve().parents[2]
VIEWS = {
    "totals": "SELECT customer, sum(amount) AS total FROM orders GROUP BY customer",
    "rich": "SELECT customer, total FROM totals WHERE total > 100",
    "counted": "SELECT count(*) AS orders FROM orders",
}
#: A worker that was killed is noticed soon, so that the test need not wait for minutes.
SOON = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
}


class Shop:
    """The pipelines, their source, and the Airflow that refreshes them."""

    def __init__(self, folder: Path, spark: Any) -> None:
        self.folder, self.source, self.spark = folder, folder / "orders", spark
        self.rows: list[tuple[str, int]] = []
        self.services: list[Service] = []
        self.env: dict[str, str] = {}
        self._runs = 0
        #: The newest run's path in the API.
        self.last = ""
        self.write("shop", "schedule: null\nairflow: {shape: views}\n", VIEWS)
        self.write("watched", "schedule: {on: commits, poll: 1s}\n", {"counted": VIEWS["counted"]})
        checks = "totals:\n  state:\n    - expect_column_values_to_be_between: {column: total, max_value: 1000}\n"
        (folder / "pipelines" / "shop" / "checks.yml").write_text(checks)

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
        extra = {"IVM_PIPELINES": f"{self.folder}/pipelines", "IVM_SPARK_REMOTE": f"sc://{HOST}:{spark_port}", **SOON}
        self.env = airflow_environment(self.folder / "home", REPO / "dags", port, extra)
        self.services.append(start_airflow(self.env, self.folder / "airflow.log"))
        until(lambda: {"ivm_shop", "ivm_watched"} <= {d["dag_id"] for d in call(self.env, "GET", "/dags")["dags"]})

    def restart(self) -> None:
        """End Airflow with its scheduler, API server, triggerer and all tasks that run, and start it again."""
        self.services.pop().stop()
        self.env.pop("IVM_TOKEN", None)
        self.services.append(start_airflow(self.env, self.folder / "airflow.log"))

    def stop(self) -> None:
        for service in reversed(self.services):
            service.stop()

    def order(self, customer: str, amount: int) -> None:
        """Commit one order."""
        self.rows.append((customer, amount))
        row = pa.table({"customer": [customer], "amount": pa.array([amount], pa.int64())})
        feed = {"delta.enableChangeDataFeed": "true"}
        write_deltalake(str(self.source), row, mode="append", configuration=feed)

    def take_back(self, customer: str, amount: int) -> None:
        self.rows.remove((customer, amount))
        DeltaTable(str(self.source)).delete(f"customer = '{customer}' AND amount = {amount}")

    # -- runs ---------------------------------------------------------------------------------------

    def begin(self) -> str:
        """Trigger the refresh; returns the run's path in the API."""
        self._runs += 1
        body = {"dag_run_id": f"run_{self._runs}", "logical_date": None, "conf": {}}
        call(self.env, "POST", "/dags/ivm_shop/dagRuns", body)
        self.last = f"/dags/ivm_shop/dagRuns/run_{self._runs}"
        return self.last

    def tasks(self, run: str) -> dict[str, dict[str, Any]]:
        return {t["task_id"]: t for t in call(self.env, "GET", f"{run}/taskInstances")["task_instances"]}

    def ended(self, run: str) -> str:
        """The state in which a run ends."""
        until(lambda: call(self.env, "GET", run)["state"] not in ("queued", "running"), 240)
        state: str = call(self.env, "GET", run)["state"]
        return state

    def states(self, run: str) -> dict[str, str]:
        return {name: t["state"] for name, t in self.tasks(run).items()}

    def clear(self, run: str, **which: Any) -> None:
        body = {"dry_run": False, "only_failed": False, "dag_run_id": run.rpartition("/")[2], **which}
        call(self.env, "POST", "/dags/ivm_shop/clearTaskInstances", body)

    def read_up_to(self, pipeline: str) -> int | None:
        """The version of the source that a pipeline has read, None as long as an epoch is open or none committed."""
        log = declared(self.folder / "pipelines" / pipeline).log
        cursor = log.manifest().sources.get("orders")
        return cursor.version if cursor is not None and log.open_epoch() is None else None

    # -- judgement ----------------------------------------------------------------------------------

    def right(self, pipeline: str = "shop") -> None:
        """The tables hold what the source says, and each epoch is there once."""
        totals = Counter[str]()
        for customer, amount in self.rows:
            totals[customer] += amount
        expected = {
            "totals": Counter(totals.items()),
            "rich": Counter((c, t) for c, t in totals.items() if t > 100),
            "counted": Counter([(len(self.rows),)]),
        }
        log = declared(self.folder / "pipelines" / pipeline).log
        for view in (v for v in expected if v in log.manifest().units):
            rows = DeltaTable(f"{self.folder}/{pipeline}/{view}").to_pyarrow_table().to_pylist()
            assert Counter(tuple(r.values()) for r in rows) == expected[view], view
        events = Counter((e.epoch, e.status) for e in log.events() if e.status != "applied")
        assert max(events.values()) == 1, f"an event twice: {events}"
        epochs = sorted({epoch for epoch, _ in events})
        assert epochs == list(range(1, epochs[-1] + 1)), f"an epoch is lost: {epochs}"
        closed = {epoch for epoch, status in events if status in ("committed", "abandoned")}
        assert closed == set(epochs), f"an epoch is left open: {events}"


def until(true: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.2)


@pytest.fixture
def shop(spark, tmp_path):
    made = Shop(tmp_path, spark)
    try:
        yield made
    finally:
        made.stop()


def killed(shop: Shop) -> None:
    """The process of a task is killed: it is tried again."""
    shop.order("a", 5)
    run = shop.begin()
    until(lambda: shop.states(run).get("apply") in ("running", "success"))
    task = shop.tasks(run)["apply"]
    if task["state"] == "running":  # else it was quicker
        with contextlib.suppress(ProcessLookupError):
            os.kill(task["pid"], signal.SIGKILL)
    assert shop.ended(run) == "success"


def cleared(shop: Shop) -> None:
    """Cleared from the last writing step on, when all is done, a run tells the same again, and writes nothing."""
    table, run = f"{shop.folder}/shop/totals", shop.last
    before = DeltaTable(table).version()
    shop.clear(run, task_ids=["publish"], include_downstream=True)
    assert shop.ended(run) == "success"
    assert DeltaTable(table).version() == before


def twice_at_once(shop: Shop) -> None:
    """Another process refreshes while the run does: one writes, the other waits or says so; all is there once."""
    shop.order("b", 7)
    run = shop.begin()
    pipe = Pipeline.load(shop.folder / "pipelines" / "shop", spark=shop.spark)
    for _ in range(4):
        with contextlib.suppress(ConcurrentRefreshError):
            assert pipe.refresh().ok
        time.sleep(0.5)
    # An epoch of the run that the other one finished is as good; where there was nothing left to plan, all is skipped.
    assert shop.ended(run) == "success"


def failed_by_hand(shop: Shop) -> None:
    """A run is marked failed in the middle, and triggered again: the next one goes on with its epoch."""
    shop.order("c", 300)
    run = shop.begin()
    until(lambda: shop.states(run).get("plan") == "success")
    call(shop.env, "PATCH", run, {"state": "failed"})
    assert shop.ended(run) == "failed"
    assert shop.ended(shop.begin()) == "success"


def restarted(shop: Shop) -> None:
    """Airflow is ended in the middle of a run, with its scheduler and all tasks, and started again."""
    shop.order("c", 1)
    run = shop.begin()
    until(lambda: shop.states(run).get("apply") in ("queued", "running", "success"))
    shop.restart()
    assert shop.ended(run) == "success"


def held_back(shop: Shop) -> None:
    """A view fails its check: its task is red, and those of its readers; the others are published; nothing is green."""
    shop.order("d", 5000)
    run = shop.begin()
    assert shop.ended(run) == "failed"
    found = {t: s for t, s in shop.states(run).items() if t.startswith("views.")}
    assert found == {"views.totals": "failed", "views.rich": "upstream_failed", "views.counted": "success"}
    shop.clear(run, task_ids=["views.totals"], include_downstream=True)
    assert shop.ended(run) == "failed", "cleared, it is as red as before"
    shop.take_back("d", 5000)
    shop.clear(run)
    assert shop.ended(run) == "success"


def shown(shop: Shop) -> None:
    """The web server shows the pages of `ivm ui`: the package brings its plugin."""
    assert "ivm" in {p["name"] for p in call(shop.env, "GET", "/plugins")["plugins"]}
    headers = {"Authorization": f"Bearer {shop.env['IVM_TOKEN']}"}
    asked = urllib.request.Request(f"{shop.env['AIRFLOW__API__BASE_URL']}/ivm/p/shop/v/totals/", headers=headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
        assert "The incremental program" in answer.read().decode()


SCENARIOS = (killed, cleared, twice_at_once, failed_by_hand, restarted, held_back, shown)


def test_whatever_is_done_to_runs_the_tables_are_right(shop):
    shop.order("a", 10)
    shop.order("b", 200)
    shop.start()
    build = shop.begin()
    assert shop.ended(build) == "success"
    views = {f"views.{v}": "success" for v in VIEWS}
    steps = dict.fromkeys(("plan", "apply", "check", "publish"), "success")
    assert shop.states(build) == {**steps, **views, "compact": "skipped"}
    shop.right()
    for scenario in SCENARIOS:
        scenario(shop)
        shop.right()
    # All the while another pipeline followed the commits by itself; it has seen the last one, too.
    last = DeltaTable(str(shop.source)).version()
    until(lambda: shop.read_up_to("watched") == last)
    shop.right("watched")
