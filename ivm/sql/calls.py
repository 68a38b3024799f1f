"""Aggregate calls: where they stand, what they mean over a core's columns, and which of them accumulate (pure).

A call is linear (kept as sums and counts) only where its argument's type makes the sum exact, so that the result is
the one that Spark would compute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from ivm.names import RESERVED_PREFIX
from ivm.plan.nodes import Call, Unit
from ivm.sql.blocks import rewritten, sql_of
from ivm.sql.dialect import function_name, is_aggregate
from ivm.sql.refusals import UnsupportedError

#: The group key that tells the grouping sets of one query apart.
SET = f"{RESERVED_PREFIX}_set"
_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def inner_column(name: str) -> exp.Column:
    """A core column, as calls and keys name it."""
    return exp.column(exp.to_identifier(name, quoted=True))


def find_calls(node: exp.Expression) -> Iterator[exp.Expression]:
    """The outermost aggregate calls of an expression, with FILTER and the like around them.

    Window functions are none.
    """
    if isinstance(node, exp.Window):
        function, inside = node.this, []
        while isinstance(function, _WRAPPERS):
            inside += [e for e in function.iter_expressions() if e is not function.this]
            function = function.this
        inside += [
            *function.iter_expressions(),
            *node.args.get("partition_by", []),
            *([node.args["order"]] if node.args.get("order") else []),
        ]
        for child in inside:
            yield from find_calls(child)
        return
    if is_aggregate(node) or (isinstance(node, _WRAPPERS) and has_calls(node.this)):
        yield node
        return
    for child in node.iter_expressions():
        if not isinstance(child, exp.Query):
            yield from find_calls(child)


def has_calls(node: exp.Expression) -> bool:
    """Whether an expression aggregates."""
    return next(find_calls(node), None) is not None


def accumulated(name: str, call: exp.Expression, arguments: dict[str, tuple[str, exp.Expression]]) -> Call | None:
    """A call over scope columns that sums and counts can keep, as one over core columns; None for others.

    What it reads goes to `arguments`.
    """
    inner, condition = call, None
    if isinstance(call, exp.Filter):
        inner, condition = call.this, call.expression.this
    function = {exp.Count: "count", exp.Sum: "sum", exp.Avg: "avg"}.get(type(inner))
    operand = inner.this
    if function and operand is None:
        raise UnsupportedError("clause", f"{function}() of nothing")
    several = bool(inner.args.get("expressions"))
    if function and not isinstance(operand, exp.Distinct) and not several:
        star = isinstance(operand, exp.Star)
        if star and condition is None:
            return Call(name, "COUNT(*)", "count")
        value = exp.Literal.number(1) if star else operand.copy()
        if condition is not None:
            value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])
        argument = argument_name(value, arguments)
        return Call(name, f"{function.upper()}(`{argument}`)", function, argument)
    return None


def counted_once(calls: Sequence[exp.Expression]) -> exp.Expression | None:
    """The one call COUNT(DISTINCT x) as COUNT(x), over rows that are there once each; None where there is another.

    >>> from sqlglot import parse_one
    >>> str(counted_once([parse_one("COUNT(DISTINCT t.a + 1)")]))
    'COUNT(t.a + 1)'
    >>> [counted_once([parse_one(c)]) for c in ("COUNT(t.a)", "SUM(DISTINCT t.a)", "COUNT(DISTINCT t.a, t.b)")]
    [None, None, None]
    """
    call = calls[0] if len(calls) == 1 else None
    inner = call.this if isinstance(call, exp.Count) and not call.args.get("expressions") else None
    values = inner.expressions if isinstance(inner, exp.Distinct) and not inner.args.get("on") else []
    return exp.Count(this=values[0].copy()) if len(values) == 1 else None


def over_arguments(call: exp.Expression, arguments: dict[str, tuple[str, exp.Expression]]) -> exp.Expression:
    """A call over scope columns as one over core columns; what it reads goes to `arguments`."""

    def swap(node: exp.Expression) -> exp.Expression | None:
        if isinstance(node, exp.Column) and (node.table or node.name.startswith(RESERVED_PREFIX)):
            return inner_column(argument_name(node, arguments))
        if isinstance(node, exp.Subquery | exp.Exists) or (
            isinstance(node, exp.In) and node.args.get("query") is not None
        ):
            return inner_column(argument_name(node, arguments))
        return None

    return rewritten(call, swap)


def grouping_calls(node: exp.Expression, keys: list[exp.Expression], sets: list[tuple[int, ...]]) -> exp.Expression:
    """grouping() and grouping_id() as functions of the grouping set's number; over no keys grouping_id() is 0.

    >>> from sqlglot import parse_one
    >>> grouping_calls(parse_one("grouping_id() + 1", read="spark"), [], [()]).sql("spark")
    'CAST(0 AS BIGINT) + 1'
    """
    texts = [sql_of(k) for k in keys]

    def bit(position: int, members: tuple[int, ...]) -> int:
        return int(position not in members)

    def swap(n: exp.Expression) -> exp.Expression | None:
        name = function_name(n)
        if name not in ("grouping", "grouping_id"):
            return None
        listed = list(n.expressions) or ([n.this] if isinstance(n.this, exp.Expression) else [])
        positions = [texts.index(sql_of(a.unnest())) for a in listed] or list(range(len(keys)))
        case = exp.Case(this=inner_column(SET))
        for number, members in enumerate(sets):
            value = 0
            for p in positions:
                value = 2 * value + bit(p, members)
            case.append("ifs", exp.If(this=exp.Literal.number(number), true=exp.Literal.number(value)))
        told = case if positions else exp.Literal.number(0)
        return exp.cast(told, "tinyint" if name == "grouping" else "bigint")

    return rewritten(node, swap)


def key_names(keys: list[exp.Expression]) -> list[str]:
    """A name for each group key: its column's own where that is free."""
    names: list[str] = []
    for i, key in enumerate(keys, 1):
        name = key.unnest().name.lower() if isinstance(key.unnest(), exp.Column) else f"key_{i}"
        free = name not in names and name.isidentifier() and not name.startswith((RESERVED_PREFIX, "agg_", "arg_"))
        names.append(name if free else f"key_{i}")
    return names


def argument_name(node: exp.Expression, arguments: dict[str, tuple[str, exp.Expression]]) -> str:
    return arguments.setdefault(sql_of(node), (f"arg_{len(arguments) + 1}", node))[0]


def typed_call(call: Call, types: dict[str, str], raises: bool) -> Call:
    """Keep a call linear only where its argument's type makes the sum exact and Spark's result reproducible.

    `raises` says that what overflows raises an error (see `Analyzer.raises`).
    """
    if call.function is None or call.argument is None:
        return call
    type_ = types[call.argument]
    exact = call.function == "count" or type_ in _INTEGERS
    if type_.startswith("decimal(") and not exact:
        exact = exact_average(type_) if call.function == "avg" else exact_sum(type_, raises)
    return Call(call.name, call.sql, call.function if exact else None, call.argument, type_)


def decimal_of(type_: str) -> tuple[int, int]:
    """Precision and scale of a decimal type's name.

    >>> decimal_of("decimal(15,2)")
    (15, 2)
    """
    precision, scale = type_[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def exact_sum(type_: str, raises: bool) -> bool:
    """Whether sums of this decimal type can be kept and added in any order, where an overflow `raises` an error or not.

    Of the 38 digits we need one more to add two sums. Wider ones are kept where a sum of 38 digits raises an error:
    what fails incrementally is computed in full, as Spark does it. Where it gives NULL, nothing would tell.

    >>> exact_sum("decimal(27,10)", False), exact_sum("decimal(28,10)", False), exact_sum("decimal(28,10)", True)
    (True, False, True)
    """
    return not wide(type_) or (raises and decimal_of(type_)[1] < 38)


def wide(type_: str) -> bool:
    """Whether a sum of this decimal type may overflow Spark's.

    Spark sums decimal(p,s) as decimal(p+10,s), room for 10,000,000,000 rows, but as no more than decimal(38,s).

    >>> wide("decimal(27,10)"), wide("decimal(28,10)")
    (False, True)
    """
    return decimal_of(type_)[0] + 10 >= 38


def wide_sums(unit: Unit) -> bool:
    """Whether a unit keeps sums that may overflow: its incremental refresh may fail where a full one does not."""
    calls = unit.reduce.calls if unit.reduce is not None else ()
    types = [str(c.argument_type) for c in calls if c.function == "sum"]
    return any(t.startswith("decimal(") and wide(t) for t in types)


def exact_average(type_: str) -> bool:
    """Whether 38 digits are enough for our average of this decimal type to be rounded only once, as Spark's is.

    Spark averages decimal(p,s) as sum decimal(p+10,s) over count decimal(20,0), rounded half up to u = s+4 digits.
    Spark's types of our steps: count * unit is decimal(21+u,u), so u <= 17, and the sum less its rest is
    decimal(p+10+5,u), so p <= 23; with the carry added it is p <= 22.

    Averages of up to 11 digits Spark's optimizer computes in doubles, which are rounded twice: these stay its own.

    >>> exact_average("decimal(15,2)"), exact_average("decimal(32,4)"), exact_average("decimal(20,15)")
    (True, False, False)
    >>> exact_average("decimal(11,2)"), exact_average("decimal(12,2)")
    (False, True)
    """
    precision, scale = decimal_of(type_)
    return 12 <= precision <= 22 and scale <= 13
