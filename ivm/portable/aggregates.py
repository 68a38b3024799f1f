"""Aggregates, and window functions: those whose result no order of rows changes, or whose order the window names."""

from __future__ import annotations

from collections.abc import Sequence

from ivm.portable.entry import Entry, always, cast, first, text
from ivm.portable.numbers import quotient
from ivm.portable.types import BIGINT, BOOLEAN, DOUBLE, INT, MOST_DIGITS, Type, decimal

#: Stands behind each call of a function that takes a FILTER or a window; no text of SQL has it.
AFTER = "\0"

_COUNTED = ("integer", "decimal", "double", "string", "date", "timestamp", "boolean")
#: Rows are told apart by values of these.
KEYED = ("integer", "decimal", "string", "date", "timestamp", "boolean", "double's text")
_LEAST = ("integer", "decimal", "string", "date", "timestamp", "boolean")


def _sum(types: Sequence[Type]) -> Type | None:
    return decimal(min(types[0].digits + 10, MOST_DIGITS), types[0].scale)


def _average(types: Sequence[Type]) -> Type | None:
    """Spark's type, where no digit after the point is lost; up to 11 digits its optimizer computes in doubles."""
    digits, scale = types[0].digits + 4, types[0].scale + 4
    return decimal(digits, scale) if 12 + 4 <= digits <= MOST_DIGITS else None


def _decimal_average(args: Sequence[str], types: Sequence[Type], result: Type) -> str:
    total, count = f"sum({args[0]}){AFTER}", f"count({args[0]}){AFTER}"
    whole = f"CAST({count} AS DECIMAL(20,0))"
    return f"CASE WHEN {count} > 0 THEN {quotient((total, types[0].scale), (whole, 0), result)} END"


AGGREGATES = (
    Entry("count all", "count(*)", (), always(BIGINT), text(f"count(*){AFTER}")),
    *(Entry("count", "count({0})", (f,), always(BIGINT), text("count({0})" + AFTER)) for f in _COUNTED),
    *(
        Entry("count distinct", "count(DISTINCT {0})", (f,), always(BIGINT), text("count(DISTINCT {0})" + AFTER))
        for f in KEYED[:-1]
    ),
    Entry("sum", "sum({0})", ("integer",), always(BIGINT), cast("sum({0})" + AFTER)),
    Entry("sum", "sum({0})", ("decimal",), _sum, cast("sum({0})" + AFTER)),
    # Spark sums doubles, which is exact here: of 32 bits each, millions of rows stay below 2^53.
    Entry(
        "avg",
        "avg({0})",
        ("int or less",),
        always(DOUBLE),
        text(f"(CAST(CAST(sum({{0}}){AFTER} AS BIGINT) AS DOUBLE) / nullif(count({{0}}){AFTER}, 0))"),
    ),
    Entry("avg", "avg({0})", ("decimal",), _average, _decimal_average),
    *(Entry(c, c + "({0})", (f,), first, text(c + "({0})" + AFTER)) for c in ("min", "max") for f in _LEAST),
    Entry("count_if", "count_if({0})", ("boolean",), always(BIGINT), text("count(CASE WHEN {0} THEN 1 END)" + AFTER)),
    Entry("bool_and", "bool_and({0})", ("boolean",), always(BOOLEAN), text("bool_and({0})" + AFTER)),
    Entry("bool_or", "bool_or({0})", ("boolean",), always(BOOLEAN), text("bool_or({0})" + AFTER)),
)

#: Aggregates but those of distinct values are window functions too.
WINDOWS = (
    *(Entry(c, c + "()", (), always(INT), cast(c + "()" + AFTER)) for c in ("row_number", "rank", "dense_rank")),
    *(
        Entry(c, c + "({0}, {1})", (f, "[count]"), first, text(c + "({0}, {1})" + AFTER))
        for c in ("lag", "lead")
        for f in _COUNTED
    ),
)

__all__ = ["AFTER", "AGGREGATES", "KEYED", "WINDOWS"]
