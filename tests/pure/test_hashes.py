"""What an audit by checksum hashes tells rows apart where Spark's hash, of its values alone, wouldn't.

DuckDB evaluates it; what Spark's hash then goes through is taken from what that gives: all values at any depth in their
order, without NULLs.
"""

from __future__ import annotations

import itertools
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from ivm.plan.nodes import Column
from ivm.refresh.checksums import row_hash
from ivm.refresh.verify import hashed_sql

INTS, STRUCT = pa.list_(pa.int32()), pa.struct([("x", pa.int32()), ("y", pa.int32())])
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "array<int>": (INTS, [None, [], [None], [None, None], [1], [1, None], [None, 1], [1, 1], [0], [0, 1]]),
    "array<boolean>": (pa.list_(pa.bool_()), [None, [], [None], [True], [False], [True, False], [False, True]]),
    "array<array<int>>": (
        pa.list_(INTS),
        [None, [], [None], [[]], [[], None], [[], []], [[1], [2]], [[1, 2]], [[1, 2], []], [[], [1, 2]], [[1], None]],
    ),
    "struct<x:int,y:int>": (
        STRUCT,
        [None, *({"x": x, "y": y} for x, y in itertools.product((None, 0, 1), repeat=2))],
    ),
    "array<struct<x:int,y:int>>": (
        pa.list_(STRUCT),
        [[], [None], [{"x": 1, "y": None}], [{"x": None, "y": 1}], [None, {"x": 1, "y": None}], [{"x": 1, "y": 1}]],
    ),
    "struct<a:array<int>,b:array<int>>": (
        pa.struct([("a", INTS), ("b", INTS)]),
        [
            None,
            *({"a": a, "b": b} for a, b in itertools.product((None, [], [1], [1, 1], [None, 1], [1, None]), repeat=2)),
        ],
    ),
    "map<string,string>": (
        pa.map_(pa.string(), pa.string()),
        [None, [], [("a", None)], [("a", None), ("b", "x")], [("a", "b"), ("x", None)], [("a", "b")]],
    ),
    "map<string,array<int>>": (
        pa.map_(pa.string(), INTS),
        [[("a", None)], [("a", [])], [("a", [1])], [("a", [None, 1])], [("a", [1, None])]],
    ),
}


def hashed(columns, rows):
    """What is hashed of each row."""
    expressions = [part for c in columns for part in hashed_sql(c)]
    duck = [sqlglot.transpile(e, read="spark", write="duckdb")[0] for e in expressions]
    connection = duckdb.connect()
    connection.register("rows", rows)
    return [tuple(leaves(row)) for row in connection.execute(f"SELECT {', '.join(duck)} FROM rows").fetchall()]


def leaves(value):
    if isinstance(value, dict):
        value = tuple(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part)
    elif value is not None:
        yield value  # Spark's true is hashed as its 1, and Python's is equal to it


@pytest.mark.parametrize("type_", VALUES)
def test_nested_values_are_told_apart(type_):
    arrow, values = VALUES[type_]
    found = hashed([Column("a", type_)], pa.table({"a": pa.array(values, arrow)}))
    assert len(found) == len(values)
    same = [(v, w) for (v, f), (w, g) in itertools.combinations(zip(values, found, strict=True), 2) if f == g]
    assert not same


def test_a_value_is_not_taken_for_a_part_of_the_next_column():
    arrow, values = VALUES["array<boolean>"]
    pairs = list(itertools.product(values, repeat=2))
    rows = pa.table({n: pa.array([p[i] for p in pairs], arrow) for i, n in enumerate("ab")})
    found = hashed([Column("a", "array<boolean>"), Column("b", "array<boolean>")], rows)
    assert len(set(found)) == len(pairs)


def test_flat_columns_are_hashed_as_ever():
    """So that what is kept of their views' checksums holds."""
    columns = [Column("a", "int"), Column("b`", "string"), Column("v", "variant")]
    value = "named_struct('type', schema_of_variant(`v`), 'value', to_json(`v`))"
    assert row_hash(columns) == f"xxhash64((`a`) IS NULL, `a`, (`b```) IS NULL, `b```, ({value}) IS NULL, {value})"
