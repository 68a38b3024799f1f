"""DISTINCT, and UNION: each row once."""

from __future__ import annotations

from sqlglot import exp

from ivm.compile.units.grouped import grouped
from ivm.compile.units.made import Units
from ivm.sql.blocks import Block, Scope, plainly
from ivm.sql.calls import inner_column


def distinct(units: Units, blocks: list[Block]) -> list[Block]:
    """DISTINCT is a grouping by all columns without calls."""
    blocks = units.aligned(blocks)
    names = [n for n, _ in blocks[0].outs]
    scopes: list[Scope] = [{("", f"c{i}"): e for i, (_, e) in enumerate(b.outs)} for b in blocks]
    columns: list[exp.Expression] = [inner_column(f"c{i}") for i in range(len(names))]
    return grouped(
        units, blocks, scopes, columns, list(zip(names, [c.copy() for c in columns], strict=True)), None, plainly
    )
