"""What waves recall of each other's keyed reads is what reading again would give."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ivm.feed.found import FoundRows, any_of, parts
from ivm.lake.keyed import KeyedReader
from ivm.planner.limits import EMBEDDED
from ivm.table.protocol import Wanted
from tests.pure.duck_session import DuckSession
from tests.pure.test_embedded import pipeline
from tests.scenes import VIEWS, change, scene

ROWS = pa.table({
    "a": pa.array([i % 5 if i % 7 else None for i in range(40)], pa.int32()),
    "b": pa.array([f"b{i % 3}" for i in range(40)]),
    "n": list(range(40)),
})  # fmt: skip
NUMBERS = st.lists(st.one_of(st.none(), st.integers(0, 5)), min_size=1, max_size=4, unique=True)
ONE = st.builds(lambda v: Wanted(("a",), pa.table({"k0": pa.array(v, pa.int64())})), NUMBERS)
TWO = st.builds(
    lambda v: Wanted(("b", "a"), pa.table({"k0": [f"b{x or 0}" for x in v], "k1": pa.array(v, pa.int64())})), NUMBERS
)
RANGE = st.builds(
    lambda low, width: Wanted(("n",), pa.table({"k0": [float(low), float(low + width)]}), between=True),
    st.integers(0, 3), st.integers(0, 3),
)  # fmt: skip
REQUESTS = st.lists(st.lists(st.one_of(ONE, TWO, RANGE), min_size=1, max_size=3), min_size=1, max_size=5)


def bag(rows: pa.Table) -> Counter[str]:
    return Counter(map(str, rows.to_pylist()))


@given(REQUESTS, st.sampled_from([0, 10, 1000]))
def test_recalled_and_read_are_all_rows_each_once(requests, most):
    found = FoundRows(most)
    for wanted in requests:
        recalled, known, left = found.recall("t", 1, ["n", "a"], wanted)
        rows = [recalled] if recalled is not None else []
        if left:
            read = ROWS.filter(any_of(left, ROWS))
            rows.append((read.filter(pc.invert(any_of(known, read))) if known else read).select(["n", "a"]))
        expected = ROWS.filter(any_of(wanted, ROWS))
        assert bag(pa.concat_tables(rows)) == bag(expected.select(["n", "a"]))
        found.keep("t", 1, expected, wanted)


@given(st.one_of(ONE, TWO, RANGE), st.lists(st.one_of(ONE, TWO, RANGE), max_size=3))
def test_known_and_left_are_the_keys_each_in_one(wanted, known):
    both = [p for p in parts(wanted, known) if p is not None]
    assert bag(pa.concat_tables([p.keys for p in both])) == bag(wanted.keys)


def test_nothing_is_recalled_of_another_version_of_fewer_columns_or_of_other_types():
    wanted = Wanted(("a",), pa.table({"k0": pa.array([1, None], pa.int64())}))
    found = FoundRows(100)
    found.keep("t", 1, ROWS.filter(wanted.of(ROWS)).select(["n", "a"]), [wanted])
    assert found.recall("t", 1, ["n"], [wanted])[2] == []
    texts = Wanted(("a",), pa.table({"k0": ["1"]}))
    for path, version, columns, asked in (
        ("t", 2, ["n"], wanted), ("u", 1, ["n"], wanted), ("t", 1, ["n", "b"], wanted), ("t", 1, ["n"], texts)
    ):  # fmt: skip
        assert found.recall(path, version, columns, [asked]) == (None, [], [asked])


@pytest.mark.usefixtures("without_a_jvm")
def test_a_later_wave_reads_no_key_again(tmp_path, monkeypatch):
    """Customers' orders join each other, and in the next wave their customers' totals."""
    made = scene(DuckSession(), tmp_path)
    views = {
        "pairs": "SELECT o.id, o.amount, p.id AS other FROM orders o JOIN orders p ON o.cust = p.cust",
        "totals": VIEWS["totals"],
        "shares": "SELECT o.id, o.amount, t.s FROM orders o JOIN totals t ON o.cust = t.cust",
    }
    limits = replace(EMBEDDED, whole_rows=0, native_whole_rows=-1)
    pipe = pipeline(made, views, made.spark, limits=limits)
    assert pipe.refresh().ok
    change(made)
    reads = []
    find = KeyedReader.find

    def counted(self, columns, keys, *args, **kwargs):
        reads.append((self._delta.table_uri.rstrip("/").rpartition("/")[2], {tuple(k[0]) for k in keys}))
        return find(self, columns, keys, *args, **kwargs)

    monkeypatch.setattr(KeyedReader, "find", counted)
    report = pipe.refresh()
    assert {v.strategy for v in report.views.values()} == {"incremental"}
    assert pipe.verify("shares")
    assert [r for r in reads if r[0] == "orders"] == [("orders", {("cust",)})]
