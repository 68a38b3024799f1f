"""Queries to blocks: WITH, set operations and SELECT, each brought to the normal form's terms.

    query -> blocks (UNION ALL) -> units wherever a grouping, a window, a set operation or a LIMIT cuts

Invariant: the blocks' rows are the query's rows; whatever can't be expressed raises UnsupportedError.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.compile.queries.from_clause import sources
from ivm.compile.queries.from_items import values_item, with_names
from ivm.compile.queries.laterals import with_generators
from ivm.compile.queries.subqueries import Subqueries
from ivm.compile.units.fused import finish
from ivm.compile.units.grouped import distinct, grouped
from ivm.compile.units.intersection import intersection
from ivm.compile.units.made import Units
from ivm.compile.units.recursive import fixpoint
from ivm.compile.units.stored import stored
from ivm.compile.units.top import top
from ivm.compile.units.windowed import windowed
from ivm.plan.nodes import Column, Relation, Unit
from ivm.sql.analyzer import Analyzer
from ivm.sql.blocks import Block, Ctes, Extent, Inline, Scope, conjuncts, extent, plainly, substituted
from ivm.sql.calls import has_calls
from ivm.sql.clauses import (
    SELECT_ARGS,
    group_keys,
    has_windows,
    only,
    row_count,
    select_list,
    sort_columns,
    with_windows,
)
from ivm.sql.recursion import names_table, reads_itself, union_parts
from ivm.sql.refusals import UnsupportedError
from ivm.sql.render import schema_leaf, unit_sql

#: What blocks may always be; those of a larger statement may be as large as it is.
LARGEST = Extent(nodes=2000, depth=60)


class Compiler:
    """Compiles one view; the units made on the way are in `units`.

    With `apart`, derived tables that compute subqueries become units of their own: Spark takes no reference over two
    levels, which putting such a value into another subquery would make.
    """

    def __init__(self, view: str, relations: dict[str, Relation], analyzer: Analyzer, apart: bool = False) -> None:
        self.apart = apart
        self.units = Units(view, dict(relations), analyzer)
        self.analyzer = analyzer
        self.taken: set[str] = set()
        self.subqueries = Subqueries(self)
        self._largest = LARGEST

    def program(self, tree: exp.Expression, columns: tuple[Column, ...]) -> tuple[Unit, ...]:
        self._largest = LARGEST.at_least(extent([tree]))
        self.taken |= _named(tree) | {c.name.lower() for r in self.units.relations.values() for c in r.columns}
        blocks = self.units.aligned(self.query(tree, {}))
        named = [b.called([c.name for c in columns]) for b in blocks]
        if not any(b.reads for b in named):
            raise UnsupportedError("no_source")
        units = finish(self.units, named, columns)
        self._check_schema(units[-1], columns)
        return units

    def _check_schema(self, unit: Unit, columns: tuple[Column, ...]) -> None:
        found = self.analyzer.schema(unit_sql(unit, schema_leaf(self.units.relations)))
        if [(c.name.lower(), c.type) for c in found] != [(c.name.lower(), c.type) for c in columns]:
            differ = [
                f"{a.name} {a.type} for {b.name} {b.type}"
                for a, b in zip(found, columns, strict=False)
                if (a.name.lower(), a.type) != (b.name.lower(), b.type)
            ]
            raise UnsupportedError("schema", "; ".join(differ) or f"{len(found)} for {len(columns)}")

    def query(self, node: exp.Expression, ctes: Ctes) -> list[Block]:
        """The blocks of a query that reads no outer columns."""
        ctes = self.with_ctes(node, ctes)
        if isinstance(node, exp.Subquery):
            only(node, {"this", "alias", "with_", "order", "limit", "offset"}, "a subquery")
            blocks = with_names(self.query(node.this, ctes), node)
            return self._cut(blocks, node, len(blocks[0].outs))
        if isinstance(node, exp.SetOperation):
            only(
                node,
                {
                    "this",
                    "expression",
                    "distinct",
                    "with_",
                    "order",
                    "limit",
                    "offset",
                    "by_name",
                    "side",
                    "kind",
                    "on",
                },
                "a set operation",
            )
            return self._cut(self._set_operation(node, ctes), node, None)
        if isinstance(node, exp.Select):
            return self.select(node, ctes)
        if isinstance(node, exp.Values):
            return values_item(self, node)[1]
        raise UnsupportedError("clause", type(node).__name__)

    def with_ctes(self, node: exp.Expression, ctes: Ctes) -> Ctes:
        """The tables bound by WITH, added to those known."""
        with_ = node.args.get("with_")
        if with_ is None:
            return ctes
        ctes = dict(ctes)
        for cte in with_.expressions:
            if with_.args.get("recursive") and reads_itself(cte):
                ctes[cte.alias.lower()] = self._fixpoint(cte, ctes)
                continue
            ctes[cte.alias.lower()] = with_names(self.derived(self.query(cte.this, ctes)), cte)
        return ctes

    def _fixpoint(self, cte: exp.CTE, ctes: Ctes) -> list[Block]:
        """A recursive WITH entry: a unit that reads itself."""
        name = cte.alias.lower()
        parts, distinct = union_parts(cte)
        base = [b for p in parts if not names_table(p, name) for b in self.query(p, ctes)]
        if not base:
            raise UnsupportedError("recursion", f"{cte.alias} has no part that doesn't read itself")
        base = with_names(self.units.aligned(base), cte)

        def step(itself: Block) -> list[Block]:
            return [b for p in parts if names_table(p, name) for b in self.query(p, ctes | {name: [itself]})]

        return fixpoint(self.units, base, step, distinct, self.taken)

    def _set_operation(self, node: exp.SetOperation, ctes: Ctes) -> list[Block]:
        if node.args.get("by_name"):
            raise UnsupportedError("clause", "UNION BY NAME")
        left, right = self.query(node.left, ctes), self.query(node.right, ctes)
        names = [n for n, _ in left[0].outs]
        right = [b.called(names) for b in right]
        every = not node.args.get("distinct")
        if isinstance(node, exp.Union):
            both = self.units.aligned(left + right)
            return both if every else distinct(self.units, both)
        return intersection(self.units, left, right, isinstance(node, exp.Except), every, self.taken)

    def select(self, node: exp.Select, ctes: Ctes) -> list[Block]:
        only(node, SELECT_ARGS, "SELECT")
        node = with_windows(node)
        blocks, scopes = self.sources(node, ctes)
        where = node.args.get("where")
        blocks = [self.filtered(b, s, where.this if where else None, ctes) for b, s in zip(blocks, scopes, strict=True)]
        selected = select_list(node, scopes[0])
        selected, blocks, scopes = with_generators(self, selected, blocks, scopes, ctes)
        visible = len(selected)
        order: list[exp.Ordered] = []
        if node.args.get("limit") or node.args.get("offset"):
            order, selected = sort_columns(node, selected)
        qualify = node.args.get("qualify")
        if qualify is not None:
            by_name = {("", n.lower()): e for n, e in selected}
            selected = [*selected, ("__ivm_qualify", substituted(qualify.this, by_name))]
        group, having = node.args.get("group"), node.args.get("having")
        inline = self.subqueries.inliner(ctes)
        by_groups = group is not None or having is not None or any(has_calls(e) for _, e in selected)
        if by_groups:
            keys, sets = group_keys(group, selected)
            blocks = grouped(self.units, blocks, scopes, keys, selected, having.this if having else None, inline, sets)
            selected, scopes = [(n, e) for n, e in blocks[0].outs], [{}]
        if any(has_windows(e) for _, e in selected):
            # What reads groups is inlined already: a table in it may be called as an entry of WITH that it was.
            blocks = windowed(self.units, blocks, scopes, selected, plainly if by_groups else inline)
        elif not by_groups:
            blocks = [self._projected(b, s, selected, inline) for b, s in zip(blocks, scopes, strict=True)]
        if qualify is not None:
            blocks = [Block(b.items, [*b.preds, exp.Paren(this=b.outs[-1][1])], b.outs[:-1]) for b in blocks]
            selected = selected[:-1]
        if node.args.get("distinct"):
            if len(selected) != visible:
                raise UnsupportedError("clause", "SELECT DISTINCT ordered by what it doesn't select")
            if node.args["distinct"].args.get("on"):
                raise UnsupportedError("clause", "DISTINCT ON")
            blocks = distinct(self.units, blocks)
        return self._cut(blocks, node, visible, order)

    def _projected(
        self, block: Block, scope: Scope, selected: list[tuple[str, exp.Expression]], inline: Inline
    ) -> Block:
        fresh_block = Block(list(block.items), list(block.preds))
        fresh_block.outs = [(n, inline(e, scope, fresh_block)) for n, e in selected]
        return fresh_block

    def _cut(
        self, blocks: list[Block], node: exp.Expression, visible: int | None, order: list[exp.Ordered] | None = None
    ) -> list[Block]:
        """Apply LIMIT and OFFSET; `order` is by output names, taken from the node where not given."""
        if not (node.args.get("limit") or node.args.get("offset")):
            return blocks
        if order is None:
            visible = len(blocks[0].outs)
            order, known = sort_columns(
                node, [(n, exp.column(exp.to_identifier(n, quoted=True))) for n, _ in blocks[0].outs]
            )
            if any(e.find(exp.Query) for _, e in known[visible:]):
                raise UnsupportedError("clause", "LIMIT of a set operation in the order of a subquery")
            blocks = [
                b.with_outs(
                    [
                        *b.outs,
                        *((n, substituted(e, {("", m.lower()): v for m, v in b.outs})) for n, e in known[visible:]),
                    ]
                )
                for b in blocks
            ]
        counts = [row_count(node.args.get(c)) for c in ("limit", "offset")]
        return top(self.units, blocks, visible if visible is not None else len(blocks[0].outs), order, *counts)

    def derived(self, blocks: list[Block]) -> list[Block]:
        """A derived table or an entry of WITH: its blocks, or one that reads them as a unit of their own.

        What reads it writes the expressions of its columns anew at each place that names one, so that those of a chain
        grow with a power of its length. They begin anew where they are more than the statement itself.
        """
        nested = self.apart and any(e.find(exp.Query) for b in blocks for _, e in b.outs)
        return stored(self.units, blocks, self.taken) if nested or self.grown(blocks) else blocks

    def grown(self, blocks: list[Block]) -> bool:
        """Whether blocks are more than the statement that they are a part of, and much."""
        return not self._largest.holds(extent(tree for b in blocks for tree in b.trees()))

    def sources(self, node: exp.Select, ctes: Ctes, outer: Scope | None = None) -> tuple[list[Block], list[Scope]]:
        """A FROM clause, see `ivm.compile.queries.from_clause`."""
        return sources(self, node, ctes, outer)

    def filtered(
        self, block: Block, scope: Scope, condition: exp.Expression | None, ctes: Ctes, outer: Scope | None = None
    ) -> Block:
        """The block with a condition's conjuncts added; subqueries may add items."""
        result = Block(list(block.items), list(block.preds), block.outs)
        values = (outer or {}) | scope
        for part in conjuncts(condition):
            result.preds.append(self.subqueries.predicate(part, values, ctes, result))
        return result


def _named(tree: exp.Expression) -> set[str]:
    """The names that a query gives to columns and variables.

    Where a table were called so, one of its columns inside a subquery or a lambda function would be a field of these.
    """
    names = [e.alias for e in tree.find_all(exp.Alias)]
    names += [c.name for alias in tree.find_all(exp.TableAlias) for c in alias.columns]
    names += [v.name for function in tree.find_all(exp.Lambda) for v in function.expressions]
    return {name.lower() for name in names}
