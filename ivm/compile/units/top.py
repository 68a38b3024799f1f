"""ORDER BY ... LIMIT and OFFSET: the first rows, ties broken by all columns."""

from __future__ import annotations

from sqlglot import exp

from ivm.compile.units.made import Units
from ivm.plan.kinds import ReduceKind
from ivm.plan.nodes import Reduce
from ivm.sql.blocks import Block, leaf_column, leaf_item, sql_of
from ivm.sql.calls import inner_column
from ivm.sql.maps import sort_key
from ivm.sql.rules import TOP


def top(
    units: Units, blocks: list[Block], visible: int, order: list[exp.Ordered], limit: int, offset: int
) -> list[Block]:
    """Make a unit of the first rows; columns beyond the `visible` ones only sort."""
    names = [n for n, _ in blocks[0].outs]
    position = {n: f"c{i}" for i, n in reversed(list(enumerate(names)))}
    core, columns = units.core(
        units.aligned([b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs)) for b in blocks])
    )
    keys = []
    for ordered in order:
        ordered.set("this", inner_column(position[ordered.this.name]))
        keys.append(sql_of(ordered))
    ties = [sql_of(sort_key(c)) for c in columns]
    units.rules.add(TOP)
    name = units.partitioned(
        core, Reduce((), (), ReduceKind.TOP, ", ".join(dict.fromkeys([*keys, *ties])), limit, offset)
    )
    return [
        Block([leaf_item(name, name)], [], [(n, leaf_column(name, f"c{i}")) for i, n in enumerate(names[:visible])])
    ]
