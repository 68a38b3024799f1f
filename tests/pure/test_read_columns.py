"""A refresh of some views reads the columns that these need, whatever the others would."""

from __future__ import annotations

import os
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import ivm.refresh.inputs
from ivm.planner.limits import EMBEDDED
from ivm.testing.recovery import Scene, differences
from tests.pure.duck_session import WRITES, DuckSession

#: Random lakes tried; the nightly run sets more.
EXAMPLES = int(os.environ.get("IVM_EXAMPLES", "4"))
ORDERS = pa.table({"id": list(range(12)), "cust": [i % 4 for i in range(12)], "price": [5] * 12, "note": ["x"] * 12})
CUSTOMERS = pa.table({"cust": list(range(5)), "name": list("abcde"), "town": list("uvuvu")})
VIEWS = {
    "sums": "SELECT cust, sum(price) AS price FROM orders GROUP BY cust",
    "noted": "SELECT id, note FROM orders WHERE note LIKE 'x%'",
    "named": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.cust = c.cust",
    "towns": "SELECT c.town, max(o.price) AS most FROM customers c JOIN orders o ON o.cust = c.cust GROUP BY c.town",
    "upon": "SELECT price, count(*) AS customers FROM sums GROUP BY price",
    "both": "SELECT s.cust, s.price, c.name FROM sums s LEFT JOIN customers c ON s.cust = c.cust",
}
HINTED = "SELECT /*+ ARRANGE(orders, cust) */ c.name, o.id FROM customers c JOIN orders o ON o.cust = c.cust"

pytestmark = pytest.mark.usefixtures("without_a_jvm")


def lake(tmp_path, views, limits=EMBEDDED):
    made = Scene(DuckSession(), tmp_path, views, ("orders", "customers"), writes=WRITES, limits=limits)
    for name, rows in (("orders", ORDERS), ("customers", CUSTOMERS)):
        path = str(tmp_path / "sources" / name)
        write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    assert made.pipeline(tmp_path).refresh().ok
    return made


def change(made, dice):
    """Some orders go, some come, perhaps a customer moves."""
    orders = f"{made.folder}/sources/orders"
    DeltaTable(orders).delete(f"id % 5 = {dice.randint(0, 4)}")
    rows = [dice.randint(20, 60) for _ in range(3)]
    added = {"id": rows, "cust": [r % 5 for r in rows], "price": [r % 7 for r in rows], "note": [f"x{r}" for r in rows]}
    write_deltalake(orders, pa.table(added), mode="append")
    if dice.random() < 0.5:
        customers, one = f"{made.folder}/sources/customers", dice.randint(0, 4)
        DeltaTable(customers).delete(f"cust = {one}")
        write_deltalake(customers, pa.table({"cust": [one], "name": ["n"], "town": [dice.choice("uv")]}), mode="append")


@pytest.fixture
def asked(monkeypatch):
    """The columns that each delta of a source was read with, by relation."""
    found = {}
    read = ivm.refresh.inputs.source_delta

    def noted(snapshot, since, upto, columns, *args):
        found.setdefault(snapshot.name, []).append(set(columns))
        return read(snapshot, since, upto, columns, *args)

    monkeypatch.setattr(ivm.refresh.inputs, "source_delta", noted)
    return found


@pytest.mark.parametrize(
    ("views", "columns"),
    [
        (["sums"], {"orders": [{"cust", "price"}]}),
        (["noted"], {"orders": [{"id", "note"}]}),
        (["upon"], {"orders": [{"cust", "price"}]}),
        (["named", "noted"], {"orders": [{"id", "cust", "note"}], "customers": [{"cust", "name"}]}),
        (None, {"orders": [{"id", "cust", "price", "note"}], "customers": [{"cust", "name", "town"}]}),
    ],
    ids=["a sum", "a text", "a view over a view", "two views", "all"],
)
def test_a_delta_is_read_with_the_columns_of_the_views_that_are_refreshed(tmp_path, asked, views, columns):
    made = lake(tmp_path, VIEWS)
    for number in range(2):
        dice = random.Random(number)
        change(made, dice)
        DeltaTable(f"{tmp_path}/sources/customers").delete(f"cust = {number}")
        asked.clear()
        assert made.pipeline(tmp_path).refresh(views).ok
        assert asked == columns
    assert made.pipeline(tmp_path).refresh().ok
    assert differences(made.pipeline(tmp_path), made.recomputed(tmp_path)) == []


def test_an_arrangement_holds_what_any_view_reads(tmp_path, asked, monkeypatch):
    """So a refresh of one view follows it, with all its columns, instead of making another one."""
    made = lake(tmp_path, {**VIEWS, "hinted": HINTED}, replace(EMBEDDED, whole_rows=0, native_whole_rows=-1))
    change(made, random.Random(1))
    assert (pipe := made.pipeline(tmp_path)).refresh().ok
    assert [a["relation"] for a in pipe.status()["arrangements"]] == ["orders"]
    monkeypatch.setattr("ivm.refresh.arrangements.rebuilt", pytest.fail)
    for number, views in enumerate((["hinted"], ["sums"], ["named"], ["noted"], None)):
        change(made, random.Random(number))
        asked.clear()
        assert made.pipeline(tmp_path).refresh(views).ok
        assert asked["orders"] == [{"id", "cust", "price", "note"}] * len(asked["orders"])
    assert differences(made.pipeline(tmp_path), made.recomputed(tmp_path)) == []


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_views_that_were_refreshed_at_different_times_are_all_right(tmp_path, seed):
    dice = random.Random(seed)
    few = replace(EMBEDDED, whole_rows=0, native_whole_rows=-1)
    made = lake(tmp_path, {**VIEWS, "hinted": HINTED} if seed % 2 else VIEWS, dice.choice([EMBEDDED, few]))
    for _ in range(5):
        change(made, dice)
        pipe = made.pipeline(tmp_path)
        assert pipe.refresh(dice.sample(sorted(VIEWS), dice.randint(1, 3))).ok
    assert pipe.refresh().ok
    assert differences(pipe, made.recomputed(tmp_path)) == []
