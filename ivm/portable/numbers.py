"""Arithmetic: by the types that Spark gives it, and with errors where Spark's ANSI mode raises."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from ivm.portable.entry import Entry, Rule, Writer, always, cast, checked, each, first, text
from ivm.portable.types import BIGINT, DOUBLE, MOST_DIGITS, Type, bounded, decimal

#: Digits that 64 bits hold.
_LONG = 18
#: What a connection needs before it runs a portable statement. Nothing here calls error(): that is volatile, which
#: keeps DuckDB from moving conditions; a cast of what doesn't fit, and a division by zero, raise as well.
MACROS = (
    # |a| up / (|b| down), rounded half up; 128 bits raise where they overflow.
    "CREATE MACRO ivm_quotient(a, b, up, down) AS "
    "CASE WHEN (a < 0) = (b < 0) THEN (2::HUGEINT * abs(a) * up + abs(b) * down) // (2::HUGEINT * abs(b) * down) "
    "ELSE -((2::HUGEINT * abs(a) * up + abs(b) * down) // (2::HUGEINT * abs(b) * down)) END",
    "CREATE MACRO ivm_not_zero(x) AS CASE WHEN x = 0 THEN CAST(1 // CAST(x AS BIGINT) AS DOUBLE) ELSE x END",
)


def _sum(types: Sequence[Type]) -> Type | None:
    a, b = types
    scale = max(a.scale, b.scale)
    return bounded(max(a.digits - a.scale, b.digits - b.scale) + scale + 1, scale)


def _product(types: Sequence[Type]) -> Type | None:
    a, b = types
    # DuckDB's product keeps all digits after the point.
    return bounded(a.digits + b.digits + 1, a.scale + b.scale) if a.scale + b.scale <= MOST_DIGITS else None


def quotient_type(types: Sequence[Type]) -> Type | None:
    """Spark's type of one decimal divided by another."""
    a, b = types
    scale = max(6, a.scale + b.digits + 1)
    found = bounded(a.digits - a.scale + b.scale + scale, scale)
    return found if found is not None and found.scale < MOST_DIGITS else None


def _rest(types: Sequence[Type]) -> Type | None:
    a, b = types
    scale = max(a.scale, b.scale)
    digits = max(a.digits - a.scale, b.digits - b.scale) + scale
    # DuckDB brings both to one scale first.
    return decimal(min(a.digits - a.scale, b.digits - b.scale) + scale, scale) if digits <= MOST_DIGITS else None


def _times(args: Sequence[str], types: Sequence[Type], result: Type) -> str:
    """A product of more digits than 64 bits hold is told to be one: DuckDB keeps to those of its factors."""
    a, b = types
    wide = a.digits + b.digits > _LONG >= max(a.digits, b.digits)
    one = f"CAST({args[0]} AS DECIMAL({MOST_DIGITS},{a.scale}))" if wide else args[0]
    return f"CAST({one} * {args[1]} AS {result.duck})"


def _quotient(args: Sequence[str], types: Sequence[Type], result: Type) -> str:
    return quotient((args[0], types[0].scale), (args[1], types[1].scale), result)


def quotient(a: tuple[str, int], b: tuple[str, int], result: Type) -> str:
    """One decimal divided by another, each with its digits after the point, by whole numbers of 128 bits."""
    shift = result.scale - a[1] + b[1]
    up, down = 10 ** max(shift, 0), 10 ** max(-shift, 0)
    # Spark rounds to 38 digits after the point first; a divisor of more digits than are let through could show it.
    divisor = f"CAST(CAST({_whole(*b)} AS DECIMAL({MOST_DIGITS - result.scale},0)) AS HUGEINT)"
    whole = f"ivm_quotient({_whole(*a)}, {divisor}, {up}::HUGEINT, {down}::HUGEINT)"
    unit = f"CAST('{Decimal(1).scaleb(-result.scale):f}' AS DECIMAL({result.scale or 1},{result.scale}))"
    return f"CAST(CAST({whole} AS DECIMAL(38,0)) * {unit} AS {result.duck})"


def _whole(value: str, scale: int) -> str:
    """A decimal without its point."""
    return f"CAST(replace(CAST({value} AS VARCHAR), '.', '') AS HUGEINT)" if scale else f"CAST({value} AS HUGEINT)"


def _exact(types: Sequence[Type]) -> Type | None:
    """Spark 4.2 negates decimals by Scala's arithmetic, which keeps 34 digits."""
    return types[0] if types[0].digits <= 34 else None


def _rounded(types: Sequence[Type]) -> Type | None:
    """One more digit before the point, for what is rounded up."""
    value, digits = types
    return bounded(value.digits - value.scale + digits.scale + 1, digits.scale) if digits.scale < value.scale else None


def _of_numbers(operator: str, rule: Rule, duck: Writer | None = None) -> tuple[Entry, ...]:
    spark = f"({{0}} {operator} {{1}})"
    return (
        *each(operator, spark, ["integer"], 2, first, checked(spark)),
        Entry(operator, spark, ("decimal", "decimal"), rule, duck or cast(spark)),
        *each(operator, spark, ["double"], 2, first, text(spark)),
    )


ENTRIES = (
    *_of_numbers("+", _sum),
    *_of_numbers("-", _sum),
    *_of_numbers("*", _product, _times),
    Entry(
        "/",
        "({0} / {1})",
        ("integer", "integer"),
        always(DOUBLE),
        text("(CAST({0} AS DOUBLE) / ivm_not_zero(CAST({1} AS DOUBLE)))"),
    ),
    Entry("/", "({0} / {1})", ("decimal", "decimal"), quotient_type, _quotient),
    *each("/", "({0} / {1})", ["double"], 2, first, text("({0} / ivm_not_zero({1}))")),
    *each("%", "({0} % {1})", ["integer"], 2, first, cast("({0} % {1})")),
    Entry("%", "({0} % {1})", ("decimal", "decimal"), _rest, cast("({0} % {1})")),
    Entry(
        "div",
        "({0} DIV {1})",
        ("integer", "integer"),
        always(BIGINT),
        text("CAST(CAST({0} AS BIGINT) // CAST({1} AS BIGINT) AS BIGINT)"),
    ),
    *(
        entry
        for call, spark in (("negative", "(- {0})"), ("abs", "abs({0})"))
        for entry in (
            *each(call, spark, ["integer"], 1, first, checked(spark)),
            *each(call, spark, ["double"], 1, first, cast(spark)),
            Entry(call, spark, ("decimal",), _exact, cast(spark)),
        )
    ),
    Entry("round", "round({0}, {1})", ("decimal", "[digits]"), _rounded, cast("{0}")),
)
