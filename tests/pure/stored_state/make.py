"""A small lake and a pipeline's state over it, as the ivm of this checkout writes it: `python make.py FOLDER`.

An archive beside this file is what an earlier ivm wrote (see README.md); `tests/pure/test_stored_state.py` opens each
of them with the code as it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

SCHEMA = pa.schema([("id", pa.int64()), ("cust", pa.int32()), ("amount", pa.int32())])
FIRST = [(1, 1, 5), (2, 1, 3), (3, 2, 8), (4, 2, 8), (5, 3, 1), (6, None, 2)]
THEN = [(7, 1, 7), (8, 4, 3)]
#: By name: a view's SQL and its mode. Accumulators; a unit inside, which is a stream; groups evaluated anew; full by
#: mode; refused.
VIEWS = {
    "totals": ("SELECT cust, sum(amount) AS s, count(*) AS n FROM orders GROUP BY cust", "auto"),
    "nested": (
        "SELECT n, count(*) AS customers FROM (SELECT cust, count(*) AS n FROM orders GROUP BY cust) GROUP BY n",
        "auto",
    ),
    "best": ("SELECT cust, max(amount) AS m FROM orders WHERE amount > 1 GROUP BY cust", "auto"),
    "whole": ("SELECT cust, amount FROM orders WHERE amount > 2", "full"),
    "refused": ("SELECT id FROM orders UNION BY NAME SELECT id FROM orders", "auto"),
}


def rows(values: list[tuple[int, int | None, int]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, v, strict=True)) for v in values], SCHEMA)


def change(folder: Path) -> None:
    """A deletion and an insertion in the source: every view changes."""
    DeltaTable(f"{folder}/orders").delete("id = 2")
    write_deltalake(f"{folder}/orders", rows(THEN), mode="append")


def pipeline(spark: Any, folder: Path, **changed: tuple[str, str]) -> Any:
    """The pipeline as a new process would declare it; `changed` are views that read otherwise now."""
    from ivm import Pipeline

    made = Pipeline("stored", spark, f"{folder}/root")
    made.source("orders", f"{folder}/orders", primary_key=["id"])
    for name, (sql, mode) in {**VIEWS, **changed}.items():
        made.view(name, sql, mode=mode)
    return made


def main(folder: Path) -> None:
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # Spark's functions are built without a JVM
    from tests.pure.duck_session import DuckSession

    write_deltalake(f"{folder}/orders", rows(FIRST), configuration={"delta.enableChangeDataFeed": "true"})
    assert pipeline(DuckSession(), folder).refresh().ok
    change(folder)
    assert pipeline(DuckSession(), folder).refresh().ok


if __name__ == "__main__":
    main(Path(sys.argv[1]))
