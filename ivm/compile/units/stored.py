"""A query whose rows are kept: a unit, and the block that reads it."""

from __future__ import annotations

from ivm.compile.units.fused import fused, linear
from ivm.compile.units.made import Units
from ivm.plan.nodes import Column
from ivm.sql.blocks import Block, Scope, fresh, leaf_column, leaf_item


def stored(units: Units, blocks: list[Block], taken: set[str]) -> list[Block]:
    """Make a unit of a query; the one block that reads it."""
    names = [n for n, _ in blocks[0].outs]
    blocks = [b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs)) for b in units.aligned(blocks)]
    columns = tuple(Column(f"c{i}", c.type) for i, c in enumerate(units.types(blocks)))
    name = units.new_name()
    unit = fused(units, name, blocks, columns) or linear(units, name, blocks, columns)
    units.add(unit)
    alias = fresh(name, taken)
    return [Block([leaf_item(alias, name)], [], [(n, leaf_column(alias, f"c{i}")) for i, n in enumerate(names)])]


def as_unit(units: Units, blocks: list[Block], scopes: list[Scope], taken: set[str]) -> tuple[list[Block], list[Scope]]:
    """Make a unit of a FROM clause, whose columns `scopes` give; the block that reads it, and what they mean there."""
    names = list(scopes[0])
    (block,) = stored(
        units, [b.with_outs((n[1], s[n]) for n in names) for b, s in zip(blocks, scopes, strict=True)], taken
    )
    return [Block(block.items, block.preds)], [dict(zip(names, (e for _, e in block.outs), strict=True))]
