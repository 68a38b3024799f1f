"""Spark's expressions as DuckDB takes them, each with the type that Spark gives it.

Whatever isn't on the list (`ivm.portable.listed`) raises NotPortableError, which names it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from ivm.names import native_literal
from ivm.portable.aggregates import AFTER
from ivm.portable.casts import cast_text, target_of
from ivm.portable.entry import Entry
from ivm.portable.listed import AGGREGATES, SCALARS, WINDOWS, Value, called
from ivm.portable.scalars import FINER_UNITS, UNITS
from ivm.portable.types import BIGINT, BOOLEAN, DATE, INT, STRING, VOID, Type, decimal, type_of
from ivm.sql.blocks import sql_of
from ivm.sql.dialect import IvmSpark


class NotPortableError(Exception):
    """What keeps a statement on Spark: an expression (as Spark reads it), and why."""

    def __init__(self, expression: str, why: str) -> None:
        super().__init__(f"{expression}: {why}")
        self.expression, self.why = expression, why


class Context(Protocol):
    """What an expression may refer to."""

    def column(self, node: exp.Column) -> Value:
        """A column of what is in scope."""

    def query(self, node: exp.Expression) -> tuple[str, Sequence[Type]]:
        """A subquery, and its columns' types."""


def refuse(node: exp.Expression, why: str) -> NotPortableError:
    """The error that names an expression, cut off where it is long."""
    text = " ".join(sql_of(node).split())
    return NotPortableError(text if len(text) <= 100 else text[:97] + "...", why)


_BINARY: dict[type[exp.Expression], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "div",
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
    exp.And: "and", exp.Or: "or", exp.DPipe: "concat", exp.Like: "like",
}  # fmt: skip
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)
#: Other names of functions.
_ALIASES = {
    "nvl": "coalesce", "ifnull": "coalesce", "char_length": "length", "character_length": "length", "len": "length",
    "ucase": "upper", "lcase": "lower", "mean": "avg", "dateadd": "date_add", "date_diff": "datediff",
    "dayofmonth": "day", "every": "bool_and", "some": "bool_or", "any": "bool_or", "substr": "substring",
}  # fmt: skip
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} ([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}\Z")
_WORDS = {"YEAR": ("[months]", 12), "MONTH": ("[months]", 1), "WEEK": ("[days]", 7), "DAY": ("[days]", 1)}
#: Intervals of more days or months are left to Spark.
_MOST_SPAN = 100_000


@dataclass(frozen=True)
class Expressions:
    """Writes expressions over what is in scope."""

    context: Context

    def value(self, node: exp.Expression) -> Value:
        """An expression. Raises NotPortableError."""
        write = _WRITERS.get(type(node))
        if write is not None:
            return write(self, node)
        if isinstance(node, exp.AggFunc | exp.Filter):
            return self._aggregate(node)
        if isinstance(node, exp.Func):
            return self._function(node, _name(node), [*_arguments(node)])
        raise refuse(node, "it isn't on the list of what is portable")

    def condition(self, node: exp.Expression) -> str:
        """An expression that must be a condition."""
        found = self.value(node)
        if found.type not in (BOOLEAN, VOID):
            raise refuse(node, "it isn't a condition")
        return found.sql

    def call(self, node: exp.Expression, call: str, args: Sequence[Value], entries: Sequence[Entry] = SCALARS) -> Value:
        """A call that is on the list."""
        found = called(entries, call, args)
        if found is None:
            types = ", ".join(str(a.type) for a in args)
            raise refuse(node, f"{call} of ({types}) isn't on the list of what is portable")
        return found

    # -- leaves -----------------------------------------------------------------------------------

    def column(self, node: exp.Column) -> Value:
        return self.context.column(node)

    def literal(self, node: exp.Literal) -> Value:
        text = str(node.this)
        if node.is_string:
            # What a backslash means in Spark depends on where it stands.
            if "\\" in text or "\0" in text:
                raise refuse(node, "a text with a backslash or a zero byte")
            return Value(native_literal(text), STRING, text)
        if re.fullmatch(r"[0-9]+", text):
            number = int(text)
            type_ = INT if number < 2**31 else BIGINT if number < 2**63 else decimal(len(text), 0)
            if type_ is None:
                raise refuse(node, "a number of too many digits")
            return Value(f"CAST({number} AS {type_.duck})", type_, number)
        found = re.fullmatch(r"([0-9]*)\.([0-9]*)", text)
        type_ = decimal(max(len(found[1].lstrip("0")) + len(found[2]), 1), len(found[2])) if found else None
        if type_ is None:
            raise refuse(node, "a number in this form")
        return Value(f"CAST('{text}' AS {type_.duck})", type_)

    def boolean(self, node: exp.Boolean) -> Value:
        return Value("TRUE" if node.this else "FALSE", BOOLEAN)

    def null(self, _: exp.Null) -> Value:
        return Value("NULL", VOID)

    def paren(self, node: exp.Paren) -> Value:
        found = self.value(node.this)
        return Value(f"({found.sql})", found.type, found.literal)

    # -- operators --------------------------------------------------------------------------------

    def binary(self, node: exp.Binary) -> Value:
        if isinstance(node, exp.Like) and not _plain_pattern(node.expression):
            raise refuse(node, "a pattern that isn't a plain text")
        if isinstance(node, exp.Add | exp.Sub) and isinstance(node.expression, exp.Interval):
            return self.call(node, _BINARY[type(node)], [self.value(node.left), _span(node.expression)])
        left, right = self.value(node.left), self.value(node.right)
        if isinstance(node, exp.Like):
            right = Value(right.sql, Type("[pattern]"))
        if isinstance(node, _COMPARED):
            left, right = _dated(left, right), _dated(right, left)
        found = self.call(node, _BINARY[type(node)], [left, right])
        return self.call(node, "not", [found]) if node.args.get("negate") else found

    def different(self, node: exp.NullSafeNEQ) -> Value:
        same = self.call(node, "<=>", [self.value(node.left), self.value(node.right)])
        return self.call(node, "not", [same])

    def negated(self, node: exp.Not) -> Value:
        return self.call(node, "not", [self.value(node.this)])

    def negative(self, node: exp.Neg) -> Value:
        found = self.value(node.this)
        # Spark reads a minus and a number as one literal.
        if isinstance(found.literal, int) and isinstance(node.this, exp.Literal):
            type_ = INT if found.literal <= 2**31 else BIGINT if found.literal <= 2**63 else found.type
            return Value(f"CAST(-{found.literal} AS {type_.duck})", type_, -found.literal)
        return self.call(node, "negative", [found])

    def is_(self, node: exp.Is) -> Value:
        if isinstance(node.expression, exp.Null):
            return self.call(node, "is null", [self.value(node.this)])
        if isinstance(node.expression, exp.Boolean):
            return self.call(node, "<=>", [self.value(node.this), self.value(node.expression)])
        raise refuse(node, "it isn't on the list of what is portable")

    def between(self, node: exp.Between) -> Value:
        value, low, high = (self.value(n) for n in (node.this, node.args["low"], node.args["high"]))
        value, low, high = _dated(_dated(value, low), high), _dated(low, value), _dated(high, value)
        return self.call(node, "and", [self.call(node, ">=", [value, low]), self.call(node, "<=", [value, high])])

    def in_(self, node: exp.In) -> Value:
        value = self.value(node.this)
        query = node.args.get("query")
        if query is not None:
            sql, types = self.context.query(query)
            if len(types) != 1 or types[0] != value.type:
                raise refuse(node, "its two sides have different types")
            self.call(node, "=", [value, Value("", types[0])])
            if not _filters(node):
                raise refuse(node, "as a value Spark's IN of a subquery, or its NOT IN, is false where SQL says NULL")
            return Value(f"({value.sql} IN ({sql}))", BOOLEAN)
        if not node.expressions:
            raise refuse(node, "it isn't on the list of what is portable")
        members = [_dated(self.value(e), value) for e in node.expressions]
        # One member is written twice, as the list has it.
        return self.call(node, "in", [value, *members, *([members[0]] if len(members) == 1 else [])])

    def exists(self, node: exp.Exists) -> Value:
        return Value(f"EXISTS ({self.context.query(node.this)[0]})", BOOLEAN)

    def subquery(self, node: exp.Subquery) -> Value:
        sql, types = self.context.query(node.this)
        if len(types) != 1:
            raise refuse(node, "a value of several columns")
        return Value(f"({sql})", types[0])

    # -- forms ------------------------------------------------------------------------------------

    def case(self, node: exp.Case) -> Value:
        args: list[Value] = []
        for arm in node.args["ifs"]:
            met = exp.EQ(this=node.this.copy(), expression=arm.this.copy()) if node.this is not None else arm.this
            args += [self.value(met), self.value(arm.args["true"])]
        otherwise = node.args.get("default")
        return self.call(node, "case", [*args, self.value(otherwise) if otherwise is not None else Value("NULL", VOID)])

    def if_(self, node: exp.If) -> Value:
        otherwise = node.args.get("false")
        last = self.value(otherwise) if otherwise is not None else Value("NULL", VOID)
        return self.call(node, "case", [self.value(node.this), self.value(node.args["true"]), last])

    def cast(self, node: exp.Cast) -> Value:
        """A cast that raises where the value doesn't fit."""
        to = node.to.sql(IvmSpark)
        target = type_of(to)
        if target is None:
            raise refuse(node, "a cast that isn't on the list of what is portable")
        value = self.value(node.this)
        if isinstance(value.literal, str):
            return _constant(node, value.literal, target)
        target = target_of(value.type, target)
        sql = cast_text(value.sql, value.type, target)
        if sql is None:
            raise refuse(node, f"CAST({value.type} AS {target}) isn't on the list of what is portable")
        return Value(sql, target)

    def extract(self, node: exp.Extract) -> Value:
        field = str(node.this.name).lower()
        if field == "second":  # the function of this name gives a whole number
            raise refuse(node, "seconds with their fractions")
        return self._function(node, field, [node.expression])

    def substring(self, node: exp.Substring) -> Value:
        value, start, length = self.value(node.this), node.args.get("start"), node.args.get("length")
        place = self._whole(node, start)
        count = self._whole(node, length) if length is not None else 2**31 - 1
        if place < 1:
            raise refuse(node, "a place that isn't a positive number")
        return self.call(
            node, "substring", [value, Value(str(place), Type("[place]")), Value(str(count), Type("[count]"))]
        )

    def trim(self, node: exp.Trim) -> Value:
        side = {"": "trim", "BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[
            str(node.args.get("position") or "")
        ]
        return self.call(node, side, [self.value(node.this)])

    def _whole(self, node: exp.Expression, part: exp.Expression | None) -> int:
        found = self.value(part) if part is not None else None
        if found is None or not isinstance(found.literal, int) or found.literal < 0:
            raise refuse(node, "an argument that isn't a plain number")
        return found.literal

    def _function(self, node: exp.Expression, name: str, arguments: Sequence[exp.Expression]) -> Value:
        name = _ALIASES.get(name, name)
        if name in ("trunc", "date_trunc") and len(arguments) == 2:
            unit, value = arguments if name == "date_trunc" else reversed(arguments)
            words = FINER_UNITS if name == "date_trunc" else UNITS
            word = str(unit.this).upper() if isinstance(unit, exp.Literal) and unit.is_string else ""
            return self.call(node, f"{name} to {words.get(word, 'other units')}", [self.value(value)])
        if name == "substring":
            length = {"length": arguments[2]} if len(arguments) > 2 else {}
            return self.substring(exp.Substring(this=arguments[0], start=arguments[1], **length))
        if name in ("lag", "lead"):
            raise refuse(node, "it needs a window")
        if any(e.call == name for e in AGGREGATES):
            return self._aggregate(node)
        args = [self.value(a) for a in arguments]
        if name == "nvl2" and len(args) == 3:
            known = self.call(node, "not", [self.call(node, "is null", [args[0]])])
            return self.call(node, "case", [known, args[1], args[2]])
        return self.call(node, name, _literals(name, args))

    # -- aggregates and windows -------------------------------------------------------------------

    def _aggregate(self, node: exp.Expression) -> Value:
        condition = ""
        call = node
        if isinstance(node, exp.Filter):
            condition = f" FILTER (WHERE {self.condition(node.expression.this)})"
            call = node.this
        found = self._called(call, AGGREGATES)
        return Value(found.sql.replace(AFTER, condition), found.type)

    def _called(self, node: exp.Expression, entries: Sequence[Entry]) -> Value:
        name, arguments = _ALIASES.get(_name(node), _name(node)), _arguments(node)
        if name == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star):
            return self.call(node, "count all", [], entries)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            inside = arguments[0].expressions
            if len(inside) != 1 or name not in ("count", "min", "max"):
                raise refuse(node, "it isn't on the list of what is portable")
            name, arguments = ("count distinct" if name == "count" else name), inside
        args = [self.value(a) for a in arguments]
        if not args or (name == "count" and len(args) == 1 and args[0].literal is not None):
            return self.call(node, "count all", [], entries)
        return self.call(node, name, args, entries)

    def window(self, node: exp.Window) -> Value:
        """A function over a window. What Spark numbers in another order than DuckDB is in no order that it names."""
        function, order = node.this, node.args.get("order")
        name = _ALIASES.get(_name(function), _name(function))
        if name in ("lag", "lead"):
            value, *further = _arguments(function)
            steps = self._whole(node, further[0]) if further else 1
            if len(further) > 1:
                raise refuse(node, "a default value isn't on the list of what is portable")
            found = self.call(node, name, [self.value(value), Value(str(steps), Type("[count]"))], WINDOWS)
        elif any(e.call == name for e in WINDOWS):
            found = self.call(node, name, [self.value(a) for a in _arguments(function)], WINDOWS)
        else:
            found = self._called(function, [e for e in AGGREGATES if e.call != "count distinct"])
        keys = [self._key(p) for p in node.args.get("partition_by") or ()]
        ordered = [self.ordered(o) for o in order.expressions] if order else []
        over = [
            *([f"PARTITION BY {', '.join(keys)}"] if keys else []),
            *([f"ORDER BY {', '.join(ordered)}"] if ordered else []),
            *([_frame(node)] if node.args.get("spec") else []),
        ]
        return Value(found.sql.replace(AFTER, f" OVER ({' '.join(over)})"), found.type)

    def _key(self, node: exp.Expression) -> str:
        found = self.value(node)
        self.call(node, "count distinct", [found], AGGREGATES)
        return found.sql

    def ordered(self, node: exp.Expression) -> str:
        """A sort key: NULLs where Spark puts them."""
        if not isinstance(node, exp.Ordered):
            raise refuse(node, "it isn't on the list of what is portable")
        value = self.value(node.this)
        if value.literal is not None:
            raise refuse(node, "a sort key that is a literal")
        self.call(node, "<", [value, value])
        way = "DESC" if node.args.get("desc") else "ASC"
        return f"{value.sql} {way} NULLS {'FIRST' if node.args.get('nulls_first') else 'LAST'}"


def _name(node: exp.Expression) -> str:
    return str(
        node.name if isinstance(node, exp.Anonymous) else getattr(node, "sql_name", lambda: type(node).__name__)()
    ).lower()


def _arguments(node: exp.Expression) -> list[exp.Expression]:
    """The arguments of a call, in order."""
    given = [] if isinstance(node, exp.Anonymous) or node.args.get("this") is None else [node.this]
    return [*given, *node.expressions]


def _plain_pattern(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _filters(node: exp.In) -> bool:
    """Whether a condition, or its NOT, only says which rows stay: there NULL does what false does."""
    above = _above(node)
    above = _above(above) if isinstance(above, exp.Not) else above
    while isinstance(above, exp.And | exp.Or):
        above = _above(above)
    return isinstance(above, exp.Where | exp.Having | exp.Join)


def _above(node: exp.Expression) -> exp.Expression | None:
    """What a condition stands in, without brackets."""
    above = node.parent
    while isinstance(above, exp.Paren):
        above = above.parent
    return above


def _dated(value: Value, other: Value) -> Value:
    """A text literal beside a date is a date, where it is written as one."""
    if isinstance(value.literal, str) and other.type == DATE and _DATE.match(value.literal):
        return Value(f"CAST({value.sql} AS DATE)", DATE)
    return value


def _constant(node: exp.Expression, text: str, target: Type) -> Value:
    """A text literal in another type, where it is written plainly."""
    plain = {
        "string": True,
        "date": bool(_DATE.match(text)),
        "timestamp": bool(_TIME.match(text)),
        "timestamp_ntz": bool(_TIME.match(text)),
        "decimal": _fits(text, target),
        "int": bool(re.fullmatch(r"-?[0-9]{1,9}", text)),
        "bigint": bool(re.fullmatch(r"-?[0-9]{1,18}", text)),
    }
    if not plain.get(target.name):
        raise refuse(node, "a cast of this text")
    return Value(f"CAST({native_literal(text)} AS {target.duck})", target, text if target == STRING else None)


def _fits(text: str, target: Type) -> bool:
    found = re.fullmatch(r"-?([0-9]+)(?:\.([0-9]+))?", text)
    return (
        found is not None
        and len(found[2] or "") <= target.scale
        and len(found[1].lstrip("0")) <= target.digits - target.scale
    )


def _span(node: exp.Interval) -> Value:
    """Days or months."""
    unit, text = node.args.get("unit"), str(node.this.this) if isinstance(node.this, exp.Literal) else ""
    word = str(unit.this).upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    if word not in _WORDS or not re.fullmatch(r"[0-9]{1,6}", text):
        raise refuse(node, "an interval in this form")
    family, factor = _WORDS[word]
    if int(text) * factor > _MOST_SPAN:
        raise refuse(node, "so long an interval")
    return Value(f"CAST({int(text) * factor} AS INTEGER)", Type(family))


def _literals(name: str, args: list[Value]) -> list[Value]:
    """Arguments of which the list asks that they are literals, marked as such."""
    if name == "round" and len(args) == 2 and isinstance(args[1].literal, int) and args[1].literal >= 0:
        return [args[0], Value("", Type("[digits]", scale=args[1].literal))]
    if name == "left" and len(args) == 2 and isinstance(args[1].literal, int) and args[1].literal >= 0:
        return [args[0], Value(args[1].sql, Type("[count]"))]
    if name == "replace" and len(args) == 3 and all(isinstance(a.literal, str) for a in args[1:]) and args[1].literal:
        return [args[0], *(Value(a.sql, Type("[text]")) for a in args[1:])]
    return args


def _frame(node: exp.Window) -> str:
    spec = node.args["spec"]
    sides = []
    for side in ("start", "end"):
        what, which = spec.args.get(side), spec.args.get(f"{side}_side")
        if isinstance(what, str):
            sides.append(f"{what} {which}" if which else what)
        elif isinstance(what, exp.Literal) and re.fullmatch(r"[0-9]+", str(what.this)):
            sides.append(f"{what.this} {which}")
        else:
            raise refuse(node, "a window frame in this form")
    if str(spec.args.get("kind")) != "ROWS" or len(sides) != 2:
        raise refuse(node, "a window frame in this form")
    return f"ROWS BETWEEN {sides[0]} AND {sides[1]}"


_Writer = Callable[[Expressions, "exp.Expression"], Value]
#: Nodes that are written in a way of their own.
_WRITERS: dict[type[exp.Expression], _Writer] = {
    exp.Column: Expressions.column,
    exp.Literal: Expressions.literal,
    exp.Boolean: Expressions.boolean,
    exp.Null: Expressions.null,
    exp.Paren: Expressions.paren,
    exp.Neg: Expressions.negative,
    exp.Not: Expressions.negated,
    exp.Is: Expressions.is_,
    exp.Between: Expressions.between,
    exp.In: Expressions.in_,
    exp.Exists: Expressions.exists,
    exp.Subquery: Expressions.subquery,
    exp.Case: Expressions.case,
    exp.If: Expressions.if_,
    exp.Cast: Expressions.cast,
    exp.TryCast: Expressions.cast,
    exp.Extract: Expressions.extract,
    exp.Substring: Expressions.substring,
    exp.Trim: Expressions.trim,
    exp.Window: Expressions.window,
    exp.NullSafeNEQ: Expressions.different,
    **dict.fromkeys(_BINARY, Expressions.binary),
}  # type: ignore[dict-item]

__all__ = ["Context", "Expressions", "NotPortableError", "refuse"]
