"""A view's SQL as text: which tables it names and where, and the text with tables replaced."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from ivm.errors import ViewError
from ivm.names import ident
from ivm.sql.dialect import IvmSpark, function_name

#: (name, start, end, takes no alias) of each mention of a table.
Mentions: TypeAlias = tuple[tuple[str, int, int, bool], ...]
#: By text what was found in it, here or by another process of this compiler (see `ivm.refresh.mentions`).
_known: dict[str, Mentions] = {}
_MOST = 10_000


def remember(known: Mapping[str, Mentions]) -> None:
    """Know what another process has found, by the text."""
    if len(_known) + len(known) > _MOST:
        _known.clear()
    _known.update(known)


def relation_tables(sql: str) -> Mentions:
    """The tables a statement reads, as (name, start, end, takes no alias) of each mention; CTEs left out.

    One with an alias of its own takes none, nor does one with TABLESAMPLE, which stands before the alias.

    Raises ViewError if it isn't exactly one query.
    """
    found = _known.get(sql)
    if found is None:
        found = _mentions(sql)
        remember({sql: found})
    return found


def _mentions(sql: str) -> Mentions:
    found = []
    tree = query_tree(sql)
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Func) and function_name(table.this) == "identifier":
            raise ViewError(
                f"The view reads {table.this.sql(IvmSpark)}, a table that only Spark can name.",
                "Name a source or a view as it is.",
            )
        if _is_cte(table) or isinstance(table.this, exp.Func) or table.find_ancestor(exp.Hint):
            continue
        named = [p.meta for p in table.parts if "start" in p.meta]
        if not named:
            raise ViewError(
                f"The view reads {table.sql(IvmSpark)}, which is no name of a table.", "Name a source or a view."
            )
        start, end = min(m["start"] for m in named), max(m["end"] for m in named)
        found.append(
            (
                ".".join(p.name for p in table.parts),
                start,
                end + 1,
                bool(table.alias) or table.args.get("sample") is not None,
            )
        )
    return tuple(sorted(found, key=lambda t: t[1]))


@functools.lru_cache(maxsize=10_000)
def arrange_hints(sql: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(relation, keys) of each hint ARRANGE(relation, key, ...) of a statement, in lower case.

    >>> joined = "part JOIN lineitem ON p_partkey = l_partkey"
    >>> arrange_hints(f"SELECT /*+ ARRANGE(lineitem, l_partkey) */ 1 AS one FROM {joined}")
    (('lineitem', ('l_partkey',)),)
    """
    if "arrange" not in sql.lower():  # most have none: they are not parsed once more for it
        return ()
    calls = [
        c
        for h in query_tree(sql).find_all(exp.Hint)
        for c in h.expressions
        if isinstance(c, exp.Anonymous) and c.name.lower() == "arrange"
    ]
    named = [[p.name.lower() for p in c.expressions] for c in calls]
    return tuple(dict.fromkeys((names[0], tuple(names[1:])) for names in named if names))


def splice(sql: str, replacement: dict[str, str]) -> str:
    """The user's own text with tables replaced (by lower-case name); nothing else is touched.

    >>> splice("select a from t where t.b = 't'", {"t": "(SELECT 1)"})
    "select a from (SELECT 1) AS `t` where t.b = 't'"
    """
    for name, start, end, aliased in reversed(relation_tables(sql)):
        body = replacement.get(name.lower())
        if body is not None:
            sql = sql[:start] + (body if aliased else f"{body} AS {ident(name)}") + sql[end:]
    return sql


def query_tree(sql: str) -> exp.Expression:
    """Parse one query. Raises ViewError for anything else."""
    try:
        statements = [s for s in sqlglot.parse(sql, read=IvmSpark) if s is not None]
    except SqlglotError as error:
        raise ViewError(
            f"The view's SQL can't be parsed: {first_line(error)}", "A view is one SELECT statement in Spark SQL."
        ) from error
    except RecursionError as error:
        raise ViewError("The view's SQL nests too deeply.", "Split it: a part can be a view of its own.") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise ViewError(
            "A view is one SELECT statement.", f"Found {len(statements)} statements or another kind of statement."
        )
    return statements[0]


def one_statement(sql: str) -> str:
    """A text without the semicolon that ends it, and the comments after that.

    >>> one_statement("SELECT ';' AS a; -- the end"), one_statement("SELECT 1; SELECT 2")
    ("SELECT ';' AS a", 'SELECT 1; SELECT 2')
    """
    sql = sql.strip().rstrip(";")
    if ";" not in sql:
        return sql
    try:
        tokens = sqlglot.tokenize(sql, read=IvmSpark)
    except SqlglotError:
        return sql  # who parses it says why
    ends = [t.start for t in tokens if t.token_type is TokenType.SEMICOLON]
    return sql[: ends[0]].rstrip() if ends and tokens[-len(ends)].start == ends[0] else sql


def first_line(error: Exception) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _is_cte(table: exp.Table) -> bool:
    """Whether the name is bound by a WITH of an enclosing query."""
    if len(table.parts) != 1:
        return False
    node: exp.Expression | None = table
    inside: exp.CTE | None = None
    while node is not None:
        inside = node if isinstance(node, exp.CTE) else inside
        with_ = node.args.get("with_") or node.args.get("with")
        if isinstance(with_, exp.With):
            # Inside a definition only earlier ones are bound; its own name is a table's, but for WITH RECURSIVE.
            own = with_.expressions.index(inside) if inside in with_.expressions else len(with_.expressions)
            bound = with_.expressions[: own + bool(with_.args.get("recursive"))]
            if table.name.lower() in {c.alias.lower() for c in bound}:
                return True
            inside = None
        node = node.parent
    return False
