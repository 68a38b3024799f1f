"""Z-sets as Arrow tables against plain Python: what is told apart by numbers first, and by comparing where it isn't."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.names import WEIGHT
from ivm.zset import members, weighted
from ivm.zset.fingerprints import fingerprints
from ivm.zset.members import among, once
from ivm.zset.weighted import consolidate, staying

MANY = 2**53
TYPES = {
    "long": (pa.int64(), st.sampled_from([0, 1, -1, MANY, MANY + 1, -(2**63), 2**63 - 1])),
    "byte": (pa.int8(), st.sampled_from([0, 1, -128, 127])),
    "decimal": (
        pa.decimal128(38, 2),
        st.sampled_from([Decimal(x) for x in ("0", "1.50", "-1.50", "9" * 36, "-" + "9" * 36)]),
    ),
    "short": (pa.decimal128(12, 2), st.sampled_from([Decimal("0.01"), Decimal("-0.01"), Decimal("9999999999.99")])),
    "date": (pa.date32(), st.sampled_from([datetime.date(1, 1, 1), datetime.date(2024, 2, 29)])),
    "time": (pa.timestamp("us"), st.sampled_from([datetime.datetime(1, 1, 1), datetime.datetime(2024, 2, 29, 1)])),
    "text": (pa.string(), st.sampled_from(["", "a", "b", "ab", "é"])),
    "double": (pa.float64(), st.sampled_from([0.5, 1.5])),
    "flag": (pa.bool_(), st.booleans()),
}


@st.composite
def weighted_rows(draw, signs=(-1, 1)):
    """Rows of some columns, in pieces that don't begin where their buffers do, with NULLs over any bytes."""
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4, unique=True))
    n = draw(st.integers(0, 12))
    columns = []
    for name in names:
        type_, values = TYPES[name]
        found = pa.array([draw(st.none() | values) for _ in range(n + 1)], type_)[1:]
        cut = draw(st.integers(0, n))
        columns.append(pa.chunked_array([found[:cut], found[cut:]], type_))
    weights = pa.array([draw(st.sampled_from(signs)) for _ in range(n)], pa.int32())
    return pa.table([*columns, weights], names=[*names, WEIGHT])


def counted(rows):
    found = Counter()
    for row in rows.to_pylist():
        weight = row.pop(WEIGHT, 1)
        found[tuple(row.values())] += weight
    return {row: n for row, n in found.items() if n}


@pytest.fixture(autouse=True)
def as_of_many(monkeypatch):
    """A few rows are treated as many are."""
    monkeypatch.setattr(weighted, "_FEW", 0)
    monkeypatch.setattr(members, "_MANY", 1)


@given(weighted_rows((-1, 1, 1, 2, -3)))
@settings(deadline=None)
def test_consolidated_rows_are_those_that_counting_leaves(rows):
    found = consolidate(rows, [c for c in rows.column_names if c != WEIGHT])
    assert counted(found) == counted(rows)
    assert set(found[WEIGHT].to_pylist()) <= {1, -1}
    assert len({(tuple(r.values())[:-1], r[WEIGHT] > 0) for r in found.to_pylist()}) == len(counted(rows))


@given(weighted_rows(), st.data())
@settings(deadline=None)
def test_a_bag_without_another(rows, data):
    rows = rows.drop_columns([WEIGHT])
    taken = data.draw(st.lists(st.integers(0, max(0, rows.num_rows - 1)), max_size=5)) if rows.num_rows else []
    gone = rows.take(pa.array(taken, pa.int64()))
    assert Counter(counted(rows.filter(staying(rows, gone)))) == Counter(counted(rows)) - Counter(counted(gone))


@given(weighted_rows())
def test_equal_rows_have_equal_numbers_wherever_they_lie(rows):
    rows = rows.drop_columns([WEIGHT])
    numbers = fingerprints(rows)
    told = {"double", "flag"}
    if set(rows.column_names) <= told:
        assert numbers is None
        return
    again = fingerprints(pa.table([pa.array(c.to_pylist(), c.type) for c in rows.columns], names=rows.column_names))
    assert numbers.tolist() == again.tolist()
    by_row = {}
    for row, number in zip(rows.to_pylist(), numbers.tolist(), strict=True):
        assert by_row.setdefault(tuple(row.values()), number) == number


def test_numbers_tell_rows_apart_by_each_kind_of_value():
    base = {"k": 1, "d": Decimal("1.00"), "t": "a", "at": datetime.date(2024, 1, 1)}
    other = [{"k": 2}, {"d": Decimal("1.01")}, {"t": "ab"}, {"at": datetime.date(2024, 1, 2)}]
    rows = pa.Table.from_pylist([base, *({**base, **o} for o in other)])
    assert len(set(fingerprints(rows).tolist())) == 5
    assert len(set(fingerprints(pa.table({"t": ["a", "b", "c"]})).tolist())) == 3, "texts alone are told apart, too"


numbers = st.lists(st.none() | st.integers(-60, 60) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=20)


@given(numbers, numbers, st.sampled_from([pa.int64(), pa.int8(), pa.string()]))
def test_members_and_each_value_once(values, wanted, type_):
    cast = {pa.int64(): lambda v: v, pa.int8(): lambda v: v % 100, pa.string(): str}[type_]
    values, wanted = ([None if v is None else cast(v) for v in of] for of in (values, wanted))
    mine, theirs = (pa.chunked_array([of[:3], of[3:]], type_) for of in (values, wanted))
    assert among(mine, theirs).to_pylist() == [v in wanted for v in values]
    found = once(mine)
    assert found.type == type_
    assert Counter(found.to_pylist()) == Counter(set(values))


def test_numbers_far_apart_are_looked_up_in_a_set():
    mine = pa.chunked_array([[0, 2**62, 5]])
    assert among(mine, pa.chunked_array([[2**62, -(2**62)]])).to_pylist() == [False, True, False]
    assert sorted(once(mine).to_pylist()) == [0, 5, 2**62]


def test_numbers_that_share_a_place_are_told_apart():
    """A thousand numbers for some 64 places, of which three are taken."""
    mine = pa.chunked_array([[n << 40 for n in range(1000)]])
    wanted = [7 << 40, 300 << 40, 999 << 40]
    found = mine.filter(among(mine, pa.chunked_array([wanted])))
    assert found.to_pylist() == wanted
