"""What a run of Spark Declarative Pipelines costs beside a refresh of the same views: whole processes, from the shell.

Two materialized views over one table of orders, of which a share of the rows is replaced before each round; in a round
`spark-pipelines run`, `ivm refresh` and `ivm refresh` with IVM_ENGINE=auto take turns. What they hold at the end is
compared, and the rows that each wrote are read from the tables' logs.

python -m benchmarks.sdp [--rows 5000000] [--share 0.001] [--rounds 3] [--keep]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from deltalake import DeltaTable, write_deltalake

from benchmarks import report
from ivm.jars import delta_jars
from ivm.session import DELTA_CONF, LOCAL_CONF

VIEWS = {
    "totals": "SELECT customer, count(*) AS n, sum(amount) AS total FROM {orders} GROUP BY customer",
    "large": "SELECT id, customer, amount FROM {orders} WHERE amount > 50",
}
CUSTOMERS = 100_000


def orders(ids: pa.Array, salt: int) -> pa.Table:
    """Orders with these ids; another salt gives them other customers and amounts."""
    mixed = pc.add(pc.multiply(ids, 7919), salt)
    customer = pc.subtract(mixed, pc.multiply(pc.divide(mixed, CUSTOMERS), CUSTOMERS))
    amount = pc.subtract(mixed, pc.multiply(pc.divide(mixed, 97), 97))
    return pa.table({"id": ids, "customer": customer, "amount": amount})


def make(folder: Path, rows: int) -> dict[str, str]:
    """Write the source and both projects. Returns the environment that runs them."""
    source = folder / "orders"
    data = orders(pa.array(range(rows), pa.int64()), 0)
    write_deltalake(source, data, configuration={"delta.enableChangeDataFeed": "true"})
    conf, project, views = folder / "conf", folder / "sdp", folder / "shop" / "views"
    for made in (conf, project / "transformations", views):
        made.mkdir(parents=True)
    settings = {
        **DELTA_CONF,
        **LOCAL_CONF,
        "spark.driver.memory": "3g",
        "spark.jars": ",".join(delta_jars()),
        # With `USING delta` in its place the second run fails: "'provider' is a reserved table property" (Delta 4.4.0).
        "spark.sql.sources.default": "delta",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
    }
    (conf / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in settings.items()))
    (project / "spark-pipeline.yml").write_text(
        f"name: shop\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      include: transformations/**\n"
    )
    (folder / "shop" / "pipeline.yml").write_text(
        f"name: shop\nroot: ../lake\nsources:\n  orders: {{path: {source}, primary_key: id}}\n"
    )
    for name, sql in VIEWS.items():
        read = sql.format(orders=f"delta.`{source}`")
        (project / "transformations" / f"{name}.sql").write_text(f"CREATE MATERIALIZED VIEW {name} AS {read};\n")
        (views / f"{name}.sql").write_text(sql.format(orders="orders") + "\n")
    return {
        "SPARK_CONF_DIR": str(conf),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }


def change(folder: Path, rows: int, share: float, number: int) -> None:
    """Replace a share of the orders, spread over the whole table."""
    step = int(1 / share)
    ids = pa.array(range(number, rows, step), pa.int64())
    table = DeltaTable(folder / "orders")
    table.delete(f"id % {step} = {number}")
    write_deltalake(table, orders(ids, 17 * number), mode="append")


def timed(command: list[str], folder: Path, environment: Mapping[str, str]) -> float:
    """Seconds of a process. Ends the program where it fails."""
    started = time.perf_counter()
    ended = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
    return time.perf_counter() - started


def written(table: Path, since: int) -> int:
    """Rows of the files that were added to a table after a version, those that were copied included."""
    told = ("numOutputRows", "num_output_rows", "num_added_rows")
    later = [c.get("operationMetrics") or {} for c in DeltaTable(table).history() if c["version"] > since]
    return sum(int(next((m[name] for name in told if name in m), 0)) for m in later)


def content(table: Path) -> Any:
    rows = DeltaTable(table).to_pyarrow_table()
    return rows.sort_by([(c, "ascending") for c in rows.column_names]).select(sorted(rows.column_names))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--share", type=float, default=0.001, help="of the orders, replaced before each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/sdp.json")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        sdp = make(folder, asked.rows)
        tables = {
            "spark-pipelines run": folder / "warehouse",
            "ivm refresh": folder / "lake",
            "ivm refresh, engine auto": folder / "auto",
        }
        (folder / "auto_shop").mkdir()
        for file in (folder / "shop").rglob("*.*"):
            copy = folder / "auto_shop" / file.relative_to(folder / "shop")
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(file.read_text().replace("../lake", "../auto"))
        ivm = [sys.executable, "-m", "ivm.cli.main", "refresh", "-p"]
        commands: dict[str, tuple[list[str], Path, Mapping[str, str]]] = {
            "spark-pipelines run": ([str(Path(sys.executable).parent / "spark-pipelines"), "run"], folder / "sdp", sdp),
            "ivm refresh": ([*ivm, str(folder / "shop")], folder, {"PYTHONPATH": os.getcwd()}),
            "ivm refresh, engine auto": (
                [*ivm, str(folder / "auto_shop")], folder, {"PYTHONPATH": os.getcwd(), "IVM_ENGINE": "auto"},
            ),
        }  # fmt: skip
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        rows: dict[str, list[int]] = {name: [] for name in commands}
        for number in range(asked.rounds + 1):
            if number:
                change(folder, asked.rows, asked.share, number)
            for name, command in commands.items():
                before = {v: DeltaTable(tables[name] / v).version() if number else -1 for v in VIEWS}
                took = timed(*command)
                if number:
                    seconds[name].append(round(took, 2))
                    rows[name].append(sum(written(tables[name] / v, before[v]) for v in VIEWS))
                print(f"round {number}, {name}: {took:.1f} s, {rows[name][-1:]} rows written", flush=True)
        for view in VIEWS:
            held = [content(at / view) for at in tables.values()]
            if any(not other.equals(held[0]) for other in held[1:]):
                raise SystemExit(f"{view} is not equal.")
    figures = {
        "orders": asked.rows,
        "share": asked.share,
        "equal": True,
        "median_s": {name: statistics.median(s) for name, s in seconds.items()},
        "seconds": seconds,
        "rows_written": rows,
    }
    print({"machine": report.machine(), **figures})
    if asked.keep:
        print(report.write("sdp", figures))


if __name__ == "__main__":
    main()
