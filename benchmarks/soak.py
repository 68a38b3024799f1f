"""A pipeline of many views for many epochs of mixed DML: what a refresh takes, and what is left behind.

The pipeline is that of `benchmarks.noop`, where one view in four reads another. Before each refresh some sources change
(inserts, updates by MERGE and deletes, written by delta-rs). All views are compared with a recompute at the end.

python -m benchmarks.soak [--epochs 200] [--every 10] [--views 100] [--sources 20] [--changed 4]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa

from benchmarks import report
from benchmarks.noop import ROWS, make

#: Rows that each change inserts, updates or deletes.
FEW = 3
#: Epochs after which the sources' owner compacts them.
TIDIED = 50


def change(path: str, chance: random.Random) -> None:
    """Commit an insert, an update or a delete of some rows."""
    from deltalake import DeltaTable, write_deltalake

    some = [chance.randrange(2 * ROWS) for _ in range(FEW)]
    kind = chance.choice(("insert", "update", "delete"))
    if kind == "delete":
        DeltaTable(path).delete(f"id IN ({', '.join(map(str, some))})")
        return
    rows = pa.table({"id": list(dict.fromkeys(some)), "k": [i % 20 for i in dict.fromkeys(some)]})
    rows = rows.append_column("v", pa.array([chance.randrange(11) for _ in range(rows.num_rows)], pa.int64()))
    table = DeltaTable(path)
    merge = table.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
    if kind == "update":
        # Equal rows are left alone: delta-rs forgets an update that changes nothing in its feed (see docs/sources.md).
        merge.when_matched_update({"v": "s.v"}, predicate="t.v <> s.v").execute()
    else:
        known = table.to_pyarrow_table(columns=["id"])["id"].to_pylist()
        new = rows.filter(pa.array([i not in set(known) for i in rows["id"].to_pylist()]))
        write_deltalake(path, new, mode="append")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--every", type=int, default=10, help="epochs between two looks")
    parser.add_argument("--views", type=int, default=100)
    parser.add_argument("--sources", type=int, default=20)
    parser.add_argument("--changed", type=int, default=4, help="sources that change before each refresh")
    asked = parser.parse_args()
    os.environ.setdefault("IVM_DRIVER_MEMORY", "4g")
    from deltalake import DeltaTable

    from ivm import Pipeline
    from ivm.housekeeping import Retention

    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make(folder, asked.views, asked.sources, "spark")
        pipe = Pipeline.load(folder)
        pipe.context.retention = Retention(hours=0, epochs=50, compact_every=50)
        paths = [str(p) for p in sorted((folder / "sources").iterdir())]
        looks: list[dict[str, Any]] = []
        seconds: list[float] = []
        used: list[float] = []
        for number in range(1, asked.epochs + 1):
            for path in chance.sample(paths, asked.changed):
                change(path, chance)
            if number % TIDIED == 0:
                for path in paths:
                    DeltaTable(path).optimize.compact()
            started, before = time.perf_counter(), _processor(pipe) if number > 1 else 0.0
            done = pipe.refresh()
            seconds.append(time.perf_counter() - started)
            used.append(_processor(pipe) - before)
            if not done.ok:
                raise SystemExit(str(done))
            if number % asked.every == 0:
                started = time.perf_counter()
                pipe.refresh()
                idle = round(time.perf_counter() - started, 3)
                looks.append({"epoch": number, "no_op_s": idle, **_left(folder / "root", seconds, used, _jvm(pipe))})
                seconds, used = [], []
                print(looks[-1], flush=True)
        different = [name for name in pipe.context.views if not pipe.verify(name)]
        if different:
            raise SystemExit(f"these differ from a recompute: {different}")
    shape = {"views": asked.views, "sources": asked.sources, "changed": asked.changed}
    print(report.write("soak", {"epochs": asked.epochs, **shape, "verified": asked.views, "looks": looks}))


def _jvm(pipe: Any) -> int:
    """The process id of the JVM that this process started."""
    return int(pipe.spark._jvm.java.lang.ProcessHandle.current().pid())


def _processor(pipe: Any) -> float:
    """Seconds of a processor that this process and its JVM have used: alike on a quiet machine and on a busy one."""
    return sum(sum(psutil.Process(p).cpu_times()[:2]) for p in (os.getpid(), _jvm(pipe)))


def _left(root: Path, seconds: list[float], used: list[float], jvm: int) -> dict[str, Any]:
    """Medians and longest refresh since the last look; files of the state and its logs; megabytes and open handles."""
    files = [f for f in root.rglob("*") if f.is_file()]
    handles = {p: len(list(Path(f"/proc/{p}/fd").iterdir())) for p in (os.getpid(), jvm)}
    return {
        "refresh_s": round(statistics.median(seconds), 3),
        "longest_s": round(max(seconds), 3),
        "processor_s": round(statistics.median(used), 3),
        "files": len(files),
        "log_files": sum("_delta_log" in f.parts for f in files),
        "state_mb": round(sum(f.stat().st_size for f in files) / 1e6, 1),
        "python_mb": _resident(os.getpid()),
        "jvm_mb": _resident(jvm),
        "handles": sum(handles.values()),
    }


def _resident(process: int) -> int:
    """Resident megabytes of a process."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


if __name__ == "__main__":
    main()
