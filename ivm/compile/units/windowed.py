"""Window functions: the core has what they read, the reduce evaluates them partition by partition."""

from __future__ import annotations

from sqlglot import exp

from ivm.compile.units.grouped import Selected
from ivm.compile.units.made import Units
from ivm.plan.kinds import ReduceKind
from ivm.plan.nodes import Call, Column, Reduce
from ivm.sql.blocks import Block, Inline, Scope, leaf_column, leaf_item, rewritten, sql_of
from ivm.sql.calls import inner_column
from ivm.sql.maps import check_calls
from ivm.sql.refusals import UnsupportedError
from ivm.sql.rules import settled_window


def windowed(units: Units, blocks: list[Block], scopes: list[Scope], selected: Selected, inline: Inline) -> list[Block]:
    """Make a unit that evaluates the window functions, partition by partition; return the block that reads it."""
    windows: dict[str, exp.Window] = {}
    for _, e in selected:
        for window in e.find_all(exp.Window):
            windows.setdefault(sql_of(window), window)
    partitions = [{sql_of(p.unnest()): p.unnest() for p in w.args.get("partition_by") or []} for w in windows.values()]
    common = [t for t in partitions[0] if all(t in p for p in partitions)]
    sources: dict[str, tuple[str, exp.Expression]] = {}

    def source(node: exp.Expression) -> exp.Column:
        text = sql_of(node)
        if text not in sources:
            sources[text] = (f"c{len(sources)}", node)
        return inner_column(sources[text][0])

    keys = [source(partitions[0][t]).name for t in common]

    def over_core(node: exp.Expression) -> exp.Expression | None:
        if sql_of(node) in sources or isinstance(node, exp.Subquery | exp.Exists):
            return source(node)
        if isinstance(node, exp.Column) and node.table:
            return source(node)
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            return source(node)
        return None

    bodies = {text: rewritten(w, over_core) for text, w in windows.items()}
    names = {text: f"win_{i}" for i, text in enumerate(bodies, 1)}

    def over_rows(node: exp.Expression) -> exp.Expression | None:
        text = sql_of(node) if isinstance(node, exp.Window) else ""
        return inner_column(names[text]) if text in names else over_core(node)

    outs = [(n, rewritten(e, over_rows)) for n, e in selected]
    core_blocks = []
    for b, s in zip(blocks, scopes, strict=True):
        block = Block(list(b.items), list(b.preds))
        block.outs = [(n, inline(e, s, block)) for n, e in sources.values()]
        core_blocks.append(block)
    if not sources:
        core_blocks = [b.with_outs([("c0", exp.Literal.number(1))]) for b in core_blocks]
    core, columns = units.core(units.aligned(core_blocks))
    types = {c.name: c.type for c in columns}
    check_calls(bodies.values(), types)
    calls = []
    valued = units.ordered_types(core, {names[text]: body.this for text, body in bodies.items()})
    for text, body in bodies.items():
        assert isinstance(body, exp.Window)
        made, rules = settled_window(body, columns, valued[names[text]])
        units.rules |= rules
        if made is None:
            raise UnsupportedError(
                "clause", f"{sql_of(body.this)} over a RANGE frame, whose rows may tie (give it a ROWS frame),"
            )
        calls.append(Call(names[text], sql_of(made)))
    name = units.partitioned(core, Reduce(tuple(Column(k, types[k]) for k in keys), tuple(calls), ReduceKind.WINDOW))

    def over_unit(node: exp.Expression) -> exp.Expression | None:
        return (
            leaf_column(name, node.name)
            if isinstance(node, exp.Column) and not node.table and node.name in known
            else None
        )

    known = {*types, *names.values()}
    return [Block([leaf_item(name, name)], [], [(n, rewritten(e, over_unit)) for n, e in outs])]
