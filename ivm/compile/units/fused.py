"""The last cut of a query is fused with the select list over it; what is left is a unit without a reduce.

SELECT post(keys, calls) FROM core GROUP BY keys HAVING h   =   post(reduce(core))
"""

from __future__ import annotations

from ivm.compile.units.made import GROUP_ALIAS, Units, is_key
from ivm.plan.nodes import Column, Output, Post, Unit
from ivm.sql.blocks import Block, leaf_column, substituted
from ivm.sql.freeze import to_expr
from ivm.sql.maps import canonical, check_comparable, check_unordered
from ivm.sql.unique_keys import core_key


def finish(units: Units, blocks: list[Block], columns: tuple[Column, ...]) -> tuple[Unit, ...]:
    """Close the program: the last unit is the view, fused with the grouping it reads if it can be."""
    top = fused(units, units.view, blocks, columns) or linear(units, units.view, blocks, columns)
    needed = set(top.core.relations)
    for unit in reversed(list(units.made.values())):
        if unit.name in needed:
            needed |= set(unit.core.relations)
    return (*(u for u in units.made.values() if u.name in needed), top)


def linear(units: Units, name: str, blocks: list[Block], columns: tuple[Column, ...]) -> Unit:
    """A unit of the blocks' rows as they are."""
    core, _ = units.core(blocks)
    return Unit(name, core, None, None, columns, core_key(core))


def fused(units: Units, name: str, blocks: list[Block], columns: tuple[Column, ...]) -> Unit | None:
    """The unit that the one block reads, with the block as its post stage; None where it has to stay apart."""
    leaf = blocks[0].only_leaf() if len(blocks) == 1 else None
    if leaf is None:
        return None
    alias, inner_name = leaf
    inner = units.made.get(inner_name)
    if inner is None or inner.reduce is None or inner.post is None or inner_name in _read(units):
        return None
    if inner.post.predicates or any(o.expr.plain != (GROUP_ALIAS, o.name) for o in inner.post.outputs):
        return None
    types = {c.name: c.type for c in inner.columns}
    for tree in (*blocks[0].preds, *(e for _, e in blocks[0].outs)):
        check_unordered(tree, lambda column: [types[column.name]] if column.table == alias else [])
    scope = {(alias.lower(), c.name.lower()): leaf_column(GROUP_ALIAS, c.name) for c in inner.columns}
    post = Post(
        GROUP_ALIAS,
        tuple(to_expr(substituted(p, scope)) for p in blocks[0].preds),
        tuple(
            Output(n, to_expr(canonical(substituted(e, scope), c.type)))
            for (n, e), c in zip(blocks[0].outs, columns, strict=True)
        ),
    )
    carried = {o.expr.plain[1]: o.name for o in post.outputs if o.expr.plain}
    all_carried = all(k.name in carried for k in inner.reduce.keys)
    if not inner.reduce.linear and not all_carried:
        return None
    check_comparable(columns)
    units.aside.add(inner_name)
    key = tuple(carried[k.name] for k in inner.reduce.keys) if all_carried and is_key(inner.reduce) else ()
    return Unit(name, inner.core, inner.reduce, post, columns, key)


def _read(units: Units) -> set[str]:
    """The names that units read, but for those that are fused with what read them."""
    return {r for u in units.made.values() if u.name not in units.aside for r in u.core.relations}
