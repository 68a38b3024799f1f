"""The demo is the main job: TPC-H sources, Airflow, change batches, and every view compared with a recompute.

Airflow and one Spark Connect server run on loopback; this process changes the sources, triggers the DAG for each
batch, and judges. Exit code 0 only if every comparison of every epoch is equal.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ivm.demo import tpch
from ivm.errors import ConfigError, IvmError
from ivm.names import table_ref
from ivm.orchestration.api import call, trigger
from ivm.orchestration.services import HOST, airflow_environment, free_port, start_airflow, start_connect_server

DAG = "ivm_tpch"
FRACTION = 0.001


@dataclass
class _Demo:
    scale: float
    batches: int
    folder: Path
    out: Console

    def __post_init__(self) -> None:
        repo = repository()
        self.pipelines, self.dags = repo / "pipelines", repo / "dags"
        self.sources = self.folder / "lake" / "sources"
        self.root = self.folder / "lake" / "tpch"
        os.environ |= {
            "IVM_TPCH_ROOT": str(self.root),
            "IVM_TPCH_SOURCES": str(self.sources),
            "IVM_PIPELINES": str(self.pipelines),
        }


def repository() -> Path:
    """The clone that holds pipelines/ and dags/. Raises IvmError where ivm was installed without it."""
    repo = Path(__file__).resolve().parent.parent.parent
    if not (repo / "pipelines" / "tpch").exists():
        raise IvmError(f"The TPC-H example (pipelines/, dags/) is not in {repo}.", "Run it from a clone, with ./run.")
    return repo


def run_demo(scale: float, batches: int, keep: bool, folder: Path, out: Console) -> int:
    """Run it all; returns the exit code."""
    demo = _Demo(scale, batches, folder, out)
    started = time.perf_counter()
    _clear(folder)
    out.print(f"TPC-H at scale {scale} in {folder}")
    tpch.generate(folder / "data" / str(scale), scale)
    services: list[Any] = []
    equal = False
    try:
        out.print("starting one Spark Connect server, which all tasks share, and Airflow")
        spark_port = free_port()
        connect = start_connect_server(spark_port, folder / "logs" / "spark-connect.log")
        services.append(connect)
        os.environ["IVM_SPARK_REMOTE"] = f"sc://{HOST}:{spark_port}"
        port = free_port()
        env = airflow_environment(folder / "airflow", demo.dags, port, {})
        airflow = start_airflow(env, folder / "logs" / "airflow.log")
        services.append(airflow)
        equal = _epochs(demo, env)
        out.print(
            f"\n{'every comparison is equal' if equal else 'A COMPARISON DIFFERS'}; "
            f"{time.perf_counter() - started:.0f} s in all"
        )
        out.print(
            f"outputs:  {demo.root}/q01 and so on, plain Delta tables\nsources:  {demo.sources}\n"
            f"checks:   {demo.root}/_ivm/checks/docs/index.html"
        )
        if keep:
            out.print(
                f"Airflow:  http://{HOST}:{port} (everybody is admin there); stop it and Spark with: "
                f"kill -TERM -{airflow.process.pid} -{connect.process.pid}"
            )
            services.clear()
        else:
            out.print("Airflow:  stopped; `./run demo --keep` leaves it running and says where")
    finally:
        for service in reversed(services):
            service.stop()
    return 0 if equal else 1


def _clear(folder: Path) -> None:
    """Remove an earlier demo's lake and Airflow home. Raises ConfigError where the folder was not made by a demo."""
    earlier = [folder / name for name in ("lake", "airflow") if (folder / name).exists()]
    if earlier and not (folder / "data").is_dir():
        raise ConfigError(
            f"{earlier[0]} is not an earlier demo's, and the demo would remove it.",
            "Give --folder a new folder, or remove it yourself.",
        )
    for path in earlier:
        shutil.rmtree(path, ignore_errors=True)


def _epochs(demo: _Demo, env: dict[str, str]) -> bool:
    """Build, then each batch; prints a table an epoch. True if all comparisons were equal."""
    from ivm.pipeline import Pipeline
    from ivm.session import get_session

    spark = get_session()
    tpch.load(spark, demo.folder / "data" / str(demo.scale), demo.sources)
    pipe = Pipeline.load(demo.pipelines / "tpch", spark=spark)
    _await_dag(env)
    equal = True
    for batch in range(demo.batches + 1):
        if batch:
            tpch.change(spark, demo.sources, batch, FRACTION)
        state, tasks = _trigger(env, f"batch_{batch}")
        if state != "success":
            demo.out.print(
                f"the DAG run of batch {batch} ended as {state}; see {demo.folder}/logs and {env['AIRFLOW_HOME']}/logs"
            )
            return False
        equal = _compare(demo, pipe, batch, tasks) and equal
    return equal


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


def _trigger(env: dict[str, str], run: str) -> tuple[str, list[dict[str, Any]]]:
    return trigger(env, DAG, run)


def _compare(demo: _Demo, pipe: Any, batch: int, tasks: list[dict[str, Any]]) -> bool:
    from ivm.refresh.run import view_reports
    from ivm.refresh.verify import verify_view

    log = pipe.context.log
    epoch = log.manifest().epoch
    pipe.context.compile(*pipe.context.survey())
    reports = view_reports(pipe.context, log.plan(epoch), log.outcomes(epoch), pipe.context.compiled)
    table = Table(
        title=f"epoch {epoch}: {'first build' if batch == 0 else f'change batch {batch}'}", title_justify="left"
    )
    for column in ("view", "strategy", "rows in", "rows out", "seconds", "recompute s", "equal"):
        table.add_column(column, justify="left" if column in ("view", "strategy", "equal") else "right")
    equal = True
    for report in reports.values():
        seconds, recomputed = recompute_seconds(pipe, report.view)
        same = bool(verify_view(pipe.context, report.view.lower(), recomputed))
        equal = equal and same
        table.add_row(
            report.view,
            report.strategy,
            f"{report.rows_in:,}",
            f"{report.rows_out:,}",
            f"{report.seconds:.2f}",
            f"{seconds:.2f}",
            "yes" if same else "NO",
        )
    demo.out.print(table)
    spent = ", ".join(
        f"{t['task_id']} {t['duration']:.1f}"
        for t in sorted(tasks, key=lambda t: t["start_date"] or "")
        if t["duration"]
    )
    demo.out.print(f"Airflow tasks, seconds: {spent}")
    return equal


def recompute_seconds(pipe: Any, view: str) -> tuple[float, str]:
    """Seconds that Spark takes for a full recompute of a view and its overwrite into a Delta table; and that table."""
    from ivm.refresh.verify import recompute_sql

    target = f"{pipe.root}/_ivm/scratch/recompute/{view}"
    started = time.perf_counter()
    pipe.spark.sql(recompute_sql(pipe.context, view.lower(), pipe.context.log.manifest())).write.format("delta").mode(
        "overwrite"
    ).save(target)
    return time.perf_counter() - started, f"SELECT * FROM {table_ref(target)}"
