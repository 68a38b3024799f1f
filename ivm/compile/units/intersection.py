"""INTERSECT and EXCEPT, with ALL or without, by the counts of each row on both sides."""

from __future__ import annotations

from sqlglot import exp

from ivm.compile.units.grouped import Selected, grouped
from ivm.compile.units.made import Units
from ivm.sql.blocks import Block, Scope, fresh, plainly, table_alias
from ivm.sql.calls import inner_column


def intersection(
    units: Units, left: list[Block], right: list[Block], minus: bool, every: bool, taken: set[str]
) -> list[Block]:
    """INTERSECT and EXCEPT by counting each row on both sides.

    With ALL the row comes back as often as the counts say.
    """
    names = [n for n, _ in left[0].outs]
    blocks = units.aligned(left + right)
    scopes: list[Scope] = []
    for i, block in enumerate(blocks):
        tags = (exp.Literal.number(1), exp.null()) if i < len(left) else (exp.null(), exp.Literal.number(1))
        typed = [exp.cast(t.copy(), "int") for t in tags]
        scopes.append(
            {("", f"c{j}"): e for j, (_, e) in enumerate(block.outs)}
            | {("", "__ivm_l"): typed[0], ("", "__ivm_r"): typed[1]}
        )
    columns: list[exp.Expression] = [inner_column(f"c{i}") for i in range(len(names))]
    one, two = exp.Count(this=inner_column("__ivm_l")), exp.Count(this=inner_column("__ivm_r"))
    zero = exp.Literal.number(0)
    selected: Selected = list(zip(names, [c.copy() for c in columns], strict=True))
    if not every:
        having = exp.and_(
            exp.GT(this=one, expression=zero), (exp.EQ if minus else exp.GT)(this=two, expression=zero.copy())
        )
        return grouped(units, blocks, scopes, columns, selected, having, plainly)
    times: exp.Expression = exp.Sub(this=one, expression=two) if minus else exp.Least(this=one, expressions=[two])
    selected = [*selected, ("__ivm_times", times)]
    having_all = exp.GT(this=times.copy(), expression=zero)
    (block,) = grouped(units, blocks, scopes, columns, selected, having_all, plainly)
    *outs, (_, count) = block.outs
    alias = fresh("repeated", taken)
    sequence = exp.Anonymous(
        this="EXPLODE",
        expressions=[exp.Anonymous(this="SEQUENCE", expressions=[exp.cast(exp.Literal.number(1), "bigint"), count])],
    )
    item = exp.Join(this=exp.Lateral(this=sequence, alias=table_alias(alias, ["i"])), kind="CROSS")
    return [Block([*block.items, item], block.preds, outs)]
