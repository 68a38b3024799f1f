"""Each column of a statement with the alias of what it comes from, each * with the columns it stands for (pure)."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from ivm.plan.nodes import Relation
from ivm.sql.dialect import IvmSpark
from ivm.sql.refusals import UnsupportedError
from ivm.sql.text import first_line


def qualified(tree: exp.Expression, relations: dict[str, Relation]) -> exp.Expression:
    """The tree qualified over `relations`.

    Raises UnsupportedError for what sqlglot can't resolve, or resolves otherwise than Spark.

    >>> from sqlglot import parse_one
    >>> from ivm.plan.nodes import Column
    >>> qualified(parse_one("SELECT * FROM t"), {"t": Relation("t", "source", (Column("a", "int"),))}).sql()
    'SELECT t.a AS a FROM t AS t'
    >>> twice = parse_one("SELECT -a AS a FROM t QUALIFY a = 1")
    >>> qualified(twice, {"t": Relation("t", "source", (Column("a", "int"),))})
    Traceback (most recent call last):
    ivm.sql.refusals.UnsupportedError: clause
    """
    schema = {r.name.lower(): {c.name.lower(): c.type for c in r.columns} for r in relations.values()}
    _check_having(tree)
    try:
        found = qualify(tree.copy(), schema=schema, dialect=IvmSpark, quote_identifiers=False)
    except SqlglotError as error:
        raise UnsupportedError("parser", first_line(error)) from error
    _check_qualify(found)
    return found


def _check_having(tree: exp.Expression) -> None:
    """Refuse HAVING with a joined column of USING by which something else is called: Spark takes the joined one."""
    for select in tree.find_all(exp.Select):
        joins = select.args.get("joins") or []
        shared = {i.name.lower() for j in joins for i in j.args.get("using") or []}
        natural = any(j.method == "NATURAL" for j in joins)
        for column in _columns(select, "having"):
            name = column.name.lower()
            if not column.table and name in _other(select) and (natural or name in shared):
                raise UnsupportedError("clause", f"HAVING with {name}, by which two columns are called,")


def _check_qualify(tree: exp.Expression) -> None:
    """Refuse QUALIFY with a column by whose name something else is called: Spark takes that, but not in a window."""
    for select in tree.find_all(exp.Select):
        for column in _columns(select, "qualify"):
            if column.table and column.name.lower() in _other(select):
                raise UnsupportedError("clause", f"QUALIFY with {column.name}, by which two columns are called,")


def _columns(select: exp.Select, clause: str) -> list[exp.Column]:
    node = select.args.get(clause)
    return list(node.find_all(exp.Column)) if node is not None else []


def _other(select: exp.Select) -> set[str]:
    """The names of a select list's columns that are not those of columns which it gives as they are."""
    named = [(e.alias.lower(), e.this) for e in select.expressions if isinstance(e, exp.Alias)]
    return {n for n, e in named if not (isinstance(e, exp.Column) and e.name.lower() == n)}
