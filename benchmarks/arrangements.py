"""A slice of lineitem by l_partkey, searched in an arrangement or scanned: seconds of a refresh by changed parts.

Two views over the same sources, with the hint ARRANGE and without; each refresh follows an update of that many parts.
With --paying N no view has a hint: after each of N updates of --parts parts the seconds of the refresh are shown, until
the arrangement pays, is made, and after that; beside it the same view where only hints make any.

python -m benchmarks.arrangements [--scale 1] [--rounds 3] [--engine spark] [--paying 40 --parts 10]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks import report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ivm.pipeline import Pipeline

QUERY = (
    "SELECT {hint}p_brand, p_container, max(l_quantity) AS most, avg(l_extendedprice) AS price "
    "FROM part JOIN lineitem ON l_partkey = p_partkey GROUP BY p_brand, p_container, p_partkey"
)
HINTS = {"scanned": "", "searched": "/*+ ARRANGE(lineitem, l_partkey) */ "}
CHANGED = (1, 10, 100, 1_000, 10_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=("spark", "auto"), default="spark")
    parser.add_argument("--paying", type=int, metavar="EPOCHS", default=0)
    parser.add_argument("--parts", type=int, default=10)
    asked = parser.parse_args()
    (paying if asked.paying else searching)(asked)


def searching(asked: argparse.Namespace) -> None:
    """With the hint and without, by how many parts changed."""
    found: dict[str, Any] = {n: {} for n in HINTS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        spark = _sources(folder, asked.scale)
        pipes = {name: _built(name, spark, folder, asked.engine, "hints", hint) for name, hint in HINTS.items()}
        for name, pipe in pipes.items():  # the first incremental refresh makes the arrangement
            spark.sql(f"UPDATE delta.`{folder}/sources/part` SET p_container = 'new' WHERE p_partkey = 1")
            started = time.perf_counter()
            pipe.refresh()
            found[name]["first_s"] = round(time.perf_counter() - started, 2)
        for changed in CHANGED:
            seconds: dict[str, list[float]] = {n: [] for n in HINTS}
            for number in range(asked.rounds + 1):
                every = max(int(200_000 * asked.scale) // changed, 1)
                spark.sql(
                    f"UPDATE delta.`{folder}/sources/part` SET p_container = 'c{changed}_{number}' "
                    f"WHERE p_partkey % {every} = 1"
                )
                for name, pipe in pipes.items():
                    started = time.perf_counter()
                    pipe.refresh()
                    if number:
                        seconds[name].append(time.perf_counter() - started)
            for name in HINTS:
                found[name][str(changed)] = round(statistics.median(seconds[name]), 2)
                print(f"{name:10} {changed:>7,} parts {found[name][str(changed)]} s", flush=True)
        _verify(pipes)
        for name, pipe in pipes.items():
            found[name]["status"] = [
                {k: s[k] for k in ("rows", "since", "upto")} for s in pipe.status()["arrangements"]
            ]
    print(report.write(f"arrangements_{asked.scale:g}", {"scale": asked.scale, "rounds": asked.rounds, "runs": found}))


def paying(asked: argparse.Namespace) -> None:
    """The same view by what reads cost, and without any arrangement."""
    every = max(int(200_000 * asked.scale) // asked.parts, 1)
    runs: dict[str, list[dict[str, Any]]] = {"auto": [], "hints": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        spark = _sources(folder, asked.scale)
        pipes = {arrange: _built(arrange, spark, folder, asked.engine, arrange) for arrange in runs}
        for number in range(asked.paying):
            spark.sql(
                f"UPDATE delta.`{folder}/sources/part` SET p_container = 'c{number}' WHERE p_partkey % {every} = 1"
            )
            for arrange, pipe in pipes.items():
                started = time.perf_counter()
                view = pipe.refresh().views["brands"]
                seconds = round(time.perf_counter() - started, 3)
                accounts = pipe.context.log.manifest().accounts
                account = next((a for a in accounts if a.relation == "lineitem"), None)
                runs[arrange].append(
                    {
                        "seconds": seconds,
                        "apply_s": round(view.seconds, 3),
                        "balance_s": round(account.balance, 3) if account else None,
                        "price_s": round(account.price, 3) if account else None,
                        "made": bool(account and account.made),
                    }
                )
                print(arrange, number, runs[arrange][-1], flush=True)
        _verify(pipes)
    about = {"scale": asked.scale, "parts": asked.parts, "engine": asked.engine}
    print(report.write(f"paying_{asked.scale:g}_{asked.engine}", {**about, "runs": runs}))


def _sources(folder: Path, scale: float) -> SparkSession:
    """A session, and TPC-H's tables in the folder `sources`."""
    os.environ.setdefault("IVM_DRIVER_MEMORY", "8g")
    from ivm.demo import tpch
    from ivm.session import get_session

    spark = get_session()
    tpch.generate(folder / "data", scale)
    tpch.load(spark, folder / "data", folder / "sources")
    return spark


def _built(name: str, spark: SparkSession, folder: Path, engine: str, arrange: str, hint: str = "") -> Pipeline:
    """A pipeline of the view over these sources, after its first build."""
    import ivm

    pipe = ivm.Pipeline(name, spark, folder / name, engine=engine, arrange=arrange)
    for source in ("part", "lineitem"):
        pipe.source(source, folder / "sources" / source)
    pipe.view("brands", QUERY.format(hint=hint), mode="incremental")
    pipe.refresh()
    return pipe


def _verify(pipes: Mapping[str, Pipeline]) -> None:
    for name, pipe in pipes.items():
        if not pipe.verify("brands"):
            raise SystemExit(f"{name}: differs from a recompute")


if __name__ == "__main__":
    main()
