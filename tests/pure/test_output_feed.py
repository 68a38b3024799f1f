"""A published table's change feed as an interface: what a consumer adds up is what the view became."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.lake import native
from ivm.zset.exact import hashable
from tests.pure.conftest import lake, scenes, without_a_jvm  # noqa: F401 - fixtures
from tests.scenes import CUSTOMERS, ORDERS, TINY, VIEWS, change, path

BEFORE = "refresh"


def bag(rows: pa.Table) -> Counter:
    return Counter(zip(*(hashable(rows[c]) for c in rows.column_names), strict=True))


def added_up(table: str, first: int, last: int) -> Counter:
    """The feed of versions first..last as a bag with signs."""
    delta = native.table(table, last)
    columns = [f.name for f in delta.schema().fields]
    feed = native.change_feed(delta, first, last, columns, 10**9)
    total: Counter = Counter()
    gone = {"delete", "update_preimage"}
    for row, kind in zip(
        zip(*(hashable(feed[c]) for c in columns), strict=True), feed["_change_type"].to_pylist(), strict=True
    ):
        total[row] += -1 if kind in gone else 1
    return Counter({row: n for row, n in total.items() if n})


def twice(made) -> None:
    """Copies of rows that are there, and one copy of two taken away."""
    copies = [(8, 4, 3), (7, 1, 7), (7, 1, 7)]
    rows = [dict(zip(ORDERS.names, r, strict=True)) for r in copies]
    write_deltalake(path(made, "orders"), pa.Table.from_pylist(rows, ORDERS), mode="append")


def fewer(made) -> None:
    held = DeltaTable(path(made, "orders")).to_pyarrow_table().to_pylist()
    seven = [r for r in held if r["id"] == 7]
    DeltaTable(path(made, "orders")).delete("id = 7")
    write_deltalake(path(made, "orders"), pa.Table.from_pylist(seven[:1], ORDERS), mode="append")


def renamed(made) -> None:
    DeltaTable(path(made, "customers")).delete("cust = 1")
    row = {"cust": 1, "name": None, "region": "north"}
    write_deltalake(path(made, "customers"), pa.Table.from_pylist([row], CUSTOMERS), mode="append")


@pytest.mark.parametrize("limits", [None, TINY], ids=["merged", "by files"])
def test_what_a_consumer_adds_up_is_what_the_view_became(lake, limits):  # noqa: F811 - the fixture
    if limits is not None:
        lake.limits = limits
    pipe = lake.pipeline(lake.folder)
    tables = {v: pipe.context.layout.table(v, True) for v in VIEWS}
    versions = {v: native.table(t).version() for v, t in tables.items()}
    held = {v: bag(native.read(native.table(t))) for v, t in tables.items()}
    moved = set()
    for step in (lambda _: None, twice, fewer, renamed, change):
        step(lake)
        assert lake.pipeline(lake.folder).refresh().ok
        for view, table in tables.items():
            now = native.table(table)
            if now.version() == versions[view]:
                continue
            moved.add(view)
            told = Counter(held[view])
            told.update(added_up(table, versions[view] + 1, now.version()))
            assert {r: n for r, n in told.items() if n} == dict(bag(native.read(now))), (view, versions[view])
            versions[view], held[view] = now.version(), bag(native.read(now))
    assert moved == set(VIEWS)
