"""What the `ivm` command costs where there is nothing to do: whole processes, over a pipeline of 100 views.

The views read 20 sources, one in four of them another view. The folder is made where it
isn't there yet, its first refresh by Spark, or by what the tests put in Spark's place (`--engine duckdb`).

python -m benchmarks.noop [--folder FOLDER] [--times 5] [--engine spark|duckdb] [--views 100] [--sources 20]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from benchmarks import report

#: What is timed: a name, and the command's arguments before the pipeline's folder.
COMMANDS = {
    "help": ("--help",),
    "refresh": ("refresh", "-p"),
    "status": ("status", "-p"),
    "plan": ("plan", "-p"),
    "explain": ("explain", "v00", "-p"),
}
ROWS = 200


def view(number: int, sources: int) -> str:
    """The SQL of a view: a filter, a join, a grouping of a join, or a grouping of an earlier view."""
    one, two = f"s{number % sources:02d}", f"s{(number + 1) % sources:02d}"
    kinds = (
        f"SELECT id, k, v * 2 AS twice FROM {one} WHERE v > {number % 7}",
        f"SELECT a.id, a.k, b.v FROM {one} a JOIN {two} b ON a.id = b.id",
        f"SELECT a.k, sum(b.v) AS s, count(*) AS n FROM {one} a JOIN {two} b ON a.id = b.id GROUP BY a.k",
        f"SELECT k, count(*) AS n FROM v{number - 3:02d} GROUP BY k",
    )
    return kinds[number % 4]


def make(folder: Path, views: int, sources: int, engine: str) -> None:
    """Write sources and pipeline, and refresh it once."""
    import pyarrow as pa
    from deltalake import write_deltalake

    rows = pa.table({"id": list(range(ROWS)), "k": [i % 20 for i in range(ROWS)], "v": [i % 11 for i in range(ROWS)]})
    lines = ["name: noop", "root: root", "sources:"]
    for number in range(sources):
        name = f"s{number:02d}"
        write_deltalake(
            folder / "sources" / name, rows, mode="ignore", configuration={"delta.enableChangeDataFeed": "true"}
        )
        lines.append(f"  {name}: {{path: sources/{name}, primary_key: [id]}}")
    (folder / "views").mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yml").write_text("\n".join(lines) + "\n")
    for number in range(views):
        (folder / "views" / f"v{number:02d}.sql").write_text(view(number, sources) + "\n")
    refresh(folder, engine)


def refresh(folder: Path, engine: str) -> None:
    """One refresh in this process. Ends the program where a view fails."""
    if engine == "duckdb":
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # Spark's functions are built without a JVM
    from ivm import Pipeline

    session: Any = None
    if engine == "duckdb":
        from tests.pure.duck_session import DuckSession

        session = DuckSession()
    done = Pipeline.load(folder, session).refresh()
    if not done.ok:
        raise SystemExit("\n".join(f"{v.view}: {v.error}" for v in done.views.values() if v.error))


def timed(arguments: tuple[str, ...], times: int) -> dict[str, float]:
    """Median wall and processor seconds of fresh processes. Ends the program where one fails."""
    walls, processor = [], []
    for _ in range(times):
        before, started = os.times(), time.perf_counter()
        ended = subprocess.run([sys.executable, "-m", "ivm.cli.main", *arguments], capture_output=True, text=True)
        walls.append(time.perf_counter() - started)
        after = os.times()
        processor.append(after.children_user - before.children_user + after.children_system - before.children_system)
        if ended.returncode:
            raise SystemExit(f"ivm {' '.join(arguments)}: {ended.stderr}")
    return {"wall_s": round(statistics.median(walls), 3), "processor_s": round(statistics.median(processor), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, help="where the pipeline is, or shall be made; else a temporary folder")
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--engine", choices=("spark", "duckdb"), default="spark", help="makes the first refresh")
    parser.add_argument("--views", type=int, default=100)
    parser.add_argument("--sources", type=int, default=20)
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/noop.json")
    asked = parser.parse_args()
    with nullcontext(asked.folder) if asked.folder else tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if not (folder / "pipeline.yml").exists():
            make(folder, asked.views, asked.sources, asked.engine)
        figures: dict[str, Any] = {
            name: timed((*words, str(folder)) if words[-1] == "-p" else words, asked.times)
            for name, words in COMMANDS.items()
        }
        figures = {"views": len(list((folder / "views").iterdir())), "processes": asked.times, **figures}
    print({"machine": report.machine(), **figures})
    if asked.keep:
        print(report.write("noop", figures))


if __name__ == "__main__":
    main()
