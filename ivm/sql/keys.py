"""Unique keys of a join's output, from the keys of what it reads.

A key is only ever used to find rows faster: publishing compares whole rows, so a key that was
declared wrongly costs time and not truth.
"""

from __future__ import annotations

from ivm.plan.nodes import Branch, Core, Relation


def core_key(core: Core, relations: dict[str, Relation]) -> tuple[str, ...]:
    """Output columns that are unique, or () where none are known."""
    return _branch_key(core.branches[0], relations) if len(core.branches) == 1 else ()


def _branch_key(branch: Branch, relations: dict[str, Relation]) -> tuple[str, ...]:
    """The union of the leaves' keys, less the leaves whose whole key is equated to other leaves' columns."""
    needed: dict[str, tuple[str, ...]] = {}
    for leaf in branch.leaves:
        key = relations[leaf.relation].key
        if not key:
            return ()
        needed[leaf.alias] = key
    for leaf in list(branch.leaves):
        others = set(needed) - {leaf.alias}
        equated = {side[0].lower() for e in branch.edges if (side := e.from_side(leaf.alias)) and side[1][0] in others}
        if others and all(k.lower() in equated for k in needed[leaf.alias]):
            del needed[leaf.alias]
    carried = {o.expr.plain: o.name for o in branch.outputs if o.expr.plain}
    for edge in branch.edges:
        for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
            if one in carried:
                carried.setdefault(other, carried[one])
    columns = [carried.get((alias, _actual(relations, branch, alias, k))) for alias, key in needed.items() for k in key]
    return tuple(dict.fromkeys(c for c in columns if c)) if all(columns) else ()


def _actual(relations: dict[str, Relation], branch: Branch, alias: str, column: str) -> str:
    relation = relations[branch.leaf(alias).relation]
    return next(c.name for c in relation.columns if c.name.lower() == column.lower())
