"""The pipeline on which faults are tried (seven dependent views over two sources, one with an inner unit), and how.

Its sources are written by delta-rs, so that the same scene serves Spark and what tests put in its place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from ivm.lake import native
from ivm.lake.log import head_of
from ivm.names import table_ref
from ivm.pipeline import Pipeline
from ivm.planner.limits import EMBEDDED, Limits
from ivm.refresh.integrity import TABLE, paths
from ivm.refresh.records import to_json
from ivm.storage.location import Location
from ivm.testing.faults import Effect, Fault, Point, Trouble
from ivm.testing.primitives import Primitive
from ivm.testing.recovery import Action, Scene, Try

NIGHTLY = os.environ.get("IVM_NIGHTLY") == "1"
#: Which way of failing comes at which point.
SEED = int(os.environ.get("IVM_FAULT_SEED", "0"))

VIEWS = {
    "big": "SELECT id, cust, amount * 2 AS twice FROM orders WHERE amount > 2",
    "totals": "SELECT cust, sum(amount) AS s, count(*) AS n FROM orders GROUP BY cust",
    "best": "SELECT cust, max(amount) AS m FROM orders GROUP BY cust",
    "named": (
        "SELECT /*+ ARRANGE(orders, cust) */ o.id, c.name, o.amount FROM orders o JOIN customers c ON o.cust = c.cust"
    ),
    "rich": "SELECT t.cust, t.s, b.m FROM totals t JOIN best b ON t.cust = b.cust WHERE t.s > 3",
    "idle": (
        "SELECT c.region, count(o.id) AS n FROM customers c LEFT JOIN orders o ON o.cust = c.cust GROUP BY c.region"
    ),
    "nested": "SELECT n, count(*) AS customers FROM (SELECT cust, count(*) AS n FROM orders GROUP BY cust) GROUP BY n",
}
ORDERS = pa.schema([("id", pa.int64()), ("cust", pa.int32()), ("amount", pa.int32())])
CUSTOMERS = pa.schema([("cust", pa.int32()), ("name", pa.string()), ("region", pa.string())])
#: Everything is large. Batches are published by writing tables anew.
TINY = replace(
    EMBEDDED,
    whole_rows=0,
    native_whole_rows=-1,
    few_first_rows=-1,
    searched_rows=-1,
    delta_rows=1,
    slice_rows=1,
    partition_rows=-1,
    summed_rows=1,
    result_rows=1,
    compare_rows=0,
    judged_rows=1,
    anew_share=0.0,
)
FOLLOW_UP = (
    ("orders", pa.Table.from_pylist([{"id": 90, "cust": 1, "amount": 9}, {"id": 91, "cust": 7, "amount": 4}], ORDERS)),
    (
        "customers",
        pa.Table.from_pylist(
            [{"cust": 9, "name": "iota", "region": "south"}, {"cust": 1, "name": "alias", "region": None}], CUSTOMERS
        ),
    ),
    ("orders", pa.Table.from_pylist([{"id": 92, "cust": 9, "amount": 3}, {"id": 90, "cust": 1, "amount": 9}], ORDERS)),
)


FIRST = (
    ("orders", [(1, 1, 5), (2, 1, 3), (3, 2, 8), (4, 2, 8), (5, 3, 1), (6, None, 2), (6, None, 2)], ORDERS),
    ("customers", [(1, "alpha", "north"), (2, "beta", "north"), (3, "gamma", "south"), (4, "delta", None)], CUSTOMERS),
)
ACTIONS: dict[str, Action] = {
    "build": lambda pipe: pipe.refresh(),
    "refresh": lambda pipe: pipe.refresh(),
    "backfill": lambda pipe: pipe.backfill("totals"),
    "slice": lambda pipe: pipe.backfill("totals", where="cust = 1"),
    "compact": lambda pipe: pipe.compact(keep_epochs=1),
}


def scene(spark: Any, folder: Path | Location, writes: Sequence[Primitive] = ()) -> Scene:
    """The sources with their first rows; nothing is built yet."""
    made = Scene(spark, folder / "lake", VIEWS, ("orders", "customers"), FOLLOW_UP, writes=writes)
    for name, rows, schema in FIRST:
        data = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
        write_deltalake(path(made, name), data, configuration={"delta.enableChangeDataFeed": "true"})
    return made


def change(made: Scene) -> None:
    """A mixture of changes in both sources; each view changes.

    No UPDATE of delta-rs: its feed may be incomplete, which is answered by a full refresh.
    """
    DeltaTable(path(made, "orders")).delete("id = 5 OR cust = 2")
    rows = [(7, 1, 7), (8, 4, 3), (8, 4, 3), (3, 2, 4), (4, 2, 4)]
    write_deltalake(
        path(made, "orders"),
        pa.Table.from_pylist([dict(zip(ORDERS.names, r, strict=True)) for r in rows], ORDERS),
        mode="append",
    )
    DeltaTable(path(made, "customers")).delete("cust = 2")
    west = pa.Table.from_pylist([{"cust": 2, "name": "beta!", "region": "west"}], CUSTOMERS)
    write_deltalake(path(made, "customers"), west, mode="append")


def saved(
    spark: Any, folder: Path | Location, action: str, writes: Sequence[Primitive] = (), limits: Limits = EMBEDDED
) -> Scene:
    """A scene in the state in which an action is tried."""
    made = scene(spark, folder, writes)
    made.limits = limits
    if action != "build":
        assert made.pipeline(made.folder).refresh().ok
    for _ in range({"refresh": 1, "compact": 2}.get(action, 0)):
        change(made)
        assert action == "refresh" or made.pipeline(made.folder).refresh().ok
    made.save()
    return made


def path(made: Scene, source: str) -> str:
    return f"{made.folder}/sources/{source}"


def ref(made: Scene, source: str) -> str:
    return table_ref(path(made, source))


def pinned(pipe: Pipeline, unit: str) -> None:
    """Let the manifest take a unit's tables as they are for what the last epoch left."""
    log = pipe.context.log
    manifest, epoch = log.manifest(), log.next_epoch()
    state = manifest.units[unit]
    heads = {what: head_of(at) for what, at in paths(pipe.context, unit, state).items() if native.exists(at)}
    units = manifest.units | {unit: replace(state, version=heads[TABLE].version, heads=heads)}
    log.record(epoch, "committed", detail=to_json(replace(manifest, epoch=epoch, units=units)))


# -- faults ---------------------------------------------------------------------------------------


def ways(point: Point) -> list[tuple[Effect, Any, Trouble]]:
    """All faults of a write."""
    dies = [(Effect.DIE, m, Trouble.DISK) for m in point.moments]
    return dies + [(Effect.FAIL, m, t) for m, t in product(point.moments, Trouble)]


def faults(points: Sequence[Point], stride: int = 1, every: bool = NIGHTLY) -> list[Fault]:
    """Those to try: all of each point, or one of every `stride`-th point, another way at each and with each SEED."""
    chosen = []
    for number, point in enumerate(points):
        of_point = [Fault(effect, moment, point, trouble) for effect, moment, trouble in ways(point)]
        chosen += (
            of_point
            if every
            else [of_point[(7 * number + SEED) % len(of_point)]]
            if (number + SEED) % stride == 0
            else []
        )
    return chosen


def tries(lake: Scene, act: Callable[[Any], Any], wanted: Sequence[Fault], at_once: int) -> Iterator[Try]:
    """Several faults a try, far from each other; one that was not reached comes again."""
    left = list(wanted)
    while left:
        size = min(at_once, len(left))
        chosen = [left[i * len(left) // size] for i in range(size)]
        found = lake.tried(act, chosen, late=len(left) % 5 == 0)
        yield found
        if not found.struck:
            left.remove(chosen[0])  # in another order of the threads there is no such write
        left = [f for f in left if f not in found.struck]


def judged(action: str, points: Sequence[Point], wanted: Sequence[Fault], tried: Sequence[Try]) -> None:
    """Raises AssertionError with every try that was not survived."""
    struck = sum(len(t.struck) for t in tried)
    print(
        f"{action}: {len(points)} points, {len(wanted)} faults, {struck} struck in {len(tried)} tries, "
        f"{sum(t.refreshes for t in tried)} refreshes"
    )
    wrong = [str(t) for t in tried if t.troubles]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(tried)}:", *wrong])
    assert struck >= 0.9 * len(wanted)
    assert action != "refresh" or not any("staging" in p.path for p in points), (
        "a full refresh was tried in place of an incremental one"
    )
