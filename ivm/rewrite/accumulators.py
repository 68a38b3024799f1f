r"""Linear aggregates: accumulators as differences of an Abelian group, and Spark's results from them.

For count, sum and avg over exact types a group's state is a tuple of sums

    (count of rows, and for each argument x: sum of w over non-NULL x, sum of w * x)

and the delta of the state is the same tuple over the delta. A group exists while its count is not 0.
Result types, rounding and overflow are Spark's: a sum of integers is cast to Spark's type (an overflow raises or wraps,
as there), decimals are those whose sums don't overflow, or fail where they do (see `ivm.sql.calls.wide`), and an
average of them is rounded half up once, by an exact remainder.
"""

from __future__ import annotations

from dataclasses import dataclass

from ivm.names import WEIGHT, ident
from ivm.plan.nodes import COUNT, Call, Column, Reduce
from ivm.sql.calls import decimal_of, wide


@dataclass(frozen=True)
class Accumulator:
    """One stored sum: of weights where `argument` is not NULL ("count"), or of weighted values ("sum").

    Values are added up as `summed` ("" for as they are).
    """

    name: str
    argument: str
    kind: str
    type: str
    summed: str = ""

    def over_delta(self) -> str:
        """The accumulator over weighted core rows (weights are +1 or -1)."""
        x, w = ident(self.argument), ident(WEIGHT)
        if self.kind == "count":
            return f"COALESCE(SUM(CASE WHEN {x} IS NOT NULL THEN {w} END), 0)"
        if self.summed:
            value = f"CAST({x} AS {self.summed})"
            return f"COALESCE(CAST(SUM(CASE WHEN {w} < 0 THEN -{value} ELSE {value} END) AS {self.type}), {self.zero})"
        # Spark 4.2 keeps 34 digits of a decimal that it negates, so nothing wide is negated.
        came, went = (f"COALESCE(SUM(CASE WHEN {w} {sign} 0 THEN {x} END), {self.zero})" for sign in (">", "<"))
        return _exactly(self, came, "-", went)

    def over_rows(self) -> str:
        """The accumulator over plain rows, all of weight +1."""
        x = ident(self.argument)
        return f"COUNT({x})" if self.kind == "count" else f"COALESCE(CAST(SUM({x}) AS {self.type}), {self.zero})"

    @property
    def zero(self) -> str:
        """The sum of no rows. A bare 0 has ten digits before the point, for which a wide sum would lose some after."""
        return "0" if self.summed or self.kind == "count" else f"CAST(0 AS {self.type})"


def added(accumulator: Accumulator, one: str, other: str) -> str:
    """One sum of an accumulator added to another, exactly.

    Spark gives the sum of two decimal(38,s) one digit less after the point. A sum of 38 digits fails.

    >>> added(Accumulator("s_x", "x", "sum", "decimal(38,10)"), "a", "b")
    'CAST(CAST(a AS decimal(37,10)) + CAST(b AS decimal(37,10)) AS decimal(38,10))'
    """
    if accumulator.kind == "count":
        return f"({one} + {other})"
    return _exactly(accumulator, one, "+", other)


def _exactly(accumulator: Accumulator, one: str, sign: str, other: str) -> str:
    narrower = f"decimal(37,{decimal_of(accumulator.type)[1]})"
    return f"CAST(CAST({one} AS {narrower}) {sign} CAST({other} AS {narrower}) AS {accumulator.type})"


def accumulators(reduce: Reduce) -> tuple[Accumulator, ...]:
    """The accumulators a linear reduce keeps besides its row count, each argument's once."""
    found: dict[tuple[str, str], Accumulator] = {}
    for call in reduce.calls:
        if call.argument is None:
            continue
        found.setdefault(("count", call.argument), Accumulator(f"n_{call.argument}", call.argument, "count", "bigint"))
        if call.function != "count":
            assert call.argument_type is not None
            found.setdefault(("sum", call.argument), _sum(call.argument, call.argument_type))
    return tuple(found.values())


def _sum(argument: str, type_: str) -> Accumulator:
    """Values of up to 27 digits are added up with 28: the digits of the stored sum less the ten that SUM adds."""
    scale = decimal_of(type_)[1] if type_.startswith("decimal(") else 0
    summed = "" if type_.startswith("decimal(") and wide(type_) else f"decimal(28,{scale})"
    return Accumulator(f"s_{argument}", argument, "sum", f"decimal(38,{scale})", summed)


def accumulator_columns(reduce: Reduce) -> tuple[Column, ...]:
    """Columns of the accumulator trace: keys, accumulators, the group's row count."""
    return (*reduce.keys, *(Column(a.name, a.type) for a in accumulators(reduce)), Column(COUNT, "bigint"))


def result_sql(call: Call, value: dict[str, str]) -> str:
    """Spark's result of a call from accumulators; `value` gives the SQL of each accumulator by name."""
    if call.argument is None:
        return value[COUNT]
    n = value[f"n_{call.argument}"]
    if call.function == "count":
        return n
    s, type_ = value[f"s_{call.argument}"], str(call.argument_type)
    if call.function == "sum":
        return f"CASE WHEN {n} > 0 THEN CAST({s} AS {_sum_type(type_)}) END"
    if not type_.startswith("decimal("):
        return f"CASE WHEN {n} > 0 THEN CAST({s} AS double) / CAST({n} AS double) END"
    return f"CASE WHEN {n} > 0 THEN {_decimal_average(s, n, type_)} END"


def _sum_type(type_: str) -> str:
    if not type_.startswith("decimal("):
        return "bigint"
    precision, scale = decimal_of(type_)
    return f"decimal({min(precision + 10, 38)},{scale})"


def _decimal_average(s: str, n: str, type_: str) -> str:
    """(s - r) / n plus one unit of the last digit if 2|r| >= n units, with r = s mod (n units).

    That is one rounding, half up.
    """
    precision, scale = decimal_of(type_)
    digits = scale + 4
    unit = f"CAST('{'0.' + '0' * (digits - 1) + '1'}' AS decimal({digits},{digits}))"
    total = f"CAST({s} AS {_sum_type(type_)})"
    count = f"CAST({n} AS decimal(20,0))"
    step = f"({count} * {unit})"
    rest = f"({total} % {step})"
    sign = f"CASE WHEN {total} < 0 THEN -1 ELSE 1 END"
    carry = f"CASE WHEN 2 * ABS{rest} >= {step} THEN {sign} ELSE 0 END"
    return (
        f"CAST(({total} - {rest}) / {count} + CAST({carry} AS decimal(1,0)) * {unit} "
        f"AS decimal({min(precision + 4, 38)},{digits}))"
    )
