"""Units of one row: whether a query has rows, and scalars that a global aggregate gives."""

from __future__ import annotations

from sqlglot import exp

from ivm.compile.units.grouped import Selected, grouped
from ivm.compile.units.made import Units
from ivm.compile.units.stored import stored
from ivm.plan.kinds import ReduceKind
from ivm.sql.blocks import Block, Scope, plainly
from ivm.sql.calls import inner_column


def flags(units: Units, blocks: list[Block], taken: set[str]) -> Block:
    """A one-row unit: whether a query has rows, and whether its first column has NULLs.

    It changes only when these do.
    """
    blocks = units.aligned(blocks)
    scopes: list[Scope] = [{("", "__ivm_first"): b.outs[0][1]} for b in blocks]
    every, known = exp.Count(this=exp.Star()), exp.Count(this=inner_column("__ivm_first"))
    selected: Selected = [
        ("not_empty", exp.GT(this=every, expression=exp.Literal.number(0))),
        ("has_null", exp.GT(this=every.copy(), expression=known)),
    ]
    return stored(units, grouped(units, blocks, scopes, [], selected, None, plainly), taken)[0]


def is_one_row(units: Units, block: Block) -> bool:
    """Whether a block always has exactly one row: it reads a global aggregate, unfiltered."""
    leaf = block.only_leaf()
    unit = units.made.get(leaf[1]) if leaf else None
    if unit is None or block.preds or unit.reduce is None or unit.post is None:
        return False
    return unit.reduce.kind is ReduceKind.GROUP and not unit.reduce.keys and not unit.post.predicates
