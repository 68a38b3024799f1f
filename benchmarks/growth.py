"""What many epochs of tiny changes leave behind, by epoch.

Seconds of a refresh, of one that finds nothing to do, files and log. Three views over one source, of which two rows
change before each refresh (inserts, updates and deletes in turn).

python -m benchmarks.growth [--epochs 1000] [--every 20] [--keep-hours 0]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks import report

#: Epochs after which the source's owner compacts it.
TIDIED = 50
VIEWS = {
    "totals": "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k",
    "highest": "SELECT k, max(v) AS m FROM t GROUP BY k",
    "rich": "SELECT k, s FROM totals WHERE s > 100",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--every", type=int, default=20, help="epochs between two looks")
    parser.add_argument(
        "--keep-hours",
        type=int,
        default=0,
        help="how long files that were replaced are kept: 0 shows what remains for good",
    )
    asked = parser.parse_args()
    os.environ.setdefault("IVM_DRIVER_MEMORY", "4g")
    from deltalake import DeltaTable, write_deltalake

    import ivm
    from ivm.housekeeping import Retention
    from ivm.session import get_session

    spark = get_session()
    with tempfile.TemporaryDirectory() as temporary:
        source, root = f"{temporary}/t", Path(temporary) / "root"
        schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
        rows = pa.table({"k": [i % 50 for i in range(1000)], "v": list(range(1000))}, schema=schema)
        write_deltalake(
            source, rows, configuration={"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": "10"}
        )
        pipe = ivm.Pipeline(
            "growth", spark, root, retention=Retention(hours=asked.keep_hours, epochs=50, compact_every=50)
        )
        pipe.source("t", source)
        for name, sql in VIEWS.items():
            pipe.view(name, sql)
        pipe.refresh()
        looks: list[dict[str, Any]] = []
        seconds: list[float] = []
        for number in range(1, asked.epochs + 1):
            if number % 3 == 0:
                DeltaTable(source).delete(f"v = {number % 991}")
            changed = pa.table({"k": [number % 50, 7], "v": [number, 2 * number]}, schema=schema)
            if number % 3 == 2:
                merge = DeltaTable(source).merge(
                    changed, "t.k = s.k AND t.v = s.v - 1", source_alias="s", target_alias="t"
                )
                merge.when_matched_update({"v": "s.v"}).when_not_matched_insert({"k": "s.k", "v": "s.v"}).execute()
            else:
                write_deltalake(source, changed, mode="append")
            if number % TIDIED == 0:  # else its thousand small files are what a refresh reads for longest
                DeltaTable(source).optimize.compact()
            started = time.perf_counter()
            done = pipe.refresh()
            seconds.append(time.perf_counter() - started)
            if not done.ok or any(view.strategy == "full" for view in done.views.values()):
                raise SystemExit(str(done))
            if number % asked.every == 0:
                started = time.perf_counter()
                pipe.refresh()
                looks.append(
                    {"epoch": number, "no_op_s": round(time.perf_counter() - started, 4), **_left(root, seconds)}
                )
                seconds = []
                print(looks[-1], flush=True)
        for name in VIEWS:
            if not pipe.verify(name):
                raise SystemExit(f"{name} differs from a recompute")
        events = len(pipe.context.log.events())
    print(
        report.write(
            "growth",
            {
                "epochs": asked.epochs,
                "keep_hours": asked.keep_hours,
                "views": len(VIEWS),
                "events_in_log": events,
                "looks": looks,
            },
        )
    )


def _left(root: Path, seconds: list[float]) -> dict[str, Any]:
    """Median and longest refresh since the last look, files of the state and of its logs, bytes.

    The longest refresh holds a compaction.
    """
    files = [f for f in root.rglob("*") if f.is_file()]
    ordered = sorted(seconds)
    return {
        "refresh_s": round(ordered[len(ordered) // 2], 3),
        "longest_s": round(ordered[-1], 3),
        "files": len(files),
        "log_files": sum("_delta_log" in f.parts for f in files),
        "bytes": sum(f.stat().st_size for f in files),
    }


if __name__ == "__main__":
    main()
