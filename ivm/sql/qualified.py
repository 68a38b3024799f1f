"""Each column of a statement with the alias of what it comes from, each * with the columns it stands for (pure)."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from ivm.plan.nodes import Column, Relation
from ivm.sql import using
from ivm.sql.blocks import from_items
from ivm.sql.dialect import IvmSpark
from ivm.sql.refusals import UnsupportedError
from ivm.sql.text import first_line

#: Of an identifier: how it was written.
_WRITTEN = "ivm_written"


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
    _check_fields(tree, relations)
    tree = tree.copy()
    using.mark(tree)
    for identifier in tree.find_all(exp.Identifier):
        identifier.meta[_WRITTEN] = identifier.name
    try:
        found = qualify(tree, schema=schema, dialect=IvmSpark, quote_identifiers=False)
    except SqlglotError as error:
        raise UnsupportedError("parser", first_line(error)) from error
    _check_qualify(found)
    return _with_written_names(using.with_merged_columns(found))


def _with_written_names(tree: exp.Expression) -> exp.Expression:
    """Names that are data to Spark as they are written, where sqlglot has all names in lower case.

    They are the keys of maps and the fields of structs, read by a dot or named in a type, and what UNPIVOT calls its
    columns' rows.

    >>> from sqlglot import parse_one
    >>> from ivm.plan.nodes import Column
    >>> relation = Relation("t", "source", (Column("M", "map<string,int>"),))
    >>> qualified(parse_one("SELECT m.Key FROM T"), {"t": relation}).sql()
    'SELECT t.m.Key AS key FROM t AS t'
    """
    for node in tree.find_all(exp.Dot, exp.DataType, exp.Pivot):
        if isinstance(node, exp.Dot):
            names = [node.expression]
        elif isinstance(node, exp.DataType):
            names = [c.this for c in node.expressions if isinstance(c, exp.ColumnDef)]
        else:
            names = [
                i for f in node.args.get("fields") or [] for e in f.expressions for i in e.find_all(exp.Identifier)
            ]
        for name in names:
            if isinstance(name, exp.Identifier) and _WRITTEN in name.meta:
                name.set("this", name.meta[_WRITTEN])
    return tree


def _check_fields(tree: exp.Expression, relations: dict[str, Relation]) -> None:
    """Refuse p.f in a query inside another, where p is a table of the outer and a column of the inner, as is meant."""
    for select in tree.find_all(exp.Select):
        if select.parent_select is None:
            continue
        own = {i.alias_or_name.lower() for i in from_items(select)}
        inner = {c.name.lower() for i in from_items(select) for c in _given_by(i, relations)}
        for column in select.find_all(exp.Column):
            table = column.parts[0].name.lower()
            if len(column.parts) > 1 and table in inner - own and column.parent_select is select:
                raise UnsupportedError("clause", f"{column.sql(dialect='spark')}, a field or another table's column,")


def _given_by(item: exp.Expression, relations: dict[str, Relation]) -> list[Column] | list[exp.Expression]:
    """The columns of a FROM item, as far as they are told by its name or its select list."""
    if isinstance(item, exp.Table):
        relation = relations.get(".".join(p.name for p in item.parts).lower())
        return list(relation.columns) if relation is not None else []
    return [exp.to_identifier(e.alias_or_name) for e in item.this.selects] if isinstance(item, exp.Subquery) else []


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
