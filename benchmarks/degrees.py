"""Out-degrees of a random graph and how often each occurs, under random edge changes: count against count_total.

    edges.map(src).count().map(count).count()

Each round inserts as many new random edges as it removes old ones: `--batch` of each. Setting and published figures:
McSherry, "Specializing differential dataflow", 2017-05-06 (0.31 s and 0.115 s a round of 100,000 at 10,000 nodes,
50,000 edges; 0.43 to 0.57 s with count at 10,000,000 nodes, 50,000,000 edges).

    python -m benchmarks.degrees --nodes 10000 --edges 50000 [--engine delta]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from ivm.zset.arrays import ZSet
from ivm.zset.streams import Count, CountTotal


def edges_from(seed: int, nodes: int, size: int, count: int) -> Iterator[np.ndarray]:
    """The sources of random edges, `size` at a time; equal seeds give equal edges."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        yield random.integers(0, nodes, size)


def in_process(nodes: int, edges: int, batch: int, rounds: int, total: bool) -> dict[str, Any]:
    """Load and per-round seconds of the in-process operators."""
    made = CountTotal if total else Count
    first, second = made(["src"], ["degree"]), made(["degree"], ["n"])

    def step(delta: ZSet) -> ZSet:
        degrees = first.step(delta)
        return second.step(degrees.map(lambda c: {"degree": c["degree"]}))

    chunk = min(edges, 5_000_000)
    started = time.perf_counter()
    for sources in edges_from(1, nodes, chunk, edges // chunk):
        step(ZSet({"src": sources}))
    load = time.perf_counter() - started
    seconds = []
    new, old = edges_from(2, nodes, batch, rounds), edges_from(1, nodes, batch, rounds)
    for inserted, removed in zip(new, old, strict=True):
        weights = np.concatenate([np.ones(batch, dtype="int64"), -np.ones(batch, dtype="int64")])
        delta = ZSet({"src": np.concatenate([inserted, removed])}, weights)
        started = time.perf_counter()
        step(delta)
        seconds.append(time.perf_counter() - started)
    return {
        "load_s": round(load, 3),
        "round_s": [round(s, 4) for s in seconds],
        "median_s": round(statistics.median(seconds), 4),
    }


def on_delta(nodes: int, edges: int, batch: int, rounds: int, general: bool) -> dict[str, Any]:
    """The same as SQL views over a Delta table.

    `general` keeps the outputs arranged (max in the reduce), else accumulators.
    """
    import ivm
    from ivm.session import get_session

    spark = get_session()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/edges"
        spark.sql(
            f"CREATE TABLE delta.`{path}` (id bigint, src bigint) "
            "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
        spark.sql(f"INSERT INTO delta.`{path}` SELECT id, CAST(rand(1) * {nodes} AS bigint) FROM range({edges})")
        pipe = ivm.Pipeline("degrees", spark, Path(folder) / "root")
        pipe.source("edges", path, primary_key=["id"])
        # bit_or is no group homomorphism, so a unit with it is kept by its arranged output.
        more = ", bit_or(0) AS z" if general else ""
        pipe.view("degrees", f"SELECT src, count(*) AS degree{more} FROM edges GROUP BY src", mode="incremental")
        pipe.view(
            "distribution", f"SELECT degree, count(*) AS n{more} FROM degrees GROUP BY degree", mode="incremental"
        )
        started = time.perf_counter()
        pipe.refresh()
        load = time.perf_counter() - started
        seconds = []
        for number in range(rounds + 1):
            low, high = number * batch, (number + 1) * batch
            spark.sql(f"DELETE FROM delta.`{path}` WHERE id >= {low} AND id < {high}")
            spark.sql(
                f"INSERT INTO delta.`{path}` "
                f"SELECT {edges} + id, CAST(rand({number + 2}) * {nodes} AS bigint) FROM range({low}, {high})"
            )
            started = time.perf_counter()
            result = pipe.refresh()
            if number:  # the first round warms Spark up
                seconds.append(time.perf_counter() - started)
            assert all(v.strategy == "incremental" for v in result.views.values()), {
                n: v.reason for n, v in result.views.items()
            }
        assert all(pipe.verify(v) for v in ("degrees", "distribution"))
    return {
        "load_s": round(load, 3),
        "round_s": [round(s, 3) for s in seconds],
        "median_s": round(statistics.median(seconds), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--edges", type=int, default=50_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--engine", choices=["process", "delta"], default="process")
    asked = parser.parse_args()
    found = {}
    for name in ("count", "count_total"):
        if asked.engine == "process":
            found[name] = in_process(asked.nodes, asked.edges, asked.batch, asked.rounds, name == "count_total")
        else:
            found[name] = on_delta(asked.nodes, asked.edges, asked.batch, asked.rounds, name == "count")
        print(f"{name:12} load {found[name]['load_s']:8.2f} s   round {found[name]['median_s']:.4f} s")
    path = report.write(
        f"degrees_{asked.engine}_{asked.nodes}",
        {"nodes": asked.nodes, "edges": asked.edges, "batch": asked.batch, **found},
    )
    print(path)


if __name__ == "__main__":
    main()
