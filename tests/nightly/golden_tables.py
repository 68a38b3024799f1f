"""Tables that others made, read as sources by both lanes: delta-rs as Spark does, or it says why it doesn't.

    python -m tests.nightly.golden_tables FOLDER       every folder under it that has a _delta_log

Delta's golden tables (connectors/golden-tables of github.com/delta-io/delta) and those of delta-rs
(crates/test/tests/data) are such folders. Says of each table: read, refused and why, or neither can read it;
ends with 1 where one differs.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import SparkSession

from ivm.lake.shapes import plain
from ivm.session import error_text, get_session
from ivm.storage.location import Location
from ivm.table.protocol import Verb
from ivm.table.rust import RustTable
from ivm.table.spark import SparkTable
from ivm.zset.exact import hashable

READ, REFUSED, DIFFERS, NEITHER = "read", "refused", "DIFFERS", "read by neither"


def bag(rows: pa.Table) -> Counter[object]:
    """Rows as often as they are there."""
    return Counter(zip(*(hashable(c) for c in plain(rows).columns), strict=True)) if rows.num_columns else Counter()


def compared(path: str, spark: SparkSession, scratch: Location) -> tuple[str, str]:
    """What came of a table, and why."""
    native, other = RustTable(path), SparkTable(path, lambda: spark, scratch)
    why = native.capability(Verb.READ)
    try:
        expected, error = other.read(), ""
    except Exception as failure:  # noqa: BLE001 - of tables that are broken on purpose
        expected, error = None, error_text(failure)
    if why:
        return (REFUSED, why) if expected is not None else (NEITHER, f"{why}; Spark: {error}")
    try:
        found = native.read()
    except Exception as failure:  # noqa: BLE001 - likewise; a source is left to Spark then
        return (REFUSED, f"on reading: {failure}") if expected is not None else (NEITHER, error)
    if expected is None:
        return DIFFERS, f"delta-rs reads {found.num_rows} rows, Spark says {error}"
    if found.column_names != expected.column_names:
        return DIFFERS, f"columns {found.column_names}, by Spark {expected.column_names}"
    one, two = bag(found), bag(expected)
    if one != two:
        return DIFFERS, f"delta-rs only {list((one - two).items())[:2]}, Spark only {list((two - one).items())[:2]}"
    return READ, f"{found.num_rows} rows"


def main(folder: str) -> int:
    """Compare all tables under a folder; the exit code."""
    spark, counts = get_session(), Counter[str]()
    with TemporaryDirectory() as scratch:
        for log in sorted(Path(folder).rglob("_delta_log")):
            outcome, why = compared(str(log.parent), spark, Location.of(scratch))
            counts[outcome] += 1
            print(f"{outcome:16} {log.parent.relative_to(folder)}: {' '.join(why.split())[:200]}", flush=True)
    print(dict(counts))
    return 1 if counts[DIFFERS] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
