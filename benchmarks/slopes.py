"""What grows with the number of views, and with the number of files of a source: the slopes behind docs/scale.md.

    views    a pipeline of N views over N / 5 sources (benchmarks.noop), refreshed once without a JVM: then, each in a
             fresh process, loading it, a refresh that finds nothing to do, and one in which four sources changed
    files    a source whose log names N files, none of which is there: opening it, reading what the log says of each
             file, and choosing those that may hold 1,000 keys

python -m benchmarks.slopes [--views 100,300,1000] [--files 1000,10000,100000] [--keep]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import psutil

from benchmarks import report
from benchmarks.noop import make
from benchmarks.soak import change

#: Rows that each file of the made log is said to hold, and its bytes: 1 GB.
ROWS_A_FILE, BYTES_A_FILE = 10_000_000, 1_000_000_000
#: Columns of the made source that the log has statistics of.
COLUMNS = 8
#: Keys that are looked for.
KEYS = 1_000
#: Sources that change before a refresh.
CHANGED = 4


def measured(part: str, *arguments: str) -> dict[str, Any]:
    """The figures of a part in a process of its own. Ends the program where it fails."""
    command = [sys.executable, "-m", "benchmarks.slopes", "--part", part, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def megabytes() -> int:
    """What this process holds of the machine's memory."""
    return round(psutil.Process().memory_info().rss / 1e6)


def of_views(views: int, place: Path) -> dict[str, Any]:
    """Figures of a pipeline of so many views."""
    started = time.perf_counter()
    make(place, views, views // 5, "duckdb")
    built = round(time.perf_counter() - started, 1)
    log = sum(f.stat().st_size for f in (place / "root" / "_ivm").rglob("*") if f.is_file() and "epochs" in f.parts)
    idle, working = measured("idle", str(place)), measured("working", str(place))
    after = sum(f.stat().st_size for f in (place / "root" / "_ivm").rglob("*") if f.is_file() and "epochs" in f.parts)
    return {
        "views": views, "sources": views // 5, "first_refresh_s": built, **idle, **working,
        "log_kb": round(log / 1e3), "log_kb_an_epoch": round((after - log) / 1e3),
    }  # fmt: skip


def loaded(place: Path) -> tuple[Any, float]:
    """The pipeline, and the seconds that loading it took."""
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # Spark's functions are built without a JVM
    from ivm import Pipeline
    from tests.pure.duck_session import DuckSession

    session: Any = DuckSession()
    started = time.perf_counter()
    return Pipeline.load(place, session), time.perf_counter() - started


def idle(place: Path) -> dict[str, Any]:
    """Loading, and a refresh that finds nothing to do."""
    pipe, seconds = loaded(place)
    started = time.perf_counter()
    assert pipe.refresh().ok
    nothing = time.perf_counter() - started
    return {"load_s": round(seconds, 3), "no_op_s": round(nothing, 3), "python_mb": megabytes()}


def working(place: Path) -> dict[str, Any]:
    """A refresh after some sources changed."""
    chance = random.Random(1)
    for path in sorted((place / "sources").iterdir())[:CHANGED]:
        change(str(path), chance)
    pipe, _ = loaded(place)
    started = time.perf_counter()
    done = pipe.refresh()
    assert done.ok, {v.view: v.error for v in done.views.values() if v.error}
    some = sum(v.strategy != "unchanged" for v in done.views.values())
    return {"refresh_s": round(time.perf_counter() - started, 3), "refreshed": some}


def of_files(files: int, place: Path) -> dict[str, Any]:
    """Figures of a source of so many files."""
    path = place / "source"
    write_log(path, files)
    return {"files": files, "source_tb": files * BYTES_A_FILE / 1e12, **measured("opened", str(path))}


def write_log(path: Path, files: int) -> None:
    """A table of which there is the log only, with a checkpoint; k rises from file to file."""
    from deltalake import DeltaTable

    names = [f"c{i}" for i in range(COLUMNS - 1)]
    fields = [{"name": n, "type": "long", "nullable": True, "metadata": {}} for n in ("k", *names)]
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}},
        {
            "metaData": {
                "id": str(uuid.uuid4()),
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps({"type": "struct", "fields": fields}),
                "partitionColumns": [],
                "configuration": {"delta.enableChangeDataFeed": "true"},
                "createdTime": 0,
            }
        },
    ]
    for i in range(files):
        low, high = i * ROWS_A_FILE, (i + 1) * ROWS_A_FILE - 1
        stats = {
            "numRecords": ROWS_A_FILE,
            "minValues": {"k": low, **dict.fromkeys(names, 0)},
            "maxValues": {"k": high, **dict.fromkeys(names, 1_000_000)},
            "nullCount": dict.fromkeys(("k", *names), 0),
        }
        actions.append(
            {
                "add": {
                    "path": f"part-{i:05d}-{uuid.uuid4()}.c000.snappy.parquet",
                    "partitionValues": {},
                    "size": BYTES_A_FILE,
                    "modificationTime": 0,
                    "dataChange": True,
                    "stats": json.dumps(stats),
                }
            }
        )
    (path / "_delta_log").mkdir(parents=True)
    text = "".join(json.dumps(a) + "\n" for a in actions)
    (path / "_delta_log" / f"{0:020d}.json").write_text(text)
    DeltaTable(str(path)).create_checkpoint()


def opened(path: Path) -> dict[str, Any]:
    """Opening a table by its log, and choosing files."""
    import pyarrow as pa

    from ivm.lake import native
    from ivm.lake.parquet_scan import ParquetScan

    before = megabytes()
    started = time.perf_counter()
    table = native.table(str(path), None)
    opening = time.perf_counter() - started
    started = time.perf_counter()
    scan = ParquetScan(str(path), table)
    files = scan._actions.num_rows
    told = time.perf_counter() - started
    chance = random.Random(1)
    keys = pa.table({"k0": pa.array([chance.randrange(files * ROWS_A_FILE) for _ in range(KEYS)], pa.int64())})
    started = time.perf_counter()
    chosen = len(scan._chosen([(("k",), keys, False)]))
    choosing = time.perf_counter() - started
    return {
        "open_s": round(opening, 3), "statistics_s": round(told, 3), "choose_s": round(choosing, 3),
        "chosen": chosen, "memory_mb": megabytes() - before,
    }  # fmt: skip


#: What a process of its own measures, in a place.
PARTS = {"idle": idle, "working": working, "opened": opened}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--views", default="100,300,1000")
    parser.add_argument("--files", default="1000,10000,100000")
    parser.add_argument("--keep", action="store_true", help="write the figures to benchmarks/results/slopes.json")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    parser.add_argument("place", nargs="?", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        print(json.dumps(PARTS[asked.part](asked.place)))
        return
    figures: dict[str, list[dict[str, Any]]] = {"views": [], "files": []}
    for kind, counts, measure in (("files", asked.files, of_files), ("views", asked.views, of_views)):
        for count in map(int, counts.split(",")):
            with tempfile.TemporaryDirectory() as place:
                figures[kind].append(measure(count, Path(place)))
            print(figures[kind][-1], flush=True)
    if asked.keep:
        print(report.write("slopes", figures))


if __name__ == "__main__":
    main()
