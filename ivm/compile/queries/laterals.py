"""LATERAL items, and the generators of a select list, which mean the same in FROM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ivm.sql.blocks import Block, Ctes, Scope, fresh, leaf_column, table_alias
from ivm.sql.dialect import GENERATORS, function_name
from ivm.sql.refusals import UnsupportedError

if TYPE_CHECKING:
    from ivm.compile.queries.compiler import Compiler


def lateral_join(
    compiler: Compiler,
    blocks: list[Block],
    scopes: list[Scope],
    node: exp.Lateral,
    kind: str,
    on: exp.Expression | None,
    ctes: Ctes,
    outer: Scope | None,
) -> tuple[list[Block], list[Scope]]:
    """Each block joined with a subquery or a generator over its own rows. Raises UnsupportedError for other joins."""
    if kind not in ("CROSS", "LEFT"):
        raise UnsupportedError("clause", f"{kind} JOIN LATERAL")
    alias = node.alias.lower()
    names = [c.name for c in node.args["alias"].args.get("columns") or []] if node.args.get("alias") else []
    result, known = [], []
    for block, scope in zip(blocks, scopes, strict=True):
        values = (outer or {}) | scope
        name = fresh(alias or "t", compiler.taken)
        if isinstance(node.this, exp.Subquery):
            inner = compiler.subqueries.correlated(node.this.this, values, ctes)
            columns = names or [e.alias_or_name for e in inner.selects]
            this = exp.Lateral(this=exp.Subquery(this=inner), alias=table_alias(name, names))
        else:
            function = compiler.subqueries.inline(node.this, values, ctes, None)
            columns = names or compiler.units.generated_names(block, function)
            this = exp.Lateral(
                this=_outer_variant(function) if node.args.get("outer") else function,
                alias=table_alias(name, columns),
            )
        values_ = scope | {(alias, c.lower()): leaf_column(name, c) for c in columns}
        join = exp.Join(this=this, side="LEFT", on=exp.true()) if kind == "LEFT" else exp.Join(this=this, kind="CROSS")
        if kind == "LEFT" and on is not None:
            join.set("on", compiler.subqueries.inline(on, (outer or {}) | values_, ctes, None))
        added = Block([*block.items, join], block.preds)
        result.append(compiler.filtered(added, values_, on, ctes, outer) if kind == "CROSS" else added)
        known.append(values_)
    return result, known


def with_generators(
    compiler: Compiler, selected: list[tuple[str, exp.Expression]], blocks: list[Block], scopes: list[Scope], ctes: Ctes
) -> tuple[list[tuple[str, exp.Expression]], list[Block], list[Scope]]:
    """Move explode() and its kin from the select list into FROM, where they mean the same."""
    result: list[tuple[str, exp.Expression]] = []
    for name, e in selected:
        function = e.this if isinstance(e, exp.Aliases) else e
        if function_name(function) not in GENERATORS:
            if any(
                function_name(f) in GENERATORS and not f.find_ancestor(exp.Query)
                for f in e.copy().find_all(exp.Anonymous)
            ):
                raise UnsupportedError("clause", "a generator inside an expression")
            result.append((name, e))
            continue
        columns = [i.name for i in e.expressions] if isinstance(e, exp.Aliases) else [name]
        if not isinstance(e, exp.Aliases) and function_name(function) not in ("explode", "explode_outer"):
            generator = compiler.subqueries.inline(function, scopes[0], ctes, None)
            columns = compiler.units.generated_names(blocks[0], generator)
        alias = f"__ivm_generated_{len(result)}"
        lateral = exp.Lateral(this=function, alias=table_alias(alias, columns))
        blocks, scopes = lateral_join(compiler, blocks, scopes, lateral, "CROSS", None, ctes, None)
        result += [(c, leaf_column(alias, c)) for c in columns]
    return result, blocks, scopes


def _outer_variant(function: exp.Expression) -> exp.Expression:
    name = function_name(function).removesuffix("_outer")
    if name not in ("explode", "posexplode", "inline"):
        raise UnsupportedError("clause", f"LATERAL VIEW OUTER {function.sql(dialect='spark')}")
    return exp.Anonymous(this=f"{name}_outer", expressions=[a.copy() for a in function.expressions])
