"""What a select list names by something other than a column of its FROM items.

That is fields in s.*, the window of GROUP BY window(), and columns of generators.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ivm.names import RESERVED_PREFIX
from ivm.plan.nodes import Column
from ivm.sql.blocks import from_items
from ivm.sql.calls import has_calls
from ivm.sql.clauses import has_windows
from ivm.sql.dialect import GENERATORS, IvmSpark, function_name

#: The alias of a generator's rows.
_MADE = f"{RESERVED_PREFIX}_made"
_KEPT = ("expressions", "from_", "joins", "laterals", "with_")


def with_struct_fields(tree: exp.Expression, schema: Callable[[str], tuple[Column, ...]]) -> exp.Expression:
    """s.* as s.a, s.b where s is a column: a struct.

    `schema` gives the columns of a statement over the view's relations.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT k, s.* FROM t")
    >>> with_struct_fields(query, lambda sql: (Column("a", "int"), Column("b", "int"))).sql()
    'SELECT k, s.a AS a, s.b AS b FROM t'
    """
    for select in list(tree.find_all(exp.Select)):
        items = {s.alias_or_name.lower() for s in from_items(select)}
        stars = [
            e
            for e in select.expressions
            if isinstance(e, exp.Column) and isinstance(e.this, exp.Star) and e.table.lower() not in items
        ]
        for star in stars:
            fields = [c.name for c in schema(_probe(select, star))]
            path = [p.copy() for p in star.parts[:-1]]
            made = [exp.alias_(_field(path, f), f, quoted=not f.isidentifier()) for f in fields]
            place = next(i for i, e in enumerate(select.expressions) if e is star)
            select.set("expressions", [*select.expressions[:place], *made, *select.expressions[place + 1 :]])
    return tree


def with_generated_names(tree: exp.Expression, schema: Callable[[str], tuple[Column, ...]]) -> exp.Expression:
    """inline(a) and other functions of several columns with the names that Spark gives these.

    That is done where a query around them needs the names.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT g.p FROM (SELECT posexplode(a) FROM t) AS g(p, x)", read=IvmSpark)
    >>> named = with_generated_names(query, lambda sql: (Column("pos", "int"), Column("col", "int")))
    >>> before, after = named.sql(dialect=IvmSpark).split(" LATERAL ")
    >>> before
    'SELECT g.p FROM (SELECT __ivm_made.pos AS pos, __ivm_made.col AS col FROM t'
    >>> after
    'VIEW POSEXPLODE(a) __ivm_made AS pos, col) AS g(p, x)'
    """
    for select in list(tree.find_all(exp.Select)):
        calls = [e for e in select.expressions if function_name(e) in GENERATORS]
        if (
            len(calls) != 1
            or select.parent is None
            or not select.args.get("from_")
            or any(select.args.get(k) for k in ("group", "having", "qualify"))
        ):
            continue
        if any(has_calls(e) or has_windows(e) for e in select.expressions):
            continue
        names = [c.name for c in schema(_probe(select, calls[0]))]
        columns = [exp.alias_(exp.column(n, table=_MADE), n) for n in names]
        lateral = exp.Lateral(
            this=calls[0].copy(),
            view=True,
            alias=exp.TableAlias(this=exp.to_identifier(_MADE), columns=[exp.to_identifier(n) for n in names]),
        )
        place = next(i for i, e in enumerate(select.expressions) if e is calls[0])
        select.set("expressions", [*select.expressions[:place], *columns, *select.expressions[place + 1 :]])
        select.append("laterals", lateral)
    return tree


def with_function_columns(tree: exp.Expression, schema: Callable[[str], tuple[Column, ...]]) -> exp.Expression:
    """range(3) in FROM with the names of its columns, so that * around it can be resolved.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT * FROM range(3)", read=IvmSpark)
    >>> with_function_columns(query, lambda sql: (Column("id", "bigint"),)).sql(dialect=IvmSpark)
    'SELECT * FROM RANGE(3) AS __ivm_function_0(id)'
    """
    for number, table in enumerate(t for t in list(tree.find_all(exp.Table)) if isinstance(t.this, exp.Func)):
        if table.alias_column_names or table.find(exp.Column):
            continue
        names = [c.name for c in schema(f"SELECT * FROM {table.this.sql(dialect=IvmSpark)}")]
        alias = table.alias or f"{RESERVED_PREFIX}_function_{number}"
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias), columns=[exp.to_identifier(n) for n in names]))
    return tree


def _probe(select: exp.Select, wanted: exp.Expression) -> str:
    """A statement that gives one expression of a select list over its FROM items."""
    probe = exp.Select(**{k: v for k, v in select.copy().args.items() if k in _KEPT})
    probe.set("expressions", [wanted.copy()])
    for ancestor in _ancestors(select):
        if ancestor.args.get("with_") and not probe.args.get("with_"):
            probe.set("with_", ancestor.args["with_"].copy())
    return str(probe.sql(dialect=IvmSpark))


def with_time_windows(tree: exp.Expression) -> exp.Expression:
    """The column `window` of a statement grouped by window(...) as that call.

    >>> from sqlglot import parse_one
    >>> query = parse_one("SELECT window.start, window.end AS e FROM t GROUP BY window(d, '1 day')", read=IvmSpark)
    >>> with_time_windows(query).sql(dialect=IvmSpark)
    "SELECT WINDOW(d, '1 day').start AS start, WINDOW(d, '1 day').end AS e FROM t GROUP BY WINDOW(d, '1 day')"
    """
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        calls = [g for g in (group.expressions if group else []) if function_name(g) == "window"]
        if len(calls) != 1 or any(s.alias_or_name.lower() == "window" for s in from_items(select)):
            continue
        for part in [
            *select.expressions,
            select.args.get("having"),
            select.args.get("order"),
            select.args.get("qualify"),
        ]:
            for column in list(part.find_all(exp.Column)) if part is not None else []:
                whole = not column.table and column.name.lower() == "window"
                if not whole and column.table.lower() != "window":
                    continue
                call = calls[0].copy()
                value = call if whole else exp.Dot(this=call, expression=exp.to_identifier(column.name))
                column.replace(exp.alias_(value, column.name) if column.parent is select else value)
    return tree


def _ancestors(node: exp.Expression) -> list[exp.Expression]:
    found, parent = [], node.parent
    while parent is not None:
        found.append(parent)
        parent = parent.parent
    return found


def _field(path: list[exp.Expression], name: str) -> exp.Expression:
    field = exp.to_identifier(name, quoted=not name.isidentifier())
    names = dict(zip(("table", "db", "catalog"), reversed(path), strict=False))
    return exp.Column(this=field, **names)
