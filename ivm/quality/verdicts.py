"""Great Expectations' verdicts from sums (see `ivm.quality.facts`), in the form of its own results.

The rules are those of its documentation: `mostly` is a share of the rows that are not missing; nothing to judge is
success; the ends of a range count unless they are strict.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ivm.quality.expectations import JUDGED, noted
from ivm.quality.facts import Kept, Kind, Numbers

#: Arguments of a rule that are not among those of its result.
UNTOLD = ("meta", "severity", "notes", "description")


def result_of(kept: Kept, numbers: Numbers) -> tuple[bool, dict[str, Any]] | None:
    """Whether an expectation is met, and what Great Expectations would tell of it.

    None where the numbers don't tell: too many values, or no number to compare.
    """
    if kept.kind is Kind.JUDGED:
        return _of_rows(numbers["rows"], numbers["missing"], numbers["unexpected"], kept.arguments)
    if kept.name == "expect_column_values_to_be_unique":
        return _of_rows(numbers["rows"], numbers["rows"] - numbers["nonnull"], numbers["repeated"], kept.arguments)
    if kept.kind is Kind.VALUES:
        return _of_values(kept, numbers) if "values" in numbers else None
    observed = _observed(kept, numbers)
    if observed is None:
        return None
    if kept.name == "expect_table_row_count_to_equal":
        return observed == kept.arguments.get("value"), {"observed_value": observed}
    return _between(observed, kept.arguments), {
        "observed_value": float(observed) if isinstance(observed, Fraction) else observed
    }


def _of_rows(rows: int, missing: int, unexpected: int, arguments: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    considered = rows - missing
    mostly = float(arguments.get("mostly", 1.0))
    success = not considered or (float(considered) - float(unexpected)) / float(considered) >= mostly
    told: dict[str, Any] = {
        "element_count": rows,
        "missing_count": missing,
        "unexpected_count": unexpected,
        "missing_percent": 100 * missing / rows if rows else None,
        "unexpected_percent": 100 * unexpected / considered if considered else None,
        "unexpected_percent_total": 100 * unexpected / rows if rows else None,
        "unexpected_percent_nonmissing": 100 * unexpected / considered if considered else None,
        "partial_unexpected_list": [],
    }
    return success, told


def _of_values(kept: Kept, numbers: Numbers) -> tuple[bool, dict[str, Any]]:
    there, wanted = {v for v, n in numbers["values"] if n > 0}, set(kept.arguments["value_set"])
    if kept.name.endswith("_contain_set"):
        return wanted <= there, {"observed_value": sorted(there)}
    success = there <= wanted if kept.name.endswith("_be_in_set") else there == wanted
    return success, {"observed_value": sorted(there), "unexpected_count": len(there - wanted)}


def _observed(kept: Kept, numbers: Numbers) -> int | float | Fraction | None:
    rows, nonnull = numbers["rows"], numbers.get("nonnull", 0)
    if kept.kind is Kind.ROWS:
        return int(rows)
    if kept.name == "expect_column_unique_value_count_to_be_between":
        return int(numbers["distinct"])
    if kept.name == "expect_column_proportion_of_unique_values_to_be_between":
        return float(numbers["distinct"] / nonnull) if nonnull else 0
    if kept.name == "expect_column_proportion_of_non_null_values_to_be_between":
        return float(nonnull / rows) if rows else None
    if not nonnull:
        return None
    total = Fraction(numbers["total"])
    return total / nonnull if kept.name == "expect_column_mean_to_be_between" else total


def _between(value: float | Fraction, arguments: Mapping[str, Any]) -> bool:
    low, high = arguments.get("min_value"), arguments.get("max_value")
    above = low is None or _compared(value, low) >= (1 if arguments.get("strict_min") else 0)
    below = high is None or _compared(value, high) <= (-1 if arguments.get("strict_max") else 0)
    return above and below


def _compared(value: float | Fraction, end: Any) -> int:
    """-1, 0 or 1: exactly, but with a float as the nearest float, so that a mean of 1/10 is the 0.1 of a rule.

    >>> _compared(Fraction(1, 10), 0.1), _compared(Fraction(1, 10), Decimal("0.1")), _compared(Fraction(1, 10), 1)
    (0, 0, -1)
    """
    if isinstance(end, float):
        value = float(value)
    elif isinstance(end, Decimal):
        value, end = Fraction(value), Fraction(end)
    return int(value > end) - int(value < end)


def entry_of(kept: Kept, success: bool, result: Mapping[str, Any], how: str) -> dict[str, Any]:
    """A result as Great Expectations tells its own."""
    arguments = noted(kept.arguments)
    meta, severity = {**arguments.pop("meta"), JUDGED: how}, arguments.pop("severity", "critical")
    kwargs = {k: v for k, v in arguments.items() if k not in UNTOLD}
    return {
        "success": success,
        "expectation_config": {"type": kept.name, "kwargs": kwargs, "meta": meta, "severity": severity},
        "result": dict(result),
        "meta": {},
        "exception_info": {"raised_exception": False, "exception_traceback": None, "exception_message": None},
    }
