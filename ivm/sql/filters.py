"""Comparisons of a bare column with constants, which mean the same to Spark and to the native lane (pure)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from ivm.names import ident, literal
from ivm.plan.nodes import Filter

_COMPARISONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.EQ: ("=", "="), exp.NEQ: ("<>", "<>"),
    exp.LT: ("<", ">"), exp.LTE: ("<=", ">="), exp.GT: (">", "<"), exp.GTE: (">=", "<="),
}  # fmt: skip
#: What Spark calls the comparisons of a text's parts.
PATTERNS = {"prefix": "STARTSWITH", "suffix": "ENDSWITH", "contains": "CONTAINS"}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


@dataclass(frozen=True)
class Comparison:
    """`kind` is what the constants are: number, text or date."""

    column: tuple[str, str]
    op: str
    values: tuple[str, ...]
    kind: str


def comparisons(part: exp.Expression) -> list[Comparison]:
    """What a conjunct says of single columns; nothing where it isn't plainly a comparison with constants."""
    part = part.unnest()
    if any(
        value for key, value in part.args.items() if key not in ("this", "expression", "expressions", "low", "high")
    ):
        return []  # a negation or another variant of the operator
    if isinstance(part, exp.Between):
        return _compared(part.this, ">=", [part.args["low"]]) + _compared(part.this, "<=", [part.args["high"]])
    if isinstance(part, exp.In) and part.expressions:
        return _compared(part.this, "in", part.expressions)
    if isinstance(part, exp.Like):
        return _pattern(part)
    if type(part) in _COMPARISONS:
        op, mirrored = _COMPARISONS[type(part)]
        return _compared(part.left, op, [part.right]) or _compared(part.right, mirrored, [part.left])
    return []


def typed(found: Comparison, column: str, type_: str) -> Filter | None:
    """The filter on a column of this type, or None where the comparison would involve a cast."""
    fits = {
        "number": (type_ in _INTEGERS and all("." not in v for v in found.values)) or _is_exact(found, type_),
        "text": type_ == "string",
        "date": type_ == "date",
    }[found.kind]
    return Filter(column, found.op, found.values) if fits else None


def _is_exact(found: Comparison, type_: str) -> bool:
    """Whether a decimal column is compared with numbers without a digit lost: Spark rounds both to 38 digits.

    >>> one = Comparison(("t", "w"), "<=", ("0.5",), "number")
    >>> _is_exact(one, "decimal(37,0)"), _is_exact(one, "decimal(38,0)"), _is_exact(one, "int")
    (True, False, False)
    """
    if not type_.startswith("decimal("):
        return False
    digits, scale = map(int, type_[len("decimal(") : -1].split(","))
    for value in found.values:
        whole, _, part = value.lstrip("-").partition(".")
        # In a list a whole number is as wide as its type.
        width = max(len(whole), 20 if found.op == "in" and not part else 0)
        if max(digits - scale, width) + max(scale, len(part)) > 38:
            return False
    return True


def filter_sql(f: Filter, type_: str, alias: str, column: str) -> str:
    """The SQL condition of a filter on a column of this type, which is called so in a FROM item.

    >>> filter_sql(Filter("d", ">=", ("2024-01-01",)), "date", "t", "d")
    "`t`.`d` >= DATE '2024-01-01'"
    >>> filter_sql(Filter("s", "prefix", ("a",)), "string", "t", "s")
    "STARTSWITH(`t`.`s`, 'a')"
    >>> filter_sql(Filter("n", "in", ("1", "-2")), "int", "t", "m")
    '`t`.`m` IN (1, -2)'
    """
    found = f"{ident(alias)}.{ident(column)}"
    if f.op in PATTERNS:
        return f"{PATTERNS[f.op]}({found}, {literal(f.values[0])})"
    values = ", ".join(_constant_sql(v, type_) for v in f.values)
    return f"{found} IN ({values})" if f.op == "in" else f"{found} {f.op} {values}"


def _constant_sql(text: str, type_: str) -> str:
    if type_ == "string":
        return literal(text)
    return f"DATE {literal(text)}" if type_ == "date" else f"{Decimal(text):f}"


def _compared(column: exp.Expression, op: str, constants: list[exp.Expression]) -> list[Comparison]:
    column = column.unnest()
    found = [_constant(c.unnest()) for c in constants]
    if not isinstance(column, exp.Column) or None in found:
        return []
    kinds = {f[0] for f in found if f}
    return (
        [Comparison((column.table, column.name), op, tuple(f[1] for f in found if f), kinds.pop())]
        if len(kinds) == 1
        else []
    )


def _constant(node: exp.Expression) -> tuple[str, str] | None:
    if isinstance(node, exp.Neg) and (inner := _constant(node.this.unnest())) and inner[0] == "number":
        return "number", "-" + inner[1]
    if isinstance(node, exp.Literal):
        if node.is_string:
            return "text", node.name
        return ("number", node.name) if re.fullmatch(r"\d+(\.\d+)?", node.name) and len(node.name) <= 18 else None
    if (
        isinstance(node, exp.Cast)
        and node.to.is_type("date")
        and isinstance(node.this, exp.Literal)
        and node.this.is_string
        and _DATE.match(node.this.name)
    ):
        return "date", node.this.name
    return None


def _pattern(node: exp.Like) -> list[Comparison]:
    column, pattern = node.this.unnest(), node.expression
    if not isinstance(column, exp.Column) or not isinstance(pattern, exp.Literal) or not pattern.is_string:
        return []
    text = pattern.name
    body = text.strip("%")
    if not body or any(c in body for c in "%_\\"):
        return []
    op = {(False, False): "=", (False, True): "prefix", (True, False): "suffix", (True, True): "contains"}[
        text.startswith("%"), text.endswith("%")
    ]
    return [Comparison((column.table, column.name), op, (body,), "text")]
