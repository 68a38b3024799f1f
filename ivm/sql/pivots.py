"""PIVOT and UNPIVOT as the plain queries they stand for (pure).

PIVOT    groups by all other columns and the pivot columns, then puts each listed value's row into columns of its own;
         where an aggregate gives something else than a number or a boolean, groups by all other columns alone, each
         aggregate over the rows of its value: as Spark does it, whose count() of no rows is NULL here and 0 there
UNPIVOT  is a UNION ALL of one query for each listed column
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from ivm.names import ident
from ivm.plan.nodes import Column
from ivm.sql.blocks import as_type
from ivm.sql.calls import find_calls
from ivm.sql.dialect import IvmSpark, function_name
from ivm.sql.refusals import UnsupportedError
from ivm.sql.render import typed_nulls

#: The name under which the pivoted table is bound.
BASE = "__ivm_pivoted"
_INTEGERS = ("bigint", "int", "smallint", "tinyint")
#: The types of which Spark's PivotFirst takes values, and decimals.
_NUMBERS = (*_INTEGERS, "double", "float", "boolean")


def pivoted(
    pivot: exp.Pivot, columns: Sequence[Column], schema: Callable[[str], tuple[Column, ...]]
) -> tuple[exp.Query, str]:
    """The query over BASE, which has these columns, and BASE; `schema` gives the columns of a statement.

    Raises UnsupportedError for a subquery in it, whose columns would be taken for BASE's.
    """
    if pivot.find(exp.Query):
        raise UnsupportedError("clause", "PIVOT with a subquery")
    names = [c.name for c in columns]
    if pivot.args.get("unpivot"):
        return _unpivot(pivot, names), BASE
    calls = ", ".join(_over_base(e.unalias()).sql(dialect=IvmSpark) for e in pivot.expressions)
    types = [c.type for c in schema(f"SELECT {calls} FROM {typed_nulls(columns)} AS {ident(BASE)}")]
    in_two_steps = all(t in _NUMBERS or t.startswith("decimal(") for t in types)
    return (_pivot if in_two_steps else _pivot_at_once)(_typed(pivot, columns), names), BASE


def _typed(pivot: exp.Pivot, columns: Sequence[Column]) -> exp.Pivot:
    """The pivot with each listed value of its column's type, as Spark casts them.

    Raises UnsupportedError for a type that a cast to isn't printed as it was told.
    """
    copy = pivot.copy()
    on, _ = _keys(copy, [c.name for c in columns])
    types = {c.name.lower(): c.type for c in columns}
    for value in copy.args["fields"][0].expressions:
        literal = value.this if isinstance(value, exp.PivotAlias) else value
        for wanted, column in zip(
            literal.expressions if isinstance(literal, exp.Tuple) else [literal], on, strict=True
        ):
            type_ = types[column.lower()]
            alike = isinstance(wanted, exp.Literal) and (
                type_ == "string" if wanted.is_string else wanted.is_int and type_ in _INTEGERS
            )
            if not alike:
                wanted.replace(as_type(wanted, type_))
    return copy


def _over_base(node: exp.Expression) -> exp.Expression:
    return node.copy().transform(lambda n: _column(n.name) if isinstance(n, exp.Column) else n)


def _column(name: str, table: str = BASE) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def _pivot(pivot: exp.Pivot, columns: Sequence[str]) -> exp.Query:
    on, rest = _keys(pivot, columns)
    calls = [f"__ivm_a{i}" for i, _ in enumerate(pivot.expressions)]
    inner = exp.select(
        *(_column(c) for c in [*rest, *on]),
        *(
            exp.alias_(_over_base(e.unalias()), name, quoted=True)
            for name, e in zip(calls, pivot.expressions, strict=True)
        ),
    )
    inner = inner.from_(_base()).group_by(*(_column(c) for c in [*rest, *on]))
    outs = [
        exp.Filter(this=exp.Min(this=_column(call, "__ivm_p")), expression=exp.Where(this=met.copy()))
        for met in _conditions(pivot, on, "__ivm_p")
        for call in calls
    ]
    return _grouped(pivot, outs, rest, "__ivm_p").from_(inner.subquery("__ivm_p"))


def _pivot_at_once(pivot: exp.Pivot, columns: Sequence[str]) -> exp.Query:
    on, rest = _keys(pivot, columns)
    outs = [
        _restricted(_over_base(e.unalias()), met) for met in _conditions(pivot, on, BASE) for e in pivot.expressions
    ]
    return _grouped(pivot, outs, rest, BASE).from_(_base())


def _restricted(node: exp.Expression, met: exp.Expression) -> exp.Expression:
    """An expression whose aggregates see NULLs in place of rows that don't meet a condition.

    Raises UnsupportedError for aggregates of more than one argument, of which some are constants.
    """

    def where_met(value: exp.Expression) -> exp.Expression:
        one = exp.Literal.number(1) if isinstance(value, exp.Star) else value
        return exp.Case(ifs=[exp.If(this=met.copy(), true=one.copy())])

    for call in list(find_calls(node)):
        inner = call.this if isinstance(call, exp.Filter) else call
        plain = isinstance(inner, exp.Anonymous)
        arguments = inner.expressions if plain else [inner.this, *(inner.args.get("expressions") or [])]
        if len(arguments) != 1 or isinstance(inner, exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            raise UnsupportedError("clause", "PIVOT with an aggregate of several arguments")
        (argument,) = arguments
        if isinstance(argument, exp.Distinct):
            new: exp.Expression = exp.Distinct(expressions=[where_met(v) for v in argument.expressions])
        else:
            new = where_met(argument)
        if function_name(inner) in ("first", "first_value", "any_value", "last", "last_value"):
            inner.set("expressions", [new, exp.true()])  # of its value's rows, and so without those NULLs
        elif plain:
            inner.set("expressions", [new])
        else:
            inner.set("this", new)
    return node


def _keys(pivot: exp.Pivot, columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """The columns to pivot on, and those that are only grouped by."""
    (field,) = pivot.args["fields"]
    on = [c.name for c in (field.this.expressions if isinstance(field.this, exp.Tuple) else [field.this])]
    read = {c.name.lower() for e in pivot.expressions for c in e.find_all(exp.Column)} | {c.lower() for c in on}
    return on, [c for c in columns if c.lower() not in read]


def _conditions(pivot: exp.Pivot, on: Sequence[str], table: str) -> list[exp.Expression]:
    """What the rows of each listed value meet."""
    (field,) = pivot.args["fields"]
    found = []
    for value in field.expressions:
        literal = value.this if isinstance(value, exp.PivotAlias) else value
        wanted = literal.expressions if isinstance(literal, exp.Tuple) else [literal]
        pairs = zip(on, wanted, strict=True)
        found.append(exp.and_(*(exp.NullSafeEQ(this=_column(c, table), expression=w.copy()) for c, w in pairs)))
    return found


def _grouped(pivot: exp.Pivot, outs: Sequence[exp.Expression], rest: Sequence[str], table: str) -> exp.Select:
    """A SELECT of the columns that are grouped by, and of what the pivot makes, under its names."""
    names = [c.name for c in pivot.args.get("columns") or []]
    if len(outs) > len(names):
        raise UnsupportedError("clause", "PIVOT with columns of unknown names")
    made = [exp.alias_(out, name, quoted=True) for out, name in zip(outs, names, strict=False)]
    query = exp.select(*(_column(c, table) for c in rest), *made)
    return query.group_by(*(_column(c, table) for c in rest)) if rest else query


def _base() -> exp.Table:
    return exp.Table(this=exp.to_identifier(BASE), alias=exp.TableAlias(this=exp.to_identifier(BASE)))


def _unpivot(pivot: exp.Pivot, columns: Sequence[str]) -> exp.Query:
    (field,) = pivot.args["fields"]
    values = [v.name for e in pivot.expressions for v in (e.expressions if isinstance(e, exp.Tuple) else [e])]
    listed = []
    for e in field.expressions:
        inner, alias = (e.this, e.args["alias"].name) if isinstance(e, exp.PivotAlias) else (e, "")
        parts = [c.name for c in (inner.expressions if isinstance(inner, exp.Tuple) else [inner.unnest()])]
        listed.append((parts, alias or "_".join(parts)))
    used = {c.lower() for parts, _ in listed for c in parts}
    rest = [c for c in columns if c.lower() not in used]
    selects = []
    for parts, label in listed:
        outs: list[exp.Expression] = [_column(c) for c in rest]
        outs.append(exp.alias_(exp.Literal.string(label), field.this.name, quoted=True))
        outs += [exp.alias_(_column(p), v, quoted=True) for p, v in zip(parts, values, strict=True)]
        select = exp.select(*outs).from_(_base())
        if not pivot.args.get("include_nulls"):
            select = select.where(exp.or_(*(exp.not_(exp.Is(this=_column(p), expression=exp.null())) for p in parts)))
        selects.append(select)
    tree: exp.Query = selects[0]
    for select in selects[1:]:
        tree = exp.Union(this=tree, expression=select, distinct=False)
    return tree
