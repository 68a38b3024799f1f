"""Key sets and states as SQL give what Arrow gives (`ivm.lake.keys`, `ArrowDatasets`); DuckDB runs it."""

from __future__ import annotations

import random
from collections import Counter

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from ivm.feed.key_sets import key_set, provided
from ivm.feed.states import flagged, ones, shifted
from ivm.lake.keys import distinct, filtered, matching, wide, within
from ivm.names import WEIGHT
from ivm.plan.nodes import IN_NEW, IN_OLD, Column, Filter
from ivm.rewrite.delta_join import State
from ivm.sql.filters import filter_sql
from ivm.table.slices import Picked, slice_sql
from tests.pure.duck import duck

COLUMNS = (Column("k", "int"), Column("s", "string"), Column("d", "date"))
TYPES = {c.name: c.type for c in COLUMNS}


def table(rng: random.Random, rows: int, least: int = 0) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([rng.choice([None, *range(least, 5)]) for _ in range(rows)], pa.int32()),
            "s": pa.array([rng.choice([None, "a", "ab", "b"]) for _ in range(rows)]),
            "d": pa.array([rng.choice([None, 19_000, 19_001]) for _ in range(rows)], pa.int32()).cast(pa.date32()),
        }
    )


def weighted(rng: random.Random, rows: int) -> pa.Table:
    return table(rng, rows).append_column(WEIGHT, pa.array([rng.choice([-1, 1]) for _ in range(rows)], pa.int32()))


def run(sql: str, **tables: pa.Table) -> pa.Table:
    connection = duckdb.connect()
    for name, rows in tables.items():
        connection.register(name, rows)
    return connection.sql(duck(sql)).to_arrow_table()


def bag(rows: pa.Table) -> Counter:
    return Counter(zip(*(c.to_pylist() for c in rows.columns), strict=True))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("columns", [["k"], ["s", "k"]])
def test_keys_and_what_they_pick(seed, nulls, columns):
    rng = random.Random(seed)
    delta, rows, target = table(rng, 6), table(rng, 6), table(rng, 40)
    filters = (Filter("s", "prefix", ("a",)), Filter("k", "in", ("0", "1", "3")))
    parts = [provided(name, columns, TYPES, filters, None) for name in ("delta", "rows")]
    found = run(key_set(parts, len(columns), nulls), delta=delta, rows=rows)
    expected = filtered(pa.concat_tables([delta, rows]), filters).select(columns)
    expected = wide(distinct(expected if nulls else expected.drop_null()))
    assert bag(found) == bag(expected)
    if found.num_rows:
        picked = Picked(tuple(columns), "keys", nulls)
        taken = run(slice_sql("target", list(TYPES), [picked], []), target=target, keys=found)
        assert bag(taken) == bag(target.filter(matching(target, columns, found)))
        none = run(slice_sql("target", list(TYPES), [picked], [picked]), target=target, keys=found)
        assert none.num_rows == 0


def test_a_range_picks_what_lies_within():
    target = table(random.Random(1), 40)
    picked = Picked(("k",), ends=(0.5, 2.5))
    among = within(target, ["k"], pa.table({"k0": pa.array([0.5, 2.5])}))
    sql = slice_sql("target", list(TYPES), [picked], [])
    assert bag(run(sql, target=target)) == bag(target.filter(among))
    keys = pa.table({"k0": ["a", "b", None]})
    other = slice_sql("target", list(TYPES), [Picked(("s",), "keys", nulls=True)], [picked])
    kept = target.filter(pc.and_(pc.invert(among), matching(target, ["s"], keys)))
    assert bag(run(other, target=target, keys=keys)) == bag(kept)


@pytest.mark.parametrize(
    ("f", "type_"),
    [
        (Filter("k", ">", ("1",)), "int"),
        (Filter("k", "<>", ("-1",)), "int"),
        (Filter("k", "<=", ("1.5",)), "decimal(10,2)"),
        (Filter("s", "=", ("it's",)), "string"),
        (Filter("s", "contains", ("b",)), "string"),
        (Filter("s", "suffix", ("b",)), "string"),
        (Filter("d", ">=", ("2022-01-09",)), "date"),
        (Filter("d", "in", ("2022-01-08", "2022-01-09")), "date"),
    ],
)
def test_filters(f, type_):
    rows = table(random.Random(2), 30)
    if type_.startswith("decimal"):
        rows = rows.set_column(0, "k", rows["k"].cast(pa.decimal128(12, 2)))
    found = run(f"SELECT * FROM t AS x WHERE {filter_sql(f, type_, 'x', f.column)}", t=rows)
    assert bag(found) == bag(filtered(rows, [f]))


@pytest.mark.parametrize("seed", range(6))
def test_states(seed):
    """The rows of both states, from either, and the bag of the other one."""
    rng = random.Random(seed)
    old = table(rng, 12)
    gone = old.slice(0, 4)
    come = pa.concat_tables([table(rng, 3), gone.slice(0, 1)])
    new = pa.concat_tables([old.slice(4), come])
    delta = pa.concat_tables(
        [t.append_column(WEIGHT, pa.array([w] * t.num_rows, pa.int32())) for t, w in ((come, 1), (gone, -1))]
    )
    names = list(TYPES)
    for base, rows in ((State.NEW, new), (State.OLD, old)):
        both = run(flagged(COLUMNS, "slice", base, "delta"), slice=rows, delta=delta)
        for flag, expected in ((IN_NEW, new), (IN_OLD, old)):
            assert bag(both.filter(pc.equal(both[flag], 1)).select(names)) == bag(expected)
    alone = run(flagged(COLUMNS, None, State.NEW, "delta"), delta=delta)
    assert bag(alone.filter(pc.equal(alone[IN_NEW], 1)).select(names)) == bag(come)
    assert bag(run(shifted(COLUMNS, "old", "delta"), old=old, delta=delta)) == bag(new)


@pytest.mark.parametrize("seed", range(4))
def test_ones_add_up(seed):
    rows = weighted(random.Random(seed), 40)
    found = run(ones("SELECT * FROM rows", COLUMNS), rows=rows)
    sums, expected = Counter(), Counter()
    for *row, weight in bag(found).elements():
        assert weight in (1, -1)
        sums[tuple(row)] += weight
    for *row, weight in bag(rows).elements():
        expected[tuple(row)] += weight
    assert sums == Counter({r: w for r, w in expected.items() if w})
    assert found.num_rows == sum(abs(w) for w in expected.values())
