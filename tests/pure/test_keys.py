"""Keyed reading without Spark: matches, filters, and which comparisons become filters."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
import sqlglot

from ivm.lake.keys import distinct, ends, filtered, matching, within
from ivm.names import WEIGHT
from ivm.plan.nodes import Filter
from ivm.refresh.inputs import _moved
from ivm.sql.dialect import IvmSpark
from ivm.sql.filters import Comparison, comparisons, typed

ROWS = pa.table(
    {
        "a": pa.array([1, 2, None, 3], pa.int32()),
        "b": ["x", None, "y", "xy"],
        "p": pa.array([Decimal("1.50"), Decimal("2.00"), None, Decimal("2.01")], pa.decimal128(10, 2)),
        "d": [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None, datetime.date(2023, 12, 31)],
    }
)


def test_keys_of_other_integer_widths_match_and_null_matches_null():
    assert matching(ROWS, ["a"], pa.table({"k": pa.array([2, 3], pa.int64())})).to_pylist() == [
        False,
        True,
        False,
        True,
    ]
    assert matching(ROWS, ["a"], pa.table({"k": pa.array([None, 1], pa.int64())})).to_pylist() == [
        True,
        False,
        True,
        False,
    ]


def test_keys_of_several_columns():
    keys = pa.table({"k0": pa.array([1, 3], pa.int64()), "k1": ["x", "x"]})
    assert matching(ROWS, ["a", "b"], keys).to_pylist() == [True, False, False, False]
    with_nulls = pa.table({"k0": pa.array([2, None], pa.int64()), "k1": [None, "y"]})
    assert matching(ROWS, ["a", "b"], with_nulls).to_pylist() == [False, True, True, False]


def test_distinct_keeps_each_key_once():
    assert distinct(pa.table({"k": [1, 1, 2]})).num_rows == 2


@pytest.mark.parametrize(
    ("filter_", "kept"),
    [
        (Filter("a", ">=", ("2",)), [2, 3]),
        (Filter("a", "in", ("1", "3")), [1, 3]),
        (Filter("b", "prefix", ("x",)), [1, 3]),
        (Filter("b", "suffix", ("y",)), [None, 3]),
        (Filter("b", "contains", ("y",)), [None, 3]),
        (Filter("b", "<>", ("x",)), [None, 3]),
        (Filter("p", "<=", ("2",)), [1, 2]),
        (Filter("p", ">", ("2.00",)), [3]),
        (Filter("p", ">", ("2.005",)), [3]),
        (Filter("p", "<", ("999999999999",)), [1, 2, 3]),
        (Filter("p", "in", ("2", "2.005")), [2]),
        (Filter("d", "<", ("2024-01-02",)), [1, 3]),
    ],
)
def test_filters_keep_what_meets_them_and_never_nulls(filter_, kept):
    assert filtered(ROWS, [filter_])["a"].to_pylist() == kept


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("t.a > 3", [("a", ">", ("3",), "number")]),
        ("-2 < t.a", [("a", ">", ("-2",), "number")]),
        ("t.a BETWEEN 1 AND 2", [("a", ">=", ("1",), "number"), ("a", "<=", ("2",), "number")]),
        ("t.b IN ('x', 'y')", [("b", "in", ("x", "y"), "text")]),
        ("t.d >= DATE '2024-01-01'", [("d", ">=", ("2024-01-01",), "date")]),
        ("t.b LIKE 'x%'", [("b", "prefix", ("x",), "text")]),
        ("t.b LIKE 'x_%'", []),
        ("t.b NOT LIKE 'x%'", []),
        ("t.b NOT IN ('x')", []),
        ("t.a NOT BETWEEN 1 AND 2", []),
        ("t.b LIKE 'x%' ESCAPE '/'", []),
        ("t.a IN (SELECT 1)", []),
        ("t.a > t.b", []),
        ("t.a + 1 > 3", []),
        ("NOT t.a > 3", []),
        ("t.a > 1 OR t.a < 0", []),
        ("t.a IN (1, 'x')", []),
    ],
)
def test_plain_comparisons_are_found_and_nothing_else(sql, found):
    parsed = sqlglot.parse_one(sql, read=IvmSpark)
    assert comparisons(parsed) == [Comparison(("t", c), op, values, kind) for c, op, values, kind in found]


@pytest.mark.parametrize(
    ("kind", "values", "type_", "fits"),
    [
        ("number", ("3",), "int", True),
        ("number", ("3.5",), "int", False),
        ("number", ("3.5",), "decimal(10,2)", True),
        ("number", ("3",), "double", False),
        ("number", ("3",), "string", False),
        ("text", ("3",), "int", False),
        ("text", ("a",), "string collate UTF8_LCASE", False),
        ("date", ("2024-01-01",), "timestamp", False),
    ],
)
def test_a_comparison_that_casts_is_no_filter(kind, values, type_, fits):
    assert (typed(Comparison(("t", "c"), "=", values, kind), "c", type_) is not None) == fits


def test_ends_of_integers_that_doubles_do_not_hold():
    big = pa.table({"k0": pa.array([2**62 + 1, 2**53 + 1, -(2**60) - 1])})
    assert within(big, ["k0"], ends(big)).to_pylist() == [True] * 3


def test_ends_of_days_that_python_does_not_have():
    far = pa.table({"k0": pa.array([5_000_000, -1_000_000], pa.int32()).cast(pa.date32())})
    assert within(far, ["k0"], ends(far)).to_pylist() == [True, True]


def test_a_column_that_is_asked_for_twice_equals_both_values():
    rows = pa.table({"k": pa.array([1, 2, 3]), "x": pa.array([1, 2, 3])})
    keys = pa.table({"k0": pa.array([1, 2]), "k1": pa.array([1, 3])})
    assert matching(rows, ["k", "k"], keys).to_pylist() == [True, False, False]


def test_one_row_that_moves_may_hold_days_that_python_does_not_have():
    far = pa.array([5_000_000] * 2, pa.int32()).cast(pa.date32())
    moved = pa.table({"v": pa.array([1, 2]), "d": far, "f": [0.5, 1.0], WEIGHT: pa.array([-1, 1])})
    assert _moved(moved)
    assert not _moved(moved.set_column(2, "f", pa.array([0.5, float("inf")])))
    assert not _moved(moved.set_column(0, "v", pa.array([None, 2])))
