"""A view's SQL to its program: sqlglot parses and qualifies, this module brings it to normal form.

Invariant: the program's columns are exactly Spark's own columns of the view (names and types), and
the statement that sqlglot understood means to Spark what the user wrote; else the view is refused.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify

from ivm.errors import ViewError
from ivm.plan.nodes import Column, Program, Relation, Unit
from ivm.sql.analyzer import Analyzer
from ivm.sql.blocks import Block, conjuncts, leaf_column, substituted
from ivm.sql.reduce import Units, has_calls
from ivm.sql.render import core_sql, post_sql, reduce_sql, schema_leaf, typed_nulls
from ivm.sql.round_trip import check_round_trip
from ivm.sql.support import VOLATILE, UnsupportedError, refusal
from ivm.sql.text import first_line, query_tree, relation_tables, splice

#: A UNION ALL below joins multiplies out; beyond this many branches a view is refused.
MAX_BRANCHES = 32


def parse_view(view: str, sql: str, relations: dict[str, Relation], analyzer: Analyzer) -> Program:
    """Compile a view over `relations` (by lower-case name).

    Raises ViewError for unknown tables, for what the engine itself refuses, and for output columns that can't
    be stored. What can't be maintained is not an error: the program then has refusals and no units.
    """
    tables = relation_tables(sql)
    unknown = sorted({name for name, *_ in tables if name.lower() not in relations})
    if unknown:
        raise ViewError(
            f"It reads {', '.join(unknown)}, which is neither a source nor a view of this pipeline.",
            f"There are: {', '.join(sorted(r.name for r in relations.values())) or 'none yet'}.",
        )
    nulls = {name: typed_nulls(r.columns) for name, r in relations.items()}
    spliced = splice(sql, nulls)
    columns = analyzer.schema(spliced)
    _check_storable(columns)
    reads = tuple(dict.fromkeys(name.lower() for name, *_ in tables))
    tree = query_tree(sql)
    volatile = _volatile(tree)
    if volatile:
        return Program(view, columns, reads, refusals=(refusal("nondeterministic", f"{volatile}()"),), deterministic=False)
    try:
        check_round_trip(sql, tree, relations, analyzer)
        compiler = _Compiler(view, relations, analyzer)
        units = compiler.program(_qualified(tree, relations), columns)
    except UnsupportedError as unsupported:
        return Program(view, columns, reads, refusals=(unsupported.refusal,))
    return Program(view, columns, reads, units=units)


def _check_storable(columns: tuple[Column, ...]) -> None:
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise ViewError(f"It has two columns named {column.name!r}.", "Give one of them an alias with AS.")
        seen.add(column.name.lower())
        if set(column.name) & set(" ,;{}()\n\t="):
            raise ViewError(f"It has a column named {column.name!r}, which Delta can't store.", "Give it an alias with AS.")
        if "void" in column.type or "interval" in column.type:
            raise ViewError(f"Column {column.name!r} has the type {column.type}, which Delta can't store.", "Cast it to a type that Delta has.")


def _volatile(tree: exp.Expression) -> str | None:
    for func in tree.find_all(exp.Func):
        name = func.name.lower() if isinstance(func, exp.Anonymous) else func.sql_name().lower()
        if name in VOLATILE or (name in ("unix_timestamp", "to_unix_timestamp", "unix_seconds") and not list(func.iter_expressions())):
            return str(name)
    return None


def _qualified(tree: exp.Expression, relations: dict[str, Relation]) -> exp.Expression:
    schema = {r.name.lower(): {c.name.lower(): c.type for c in r.columns} for r in relations.values()}
    try:
        return qualify(tree.copy(), schema=schema, dialect="spark", quote_identifiers=False)
    except SqlglotError as error:
        raise UnsupportedError("parser", first_line(error)) from error


class _Compiler:
    def __init__(self, view: str, relations: dict[str, Relation], analyzer: Analyzer) -> None:
        self.units = Units(view, dict(relations), analyzer)
        self.analyzer = analyzer
        self.view = view

    # -- queries ---------------------------------------------------------------------------------

    def program(self, tree: exp.Expression, columns: tuple[Column, ...]) -> tuple[Unit, ...]:
        blocks = self.query(tree, {})
        blocks = self.units.aligned(blocks)
        named = [Block(b.leaves, b.preds, [(c.name, e) for c, (_, e) in zip(columns, b.outs, strict=True)]) for b in blocks]
        if not any(b.leaves for b in named):
            raise UnsupportedError("no_source")
        if not all(b.leaves for b in named):
            raise UnsupportedError("clause", "UNION ALL of tables with constant rows")
        units = self.units.finish(named, columns)
        self._check_schema(units[-1], columns)
        return units

    def _check_schema(self, unit: Unit, columns: tuple[Column, ...]) -> None:
        rows = core_sql(unit.core, schema_leaf(self.units.relations))
        if unit.reduce and unit.post:
            rows = post_sql(unit.post, reduce_sql(unit.reduce, rows))
        found = self.analyzer.schema(rows)
        if [(c.name.lower(), c.type) for c in found] != [(c.name.lower(), c.type) for c in columns]:
            differ = [
                f"{a.name} {a.type} for {b.name} {b.type}" for a, b in zip(found, columns, strict=False) if (a.name.lower(), a.type) != (b.name.lower(), b.type)
            ]
            raise UnsupportedError("schema", "; ".join(differ) or f"{len(found)} for {len(columns)}")

    def query(self, node: exp.Expression, ctes: dict[str, list[Block]]) -> list[Block]:
        with_ = node.args.get("with_") or node.args.get("with")
        if with_ is not None:
            if with_.args.get("recursive"):
                raise UnsupportedError("recursion")
            ctes = dict(ctes)
            for cte in with_.expressions:
                ctes[cte.alias.lower()] = _with_names(self.query(cte.this, ctes), cte)
        if isinstance(node, exp.Subquery):
            _only(node, {"this", "alias", "with_", "with"}, "a subquery")
            return _with_names(self.query(node.this, ctes), node)
        if isinstance(node, exp.Union):
            _only(node, {"this", "expression", "distinct", "with_", "with", "order"}, "UNION")
            left, right = self.query(node.left, ctes), self.query(node.right, ctes)
            names = [n for n, _ in left[0].outs]
            both = left + [Block(b.leaves, b.preds, [(n, e) for n, (_, e) in zip(names, b.outs, strict=True)]) for b in right]
            both = self.units.aligned(both)
            return self.units.distinct(both) if node.args.get("distinct") else both
        if isinstance(node, exp.SetOperation):
            raise UnsupportedError("set_operation", type(node).__name__.upper())
        if isinstance(node, exp.Select):
            return self.select(node, ctes)
        raise UnsupportedError("clause", type(node).__name__)

    def select(self, node: exp.Select, ctes: dict[str, list[Block]]) -> list[Block]:
        if node.args.get("limit") or node.args.get("offset"):
            raise UnsupportedError("limit", "LIMIT")
        _only(node, _SELECT_ARGS, "SELECT")
        if node.find(exp.Window, bfs=False) and any(w.parent_select is node for w in node.find_all(exp.Window)):
            raise UnsupportedError("window")
        blocks, scope = self.sources(node, ctes)
        where = node.args.get("where")
        blocks = [self._filtered(b, s, where.this if where else None) for b, s in zip(blocks, scope, strict=True)]
        group, having = node.args.get("group"), node.args.get("having")
        if group is not None:
            _only(group, {"expressions"}, "GROUP BY with ROLLUP, CUBE, GROUPING SETS or ALL", "grouping_sets")
            for key in group.expressions:
                if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets):
                    raise UnsupportedError("grouping_sets", type(key).__name__.upper())
        selected = [(e.alias_or_name, e.unalias()) for e in node.expressions]
        for _, expression in selected:
            _no_subquery(expression)
        if group is not None or having is not None or any(has_calls(e) for _, e in selected):
            keys = list(group.expressions) if group else []
            blocks = self.units.grouped(blocks, scope, keys, selected, having.this if having else None)
        else:
            blocks = [Block(b.leaves, b.preds, [(n, substituted(e, s)) for n, e in selected]) for b, s in zip(blocks, scope, strict=True)]
        return self.units.distinct(blocks) if node.args.get("distinct") else blocks

    # -- FROM ------------------------------------------------------------------------------------

    def sources(self, node: exp.Select, ctes: dict[str, list[Block]]) -> tuple[list[Block], list[dict[tuple[str, str], exp.Expression]]]:
        """The product of the FROM items: blocks without outputs, and for each the meaning of (alias, column)."""
        from_ = node.args.get("from_") or node.args.get("from")
        if from_ is None:
            return [Block()], [{}]
        blocks: list[Block] = [Block()]
        scope: list[dict[tuple[str, str], exp.Expression]] = [{}]
        items: list[tuple[exp.Expression, exp.Expression | None]] = [(from_.this, None)]
        for join in node.args.get("joins") or []:
            kind = " ".join(str(join.args.get(k) or "") for k in ("method", "side", "kind")).split()
            if any(k.upper() not in ("INNER", "CROSS") for k in kind):
                raise UnsupportedError("outer_join", " ".join(kind).upper() + " JOIN")
            _only(join, {"this", "on", "kind", "side", "method"}, "this form of JOIN")
            items.append((join.this, join.args.get("on")))
        for item, on in items:
            alias, options = self.item(item, ctes)
            if len(blocks) * len(options) > MAX_BRANCHES:
                raise UnsupportedError("too_many_branches", str(len(blocks) * len(options)))
            pairs = []
            for block, values in zip(blocks, scope, strict=True):
                for option in options:
                    taken = {a.lower() for a, _ in block.leaves}
                    fresh = option.renamed(taken)
                    merged = Block(block.leaves + fresh.leaves, block.preds + fresh.preds)
                    known = values | {(alias, n.lower()): e for n, e in fresh.outs}
                    pairs.append((self._filtered(merged, known, on), known))
            blocks, scope = [p[0] for p in pairs], [p[1] for p in pairs]
        return blocks, scope

    def item(self, node: exp.Expression, ctes: dict[str, list[Block]]) -> tuple[str, list[Block]]:
        for clause in ("joins", "laterals", "pivots", "sample"):
            if node.args.get(clause):
                raise UnsupportedError(
                    "clause", {"joins": "a join in parentheses", "laterals": "LATERAL VIEW", "pivots": "PIVOT", "sample": "TABLESAMPLE"}[clause]
                )
        alias = node.alias_or_name.lower()
        if isinstance(node, exp.Table):
            if _is_bound(node, ctes):
                return alias, ctes[node.name.lower()]
            relation = self.units.relations.get(node.name.lower())
            if relation is None or node.args.get("version") or node.args.get("when"):
                raise UnsupportedError("clause", f"reading {node.sql(dialect='spark')}")
            _only(node, {"this", "alias"}, f"reading {node.name} with options")
            leaf = node.alias_or_name
            return alias, [Block([(leaf, node.name.lower())], [], [(c.name, leaf_column(leaf, c.name)) for c in relation.columns])]
        if isinstance(node, exp.Subquery):
            return alias, self.query(node, ctes)
        raise UnsupportedError("clause", f"{type(node).__name__} in FROM")

    def _filtered(self, block: Block, scope: dict[tuple[str, str], exp.Expression], condition: exp.Expression | None) -> Block:
        preds = list(block.preds)
        for part in conjuncts(condition):
            _no_subquery(part)
            preds.append(substituted(part, scope))
        return Block(block.leaves, preds, block.outs)


_SELECT_ARGS = {
    "expressions",
    "from_",
    "from",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "sort",
    "distinct",
    "with_",
    "with",
    "kind",
    "hint",
    "limit",
    "offset",
}


def _is_bound(table: exp.Table, ctes: dict[str, list[Block]]) -> bool:
    return len(table.parts) == 1 and table.name.lower() in ctes


def _with_names(blocks: list[Block], node: exp.Expression) -> list[Block]:
    """Apply a column alias list: `t(a, b)`."""
    alias = node.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    if not names:
        return blocks
    return [Block(b.leaves, b.preds, [(n, e) for n, (_, e) in zip(names, b.outs, strict=True)]) for b in blocks]


def _only(node: exp.Expression, allowed: set[str], what: str, code: str = "clause") -> None:
    """Refuse a node that carries a clause the compiler doesn't look at: nothing is ignored in silence."""
    for key, value in node.args.items():
        if key not in allowed and value not in (None, False, []):
            raise UnsupportedError(code, what if code != "clause" else f"{what} with {key.strip('_').upper()}")


def _no_subquery(node: exp.Expression) -> None:
    if isinstance(node, exp.Query) or node.find(exp.Query):
        kind = "EXISTS" if node.find(exp.Exists) else "IN" if node.find(exp.In) else "scalar"
        raise UnsupportedError("subquery", kind)
    if node.find(exp.Explode, exp.Posexplode, exp.Inline, exp.UDTF):
        raise UnsupportedError("generator", "explode in the select list")
