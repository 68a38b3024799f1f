"""The demo is the main job: TPC-H sources, Airflow, change batches, and every view compared with a recompute.

Airflow and one Spark Connect server run on loopback; this process changes the sources, triggers the DAG for each
batch, and judges. Exit code 0 only if every comparison of every epoch is equal.
"""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ivm.demo import tpch
from ivm.errors import ConfigError, IvmError
from ivm.orchestration.api import call, trigger
from ivm.orchestration.services import (
    HOST,
    Service,
    airflow_environment,
    await_airflow,
    free_port,
    start_airflow,
    start_connect_server,
)
from ivm.parameters import ENGINE_VARIABLE

DAG = "ivm_tpch"
FRACTION = 0.001
#: Seconds after which the demo says again how far something is.
TOLD = 10


@dataclass
class _Demo:
    scale: float
    batches: int
    folder: Path
    out: Console

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        self._said: tuple[str, float] = ("", 0.0)
        repo = repository()
        self.pipelines, self.dags = repo / "pipelines", repo / "dags"
        self.sources = self.folder / "lake" / "sources"
        self.root = self.folder / "lake" / "tpch"
        os.environ |= {
            "IVM_TPCH_ROOT": str(self.root),
            "IVM_TPCH_SOURCES": str(self.sources),
            "IVM_PIPELINES": str(self.pipelines),
        }

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self._started

    def at(self, what: str, done: int | None = None, total: int | None = None) -> None:
        """Say where the demo is: where something else begins, and from time to time how far it is."""
        said, when = self._said
        if said == what and self.seconds - when < TOLD:
            return
        self._said = (what, self.seconds)
        far = "" if done is None else f": {done} of {total}"
        minutes, seconds = divmod(int(self.seconds), 60)
        self.out.print(f"{minutes:3}:{seconds:02}  {what}{far}", highlight=False)


def repository() -> Path:
    """The clone that holds pipelines/ and dags/. Raises IvmError where ivm was installed without it."""
    repo = Path(__file__).resolve().parent.parent.parent
    if not (repo / "pipelines" / "tpch").exists():
        raise IvmError(f"The TPC-H example (pipelines/, dags/) is not in {repo}.", "Run it from a clone, with ./run.")
    return repo


def run_demo(scale: float, batches: int, keep: bool, folder: Path, out: Console) -> int:
    """Run it all; returns the exit code."""
    from ivm.session import get_session

    # The engine that is made for small changes; who sets another one gets that.
    engine = os.environ.setdefault(ENGINE_VARIABLE, "auto")
    demo = _Demo(scale, batches, folder, out)
    clear(folder)
    out.print(f"TPC-H at scale {scale} in {folder}, {batches} change batches, engine: {engine}")
    tpch.generate(folder / "data" / str(scale), scale)
    services: list[Service] = []
    spark: Any = None
    equal = False
    try:
        demo.at("starting one Spark Connect server, which all tasks share")
        spark_port = free_port()
        connect = start_connect_server(spark_port, folder / "logs" / "spark-connect.log")
        services.append(connect)
        os.environ["IVM_SPARK_REMOTE"] = f"sc://{HOST}:{spark_port}"
        env = airflow_environment(folder / "airflow", demo.dags, free_port(), {})
        airflow = start_airflow(env, folder / "logs" / "airflow.log", wait=False)
        services.append(airflow)
        demo.at("loading the sources, while Airflow starts")
        spark = get_session()
        tpch.load(spark, folder / "data" / str(scale), demo.sources)
        await_airflow(airflow, env)
        equal = _epochs(demo, env, spark)
        out.print(f"\n{'every comparison is equal' if equal else 'A COMPARISON DIFFERS'}; {demo.seconds:.0f} s in all")
        out.print(
            f"outputs:  {demo.root}/q01 and so on, plain Delta tables\nsources:  {demo.sources}\n"
            f"checks:   {demo.root}/_ivm/checks/docs/index.html"
        )
        if keep:
            out.print(
                f"Airflow:  {env['AIRFLOW__API__BASE_URL']} (everybody is admin there); stop it and Spark with: "
                f"kill -TERM -{airflow.process.pid} -{connect.process.pid}"
            )
            services.clear()
        else:
            out.print("Airflow:  stopped; `./run demo --keep` leaves it running and says where")
    finally:
        if spark is not None:  # a client whose server is gone asks it for minutes to let go of its session
            with suppress(Exception):
                spark.stop()
        for service in reversed(services):
            service.stop()
    return 0 if equal else 1


def clear(folder: Path) -> None:
    """Remove an earlier demo's lake and Airflow home. Raises ConfigError where the folder was not made by a demo."""
    earlier = [folder / name for name in ("lake", "airflow") if (folder / name).exists()]
    if earlier and not (folder / "data").is_dir():
        raise ConfigError(
            f"{earlier[0]} is not an earlier demo's, and the demo would remove it.",
            "Give --folder a new folder, or remove it yourself.",
        )
    for path in earlier:
        shutil.rmtree(path, ignore_errors=True)


def _epochs(demo: _Demo, env: dict[str, str], spark: Any) -> bool:
    """Build, then each batch; prints a table an epoch. True if all comparisons were equal."""
    from ivm.pipeline import Pipeline

    pipe = Pipeline.load(demo.pipelines / "tpch", spark=spark)
    demo.at("waiting for Airflow to find the DAG")
    _await_dag(env)
    equal = True
    for batch in range(demo.batches + 1):
        if batch:
            demo.at(f"change batch {batch}: inserts, updates and deletes in the sources")
            tpch.change(spark, demo.sources, batch, FRACTION)
        state, tasks = trigger(env, DAG, f"batch_{batch}", told=lambda running: _told(demo, pipe, running))
        if state != "success":
            demo.out.print(
                f"the DAG run of batch {batch} ended as {state}; see {demo.folder}/logs and {env['AIRFLOW_HOME']}/logs"
            )
            return False
        _show(demo, pipe, batch, tasks)
        equal = _compare(demo, pipe) and equal
    return equal


def _told(demo: _Demo, pipe: Any, running: list[str]) -> None:
    """Say which tasks of a run are at work, and how many views `apply` has done."""
    if "apply" not in running:
        demo.at(f"Airflow runs {', '.join(running) or 'the DAG'}")
        return
    log, done, total = pipe.context.log, 0, 0
    with suppress(IvmError):  # the epoch ends meanwhile
        epoch = log.open_epoch()
        if epoch is not None:
            done, total = len({o.view for o in log.outcomes(epoch).values()}), len(log.plan(epoch).tasks)
    demo.at("Airflow runs apply, views", done, total)


def _await_dag(env: dict[str, str]) -> None:
    """Wait until the DAG processor has read the DAG."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if any(d["dag_id"] == DAG for d in call(env, "GET", "/dags")["dags"]):
            return
        time.sleep(1)
    raise IvmError(
        f"Airflow did not find the DAG {DAG} within 90 s.",
        "Run `airflow dags list-import-errors` with the demo's AIRFLOW_HOME.",
    )


def _show(demo: _Demo, pipe: Any, batch: int, tasks: list[dict[str, Any]]) -> None:
    """A table of what the epoch did to each view."""
    from ivm.refresh.run import view_reports

    log = pipe.context.log
    epoch = log.manifest().epoch
    pipe.context.compile(*pipe.context.survey())
    reports = view_reports(pipe.context, log.plan(epoch), log.outcomes(epoch), pipe.context.compiled)
    table = Table(
        title=f"epoch {epoch}: {'first build' if batch == 0 else f'change batch {batch}'}", title_justify="left"
    )
    for column in ("view", "strategy", "rows in", "rows out", "seconds"):
        table.add_column(column, justify="left" if column in ("view", "strategy") else "right")
    for report in reports.values():
        table.add_row(
            report.view, report.strategy, f"{report.rows_in:,}", f"{report.rows_out:,}", f"{report.seconds:.2f}"
        )
    demo.out.print(table)
    spent = ", ".join(
        f"{t['task_id']} {t['duration']:.1f}"
        for t in sorted(tasks, key=lambda t: t["start_date"] or "")
        if t["duration"]
    )
    demo.out.print(f"Airflow tasks, seconds: {spent}")


def _compare(demo: _Demo, pipe: Any) -> bool:
    """Compare each view with Spark's own result of its SQL; says which are not equal."""
    from ivm.refresh.verify import verify_view

    views, started = list(pipe.context.compiled), time.monotonic()
    done = 0

    def compared(view: str) -> Any:
        nonlocal done
        found = verify_view(pipe.context, view)
        done += 1
        demo.at("comparing with full recomputes by Spark, views", done, len(views))
        return found

    with ThreadPoolExecutor(pipe.context.limits.threads) as pool:
        found = list(pool.map(compared, views))
    for differing in (f for f in found if not f):
        demo.out.print(str(differing))
    demo.out.print(
        f"{sum(map(bool, found))} of {len(found)} views equal a full recompute; "
        f"recomputing and comparing them took {time.monotonic() - started:.0f} s"
    )
    return all(found)
