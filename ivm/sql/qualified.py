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
    """The tree qualified over `relations`. Raises UnsupportedError for what sqlglot can't resolve.

    >>> from sqlglot import parse_one
    >>> from ivm.plan.nodes import Column
    >>> qualified(parse_one("SELECT * FROM t"), {"t": Relation("t", "source", (Column("a", "int"),))}).sql()
    'SELECT t.a AS a FROM t AS t'
    """
    schema = {r.name.lower(): {c.name.lower(): c.type for c in r.columns} for r in relations.values()}
    try:
        return qualify(tree.copy(), schema=schema, dialect=IvmSpark, quote_identifiers=False)
    except SqlglotError as error:
        raise UnsupportedError("parser", first_line(error)) from error
