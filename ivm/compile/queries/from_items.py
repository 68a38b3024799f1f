"""FROM items to blocks: tables, entries of WITH, derived tables, pivots, VALUES, table functions, nested joins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ivm.compile.queries.subqueries import is_correlated
from ivm.plan.nodes import Column
from ivm.sql.blocks import Block, Ctes, Names, Scope, fresh, leaf_column, leaf_item, table_alias
from ivm.sql.clauses import only
from ivm.sql.pivots import pivoted
from ivm.sql.refusals import UnsupportedError

if TYPE_CHECKING:
    from ivm.compile.queries.compiler import Compiler


def item(compiler: Compiler, node: exp.Expression, ctes: Ctes, outer: Scope | None = None) -> tuple[Names, list[Block]]:
    """A FROM item: how its columns are called, and its alternatives."""
    if node.args.get("joins") or (
        isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias
    ):
        return _nested_joins(compiler, node, ctes, outer)
    alias, options = _single(compiler, node, ctes, outer)
    return [(alias, n.lower()) for n, _ in options[0].outs], options


def _single(
    compiler: Compiler, node: exp.Expression, ctes: Ctes, outer: Scope | None = None
) -> tuple[str, list[Block]]:
    if node.args.get("sample"):
        raise UnsupportedError("nondeterministic", "TABLESAMPLE")
    alias = node.alias_or_name.lower()
    pivots = node.args.get("pivots") or []
    if pivots:
        bare = node.copy()
        bare.set("pivots", None)
        _, options = _single(compiler, bare, ctes)
        for pivot in pivots:
            types = compiler.units.types(options)
            columns = [Column(n, t.type) for (n, _), t in zip(options[0].outs, types, strict=True)]
            query, bound = pivoted(pivot, columns, compiler.analyzer.schema)
            options = compiler.query(query, ctes | {bound: options})
            alias = pivot.alias.lower() or alias
        return alias, options
    if isinstance(node, exp.Table):
        if isinstance(node.this, exp.Func):
            return _table_function(compiler, node)
        if len(node.parts) == 1 and node.name.lower() in ctes:
            return alias, with_names(ctes[node.name.lower()], node)
        relation = compiler.units.relations.get(".".join(p.name for p in node.parts).lower())
        if relation is None or node.args.get("version") or node.args.get("when"):
            raise UnsupportedError("clause", f"reading {node.sql(dialect='spark')}")
        only(node, {"this", "db", "catalog", "alias"}, f"reading {node.name} with options")
        leaf = node.alias_or_name
        block = Block(
            [leaf_item(leaf, relation.name.lower())],
            [],
            [(c.name, leaf_column(leaf, c.name)) for c in relation.columns],
        )
        return alias, with_names([block], node)
    if isinstance(node, exp.Subquery):
        if isinstance(node.this, exp.Table):
            return alias, with_names(item(compiler, node.this, ctes)[1], node)
        if outer is not None and is_correlated(node):
            return alias, with_names([_correlated_item(compiler, node, ctes, outer)], node)
        return alias, compiler.derived(compiler.query(node, ctes))
    if isinstance(node, exp.Values):
        return values_item(compiler, node)
    raise UnsupportedError("clause", f"{type(node).__name__} in FROM")


def _correlated_item(compiler: Compiler, node: exp.Subquery, ctes: Ctes, outer: Scope) -> Block:
    """A derived table of a correlated subquery that reads the outer columns itself."""
    inner = compiler.subqueries.correlated(node.this, outer, ctes)
    name = fresh(node.alias.lower() or "d", compiler.taken)
    derived = exp.Subquery(this=inner, alias=table_alias(name))
    return Block(
        [exp.Join(this=derived, kind="CROSS")],
        [],
        [(e.alias_or_name, leaf_column(name, e.alias_or_name)) for e in inner.selects],
    )


def _table_function(compiler: Compiler, node: exp.Table) -> tuple[str, list[Block]]:
    """range(5) and the like: a FROM item of constants."""
    if node.find(exp.Query):
        raise UnsupportedError("clause", "a table function of a subquery")
    name = fresh(node.alias.lower() or "f", compiler.taken)
    listed = node.args.get("alias")
    names = [c.name for c in listed.args.get("columns") or []] if listed is not None else []
    bare = exp.Table(this=node.this.copy())
    names = names or [c.name for c in compiler.analyzer.schema(f"SELECT * FROM {bare.sql(dialect='spark')}")]
    lateral = exp.Lateral(this=node.this.copy(), alias=table_alias(name, names))
    return node.alias.lower(), [
        Block([exp.Join(this=lateral, kind="CROSS")], [], [(n, leaf_column(name, n)) for n in names])
    ]


def _nested_joins(
    compiler: Compiler, node: exp.Expression, ctes: Ctes, outer: Scope | None
) -> tuple[Names, list[Block]]:
    """A join in parentheses: its items keep their own names."""
    if isinstance(node, exp.Subquery):
        only(node, {"this", "joins"}, "a join in parentheses")
        joins = list(node.args.get("joins") or [])
        first = node.this
    else:
        joins, first = list(node.args["joins"]), node.copy()
        first.set("joins", None)
    if first.args.get("joins") and isinstance(node, exp.Subquery):
        joins = [*first.args["joins"], *joins]
        first = first.copy()
        first.set("joins", None)
    blocks, scopes = compiler.sources(exp.Select(from_=exp.From(this=first), joins=joins), ctes, outer)
    names = list(scopes[0])
    return names, [b.with_outs((n[1], s[n]) for n in names) for b, s in zip(blocks, scopes, strict=True)]


def values_item(compiler: Compiler, node: exp.Values) -> tuple[str, list[Block]]:
    """VALUES, under its alias."""
    name = fresh(node.alias.lower() or "v", compiler.taken)
    listed = node.args.get("alias")
    names = [c.name for c in listed.args.get("columns") or []] if listed is not None else []
    first = node.expressions[0]
    width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
    names = names or [f"col{i + 1}" for i in range(width)]
    bare = node.copy()
    bare.set("alias", table_alias(name, names))
    return node.alias.lower(), [
        Block([exp.Join(this=bare, kind="CROSS")], [], [(n, leaf_column(name, n)) for n in names])
    ]


def with_names(blocks: list[Block], node: exp.Expression) -> list[Block]:
    """Apply a column alias list: `t(a, b)`."""
    alias = node.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    if not names:
        return blocks
    return [b.called(names) for b in blocks]
