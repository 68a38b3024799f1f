"""The clauses of one SELECT in the compiler's terms: select list, GROUP BY, ORDER BY, LIMIT, WINDOW, USING (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlglot import exp

from ivm.plan.kinds import NOT_GIVEN
from ivm.sql.blocks import Scope, from_items, sql_of, substituted
from ivm.sql.calls import has_calls
from ivm.sql.refusals import UnsupportedError

#: What a SELECT may consist of.
SELECT_ARGS = {
    "expressions", "from_", "joins", "laterals", "where", "group", "having", "order", "sort", "cluster", "distribute",
    "distinct", "with_", "kind", "hint", "limit", "offset", "windows", "qualify",
}  # fmt: skip


def only(node: exp.Expression, allowed: set[str], what: str) -> None:
    """Refuse a node that carries a clause the compiler doesn't look at: nothing is ignored in silence."""
    for key, value in node.args.items():
        if key not in allowed and value not in (None, False, []):
            raise UnsupportedError("clause", f"{what} with {key.strip('_').upper()}")


def has_windows(node: exp.Expression) -> bool:
    """Whether an expression has window functions of its own (not in a subquery)."""
    if isinstance(node, exp.Window):
        return True
    return any(has_windows(c) for c in node.iter_expressions() if not isinstance(c, exp.Query))


def with_windows(node: exp.Select) -> exp.Select:
    """Put the definitions of WINDOW w AS (...) where OVER w names them; queries inside have definitions of their own.

    Raises UnsupportedError for a name that isn't defined, and for `v AS w`.

    >>> from sqlglot import parse_one
    >>> inner = "(SELECT x, rank() OVER w AS r FROM t WINDOW w AS (ORDER BY x))"
    >>> with_windows(parse_one(f"SELECT max(r) OVER w FROM {inner} WINDOW w AS (PARTITION BY x)")).sql()
    'SELECT MAX(r) OVER (PARTITION BY x) FROM (SELECT x, RANK() OVER w AS r FROM t WINDOW w AS (ORDER BY x))'
    """
    named = {w.this.name.lower(): w for w in node.args.get("windows") or []}
    if len(named) < len(node.args.get("windows") or []):
        raise UnsupportedError("clause", "WINDOW with two definitions of one name")
    node = node.copy()
    node.set("windows", None)
    for window in list(_own_windows(node)):
        name = window.alias
        if not name:
            continue
        spec = named.get(name.lower())
        if spec is None or spec.args.get("alias"):
            raise UnsupportedError("clause", f"OVER {name}, which names no definition in parentheses,")
        window.set("alias", None)
        for key in ("partition_by", "order", "spec"):
            value = spec.args.get(key)
            if value:
                window.set(key, [v.copy() for v in value] if isinstance(value, list) else value.copy())
    return node


def _own_windows(node: exp.Expression) -> Iterator[exp.Window]:
    """The window functions of a SELECT, not those of queries inside."""
    for child in node.iter_expressions():
        if isinstance(child, exp.Window):
            yield child
        if not isinstance(child, exp.Query):
            yield from _own_windows(child)


def select_list(node: exp.Select, scope: Scope) -> list[tuple[str, exp.Expression]]:
    selected: list[tuple[str, exp.Expression]] = []
    for e in node.expressions:
        if isinstance(e, exp.Star):
            if any(e.args.values()) or not any(i.args.get("pivots") for i in from_items(node)):
                # Only of what a pivot makes are the columns not written out, or of what has two of one name.
                raise UnsupportedError("clause", "a * over two columns of one name, or without some of them,")
            selected += [(c, exp.column(c, table=t)) for t, c in scope]
        else:
            selected.append((e.alias_or_name, e if isinstance(e, exp.Aliases) else e.unalias()))
    return selected


def sort_columns(
    node: exp.Expression, selected: list[tuple[str, exp.Expression]]
) -> tuple[list[exp.Ordered], list[tuple[str, exp.Expression]]]:
    """ORDER BY in terms of output columns; keys that are not selected are added as hidden ones."""
    order = node.args.get("order") or node.args.get("sort")
    extended = list(selected)
    result = []
    for ordered in order.expressions if order is not None else []:
        key = ordered.this if isinstance(ordered, exp.Ordered) else ordered
        name = next((n for n, e in extended if sql_of(e) == sql_of(key)), None)
        if isinstance(key, exp.Literal) and key.is_int:  # sqlglot leaves a position where a name would be two columns'
            name = selected[int(key.name) - 1][0]
        if name is None and isinstance(key, exp.Column) and not key.table:
            name = next((n for n, _ in selected if n.lower() == key.name.lower()), None)
        if name is None:
            by_name = {("", n.lower()): e for n, e in selected}
            name = f"__ivm_sort_{len(extended)}"
            extended.append((name, substituted(key, by_name)))
        if sum(n.lower() == name.lower() for n, _ in extended) > 1:
            raise UnsupportedError("clause", f"LIMIT in the order of {name}, by which two columns are called,")
        fresh_ordered = ordered.copy() if isinstance(ordered, exp.Ordered) else exp.Ordered(this=key.copy())
        fresh_ordered.set("this", exp.column(exp.to_identifier(name, quoted=True)))
        result.append(fresh_ordered)
    return result, extended


def row_count(node: exp.Expression | None) -> int:
    """The number of a LIMIT or OFFSET; NOT_GIVEN where there is none."""
    if node is None:
        return NOT_GIVEN
    value = node.expression
    if isinstance(value, exp.Var) and value.name.upper() == "ALL":
        return NOT_GIVEN
    if not isinstance(value, exp.Literal) or value.is_string:
        raise UnsupportedError("clause", f"{node.sql(dialect='spark').strip()}, which is not a plain number,")
    return int(value.name)


def group_keys(
    group: exp.Group | None, selected: list[tuple[str, exp.Expression]]
) -> tuple[list[exp.Expression], list[tuple[int, ...]] | None]:
    """The grouping expressions and, for ROLLUP and its kin, the grouping sets as positions in them."""
    if group is None:
        return [], None
    only(group, {"expressions", "rollup", "cube", "grouping_sets", "all"}, "GROUP BY")
    if group.args.get("all"):
        return [e for _, e in selected if not has_calls(e) and not has_windows(e)], None
    keys: list[exp.Expression] = []
    texts: list[str] = []

    def position(key: exp.Expression) -> int:
        if isinstance(key.unnest(), exp.Literal):  # a position, or what sqlglot made of a constant's alias
            raise UnsupportedError("clause", f"grouping sets of {key.sql(dialect='spark')}, which is a constant,")
        text = sql_of(key.unnest())
        if text not in texts:
            texts.append(text)
            keys.append(key.unnest())
        return texts.index(text)

    def members(node: exp.Expression) -> tuple[int, ...]:
        node = node.unnest()
        return tuple(position(e) for e in (node.expressions if isinstance(node, exp.Tuple) else [node]))

    def expanded(node: exp.Expression, listed: Iterable[exp.Expression]) -> list[tuple[int, ...]]:
        parts = [members(e) for e in listed]
        if isinstance(node, exp.Rollup):
            return [sum(parts[:n], ()) for n in range(len(parts), -1, -1)]
        if isinstance(node, exp.Cube):
            return [sum((p for i, p in enumerate(parts) if mask >> i & 1), ()) for mask in range(2 ** len(parts))]
        return [
            s
            for e in listed
            for s in (
                expanded(e, e.expressions) if isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets) else [members(e)]
            )
        ]

    plain: list[exp.Expression] = []
    product: list[tuple[int, ...]] = [()]
    special = False
    for e in group.expressions:
        if isinstance(e, exp.Rollup | exp.Cube | exp.GroupingSets):
            special = True
            product = [a + b for a in product for b in expanded(e, e.expressions)]
        else:
            plain.append(e)
            own = (position(e),)
            product = [a + own for a in product]
    for e in [x for name in ("rollup", "cube", "grouping_sets") for x in group.args.get(name) or []]:
        # `GROUP BY a, b WITH ROLLUP` and `GROUP BY a, b GROUPING SETS (...)`:
        # the listed keys are what the sets are made of.
        special = True
        product = expanded(e, e.expressions or plain)
    if not special:
        # Repeated keys don't matter, but their spelling in the select list may.
        return list(group.expressions), None
    return keys, [tuple(sorted(set(s))) for s in product]
