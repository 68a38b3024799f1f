"""What a select list names by something other than a column of its FROM items: the fields in s.*, the window of GROUP BY window()."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ivm.plan.nodes import Column
from ivm.sql.blocks import from_items
from ivm.sql.dialect import IvmSpark, function_name

_KEPT = ("expressions", "from_", "joins", "laterals", "with_")


def with_struct_fields(tree: exp.Expression, schema: Callable[[str], tuple[Column, ...]]) -> exp.Expression:
    """s.* as s.a, s.b where s is a column: a struct. `schema` gives the columns of a statement over the view's relations.

    >>> from sqlglot import parse_one
    >>> with_struct_fields(parse_one("SELECT k, s.* FROM t"), lambda sql: (Column("a", "int"), Column("b", "int"))).sql()
    'SELECT k, s.a AS a, s.b AS b FROM t'
    """
    for select in list(tree.find_all(exp.Select)):
        items = {s.alias_or_name.lower() for s in from_items(select)}
        stars = [e for e in select.expressions if isinstance(e, exp.Column) and isinstance(e.this, exp.Star) and e.table.lower() not in items]
        for star in stars:
            probe = exp.Select(**{k: v for k, v in select.copy().args.items() if k in _KEPT})
            probe.set("expressions", [star.copy()])
            for ancestor in _ancestors(select):
                if ancestor.args.get("with_") and not probe.args.get("with_"):
                    probe.set("with_", ancestor.args["with_"].copy())
            fields = [c.name for c in schema(probe.sql(dialect=IvmSpark))]
            path = [p.copy() for p in star.parts[:-1]]
            made = [exp.alias_(_field(path, f), f, quoted=not f.isidentifier()) for f in fields]
            place = next(i for i, e in enumerate(select.expressions) if e is star)
            select.set("expressions", [*select.expressions[:place], *made, *select.expressions[place + 1 :]])
    return tree


def with_time_windows(tree: exp.Expression) -> exp.Expression:
    """The column `window` of a statement grouped by window(...) as that call.

    >>> from sqlglot import parse_one
    >>> with_time_windows(parse_one("SELECT window.start, window.end AS e FROM t GROUP BY window(d, '1 day')", read=IvmSpark)).sql(dialect=IvmSpark)
    "SELECT WINDOW(d, '1 day').start AS start, WINDOW(d, '1 day').end AS e FROM t GROUP BY WINDOW(d, '1 day')"
    """
    for select in tree.find_all(exp.Select):
        group = select.args.get("group")
        calls = [g for g in (group.expressions if group else []) if function_name(g) == "window"]
        if len(calls) != 1 or any(s.alias_or_name.lower() == "window" for s in from_items(select)):
            continue
        for part in [*select.expressions, select.args.get("having"), select.args.get("order"), select.args.get("qualify")]:
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
