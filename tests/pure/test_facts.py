"""Sums kept by signed counts against the same sums of all rows, and verdicts from them."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from ivm.quality.facts import MAX_VALUES, Kind, added, by_sql, keepable, moved, nan_missing, of_rows, of_sql
from ivm.quality.verdicts import result_of

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("d", pa.decimal128(10, 2)), ("f", pa.float64())])
DAYS = pa.schema([("day", pa.date32())])


def kept(name, **arguments):
    return keepable(0, "v", {name: arguments}, SCHEMA)


def table(rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def random_row(draw):
    amount = None if draw.random() < 0.2 else Decimal(draw.randint(-999, 999)) / 100
    key = None if draw.random() < 0.2 else draw.choice([draw.randint(0, 5), 2**62 + draw.randint(0, 3)])
    return key, draw.choice([None, "a", "b", "c'"]), amount, draw.random()


EXPECTATIONS = [
    ("expect_table_row_count_to_be_between", {"min_value": 1}),
    ("expect_column_sum_to_be_between", {"column": "k", "min_value": 0}),
    ("expect_column_sum_to_be_between", {"column": "d", "min_value": 0}),
    ("expect_column_proportion_of_non_null_values_to_be_between", {"column": "s", "min_value": 0.5}),
    ("expect_column_distinct_values_to_equal_set", {"column": "s", "value_set": ["a", "b", "c'"]}),
]


@pytest.mark.parametrize(("name", "arguments"), EXPECTATIONS)
def test_sums_of_what_changes_add_up_to_those_of_all_rows(name, arguments):
    draw, expectation = random.Random(name), kept(name, **arguments)
    rows = [random_row(draw) for _ in range(30)]
    facts = of_rows(expectation, table(rows))
    for _ in range(20):
        gone = [rows.pop(draw.randrange(len(rows))) for _ in range(draw.randint(0, min(5, len(rows))))]
        new = [random_row(draw) for _ in range(draw.randint(0, 5))]
        rows += new
        weights = pa.array([-1] * len(gone) + [1] * len(new), pa.int64())
        facts = added(facts, of_rows(expectation, table(gone + new), weights))
        whole = of_rows(expectation, table(rows))
        assert {**facts, "total": Decimal(facts.get("total", 0))} == {**whole, "total": Decimal(whole.get("total", 0))}
        assert result_of(expectation, facts) == result_of(expectation, whole)


def test_repeated_values_by_those_that_change():
    expectation = kept("expect_column_values_to_be_unique", column="k")
    assert expectation.kind is Kind.REPEATED
    draw, rows = random.Random(7), []
    facts = of_rows(expectation, table(rows))
    for _ in range(40):
        gone = [rows.pop(draw.randrange(len(rows))) for _ in range(draw.randint(0, min(4, len(rows))))]
        new = [random_row(draw) for _ in range(draw.randint(0, 4))]
        touched = {r[0] for r in gone + new if r[0] is not None}
        after = rows + new
        before = rows + gone
        count = {v: (sum(r[0] == v for r in before), sum(r[0] == v for r in after)) for v in touched}
        facts = moved(facts, len(new) - len(gone), [o for o, _ in count.values()], [n for _, n in count.values()])
        rows = after
        assert facts == of_rows(expectation, table(rows))


def test_values_are_kept_as_long_as_they_are_few():
    expectation = kept("expect_column_distinct_values_to_contain_set", column="k", value_set=[1])
    few = of_rows(expectation, table([(i, None, None, 0.0) for i in range(MAX_VALUES)]))
    assert result_of(expectation, few)[0]
    more = added(few, of_rows(expectation, table([(-1, None, None, 0.0)])))
    assert result_of(expectation, more) is None
    assert result_of(expectation, added(more, of_rows(expectation, table([(5, None, None, 0.0)])))) is None


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("expect_column_sum_to_be_between", {"column": "f", "min_value": 0}),
        ("expect_column_values_to_be_unique", {"column": "f"}),
        ("expect_column_values_to_be_between", {"column": "f", "min_value": 0}),
        (
            "expect_column_values_to_not_be_null",
            {"column": "s", "row_condition": "k > 1", "condition_parser": "pandas"},
        ),
        ("expect_column_max_to_be_between", {"column": "k", "max_value": 9}),
        ("expect_column_distinct_values_to_be_in_set", {"column": "s", "value_set": [1]}),
        ("expect_column_values_to_not_be_null", {"column": "none_of_these"}),
    ],
)
def test_what_only_all_rows_can_tell_is_not_kept(name, arguments):
    assert kept(name, **arguments) is None


def test_totals_are_exact_however_long_their_numbers_are():
    long = pa.schema([("x", pa.decimal128(38, 2))])
    total = keepable(0, "v", {"expect_column_sum_to_be_between": {"column": "x", "min_value": 5, "max_value": 5}}, long)

    def sums(value, *weights):
        return of_rows(total, pa.table({"x": [Decimal(value)] * len(weights)}, long), pa.array(weights, pa.int64()))

    large = "999999999999999999999999999999999999.99"
    facts = added(added(sums("5.00", 1), sums(large, 7, 10**9)), sums(large, -7 - 10**9))
    assert Decimal(facts["total"]) == 5
    assert result_of(total, {**facts, "nonnull": 1})[0]


@pytest.mark.parametrize(
    ("name", "column", "total", "ends"),
    [
        ("mean", "k", "1", {"min_value": 0.1, "max_value": 0.1}),
        ("mean", "d", "1.00", {"min_value": 0.1, "max_value": 0.1}),
        ("mean", "k", str(10 * (2**62 + 1)), {"min_value": 2**62 + 1, "max_value": 2**62 + 1}),
        ("sum", "d", "0.30", {"min_value": 0.3, "max_value": 0.3}),
        ("sum", "d", "0.30", {"min_value": Decimal("0.3"), "max_value": Decimal("0.3")}),
    ],
)
def test_a_bound_is_met_by_the_number_that_it_names(name, column, total, ends):
    numbers = {"rows": 10, "nonnull": 10, "total": total}
    assert result_of(kept(f"expect_column_{name}_to_be_between", column=column, **ends), numbers)[0]
    for end in ends:
        strict = {end: ends[end], f"strict_{end.partition('_')[0]}": True}
        assert not result_of(kept(f"expect_column_{name}_to_be_between", column=column, **strict), numbers)[0]


def test_a_total_that_a_statement_could_not_hold_is_not_known():
    total = kept("expect_column_sum_to_be_between", column="d", max_value=5)
    found = pa.table({"rows_": [2], "nonnull": [2], "total": pa.array([None], pa.string())})
    assert of_sql(total, found) == {}
    assert added({}, of_rows(total, table([(1, "a", Decimal(1), 0.0)]))) == {}
    none = pa.table({"rows_": [2], "nonnull": [0], "total": pa.array([None], pa.string())})
    assert of_sql(total, none) == {"rows": 2, "nonnull": 0, "total": "0"}


def test_a_share_of_texts_that_a_statement_counted_goes_on_with_a_batch():
    share = kept("expect_column_proportion_of_non_null_values_to_be_between", column="s", min_value=0.5)
    assert "total" not in by_sql(share, "t", "`s`", pa.string())
    found = of_sql(share, pa.table({"rows_": [4], "nonnull": [2]}))
    assert added(found, of_rows(share, table([(1, "a", None, 0.0)]))) == {"rows": 5, "nonnull": 3}


@pytest.mark.parametrize(
    ("name", "arguments", "is_kept"),
    [
        ("between", {"max_value": 2**53 + 1}, True),
        ("between", {"min_value": -1.5, "max_value": 1e9}, True),
        ("between", {"max_value": 2.0**53}, False),
        ("between", {"min_value": float("-inf")}, False),
        ("between", {"max_value": 2**63}, False),
        ("between", {"max_value": "9"}, False),
        ("in_set", {"value_set": [1, 2**53 + 1]}, True),
        ("in_set", {"value_set": [1, 1.5]}, True),
        ("in_set", {"value_set": [2**53, 1.5]}, False),
        ("in_set", {"value_set": [2**63, 1]}, False),
        ("not_be_in_set", {"value_set": [2.0**53]}, False),
        ("not_be_in_set", {"value_set": ["1"]}, False),
    ],
)
def test_integers_are_judged_by_sums_where_they_are_compared_as_integers(name, arguments, is_kept):
    """With floats they are compared as floats in a batch without NULLs, and exactly in another one."""
    rule = f"expect_column_values_to_{name if name.startswith('not') else f'be_{name}'}"
    assert (kept(rule, column="k", **arguments) is not None) == is_kept


def test_suites_that_differ_in_bounds_share_their_sums():
    one = kept("expect_column_sum_to_be_between", column="k", min_value=0)
    assert one.key == kept("expect_column_mean_to_be_between", column="k", max_value=5, strict_max=True).key
    assert one.key != kept("expect_column_sum_to_be_between", column="d", min_value=0).key
    judged = kept("expect_column_values_to_be_between", column="k", min_value=0)
    assert judged.key == kept("expect_column_values_to_be_between", column="k", min_value=0, mostly=0.9).key
    assert judged.key != kept("expect_column_values_to_be_between", column="k", min_value=1).key


def test_a_set_of_dates_has_other_sums_than_that_of_their_texts():
    days = [dt.date(2024, 1, 1), dt.date(2024, 1, 2)]
    rules = [
        {"expect_column_values_to_be_in_set": {"column": "day", "value_set": v}} for v in (days, [*map(str, days)])
    ]
    assert len({keepable(0, "v", rule, DAYS).key for rule in rules}) == 2


@pytest.mark.parametrize(
    ("arguments", "met"),
    [
        ({"min_value": 3}, True),
        ({"min_value": 3, "strict_min": True}, False),
        ({"max_value": 3}, True),
        ({"max_value": 3, "strict_max": True}, False),
        ({"min_value": 1, "max_value": 2}, False),
        ({}, True),
    ],
)
def test_the_ends_of_a_range_count_unless_they_are_strict(arguments, met):
    success, told = result_of(kept("expect_table_row_count_to_be_between", **arguments), {"rows": 3})
    assert (success, told) == (met, {"observed_value": 3})


def test_nothing_to_judge_is_success_and_mostly_is_a_share_of_what_is_there():
    expectation = kept("expect_column_values_to_be_in_set", column="s", value_set=["a"], mostly=0.75)
    assert result_of(expectation, {"rows": 5, "missing": 5, "unexpected": 0})[0]
    assert result_of(expectation, {"rows": 5, "missing": 1, "unexpected": 1})[0]
    assert not result_of(expectation, {"rows": 5, "missing": 2, "unexpected": 1})[0]


def test_nan_is_missing_to_a_statement_as_it_is_to_rows():
    rows = pa.table({"k": [1, 2, 3, 4], "f": pa.array([1.5, float("nan"), None, -0.0], pa.float32())})
    connection = duckdb.connect()
    connection.register("t", rows)
    sql = sqlglot.transpile(nan_missing("SELECT * FROM t", rows.schema), "spark", "duckdb")[0]
    assert connection.sql(sql).fetchall() == [(1, 1.5), (2, None), (3, None), (4, 0.0)]
    assert nan_missing("SELECT k FROM t", rows.select(["k"]).schema) == "SELECT k FROM t"


@pytest.mark.parametrize(("name", "arguments"), [*EXPECTATIONS, ("expect_column_values_to_be_unique", {"column": "k"})])
def test_a_statement_counts_what_rows_count(name, arguments):
    draw, expectation = random.Random(name), kept(name, **arguments)
    for size in (0, 40):
        rows = table([random_row(draw) for _ in range(size)])
        connection = duckdb.connect()
        connection.register("t", rows)
        connection.execute("CREATE MACRO try_sum(x) AS sum(x)")
        type_ = SCHEMA.field(expectation.column).type if expectation.column else pa.null()
        sql = sqlglot.transpile(
            by_sql(expectation, "SELECT * FROM t", f"`{expectation.column}`", type_), "spark", "duckdb"
        )[0]
        mine, theirs = of_sql(expectation, connection.sql(sql).to_arrow_table()), of_rows(expectation, rows)
        assert {**mine, "total": Decimal(mine.get("total", 0))} == {**theirs, "total": Decimal(theirs.get("total", 0))}
