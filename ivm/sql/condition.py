"""A condition that a person types, brought to SQL that can stand in any statement.

    text  ->  one tree of allowed nodes  ->  text rendered from the tree

Invariant: what is returned is one scalar expression, balanced by construction; no text of the user's reaches a
statement but through the tree, where names and literals are quoted by the renderer. What isn't on the list of allowed
nodes is refused.
"""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from ivm import parameters
from ivm.errors import ConfigError
from ivm.sql.dialect import COMPARISONS, GENERATORS, IvmSpark, function_name, is_aggregate
from ivm.sql.substitution import reference
from ivm.sql.volatile import VOLATILE

#: More is no condition that a person types; Airflow's form takes as much.
MAX_LENGTH = 2_000
MAX_DEPTH = 60
_HINT = "Write one condition such as `customer = 'a' AND day >= DATE '2026-03-01'`."

_WORD = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_HEX = re.compile(r"([0-9A-Fa-f]{2})*\Z")
#: Functions that call what they are told to by a text.
_INDIRECT = frozenset(["reflect", "try_reflect", "java_method", "identifier"])

#: Nodes of a plain scalar condition. Subclasses are not meant: each kind is here for itself.
_ALLOWED: frozenset[type[exp.Expression]] = frozenset(
    [
        *(exp.Column, exp.Identifier, exp.Dot, exp.Bracket),
        *(exp.Literal, exp.Boolean, exp.Null, exp.HexString, exp.RawString, exp.Interval, exp.IntervalSpan, exp.Var),
        *(exp.Paren, exp.And, exp.Or, exp.Not, exp.Tuple),
        *(
            *COMPARISONS,
            exp.Is,
            exp.In,
            exp.Between,
        ),
        *(exp.Like, exp.ILike, exp.RegexpLike, exp.Escape),
        *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe),
        *(exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot),
        *(exp.Cast, exp.TryCast, exp.DataType, exp.DataTypeParam, exp.ColumnDef),
        *(exp.Case, exp.If, exp.Coalesce, exp.Extract, exp.StrPosition, exp.Overlay, exp.Trim, exp.Substring),
        exp.Anonymous,
    ]
)


def parse_condition(text: str) -> str:
    """One boolean expression in Spark SQL, as it was understood.

    Raises ConfigError for anything else: more than one expression, text that is left over, comments, subqueries,
    aggregates, window functions, generators, functions that give another answer each time, `*`, lambdas and parameters.

    >>> parse_condition("k=1 or (v IN ('it''s'))")
    "k = 1 OR (v IN ('it\\\\'s'))"
    """
    text = parameters.text(text, "The condition", _HINT)
    if found := reference(text):
        raise _refused(text, f"Spark would replace {found} by a setting, even inside of a string")
    if len(text) > MAX_LENGTH:
        raise ConfigError(
            f"The condition has {len(text):,} characters, at most {MAX_LENGTH:,} are taken.", "Backfill the whole view."
        )
    tree = _parsed(text, text)
    for node, depth in _walk(tree):
        complaint = _complaint(node) if depth <= MAX_DEPTH else "it nests too deeply"
        if complaint:
            raise _refused(text, complaint)
    for name in tree.find_all(exp.Identifier):
        name.set(
            "quoted", bool(name.args.get("quoted")) or not _WORD.match(name.name)
        )  # DATEADD(day, ...) stays as it is
    rendered = _rendered(tree)
    if _rendered(_parsed(rendered, text)) != rendered:
        raise _refused(text, "it is not understood in one way only")
    return rendered


def _parsed(sql: str, text: str) -> exp.Expression:
    """The one expression of `sql`, which was made of `text`."""
    try:
        if any(t.token_type == TokenType.SEMICOLON for t in sqlglot.tokenize(sql, read=IvmSpark)):
            raise _refused(text, "it holds a semicolon")
        tree = sqlglot.parse_one(sql, read=IvmSpark)
    except RecursionError as error:
        raise _refused(text, "it nests too deeply") from error
    except SqlglotError as error:
        raise _refused(text, "it can't be parsed as one expression") from error
    return tree


def _rendered(tree: exp.Expression) -> str:
    return str(tree.sql(IvmSpark, comments=False))


def _walk(tree: exp.Expression) -> list[tuple[exp.Expression, int]]:
    """All nodes with their depth, without recursion."""
    found = [(tree, 0)]
    for node, depth in found:
        found += [(child, depth + 1) for child in node.iter_expressions()]
    return found


def _complaint(node: exp.Expression) -> str:
    """What a node has no place for in a condition, "" for nothing."""
    if node.comments:
        return "it holds a comment"
    if isinstance(node, exp.Query):
        return "it holds a subquery"
    if is_aggregate(node):
        return f"{function_name(node)}() is an aggregate"
    name = function_name(node)
    if name in ("grouping", "grouping_id"):
        return f"{name}() belongs to a grouping"
    if name in _INDIRECT:
        return f"{name}() calls what its text names"
    if name in GENERATORS:
        return f"{name}() makes rows"
    if name in VOLATILE:
        return f"{name}() gives another answer each time"
    if type(node) not in _ALLOWED:
        return f"{_words(node)} has no place there"
    # Text that the renderer doesn't quote.
    if isinstance(node, exp.Anonymous | exp.Var) and not _WORD.match(node.name):
        return f"{parameters.shown(node.name)} is no plain word"
    if isinstance(node, exp.HexString) and not _HEX.match(node.name):
        return "X'...' holds other than pairs of hexadecimal digits"
    if isinstance(node, exp.DataType) and (node.this == exp.DataType.Type.USERDEFINED or node.args.get("kind")):
        return "a type is not one of Spark's"
    if isinstance(node, exp.Extract) and not _WORD.match(node.name):
        return f"{parameters.shown(node.name)} is no plain word"
    if isinstance(node, exp.Interval) and (node.this is None or node.args.get("unit") is None):
        return "an interval lacks its value or its unit"
    if isinstance(node, exp.Tuple) and not node.expressions:
        return "it has empty parentheses"
    if isinstance(node, exp.In) and {k for k, v in node.args.items() if v} - {"this", "expressions"}:
        return "IN takes a list of values there"
    if isinstance(node, exp.In) and not node.expressions:
        return "IN has no values"
    return ""


def _words(node: exp.Expression) -> str:
    known = {
        exp.Star: "*",
        exp.Lambda: "a lambda (->)",
        exp.Window: "a window function",
        exp.Alias: "an alias",
        exp.Block: "a second statement",
    }
    return known.get(type(node), str(node.key).replace("_", " "))


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(f"{parameters.shown(text)} is not a condition: {why}.", _HINT)
