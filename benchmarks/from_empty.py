"""The 22 TPC-H queries maintained while their relations are loaded from empty.

Each query is its own pipeline over shared Delta tables. Rows come round-robin over the eight relations (see `loading`)
in logical batches: one commit a relation and one refresh a batch. The largest batch size loads everything; when half is
there, some batches of each smaller size are taken out of the same order, and stand for the whole (seconds of a batch
times the number of batches): those are marked extrapolated. A physical batch of n holds several logical ones in one
refresh: `--commits k` splits each batch into k commits of a relation. Setting and published figures: McSherry,
"Implementing a TPC-H-like evaluation", 2017-04-24.

    python -m benchmarks.from_empty [--data FOLDER] [--batch 1000000] [--sample 100000 --sample 10000 --sample 1000]
                                    [--engine spark|auto]
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from benchmarks import report
from benchmarks.loading import boundaries, generated
from ivm.parameters import ENGINES, SPARK

#: Seconds at logical batches of 100,000 (one worker) and updates/s, as published.
PUBLISHED = {
    "q01": (0.79, 7.59e6), "q02": (0.40, 3.30e6), "q03": (0.93, 8.25e6), "q04": (1.25, 5.99e6),
    "q05": (2.19, 3.58e6), "q06": (0.16, 36.54e6), "q07": (1.50, 5.55e6), "q08": (3.40, 2.60e6),
    "q09": (4.72, 1.81e6), "q10": (2.39, 3.20e6), "q11": (0.30, 2.67e6), "q12": (0.57, 13.08e6),
    "q13": (2.21, 0.746e6), "q14": (0.38, 17.06e6), "q15": (0.46, 13.11e6), "q16": (0.58, 2.04e6),
    "q17": (2.72, 2.28e6), "q18": (3.15, 2.43e6), "q19": (0.24, 26.18e6), "q20": (0.74, 9.88e6),
    "q21": (5.14, 1.52e6), "q22": (0.99, 1.66e6),
}  # fmt: skip
#: A refresh that took less found nothing new in the relations that its query reads.
NOTHING_S = 0.3
#: Batches of each smaller size that are measured, after one that isn't.
SAMPLES = 2


class Order:
    """All relations in memory; hands out the next n rows of the round-robin order."""

    def __init__(self, folder: Path) -> None:
        self.tables = {f.stem: _plain(pq.read_table(f)) for f in sorted(folder.glob("*.parquet"))}
        self.row = 0

    @property
    def left(self) -> int:
        return sum(max(0, t.num_rows - self.row) for t in self.tables.values())

    def take(self, size: int) -> dict[str, pa.Table]:
        sizes = {n: t.num_rows - self.row for n, t in self.tables.items() if t.num_rows > self.row}
        end = self.row + boundaries(sizes, min(size, self.left))[0]
        found = {n: self.tables[n].slice(self.row, end - self.row) for n in sizes}
        self.row = end
        return found


def _plain(table: pa.Table) -> pa.Table:
    fields = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def pipelines(folder: Path, queries: list[str], engine: str) -> Iterator[tuple[str, Any]]:
    from ivm.config import load_folder
    from ivm.demo.main import repository
    from ivm.pipeline import Pipeline
    from ivm.session import get_session

    config = load_folder(repository() / "pipelines" / "tpch")
    for view in config.views:
        if view.name in queries:
            pipe = Pipeline(view.name, get_session(), folder / "roots" / view.name, engine=engine)
            for source in config.sources:
                pipe.source(source.name, source.location, source.primary_key, dict(source.foreign_keys))
            pipe.view(view.name, view.sql, view.mode)
            yield view.name, pipe


def append(sources: Path, rows: dict[str, pa.Table], commits: int) -> None:
    """Not timed."""
    for name, table in rows.items():
        size = -(-table.num_rows // commits)
        for start in range(0, table.num_rows, size):
            write_deltalake(str(sources / name), table.slice(start, size), mode="append")


def refreshed(pipes: dict[str, Any], seconds: dict[str, list[float]], strategies: dict[str, list[str]]) -> None:
    for name, pipe in pipes.items():
        started = time.perf_counter()
        result = pipe.refresh()
        seconds[name].append(time.perf_counter() - started)
        view = result.views[name]
        if view.error:
            raise SystemExit(f"{name} failed: {view.error}")
        strategies[name].append(view.strategy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", type=Path, help="TPC-H relations as Parquet files; those of the benchmark tpch at SF1 by default"
    )
    parser.add_argument("--batch", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, action="append", default=[])
    parser.add_argument("--commits", type=int, default=1)
    parser.add_argument("--query", action="append")
    parser.add_argument("--engine", choices=ENGINES, default=SPARK)
    asked = parser.parse_args()
    os.environ.setdefault("IVM_DRIVER_MEMORY", "8g")
    queries = asked.query or sorted(PUBLISHED)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sources = folder / "sources"
        os.environ |= {"IVM_TPCH_SOURCES": str(sources)}
        order = Order(asked.data or generated())
        relevant = {n: t.num_rows for n, t in order.tables.items()}
        for name, table in order.tables.items():
            write_deltalake(
                str(sources / name), table.slice(0, 0), configuration={"delta.enableChangeDataFeed": "true"}
            )
        pipes = dict(pipelines(folder, queries, asked.engine))
        refreshed(pipes, {n: [] for n in pipes}, {n: [] for n in pipes})
        # A query is credited with the rows of the relations that it reads.
        reads = {n: list(p.context.compiled[n].program.relations) for n, p in pipes.items()}
        whole: dict[str, list[float]] = {n: [] for n in pipes}
        strategies: dict[str, list[str]] = {n: [] for n in pipes}
        rows = dict.fromkeys(pipes, 0)
        samples: dict[int, dict[str, Any]] = {}
        total = order.left
        while order.left:
            if asked.sample and not samples and order.left <= total / 2:
                for size in sorted(asked.sample):
                    kept: dict[str, list[float]] = {n: [] for n in pipes}
                    how: dict[str, list[str]] = {n: [] for n in pipes}
                    for _ in range(SAMPLES + 1):
                        append(sources, order.take(size), asked.commits)
                        refreshed(pipes, kept, how)
                    samples[size] = {
                        n: {"batch_s": round(statistics.median(kept[n][1:]), 3), "strategy": how[n][-1]} for n in pipes
                    }
                    print(
                        (
                            f"batches of {size:,}: "
                            f"{sum(s['batch_s'] for s in samples[size].values()):.1f} s for all queries"
                        ),
                        flush=True,
                    )
            taken = order.take(asked.batch)
            append(sources, taken, asked.commits)
            refreshed(pipes, whole, strategies)
            for name in pipes:
                rows[name] += sum(t.num_rows for r, t in taken.items() if r in reads[name])
            print(
                f"{total - order.left:,} of {total:,} rows: {sum(s[-1] for s in whole.values()):.1f} s for all queries",
                flush=True,
            )
        wrong = [n for n, p in pipes.items() if not p.verify(n)]
        if wrong:
            raise SystemExit(f"different from a recompute: {', '.join(wrong)}")
    found = {}
    for name in pipes:
        seconds = sum(whole[name])
        mine = sum(relevant[r] for r in reads[name])
        found[name] = {
            "updates": rows[name],
            "seconds": round(seconds, 2),
            "per_s": round(rows[name] / seconds),
            "strategies": "".join(s[0] for s in strategies[name]),
            "published": PUBLISHED[name],
            "extrapolated": {
                str(size): {
                    **s[name],
                    "seconds": round(s[name]["batch_s"] * total / size),
                    "per_s": round(mine / (s[name]["batch_s"] * total / size)),
                }
                for size, s in samples.items()
                if s[name]["batch_s"] > NOTHING_S
            },
        }
        print(f"{name}  {seconds:7.2f} s  {rows[name] / seconds / 1e6:.2f} M/s  {found[name]['strategies']}")
    kind = f"_{asked.commits}_commits" if asked.commits > 1 else ""
    kind += f"_{asked.engine}" if asked.engine != SPARK else ""
    print(
        report.write(
            f"from_empty_{asked.batch}{kind}",
            {"batch": asked.batch, "commits": asked.commits, "engine": asked.engine, "queries": found},
        )
    )


if __name__ == "__main__":
    main()
