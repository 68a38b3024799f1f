"""Outer joins, semijoins and antijoins of blocks: rows depend on whether an item has partners for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ivm.sql.blocks import (
    Block,
    Ctes,
    Names,
    Scope,
    as_type,
    conjuncts,
    fresh,
    leaf_column,
    select_of,
    table_alias,
    union_of,
)

if TYPE_CHECKING:
    from ivm.compile.queries.compiler import Compiler


def as_item(compiler: Compiler, options: list[Block]) -> tuple[exp.Expression, list[exp.Expression]]:
    """Blocks as one FROM item whose rows may be padded with NULLs, and its columns."""
    leaf = options[0].only_leaf() if len(options) == 1 and not options[0].preds else None
    if leaf and all(isinstance(e, exp.Column) for _, e in options[0].outs):
        return options[0].items[0].this.copy(), [e for _, e in options[0].outs]
    options = compiler.units.aligned(options)
    alias = fresh("x", compiler.taken)
    named = [b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs)) for b in options]
    tree = exp.Subquery(this=union_of([select_of(b) for b in named]), alias=table_alias(alias))
    return tree, [leaf_column(alias, f"c{i}") for i in range(len(options[0].outs))]


def outer_join(
    compiler: Compiler,
    blocks: list[Block],
    scopes: list[Scope],
    derived: exp.Expression,
    right: Scope,
    on: exp.Expression | None,
    ctes: Ctes,
    outer: Scope | None,
    first: bool = False,
) -> tuple[list[Block], list[Scope]]:
    """Each block LEFT JOIN the derived item; `outer` gives the columns of enclosing queries, which ON may read."""
    result, known = [], []
    for i, (block, scope) in enumerate(zip(blocks, scopes, strict=True)):
        item = Block(
            [exp.Join(this=derived.copy(), side="LEFT")], [], [(str(j), v) for j, v in enumerate(right.values())]
        )
        item = item if i == 0 else item.renamed(compiler.taken)
        mine = dict(zip(right, (e for _, e in item.outs), strict=True))
        values = mine | scope if first else scope | mine
        join = item.items[0]
        meant = (outer or {}) | values
        join.set("on", compiler.subqueries.inline(on, meant, ctes, None) if on is not None else exp.true())
        result.append(Block([*block.items, join], block.preds))
        known.append(values)
    return result, known


def semijoin(
    compiler: Compiler,
    block: Block,
    scope: Scope,
    names: Names,
    options: list[Block],
    on: exp.Expression | None,
    anti: bool,
    ctes: Ctes,
    outer: Scope | None,
) -> Block:
    """The block's rows that have a partner in an item, or none of them."""
    values = (outer or {}) | scope
    tree = _matching(compiler, [o.renamed(compiler.taken) for o in options], values, names, on, ctes)
    exists: exp.Expression = exp.Exists(this=tree)
    return Block(block.items, [*block.preds, exp.Not(this=exists) if anti else exists])


def _matching(
    compiler: Compiler, options: list[Block], scope: Scope, names: Names, on: exp.Expression | None, ctes: Ctes
) -> exp.Query:
    """The rows of an item that meet ON, as a query correlated with `scope`."""
    selects = []
    for option in options:
        values = scope | scope_of(names, option)
        matched = [compiler.subqueries.inline(c, values, ctes, None) for c in conjuncts(on)]
        selects.append(select_of(Block(option.items, option.preds + matched)))
    return union_of(selects)


def unmatched(
    compiler: Compiler,
    blocks: list[Block],
    scopes: list[Scope],
    names: Names,
    options: list[Block],
    on: exp.Expression | None,
    ctes: Ctes,
    outer: Scope | None,
) -> tuple[list[Block], list[Scope]]:
    """The second half of a FULL JOIN.

    Rows of the right side without a partner, the left side padded with typed NULLs.
    """
    columns = list(scopes[0])
    lefts = [b.with_outs((f"c{i}", s[c]) for i, c in enumerate(columns)) for b, s in zip(blocks, scopes, strict=True)]
    types = [c.type for c in compiler.units.types(lefts)]
    nulls: Scope = {c: as_type(exp.null(), t) for c, t in zip(columns, types, strict=True)}
    result, known = [], []
    for option in options:
        right = option.renamed(compiler.taken)
        values = scope_of(names, right)
        selects = []
        for left in lefts:
            mine = left.renamed(compiler.taken)
            scope = (outer or {}) | dict(zip(columns, (e for _, e in mine.outs), strict=True)) | values
            matched = [compiler.subqueries.inline(c, scope, ctes, None) for c in conjuncts(on)]
            selects.append(select_of(Block(mine.items, mine.preds + matched)))
        missing = exp.Not(this=exp.Exists(this=union_of(selects)))
        result.append(Block(right.items, [*right.preds, missing]))
        known.append(nulls | values)
    return result, known


def scope_of(names: Names, block: Block) -> Scope:
    """What an item's columns mean in a block of it."""
    return {name: e for name, (_, e) in zip(names, block.outs, strict=True)}
