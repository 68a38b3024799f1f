"""Recursive views kept up to date on random graphs, against computing them anew: seconds by edges and kind of change.

reached        the nodes that can be reached from one root (a set, WITH RECURSIVE ... UNION)
distances      the length of the shortest path from a root (a set of (node, length), of which only min is taken)
components     the least node that a node is connected with, whatever the edges' direction (likewise)
parts          a bill of materials: how often each part goes into a product (a bag, UNION ALL, over a forest)

python -m benchmarks.graphs --edges 1000 [--changes 10] [--rounds 3]      (compared with a recompute at the end)
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks import report

VIEWS = {
    "reached": (
        "WITH RECURSIVE r (node) AS (SELECT node FROM roots "
        "UNION SELECT e.dst FROM r JOIN edges e ON e.src = r.node) SELECT node FROM r"
    ),
    "distances": "WITH RECURSIVE r (node, d) AS (SELECT node, CAST(0 AS bigint) FROM roots UNION "
    "SELECT e.dst, r.d + e.length FROM r JOIN edges e ON e.src = r.node) SELECT node, min(d) AS d FROM r GROUP BY node",
    "components": (
        "WITH RECURSIVE b AS (SELECT src, dst FROM edges UNION ALL SELECT dst, src FROM edges), "
        "r (node, seen) AS (SELECT src, src FROM b UNION SELECT b.dst, r.seen FROM r JOIN b ON b.src = r.node) "
        "SELECT node, min(seen) AS component FROM r GROUP BY node"
    ),
    "parts": (
        "WITH RECURSIVE r (product, part, n) AS (SELECT product, part, n FROM uses "
        "UNION ALL SELECT r.product, u.part, r.n * u.n FROM r JOIN uses u ON u.product = r.part) "
        "SELECT product, part, sum(n) AS n FROM r GROUP BY product, part"
    ),
}
_FEED = {"delta.enableChangeDataFeed": "true"}


def graph(random: np.random.Generator, first: int, edges: int, nodes: int) -> pa.Table:
    """Random edges, numbered from `first`."""
    ends = {n: random.integers(0, nodes, edges) for n in ("src", "dst")}
    return pa.table({"id": np.arange(first, first + edges), **ends, "length": random.integers(1, 10, edges)})


def forest(random: np.random.Generator, first: int, edges: int) -> pa.Table:
    """Each part belongs to a product of a smaller number divided by four: depth grows with the logarithm."""
    parts = np.arange(first, first + edges) + 1
    return pa.table(
        {"id": np.arange(first, first + edges), "product": parts // 4, "part": parts, "n": random.integers(1, 4, edges)}
    )


def changed(
    folder: Path, kind: str, random: np.random.Generator, live: dict[str, list[int]], nodes: int, size: int
) -> None:
    """Insert or delete `size` rows of each table; what was there longest goes first."""
    for name in ("edges", "uses"):
        low, high = live[name]
        if kind == "insert":
            rows = graph(random, high, size, nodes) if name == "edges" else forest(random, high, size)
            write_deltalake(str(folder / name), rows, mode="append")
            live[name][1] = high + size
        else:
            # The parts of a bill that go are its last ones: leaves, as when an order is cut.
            first = low if name == "edges" else high - size
            DeltaTable(str(folder / name)).delete(f"id >= {first} AND id < {first + size}")
            live[name] = [low + size, high] if name == "edges" else [low, high - size]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--edges", type=int, default=1000)
    parser.add_argument("--nodes", type=int, help="half as many as edges by default")
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    os.environ.setdefault("IVM_DRIVER_MEMORY", "8g")
    import ivm
    from ivm.session import get_session

    nodes = asked.nodes or asked.edges // 2
    random = np.random.default_rng(3)
    spark = get_session()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        live = {"edges": [0, asked.edges], "uses": [0, asked.edges]}
        write_deltalake(str(folder / "edges"), graph(random, 0, asked.edges, nodes), configuration=_FEED)
        write_deltalake(str(folder / "uses"), forest(random, 0, asked.edges), configuration=_FEED)
        write_deltalake(str(folder / "roots"), pa.table({"node": pa.array([1], pa.int64())}), configuration=_FEED)
        pipe = ivm.Pipeline("graphs", spark, folder / "root")
        for name in ("edges", "uses", "roots"):
            pipe.source(name, folder / name)
        for name, sql in VIEWS.items():
            pipe.view(name, sql, mode="incremental")
        for name in VIEWS:  # the first build warms Spark up; the backfill is the recompute
            pipe.refresh([name])
            started = time.perf_counter()
            pipe.backfill(name)
            found[name] = {"recompute_s": round(time.perf_counter() - started, 2), "rows": pipe.read(name).count()}
        for kind in ("insert", "delete"):
            seconds: dict[str, list[float]] = {n: [] for n in VIEWS}
            for number in range(asked.rounds + 1):
                changed(folder, kind, random, live, nodes, asked.changes)
                for name in VIEWS:
                    started = time.perf_counter()
                    result = pipe.refresh([name]).views[name]
                    if number:
                        seconds[name].append(time.perf_counter() - started)
                    if result.error or result.strategy == "full":
                        found[name]["note"] = result.error or result.reason
            for name in VIEWS:
                found[name][f"{kind}_s"] = round(statistics.median(seconds[name]), 2)
                print(f"{name:10} {found[name]}", flush=True)
        for name in VIEWS:
            kept = pipe.read(name).toArrow()
            pipe.backfill(name)
            anew = pipe.read(name).toArrow()
            order = [(c, "ascending") for c in kept.column_names]
            if kept.sort_by(order) != anew.sort_by(order):
                raise SystemExit(f"{name} differs from a recompute after inserts and deletes")
    for name, figures in found.items():
        print(f"{name:10} {figures}")
    print(
        report.write(
            f"graphs_{asked.edges}", {"edges": asked.edges, "nodes": nodes, "changes": asked.changes, "views": found}
        )
    )


if __name__ == "__main__":
    main()
