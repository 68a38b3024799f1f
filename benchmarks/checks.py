"""What the checks of a state cost against the change: sums kept of the whole table, or all its rows read again.

A view of ROWS rows with an expectation of each kind of which sums are kept. In each epoch some rows are updated; the
step `check` is timed as it is, and once more where the kept sums were thrown away before.

python -m benchmarks.checks [--rows 1000000] [--changes 10 1000 100000] [--times 3] [--keep]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import report

CHECKS = [
    {"expect_table_row_count_to_be_between": {"min_value": 1}},
    {"expect_column_sum_to_be_between": {"column": "amount", "min_value": 0}},
    {"expect_column_values_to_not_be_null": {"column": "name"}},
    {"expect_column_values_to_be_between": {"column": "amount", "min_value": 0}},
    {"expect_column_distinct_values_to_be_in_set": {"column": "name", "value_set": [f"n{i}" for i in range(50)]}},
]
#: Beside the change this one looks for the changed values in one column of the table.
UNIQUE = {"expect_column_values_to_be_unique": {"column": "id"}}


def source(folder: Path, rows: int) -> None:
    """A table of ids, 50 names and amounts."""
    import numpy as np
    import pyarrow as pa
    from deltalake import write_deltalake

    ids = np.arange(rows)
    made = pa.table({"id": ids, "name": pa.array([f"n{i % 50}" for i in ids]), "amount": ids % 1_000})
    write_deltalake(str(folder / "t"), made, configuration={"delta.enableChangeDataFeed": "true"})


def update(folder: Path, which: str) -> None:
    """Take rows away and bring them back with other amounts; delta-rs writes no whole feed of an UPDATE."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable, QueryBuilder, write_deltalake

    table = DeltaTable(str(folder / "t"))
    rows = QueryBuilder().register("t", table).execute(f"SELECT id, name, amount FROM t WHERE {which}").read_all()
    amounts = pc.bit_wise_xor(pa.table(rows)["amount"], 1)
    table.delete(which)
    write_deltalake(str(folder / "t"), pa.table(rows).set_column(2, "amount", amounts), mode="append")


def pipeline(folder: Path, checks: list[dict[str, Any]], view: str) -> Any:
    """A pipeline with one view of the whole source, and these checks of its state."""
    import ivm

    pipe = ivm.Pipeline(view, root=folder / view, checks={view: {"state": checks}})
    pipe.source("t", str(folder / "t"), primary_key=["id"])
    pipe.view(view, "SELECT id, name, amount FROM t", mode="incremental")
    return pipe


def checked(pipe: Any, view: str, kept: bool) -> dict[str, Any]:
    """Refresh; the seconds of the step `check`, and over how many rows the expectations of the state were judged.

    Ends the program where a check fails, or where they were not judged as was asked for.
    """
    from ivm.quality import gate
    from ivm.storage.location import Location

    if not kept:
        Location.of(pipe.context.layout.facts).drop()
    seconds = []
    run_gate = gate.run_gate

    def timed(*given: Any) -> Any:
        started = time.perf_counter()
        found = run_gate(*given)
        seconds.append(time.perf_counter() - started)
        return found

    gate.run_gate = timed
    try:
        done = pipe.refresh()
    finally:
        gate.run_gate = run_gate
    judged = {r.judged for r in pipe.checks(view, 1) if r.scope == "state" and "row_count" not in r.expectation}
    if not done.ok or (judged == {"counts"}) != kept:
        raise SystemExit(f"{view}: {done}, judged by {judged}")
    report_ = done.views[view]
    rows = report_.rows_out if kept else pipe.context.log.manifest().units[view].rows
    return {"seconds": sum(seconds), "rows": rows}


def measure(folder: Path, rows: int, changes: list[int], times: int) -> list[dict[str, Any]]:
    """A line a view and size of change: medians of `times` epochs with the sums kept, and of as many without."""
    lines = []
    for view, checks in (("counted", CHECKS), ("with_unique", [*CHECKS, UNIQUE])):
        pipe = pipeline(folder, checks, view)
        if not pipe.refresh().ok:
            raise SystemExit(f"{view}: the first refresh failed")
        for changed in changes:
            found: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
            for kept in (True, False) * times:
                update(folder, f"id % {rows // changed} = 0")
                found[kept].append(checked(pipe, view, kept))
            line: dict[str, Any] = {"view": view, "rows": rows, "changed": changed}
            for kept, name in ((True, "kept"), (False, "rescan")):
                line[f"{name}_rows"] = found[kept][0]["rows"]
                line[f"{name}_seconds"] = round(statistics.median(f["seconds"] for f in found[kept]), 3)
            lines.append(line)
            print(line, flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, nargs="+", default=[10, 1_000, 100_000])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="write the results to benchmarks/results")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ivm_checks_") as folder:
        source(Path(folder), given.rows)
        lines = measure(Path(folder), given.rows, given.changes, given.times)
    if given.keep:
        report.write("checks", {"times": given.times, "lines": lines})


if __name__ == "__main__":
    main()
