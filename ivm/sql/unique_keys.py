"""Unique keys of a join's output, from the keys of what it reads.

A key is only ever used to find rows faster: publishing compares whole rows, so a key that was
declared wrongly costs time and not truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from ivm.plan.nodes import Core, Edge, Output, Relation
from ivm.sql.blocks import Block


def core_key(core: Core) -> tuple[str, ...]:
    """Output columns that are unique, or () where none are known."""
    return core.branches[0].key if len(core.branches) == 1 else ()


def branch_key(
    block: Block,
    outputs: Sequence[Output],
    edges: Sequence[Edge],
    scopes: Mapping[str, int],
    relations: Mapping[str, Relation],
) -> tuple[str, ...]:
    """The union of the keys of the joined tables, less those whose whole key is equated to other tables' columns.

    Derived tables and LATERAL items may multiply rows: with one of them no key is known.
    """
    if not all(isinstance(i.this, exp.Table) for i in block.items):
        return ()
    needed: dict[str, tuple[str, ...]] = {}
    relation_of = {i.this.alias: i.this.name for i in block.items}
    for alias, relation in relation_of.items():
        if relations[relation].kind == "clock":  # one row multiplies none
            continue
        key = relations[relation].key
        if not key:
            return ()
        needed[alias] = key
    for alias in list(needed):
        others = set(needed) - {alias}
        equated = {
            side[0].lower()
            for e in edges
            if e.scope == scopes[alias] and (side := e.from_side(alias)) and side[1][0] in others
        }
        if others and all(k.lower() in equated for k in needed[alias]):
            del needed[alias]
    carried = {o.expr.plain: o.name for o in outputs if o.expr.plain}
    for edge in edges:
        for one, other in ((edge.left, edge.right), (edge.right, edge.left)):
            if edge.scope == 0 and one in carried:
                carried.setdefault(other, carried[one])
    columns = [
        carried.get((alias, _actual(relations[relation_of[alias]], k))) for alias, key in needed.items() for k in key
    ]
    return tuple(dict.fromkeys(c for c in columns if c)) if all(columns) else ()


def _actual(relation: Relation, column: str) -> str:
    return next(c.name for c in relation.columns if c.name.lower() == column.lower())
