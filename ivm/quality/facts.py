"""Sums over a whole view by which expectations on its state are judged, so that a check costs as much as the change.

    sums(state after) = sums(state before) + sum over the batch of weight x sums(row)

    rows        how many rows
    columns     how many are not NULL, and their total (integers and decimals: exact)
    values      how often each value is there, up to MAX_VALUES of them
    repeated    how many values are there, how many rows share theirs with another one
    judged      how many rows Great Expectations' own judgement of each row finds missing, how many unexpected

Invariant: what is kept here is exact. An expectation is left to Great Expectations, over all rows, where its verdict on
a row may depend on others, on the engine, or on how a batch of rows happens to be typed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact, localcontext
from enum import Enum
from importlib.metadata import version
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.names import ident
from ivm.quality.catalog import rule_parts

#: Of a column with more values than this they are not kept.
MAX_VALUES = 1_000
Numbers = dict[str, Any]
#: Part of each key; another one where what the sums mean has changed, so that those kept before are counted anew.
_MEANING = 3
#: From here on not every integer is a float of its own.
_ROUNDED = 2**53
#: Arithmetic of totals: Python's own rounds to 28 digits, values have up to 38.
_EXACT = Context(prec=200, traps=[Inexact])
#: The number of rows, which the manifest knows as well.
ROWS_KEY = "rows"


class Kind(Enum):
    """Which sums an expectation is judged by."""

    ROWS = "rows"
    COLUMN = "column"
    VALUES = "values"
    REPEATED = "repeated"
    JUDGED = "judged"


_KINDS = {
    "expect_table_row_count_to_be_between": Kind.ROWS,
    "expect_table_row_count_to_equal": Kind.ROWS,
    "expect_column_sum_to_be_between": Kind.COLUMN,
    "expect_column_mean_to_be_between": Kind.COLUMN,
    "expect_column_proportion_of_non_null_values_to_be_between": Kind.COLUMN,
    "expect_column_distinct_values_to_be_in_set": Kind.VALUES,
    "expect_column_distinct_values_to_contain_set": Kind.VALUES,
    "expect_column_distinct_values_to_equal_set": Kind.VALUES,
    "expect_column_values_to_be_unique": Kind.REPEATED,
    "expect_column_unique_value_count_to_be_between": Kind.REPEATED,
    "expect_column_proportion_of_unique_values_to_be_between": Kind.REPEATED,
    **dict.fromkeys(
        (
            "expect_column_values_to_be_between",
            "expect_column_values_to_be_in_set",
            "expect_column_values_to_not_be_in_set",
            "expect_column_values_to_be_null",
            "expect_column_values_to_not_be_null",
            "expect_column_values_to_match_regex",
            "expect_column_values_to_not_match_regex",
            "expect_column_value_lengths_to_be_between",
            "expect_column_value_lengths_to_equal",
        ),
        Kind.JUDGED,
    ),
}
_NULLNESS = ("expect_column_values_to_be_null", "expect_column_values_to_not_be_null")
#: Arguments by which Great Expectations judges another thing than all rows by their plain values.
_OTHERWISE = ("row_condition", "condition_parser", "windows", "strict", "parse_strings_as_datetimes")
#: What decides the verdict, not the sums: suites that differ in these share their sums.
_VERDICT = ("mostly", "severity", "meta", "notes", "description", "min_value", "max_value", "strict_min", "strict_max")
_SHOWN = ("meta", "notes", "description", "severity", "mostly")


@dataclass(frozen=True)
class Kept:
    """An expectation that can be judged by sums: its place in the suite, and the sums' key."""

    place: int
    name: str
    arguments: Mapping[str, Any]
    kind: Kind
    column: str
    key: str


def keepable(place: int, view: str, rule: Mapping[str, Any], schema: pa.Schema) -> Kept | None:
    """How an expectation of the suite can be judged by sums; None where only all rows can tell."""
    name, arguments = rule_parts(view, rule)
    kind = _KINDS.get(name)
    if kind is None or any(arguments.get(a) for a in _OTHERWISE) or _parametrized(arguments):
        return None
    column = arguments.get("column", "")
    if kind is not Kind.ROWS and (
        column not in schema.names or not _fit(kind, name, schema.field(column).type, arguments)
    ):
        return None
    dropped = _SHOWN if kind is Kind.JUDGED else (*_VERDICT, "value_set", "value")
    rest = {k: v for k, v in sorted(arguments.items()) if k not in dropped}
    judge = [name, _judge()] if kind is Kind.JUDGED else []
    what = [_MEANING, kind.value, *judge, str(schema.field(column).type) if column else "", rest]
    key = ROWS_KEY if kind is Kind.ROWS else json.dumps(what, default=_typed)
    return Kept(place, name, arguments, kind, column, key)


def _typed(value: Any) -> list[str]:
    """What JSON lacks, with its type: a set of dates is another one than that of their texts."""
    return [type(value).__name__, str(value)]


@functools.cache
def _judge() -> str:
    """The version of Great Expectations; to look it up reads the package's whole description."""
    return version("great-expectations")


def _parametrized(arguments: Mapping[str, Any]) -> bool:
    return any(isinstance(v, Mapping) for k, v in arguments.items() if k != "meta")


def _fit(kind: Kind, name: str, type_: pa.DataType, arguments: Mapping[str, Any]) -> bool:
    """Whether values of this type are told apart, and added, exactly here and by Great Expectations alike."""
    whole, text = pa.types.is_integer(type_), pa.types.is_string(type_)
    if kind is Kind.COLUMN:
        if name == "expect_column_proportion_of_non_null_values_to_be_between":
            return not pa.types.is_floating(type_)
        return bool(whole or pa.types.is_decimal(type_))
    if kind is Kind.REPEATED:
        return bool(whole or text or pa.types.is_boolean(type_))
    if kind is Kind.VALUES:
        wanted = arguments.get("value_set")
        same = isinstance(wanted, list) and all(type(v) is (int if whole else str) for v in wanted)
        return bool(whole or text) and same
    if name in _NULLNESS:
        return not pa.types.is_nested(type_)
    if "regex" in name or "lengths" in name:
        return bool(text)
    if whole:
        return _exact_integers(arguments)
    return bool(text or pa.types.is_boolean(type_) or pa.types.is_decimal(type_) or pa.types.is_date(type_))


def _exact_integers(arguments: Mapping[str, Any]) -> bool:
    """Whether integers are compared exactly with a rule's bounds or members, however a batch of them is typed.

    Beside floats, and beside what no signed integer holds, they are floats in a batch without NULLs, and themselves in
    another one: a row would be judged otherwise when it goes than when it came.

    >>> _exact_integers({"min_value": 2**53 + 1}), _exact_integers({"max_value": 2.0**53})
    (True, False)
    >>> _exact_integers({"value_set": [2**53 + 1, 2]}), _exact_integers({"value_set": [2**53 + 1, 1.5]})
    (True, False)
    """
    members = arguments.get("value_set", [])
    if not isinstance(members, list):
        return False
    told = [v for v in (*members, arguments.get("min_value"), arguments.get("max_value")) if v is not None]
    if all(type(v) is int for v in told):
        return all(-(2**63) <= v < 2**63 for v in told)
    return all(type(v) in (int, float) and abs(v) < _ROUNDED for v in told)


def same_in_spark(kept: Kept, schema: pa.Schema) -> bool:
    """Whether Spark's judgement of each row is that of this process, so that one's counts go on with the other's."""
    type_ = schema.field(kept.column).type
    return kept.name in _NULLNESS or (kept.name == "expect_column_values_to_be_between" and pa.types.is_integer(type_))


def nan_missing(rows: str, schema: pa.Schema) -> str:
    """A SELECT's rows with NULL for NaN, which pandas calls missing and Spark doesn't: one verdict by either."""
    if not any(pa.types.is_floating(t) for t in schema.types):
        return rows
    columns = (
        f"NULLIF({ident(f.name)}, CAST('NaN' AS double)) AS {ident(f.name)}"
        if pa.types.is_floating(f.type)
        else ident(f.name)
        for f in schema
    )
    return f"SELECT {', '.join(columns)} FROM ({rows})"


# -- sums -------------------------------------------------------------------------------------------


def of_rows(kept: Kept, rows: pa.Table, weights: pa.Array | None = None) -> Numbers:
    """The sums of rows that are there as often as their weights say (once each without).

    Of the kind REPEATED only for a whole state; JUDGED ones are Great Expectations' to count.
    """
    ones = weights if weights is not None else pa.array([1] * rows.num_rows, pa.int64())
    total = {"rows": _sum(ones)}
    if kept.kind is Kind.ROWS:
        return total
    column = rows[kept.column].combine_chunks()
    there = pc.is_valid(column)
    if kept.kind is Kind.COLUMN:
        numbers = total | {"nonnull": _sum(pc.filter(ones, there))}
        return numbers | ({"total": str(_weighted(column, ones))} if _is_number(column.type) else {})
    grouped = pa.table({"v": column.filter(there), "n": pc.filter(ones, there)}).group_by("v").aggregate([("n", "sum")])
    counts = grouped["n_sum"]
    if kept.kind is Kind.REPEATED:
        repeated = pc.filter(counts, pc.greater(counts, 1))
        return total | {"nonnull": _sum(counts), "distinct": grouped.num_rows, "repeated": _sum(repeated)}
    if grouped.num_rows > MAX_VALUES:
        return total
    pairs = zip(grouped["v"].to_pylist(), counts.to_pylist(), strict=True)
    return total | {"values": sorted([v, n] for v, n in pairs if n)}


def by_sql(kept: Kept, rows: str, column: str, type_: pa.DataType) -> str:
    """The statement whose one row, or whose rows (value, count), give the same sums of the rows of a SELECT."""
    if kept.kind is Kind.ROWS:
        return f"SELECT count(*) AS rows_ FROM ({rows})"
    if kept.kind is Kind.COLUMN:
        # One that 38 digits don't hold is NULL, whatever the session makes of an overflow.
        total = f", CAST(try_sum(CAST({column} AS decimal(38, {_scale(type_)}))) AS string) AS total"
        return f"SELECT count(*) AS rows_, count({column}) AS nonnull{total if _is_number(type_) else ''} FROM ({rows})"
    groups = f"SELECT {column} AS v, count(*) AS n FROM ({rows}) GROUP BY {column}"
    if kept.kind is Kind.VALUES:
        return f"{groups} LIMIT {MAX_VALUES + 2}"
    return (
        "SELECT sum(n) AS rows_, sum(CASE WHEN v IS NULL THEN 0 ELSE n END) AS nonnull, count(v) AS distinct_, "
        f"sum(CASE WHEN v IS NOT NULL AND n > 1 THEN n ELSE 0 END) AS repeated FROM ({groups})"
    )


def of_sql(kept: Kept, found: pa.Table) -> Numbers:
    """The sums from what such a statement returns; none where it doesn't tell them all."""
    if kept.kind is Kind.VALUES:
        pairs = [[v, int(n)] for v, n in zip(found["v"].to_pylist(), found["n"].to_pylist(), strict=True)]
        rows = {"rows": sum(n for _, n in pairs)}
        whole = len(pairs) <= MAX_VALUES
        return rows | {"values": sorted(p for p in pairs if p[0] is not None)} if whole else {}
    row = found.to_pylist()[0]
    numbers: Numbers = {k.rstrip("_"): int(row[k] or 0) for k in found.column_names if k != "total"}
    if "total" not in row:
        return numbers
    if row["total"] is None and numbers["nonnull"]:
        return {}
    return numbers | {"total": str(row["total"] or 0)}


def possible(numbers: Numbers) -> bool:
    """Whether there may be rows with such counts; else one was judged otherwise when it went than when it came.

    >>> possible({"rows": 3, "missing": 1, "unexpected": 2}), possible({"rows": 3, "missing": 1, "unexpected": -1})
    (True, False)
    >>> possible({"rows": 3, "missing": 1, "unexpected": 3}), possible({"rows": 3, "nonnull": 3, "total": "7"})
    (False, True)
    """
    rows, missing, unexpected = (int(numbers.get(k, 0)) for k in ("rows", "missing", "unexpected"))
    return missing >= 0 <= unexpected <= rows - missing


def added(before: Numbers, change: Numbers) -> Numbers:
    """The sums of both. Where values are too many to be kept, they are not in it."""
    after: Numbers = {k: v + change[k] for k, v in before.items() if isinstance(v, int)}
    if "total" in before:
        with localcontext(_EXACT):
            after["total"] = str(Decimal(before["total"]) + Decimal(change["total"]))
    if "values" in before and "values" in change:
        counts = dict(before["values"])
        for value, n in change["values"]:
            counts[value] = counts.get(value, 0) + n
        left = sorted([v, n] for v, n in counts.items() if n)
        after |= {"values": left} if len(left) <= MAX_VALUES else {}
    return after


def moved(before: Numbers, rows: int, old: Sequence[int], new: Sequence[int]) -> Numbers:
    """The sums of REPEATED values after a batch.

    It changes the number of rows, and how often the values that it touches are there from `old` to `new`.
    """
    return {
        "rows": before["rows"] + rows,
        "nonnull": before["nonnull"] + sum(new) - sum(old),
        "distinct": before["distinct"] + sum(n > 0 for n in new) - sum(n > 0 for n in old),
        "repeated": before["repeated"] + sum(n for n in new if n > 1) - sum(n for n in old if n > 1),
    }


def of_entry(entry: Mapping[str, Any]) -> Numbers:
    """The sums that Great Expectations' own result tells; none where it could not judge."""
    found = entry.get("result") or {}
    if "element_count" not in found or found.get("unexpected_count") is None:
        return {}
    return {
        "rows": int(found["element_count"]),
        "missing": int(found.get("missing_count") or 0),
        "unexpected": int(found["unexpected_count"]),
    }


def _sum(counts: Any) -> int:
    return int(pc.sum(counts).as_py() or 0)


def _is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_decimal(type_))


def _scale(type_: pa.DataType) -> int:
    return int(type_.scale) if pa.types.is_decimal(type_) else 0


def _weighted(column: pa.Array, weights: pa.Array) -> Decimal:
    """The sum of weight times value in Python's own numbers, which don't overflow; by groups of equal values."""
    groups = pa.table({"v": column, "n": weights}).group_by("v").aggregate([("n", "sum")])
    pairs = zip(groups["v"].to_pylist(), groups["n_sum"].to_pylist(), strict=True)
    with localcontext(_EXACT):
        return sum((Decimal(v) * n for v, n in pairs if v is not None), Decimal(0))
