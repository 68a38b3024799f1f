"""The FROM clause: its items joined from left to right. Inner joins multiply, so a UNION ALL in one multiplies out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ivm.compile.queries.from_items import item
from ivm.compile.queries.joins import as_item, outer_join, scope_of, semijoin, unmatched
from ivm.compile.queries.laterals import lateral_join
from ivm.compile.units.stored import as_unit, stored
from ivm.sql.blocks import Block, Ctes, Scope
from ivm.sql.clauses import only

if TYPE_CHECKING:
    from ivm.compile.queries.compiler import Compiler

#: A UNION ALL below joins multiplies out; beyond this many branches it becomes a unit of its own.
MAX_BRANCHES = 8
#: A FULL JOIN writes either side twice: beside its partners, and to find what has none. So a chain of them would double
#: with each: a side of more than this many tables becomes a unit of its own.
MAX_TABLES = 16


def sources(
    compiler: Compiler, node: exp.Select, ctes: Ctes, outer: Scope | None = None
) -> tuple[list[Block], list[Scope]]:
    """The FROM clause: blocks without outputs, and for each the meaning of (alias, column).

    `outer` gives the columns of enclosing queries, which LATERAL items and ON may read.
    """
    from_ = node.args.get("from_")
    blocks, scopes = [Block()], [dict[tuple[str, str], exp.Expression]()]
    if from_ is not None:
        blocks, scopes = _joined(compiler, blocks, scopes, exp.Join(this=from_.this), ctes, outer)
    for join in node.args.get("joins") or []:
        blocks, scopes = _joined(compiler, blocks, scopes, join, ctes, outer)
    for lateral in node.args.get("laterals") or []:
        blocks, scopes = _joined(compiler, blocks, scopes, exp.Join(this=lateral), ctes, outer)
    return blocks, scopes


def _joined(
    compiler: Compiler, blocks: list[Block], scopes: list[Scope], join: exp.Join, ctes: Ctes, outer: Scope | None
) -> tuple[list[Block], list[Scope]]:
    only(join, {"this", "on", "kind", "side", "method", "using"}, "this form of JOIN")
    how = " ".join(str(join.args.get(k) or "") for k in ("method", "side", "kind")).upper().split()
    kind = next((k for k in ("SEMI", "ANTI", "FULL", "RIGHT", "LEFT") if k in how), "CROSS")
    on = join.args.get("on")
    if isinstance(join.this, exp.Lateral):
        return lateral_join(compiler, blocks, scopes, join.this, kind, on, ctes, outer)
    names, options = item(compiler, join.this, ctes, outer)
    if outer is not None and any(e.find(exp.Query) for o in options for _, e in o.outs):
        # Put into an aggregate of a correlated subquery, a subquery of its own is more than Spark's optimizer can do.
        options = stored(compiler.units, options, compiler.taken)
    options = [o.renamed(compiler.taken) for o in options]
    if kind == "FULL":
        if _tables(blocks) > MAX_TABLES:
            blocks, scopes = as_unit(compiler.units, blocks, scopes, compiler.taken)
        if _tables(options) > MAX_TABLES:
            options = stored(compiler.units, options, compiler.taken)
    if kind == "RIGHT":
        if compiler.grown(blocks):  # each RIGHT JOIN nests what is joined so far once more
            blocks, scopes = as_unit(compiler.units, blocks, scopes, compiler.taken)
        columns = list(scopes[0])
        lefts = [
            b.with_outs((f"c{i}", s[c]) for i, c in enumerate(columns)) for b, s in zip(blocks, scopes, strict=True)
        ]
        derived, values = as_item(compiler, lefts)
        blocks = [Block(o.items, o.preds) for o in options]
        scopes = [scope_of(names, o) for o in options]
        right = dict(zip(columns, values, strict=True))
        return outer_join(compiler, blocks, scopes, derived, right, on, ctes, outer, first=True)
    if kind in ("SEMI", "ANTI"):
        return [
            semijoin(compiler, b, s, names, options, on, kind == "ANTI", ctes, outer)
            for b, s in zip(blocks, scopes, strict=True)
        ], scopes
    if kind in ("LEFT", "FULL"):
        derived, values = as_item(compiler, options)
        right = dict(zip(names, values, strict=True))
        joined, known = outer_join(compiler, blocks, scopes, derived, right, on, ctes, outer)
        if kind == "FULL":
            more = unmatched(compiler, blocks, scopes, names, options, on, ctes, outer)
            joined, known = joined + more[0], known + more[1]
        return joined, known
    if len(blocks) * len(options) > MAX_BRANCHES:
        options = stored(compiler.units, options, compiler.taken)
    pairs = []
    for block, scope in zip(blocks, scopes, strict=True):
        for i, option in enumerate(options):
            part = option if i == 0 and block is blocks[0] else option.renamed(compiler.taken)
            merged = Block(block.items + part.items, block.preds + part.preds)
            values_ = scope | scope_of(names, part)
            pairs.append((compiler.filtered(merged, values_, on, ctes, outer), values_))
    return [p[0] for p in pairs], [p[1] for p in pairs]


def _tables(blocks: list[Block]) -> int:
    """How many tables blocks read, one as often as it stands there."""
    return sum(1 for block in blocks for tree in block.trees() for _ in tree.find_all(exp.Table))
