"""Where Spark would pad a CHAR column in a comparison, which only the declared type of its table tells it to (pure).

Spark hands out a CHAR(n) column as a string padded to n characters, and pads what is compared with the bare column, to
the longer of both: `c = 'a'` holds for 'a    '. Our statements read such columns from datasets that declare strings:
all they compute from a value is right, but such a comparison would not be padded.

Invariant: a query for which `compares_padded` is False means the same over padded strings as over CHAR columns.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from ivm.sql.dialect import COMPARISONS, function_name
from ivm.sql.text import query_tree

#: What compares its operands with each other, or is replaced by such a comparison.
_COMPARING = (
    *COMPARISONS,
    exp.In,
    exp.Between,
    exp.Nullif,
    exp.Case,
)
_COMPARING_FUNCTIONS = ("equal_null", "nullif", "decode", "between")


def padded_names(tree: exp.Expression, columns: Iterable[str]) -> frozenset[str]:
    """The names, in lower case, by which the query may call one of these columns.

    >>> from sqlglot import parse_one
    >>> sorted(padded_names(parse_one("SELECT a AS x, upper(a) AS y FROM (SELECT c AS a FROM t)"), ["c"]))
    ['a', 'c', 'x']
    >>> sorted(padded_names(parse_one("WITH r(a, b) AS (SELECT c, n FROM t) SELECT a, b FROM r"), ["c"]))
    ['a', 'c']
    """
    names = {c.lower() for c in columns}
    named = [
        (a.alias.lower(), inner.name.lower())
        for a in tree.find_all(exp.Alias)
        if isinstance(inner := a.this.unnest(), exp.Column | exp.Dot)
    ]
    for alias in tree.find_all(exp.TableAlias):
        listed = [c.name.lower() for c in alias.columns]
        selects = _selects(alias.parent) if listed else []
        if any(s.is_star or len(s.selects) != len(listed) for s in selects or ()):
            selects = None
        if selects is None:
            names |= set(listed)
            continue
        named += [
            (name, inner.alias_or_name.lower() if isinstance(inner, exp.Alias) else inner.name.lower())
            for select in selects
            for name, column in zip(listed, select.selects, strict=True)
            if isinstance(inner := column.unnest(), exp.Alias | exp.Column | exp.Dot)
        ]
    while more := {alias for alias, name in named if name in names} - names:
        names |= more
    return frozenset(names)


def _selects(query: exp.Expression | None) -> list[exp.Select] | None:
    """The SELECTs whose columns a list of names after an alias renames by position; None where that isn't told."""
    if isinstance(query, exp.SetOperation):
        left, right = _selects(query.left), _selects(query.right)
        return None if left is None or right is None else left + right
    if isinstance(query, exp.CTE | exp.Subquery) and not query.args.get("pivots") and not query.args.get("joins"):
        return _selects(query.this)
    return [query] if isinstance(query, exp.Select) else None


def compares_padded(tree: exp.Expression, columns: Iterable[str]) -> bool:
    """Whether the query compares one of these columns with something.

    >>> from sqlglot import parse_one
    >>> clauses = ("", "WHERE c = 'a'", "WHERE n = 1", "GROUP BY c")
    >>> [compares_padded(parse_one(f"SELECT c, length(c) AS n FROM t {w}"), ["C"]) for w in clauses]
    [False, True, False, False]
    >>> compares_padded(parse_one("SELECT 1 FROM t JOIN u USING (c)"), ["c"])
    True
    """
    names = padded_names(tree, columns)
    if not names:
        return False
    for join in tree.find_all(exp.Join):
        if join.args.get("method") == "NATURAL" or any(i.name.lower() in names for i in join.args.get("using") or []):
            return True
    if tree.find(exp.Pivot):
        return True
    compared = [
        *tree.find_all(*_COMPARING),
        *(f for f in tree.find_all(exp.Func) if function_name(f) in _COMPARING_FUNCTIONS),
    ]
    return any(
        isinstance(inner := part.unnest(), exp.Column | exp.Dot) and inner.name.lower() in names
        for node in compared
        for part in _operands(node)
    )


def _operands(node: exp.Expression) -> Iterable[exp.Expression]:
    if isinstance(node, exp.Case):
        return [node.this] if node.this is not None else []
    return [part for part in node.iter_expressions() if isinstance(part, exp.Expression)]


def keeps_padding(sql: str) -> bool:
    """Whether a query's CHAR columns hold what they declare.

    A set operation declares its first side's length for all sides.

    >>> keeps_padding("SELECT c FROM t"), keeps_padding("SELECT c FROM t UNION ALL SELECT d FROM t")
    (True, False)
    """
    return query_tree(sql).find(exp.SetOperation) is None
