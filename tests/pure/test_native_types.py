"""The native lane's values: exact rows in merges, deltas and keys, times of any year, nothing that must not be NULL."""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from ivm.lake import bags, native, parquet
from ivm.lake.keys import filtered, hashable, matching
from ivm.lake.shapes import plain
from ivm.lake.types import beyond_arrow, stored_schema, unreadable
from ivm.names import WEIGHT
from ivm.plan.nodes import Filter
from ivm.storage.location import Location
from ivm.zset.weighted import staying, sum_weights

NINES = Decimal("9" * 38)
FIRST, LAST = -62135596800000000, 253402300799999999  # years 1 and 9999, in microseconds
VALUES = {
    "double": pa.array([0.0, -0.0, float("nan"), None, float("inf")], pa.float64()),
    "float": pa.array([0.0, -0.0, float("nan"), None, 1.5], pa.float32()),
    "struct": pa.array(
        [{"x": 0.0}, {"x": -0.0}, {"x": float("nan")}, {"x": None}, None], pa.struct([("x", pa.float64())])
    ),
    "array": pa.array([[0.0], [-0.0], [], [None], None], pa.list_(pa.float64())),
    "map": pa.array([[("a", -0.0)], [("a", 0.0)], [("a", None)], [], None], pa.map_(pa.string(), pa.float64())),
    "decimal": pa.array([NINES, Decimal("-" + "9" * 38), Decimal(0), Decimal(1), None], pa.decimal128(38, 0)),
    "times": pa.array([[FIRST], [LAST], [0, None], [], None], pa.list_(pa.timestamp("us", "UTC"))),
    "binary": pa.array([b"", b"\x00", b"a", b"\xff", None], pa.binary()),
}


def weighted(rows: pa.Table, *weights: int) -> pa.Table:
    return rows.append_column(WEIGHT, pa.array(weights, pa.int64()))


@pytest.mark.parametrize("kind", VALUES)
def test_a_merge_takes_exactly_its_rows(tmp_path, kind):
    rows = pa.table({"v": VALUES[kind]})
    write_deltalake(str(tmp_path / "t"), pa.concat_tables([rows, rows]))
    left = bags.copies_left(native.table(str(tmp_path / "t")), weighted(rows, -2, -1, -2, -1, -3), ["v"], "n")
    assert dict(zip(hashable(left["v"]), left["n"].to_pylist(), strict=True)) == dict(
        zip(hashable(rows["v"]), [0, 1, 0, 1, -1], strict=True)
    )
    for i in range(5):
        bags.merge(str(tmp_path / "t"), weighted(rows.slice(i, 1), -1), [], "test", i)
        found = sorted(map(repr, hashable(native.read(native.table(str(tmp_path / "t")))["v"])))
        expected = [*hashable(rows["v"])[i + 1 :], *hashable(rows["v"])]
        assert found == sorted(map(repr, expected))


@pytest.mark.parametrize("columns", [["k", "v"], ["k", "n"], ["k", "s", "v", "n"], ["s", "n"], ["v"]])
@pytest.mark.parametrize("most", [10_000, 3])
def test_copies_found_by_a_value_are_those_of_a_join(tmp_path, monkeypatch, columns, most):
    """A column with few whole numbers or strings leads to the rows; the others are compared as exactly as ever."""
    monkeypatch.setattr(bags, "_FEW_ROWS", most)
    monkeypatch.setattr(bags, "_FEW_COPIES", 1 if most == 3 else 10)
    chosen = random.Random(7)
    doubles, lists = [0.0, -0.0, float("nan"), 1.5, None], [[0.0], [-0.0], [], None]
    rows = pa.table(
        {
            "k": pa.array([chosen.randrange(4) for _ in range(200)], pa.int32()),
            "s": pa.array([chosen.choice(["a", "it's", 'x"', "é"]) for _ in range(200)]),
            "v": pa.array([chosen.choice(doubles) for _ in range(200)], pa.float64()),
            "n": pa.array([chosen.choice(lists) for _ in range(200)], pa.list_(pa.float64())),
        }
    ).select(columns)
    write_deltalake(str(tmp_path / "t"), rows)
    target = native.table(str(tmp_path / "t"))
    exact = list(zip(*(hashable(rows[c]) for c in columns), strict=True))
    first = sorted({row: i for i, row in enumerate(exact)}.values())[:6]
    weights = [chosen.choice([-2, -1, 1]) for _ in first]
    left = bags.copies_left(target, rows.take(first).append_column(WEIGHT, pa.array(weights, pa.int64())), columns, "l")
    told = dict(zip(zip(*(hashable(left[c]) for c in columns), strict=True), left["l"].to_pylist(), strict=True))
    assert told == {exact[i]: exact.count(exact[i]) + w for i, w in zip(first, weights, strict=True)}


@pytest.mark.parametrize("kind", VALUES)
def test_weights_are_summed_by_exact_values(kind):
    rows = pa.table({"v": VALUES[kind]})
    doubled = pa.concat_tables([weighted(rows, 1, 1, 1, 1, 1), weighted(rows, 1, -1, 1, -1, 1)])
    summed = sum_weights(doubled, ["v"])
    assert dict(zip(map(repr, hashable(summed["v"])), summed[WEIGHT].to_pylist(), strict=True)) == {
        repr(v): 2 for v in hashable(rows["v"])[::2]
    }


@given(
    bags_=st.tuples(*[st.lists(st.tuples(st.sampled_from([0, 1, 2, None]), st.integers(0, 4)), max_size=12)] * 2),
    typed=st.sampled_from([pa.int32(), pa.string(), None]),
)
@settings(max_examples=200, deadline=None)
def test_a_bag_without_another_keeps_the_copies_that_are_left(bags_, typed):
    """Beside exact values that no set of Arrow's tells apart; without a column by which rows are told apart, too."""
    values = VALUES["double"]

    def table(rows):
        columns = {"x": values.take(pa.array([v for _, v in rows], pa.int64()))}
        if typed is not None:
            columns["k"] = pa.array([k for k, _ in rows], pa.int64()).cast(typed)
        return pa.table(columns)

    def counted(rows):
        return Counter(zip(*map(hashable, rows.columns), strict=True))

    mine, other = map(table, bags_)
    assert counted(mine.filter(staying(mine, other))) == counted(mine) - counted(other)


def test_keys_are_found_in_any_year_and_beside_nulls():
    rows = pa.table(
        {"t": pa.array([FIRST, LAST * 10, None], pa.timestamp("us")), "k": pa.array([1, None, None], pa.int8())}
    )
    keys = pa.table({"k0": rows["t"], "k1": pa.array([1, None, 2], pa.int64())})
    assert matching(rows, ["t", "k"], keys).to_pylist() == [True, True, False]


def test_filters_compare_decimals_of_every_scale():
    rows = pa.table(
        {
            "d": pa.array([NINES, Decimal(1), None], pa.decimal128(38, 0)),
            "e": pa.array([Decimal("0." + "9" * 38), Decimal(0), None], pa.decimal128(38, 38)),
        }
    )
    assert filtered(rows, [Filter("d", "<=", ("1.5",))]).num_rows == 1
    assert filtered(rows, [Filter("e", "<", ("123456789012345678",))]).num_rows == 2
    assert filtered(rows, [Filter("e", "in", ("0", "7.25"))]).num_rows == 1


def test_timestamps_that_spark_wrote_keep_their_year(tmp_path):
    times = pa.table({"t": pa.array([FIRST, LAST, None], pa.timestamp("us", "UTC"))})
    pq.write_table(times, tmp_path / "part-0.parquet", use_deprecated_int96_timestamps=True)
    assert parquet.dataset(Location.of(str(tmp_path))).to_table()["t"].cast(pa.int64()).to_pylist() == [
        FIRST,
        LAST,
        None,
    ]


def test_nothing_of_ours_promises_not_null():
    inner = pa.field("x", pa.int32(), nullable=False)
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), nullable=False),
            pa.field("s", pa.struct([inner]), nullable=False),
            pa.field("l", pa.list_(inner), nullable=False),
        ]
    )
    loose = plain(schema.empty_table()).schema
    assert all(f.nullable for f in loose)
    assert loose.field("s").type.field(0).nullable
    assert loose.field("l").type.value_field.nullable
    stored = {
        "name": "s",
        "type": {"type": "struct", "fields": [{"name": "x", "type": "integer", "nullable": False, "metadata": {}}]},
        "nullable": False,
        "metadata": {"comment": "c"},
    }
    assert "false" not in stored_schema(json.dumps({"type": "struct", "fields": [stored]}), keep_padding=True)


def field(type_: object, **metadata: object) -> str:
    return json.dumps(
        {"type": "struct", "fields": [{"name": "c", "type": type_, "nullable": True, "metadata": metadata}]}
    )


def test_what_the_native_lane_leaves_to_spark():
    char, varchar = ({"__CHAR_VARCHAR_TYPE_STRING": t} for t in ("array<char(5)>", "varchar(5)"))
    assert "pads" in unreadable(field({"type": "array", "elementType": "string"}, **char))
    assert unreadable(field("string", **varchar)) == ""
    assert "variant" in unreadable(field({"type": "map", "keyType": "string", "valueType": "variant"}))
    assert "collation" in unreadable(field("string", __COLLATIONS={"c": "spark.UTF8_LCASE"}))
    assert "default" in unreadable(field("string", EXISTS_DEFAULT="'x'"))
    assert "interval" in unreadable(field("interval day to second"))
    assert beyond_arrow(field("variant")) == ("c",)
    assert json.loads(stored_schema(field("string", **varchar), keep_padding=True))["fields"][0]["metadata"] == {}
