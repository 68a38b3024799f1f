"""Plain counts tell what Great Expectations tells, where they tell anything."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from ivm.quality.expectations import build, judged, noted
from ivm.quality.facts import keepable, of_entry
from ivm.quality.plain import counts, met
from ivm.quality.state_checks import exact_frame

RANGES = [
    {"column": "n", "min_value": low, "max_value": high, "strict_min": strict, "strict_max": not strict}
    for low, high, strict in itertools.product((None, 0, 2), (None, 2, 3), (True, False))
    if (low, high) != (None, None)
]
RULES = [
    *({"expect_column_values_to_be_between": r} for r in RANGES),
    {"expect_column_values_to_be_in_set": {"column": "n", "value_set": [1, 2]}},
    {"expect_column_values_to_be_in_set": {"column": "s", "value_set": ["a", "b", ""]}},
    *(
        {f"expect_column_values_to_{how}": {"column": c, "mostly": m}}
        for how in ("be_null", "not_be_null")
        for c in ("n", "s", "d")
        for m in (1.0, 0.5)
    ),
]
ROWS = [
    pa.table({"n": pa.array(n, pa.int64()), "s": pa.array(s), "d": pa.array(d, pa.float64())})
    for n, s, d in (
        ([1, 2, 2, 3, None], ["a", "b", "", None, "c"], [1.5, None, 2.0, 3.0, None]),
        ([1, 2, 2], ["a", "b", "a"], [1.0, 2.0, 3.0]),
        ([1, 2, 3, 4], ["a", "b", "a", "b"], [1.0, float("nan"), None, float("nan")]),
        ([None, None], pa.array([None, None], pa.string()), [None, None]),
        ([], pa.array([], pa.string()), []),
    )
]


@pytest.mark.parametrize("rows", ROWS, ids=["mixed", "full", "nan", "nulls", "empty"])
def test_what_is_counted_is_what_great_expectations_counts(rows):
    told = judged(exact_frame(rows), build(RULES, "v"))
    for place, (rule, entry) in enumerate(zip(RULES, told, strict=True)):
        kept = keepable(place, "v", rule, rows.schema)
        mine = counts(kept, rows)
        assert mine == of_entry(entry), rule
        suite = met("v", [rule], rows)
        assert (suite is not None) is entry["success"], rule
        if suite is not None:
            assert suite[0]["result"]["unexpected_count"] == entry["result"]["unexpected_count"]
            assert noted(dict(rule[kept.name]))["meta"].items() <= suite[0]["expectation_config"]["meta"].items()


@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
def test_a_member_that_the_column_cannot_hold_is_none_of_its_values(type_):
    rows = pa.table({"k": pa.array([1, 2, None, -(2 ** (type_.bit_width - 1))], type_)})
    for members in ([1, 2, 2**62], [-(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1)], [2**63 - 1]):
        rule = {"expect_column_values_to_be_in_set": {"column": "k", "value_set": members}}
        kept = keepable(0, "v", rule, rows.schema)
        if max(members) == 2**63:
            assert kept is None, "beside what no signed integer holds they may be compared as floats"
        else:
            assert counts(kept, rows) == of_entry(judged(exact_frame(rows), build([rule], "v"))[0])


def test_what_is_not_exact_is_left_to_great_expectations():
    rows = ROWS[0]
    for rule in (
        {"expect_column_values_to_be_between": {"column": "d", "min_value": 0}},
        {"expect_column_values_to_be_between": {"column": "n", "min_value": 0.5}},
        {"expect_column_values_to_be_in_set": {"column": "n", "value_set": [1, True]}},
        {"expect_column_values_to_match_regex": {"column": "s", "regex": "a"}},
        {
            "expect_column_values_to_not_be_null": {
                "column": "n",
                "row_condition": "n > 1",
                "condition_parser": "pandas",
            }
        },
    ):
        assert met("v", [rule], rows) is None
