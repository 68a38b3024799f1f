"""Queries to blocks: FROM items, filters and select lists, each brought to the normal form's terms.

    query -> blocks (UNION ALL) -> units wherever a grouping, a window, a set operation or a LIMIT cuts

Invariant: the blocks' rows are the query's rows; whatever can't be expressed raises UnsupportedError.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.plan.nodes import Column, Relation, Unit
from ivm.sql.analyzer import Analyzer
from ivm.sql.blocks import (
    Block,
    Inline,
    Scope,
    conjuncts,
    fresh,
    leaf_column,
    leaf_item,
    select_of,
    substituted,
    table_alias,
    union_of,
)
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
    without_using,
)
from ivm.sql.dialect import GENERATORS, function_name
from ivm.sql.pivots import pivoted
from ivm.sql.recursion import names_table, reads_itself, union_parts
from ivm.sql.reduce import Units
from ivm.sql.render import schema_leaf, unit_sql
from ivm.sql.subqueries import Subqueries, is_correlated
from ivm.sql.support import UnsupportedError

#: A UNION ALL below joins multiplies out; beyond this many branches it becomes a unit of its own.
MAX_BRANCHES = 8

Ctes = dict[str, list[Block]]
#: (alias, column) of each column of a FROM item, in lower case.
Names = list[tuple[str, str]]


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

    def program(self, tree: exp.Expression, columns: tuple[Column, ...]) -> tuple[Unit, ...]:
        blocks = self.units.aligned(self.query(tree, {}))
        named = [b.with_outs((c.name, e) for c, (_, e) in zip(columns, b.outs, strict=True)) for b in blocks]
        if not any(b.reads for b in named):
            raise UnsupportedError("no_source")
        units = self.units.finish(named, columns)
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

    # -- queries ---------------------------------------------------------------------------------

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
            return self._values(node)[1]
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
            ctes[cte.alias.lower()] = with_names(self._apart(self.query(cte.this, ctes)), cte)
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

        return self.units.fixpoint(base, step, distinct, self.taken)

    def _set_operation(self, node: exp.SetOperation, ctes: Ctes) -> list[Block]:
        if node.args.get("by_name"):
            raise UnsupportedError("clause", "UNION BY NAME")
        left, right = self.query(node.left, ctes), self.query(node.right, ctes)
        names = [n for n, _ in left[0].outs]
        right = [b.with_outs((n, e) for n, (_, e) in zip(names, b.outs, strict=True)) for b in right]
        every = not node.args.get("distinct")
        if isinstance(node, exp.Union):
            both = self.units.aligned(left + right)
            return both if every else self.units.distinct(both)
        return self.units.intersection(left, right, isinstance(node, exp.Except), every, self.taken)

    def select(self, node: exp.Select, ctes: Ctes) -> list[Block]:
        only(node, SELECT_ARGS, "SELECT")
        node = with_windows(node)
        blocks, scopes = self.sources(node, ctes)
        node = without_using(node)
        where = node.args.get("where")
        blocks = [self.filtered(b, s, where.this if where else None, ctes) for b, s in zip(blocks, scopes, strict=True)]
        selected = select_list(node, scopes[0])
        selected, blocks, scopes = self._generators(selected, blocks, scopes, ctes)
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
        if group is not None or having is not None or any(has_calls(e) for _, e in selected):
            keys, sets = group_keys(group, selected)
            blocks = self.units.grouped(blocks, scopes, keys, selected, having.this if having else None, inline, sets)
            selected, scopes = [(n, e) for n, e in blocks[0].outs], [{}]
        if any(has_windows(e) for _, e in selected):
            blocks = self.units.windowed(blocks, scopes, selected, inline)
        elif scopes != [{}] or not (group or having):
            blocks = [self._projected(b, s, selected, inline) for b, s in zip(blocks, scopes, strict=True)]
        if qualify is not None:
            blocks = [Block(b.items, [*b.preds, exp.Paren(this=b.outs[-1][1])], b.outs[:-1]) for b in blocks]
            selected = selected[:-1]
        if node.args.get("distinct"):
            if len(selected) != visible:
                raise UnsupportedError("clause", "SELECT DISTINCT ordered by what it doesn't select")
            if node.args["distinct"].args.get("on"):
                raise UnsupportedError("clause", "DISTINCT ON")
            blocks = self.units.distinct(blocks)
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
        return self.units.top(blocks, visible if visible is not None else len(blocks[0].outs), order, *counts)

    # -- FROM ------------------------------------------------------------------------------------

    def sources(self, node: exp.Select, ctes: Ctes, outer: Scope | None = None) -> tuple[list[Block], list[Scope]]:
        """The FROM clause: blocks without outputs, and for each the meaning of (alias, column).

        `outer` gives the columns of enclosing queries, which LATERAL items may read.
        """
        from_ = node.args.get("from_")
        blocks, scopes = [Block()], [dict[tuple[str, str], exp.Expression]()]
        if from_ is not None:
            blocks, scopes = self._joined(blocks, scopes, exp.Join(this=from_.this), ctes, outer)
        for join in node.args.get("joins") or []:
            blocks, scopes = self._joined(blocks, scopes, join, ctes, outer)
        for lateral in node.args.get("laterals") or []:
            blocks, scopes = self._joined(blocks, scopes, exp.Join(this=lateral), ctes, outer)
        return blocks, scopes

    def _joined(
        self, blocks: list[Block], scopes: list[Scope], join: exp.Join, ctes: Ctes, outer: Scope | None
    ) -> tuple[list[Block], list[Scope]]:
        only(join, {"this", "on", "kind", "side", "method", "using"}, "this form of JOIN")
        how = " ".join(str(join.args.get(k) or "") for k in ("method", "side", "kind")).upper().split()
        kind = next((k for k in ("SEMI", "ANTI", "FULL", "RIGHT", "LEFT") if k in how), "CROSS")
        on = join.args.get("on")
        if isinstance(join.this, exp.Lateral):
            return self._lateral(blocks, scopes, join.this, kind, on, ctes, outer)
        names, options = self.item(join.this, ctes, outer)
        options = [o.renamed(self.taken) for o in options]
        if kind == "RIGHT":
            columns = list(scopes[0])
            lefts = [
                b.with_outs((f"c{i}", s[c]) for i, c in enumerate(columns)) for b, s in zip(blocks, scopes, strict=True)
            ]
            derived, values = self.derived(lefts)
            blocks = [Block(o.items, o.preds) for o in options]
            scopes = [_scope(names, o) for o in options]
            right = dict(zip(columns, values, strict=True))
            return self._outer(blocks, scopes, derived, right, on, ctes, first=True)
        if kind in ("SEMI", "ANTI"):
            return [
                self._semi(b, s, names, options, on, kind == "ANTI", ctes) for b, s in zip(blocks, scopes, strict=True)
            ], scopes
        if kind in ("LEFT", "FULL"):
            derived, values = self.derived(options)
            right = dict(zip(names, values, strict=True))
            joined, known = self._outer(blocks, scopes, derived, right, on, ctes)
            if kind == "FULL":
                more = self._unmatched(blocks, scopes, names, options, on, ctes)
                joined, known = joined + more[0], known + more[1]
            return joined, known
        if len(blocks) * len(options) > MAX_BRANCHES:
            options = self.units.stored(options, self.taken)
        pairs = []
        for block, scope in zip(blocks, scopes, strict=True):
            for i, option in enumerate(options):
                part = option if i == 0 and block is blocks[0] else option.renamed(self.taken)
                merged = Block(block.items + part.items, block.preds + part.preds)
                values_ = scope | _scope(names, part)
                pairs.append((self.filtered(merged, values_, on, ctes, outer), values_))
        return [p[0] for p in pairs], [p[1] for p in pairs]

    def derived(self, options: list[Block]) -> tuple[exp.Expression, list[exp.Expression]]:
        """Blocks as one FROM item whose rows may be padded with NULLs, and its columns."""
        leaf = options[0].only_leaf() if len(options) == 1 and not options[0].preds else None
        if leaf and all(isinstance(e, exp.Column) for _, e in options[0].outs):
            return options[0].items[0].this.copy(), [e for _, e in options[0].outs]
        options = self.units.aligned(options)
        alias = fresh("x", self.taken)
        named = [b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs)) for b in options]
        tree = exp.Subquery(this=union_of([select_of(b) for b in named]), alias=table_alias(alias))
        return tree, [leaf_column(alias, f"c{i}") for i in range(len(options[0].outs))]

    def _outer(
        self,
        blocks: list[Block],
        scopes: list[Scope],
        derived: exp.Expression,
        right: Scope,
        on: exp.Expression | None,
        ctes: Ctes,
        first: bool = False,
    ) -> tuple[list[Block], list[Scope]]:
        """Each block LEFT JOIN the derived item."""
        result, known = [], []
        for i, (block, scope) in enumerate(zip(blocks, scopes, strict=True)):
            item = Block(
                [exp.Join(this=derived.copy(), side="LEFT")], [], [(str(j), v) for j, v in enumerate(right.values())]
            )
            item = item if i == 0 else item.renamed(self.taken)
            mine = dict(zip(right, (e for _, e in item.outs), strict=True))
            values = mine | scope if first else scope | mine
            join = item.items[0]
            join.set("on", self.subqueries.inline(on, values, ctes, None) if on is not None else exp.true())
            result.append(Block([*block.items, join], block.preds))
            known.append(values)
        return result, known

    def _semi(
        self,
        block: Block,
        scope: Scope,
        names: Names,
        options: list[Block],
        on: exp.Expression | None,
        anti: bool,
        ctes: Ctes,
    ) -> Block:
        tree = self._matching([o.renamed(self.taken) for o in options], scope, names, on, ctes)
        exists: exp.Expression = exp.Exists(this=tree)
        return Block(block.items, [*block.preds, exp.Not(this=exists) if anti else exists])

    def _matching(
        self, options: list[Block], scope: Scope, names: Names, on: exp.Expression | None, ctes: Ctes
    ) -> exp.Query:
        """The rows of an item that meet ON, as a query correlated with `scope`."""
        selects = []
        for option in options:
            values = scope | _scope(names, option)
            matched = [self.subqueries.inline(c, values, ctes, None) for c in conjuncts(on)]
            selects.append(select_of(Block(option.items, option.preds + matched)))
        return union_of(selects)

    def _unmatched(
        self,
        blocks: list[Block],
        scopes: list[Scope],
        names: Names,
        options: list[Block],
        on: exp.Expression | None,
        ctes: Ctes,
    ) -> tuple[list[Block], list[Scope]]:
        """The second half of a FULL JOIN.

        Rows of the right side without a partner, the left side padded with typed NULLs.
        """
        columns = list(scopes[0])
        lefts = [
            b.with_outs((f"c{i}", s[c]) for i, c in enumerate(columns)) for b, s in zip(blocks, scopes, strict=True)
        ]
        types = [c.type for c in self.units.types(lefts)]
        nulls: Scope = {c: exp.cast(exp.null(), t, dialect="spark") for c, t in zip(columns, types, strict=True)}
        result, known = [], []
        for option in options:
            right = option.renamed(self.taken)
            values = _scope(names, right)
            selects = []
            for left in lefts:
                mine = left.renamed(self.taken)
                scope = dict(zip(columns, (e for _, e in mine.outs), strict=True)) | values
                matched = [self.subqueries.inline(c, scope, ctes, None) for c in conjuncts(on)]
                selects.append(select_of(Block(mine.items, mine.preds + matched)))
            missing = exp.Not(this=exp.Exists(this=union_of(selects)))
            result.append(Block(right.items, [*right.preds, missing]))
            known.append(nulls | values)
        return result, known

    def _lateral(
        self,
        blocks: list[Block],
        scopes: list[Scope],
        node: exp.Lateral,
        kind: str,
        on: exp.Expression | None,
        ctes: Ctes,
        outer: Scope | None,
    ) -> tuple[list[Block], list[Scope]]:
        if kind not in ("CROSS", "LEFT"):
            raise UnsupportedError("clause", f"{kind} JOIN LATERAL")
        alias = node.alias.lower()
        names = [c.name for c in node.args["alias"].args.get("columns") or []] if node.args.get("alias") else []
        result, known = [], []
        for block, scope in zip(blocks, scopes, strict=True):
            values = (outer or {}) | scope
            name = fresh(alias or "t", self.taken)
            if isinstance(node.this, exp.Subquery):
                inner = self.subqueries.correlated(node.this.this, values, ctes)
                columns = names or [e.alias_or_name for e in inner.selects]
                this = exp.Lateral(this=exp.Subquery(this=inner), alias=table_alias(name, names))
            else:
                function = substituted(node.this, values)
                columns = names or self.units.generated_names(block, function)
                this = exp.Lateral(
                    this=_outer_variant(function) if node.args.get("outer") else function,
                    alias=table_alias(name, columns),
                )
            values_ = scope | {(alias, c.lower()): leaf_column(name, c) for c in columns}
            join = (
                exp.Join(this=this, side="LEFT", on=exp.true()) if kind == "LEFT" else exp.Join(this=this, kind="CROSS")
            )
            if kind == "LEFT" and on is not None:
                join.set("on", substituted(on, values_))
            added = Block([*block.items, join], block.preds)
            result.append(self.filtered(added, values_, on, ctes, outer) if kind == "CROSS" else added)
            known.append(values_)
        return result, known

    def item(self, node: exp.Expression, ctes: Ctes, outer: Scope | None = None) -> tuple[Names, list[Block]]:
        """A FROM item: how its columns are called, and its alternatives."""
        if node.args.get("joins") or (
            isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias
        ):
            return self._nested_joins(node, ctes, outer)
        alias, options = self._single(node, ctes, outer)
        return [(alias, n.lower()) for n, _ in options[0].outs], options

    def _single(self, node: exp.Expression, ctes: Ctes, outer: Scope | None = None) -> tuple[str, list[Block]]:
        if node.args.get("sample"):
            raise UnsupportedError("nondeterministic", "TABLESAMPLE")
        alias = node.alias_or_name.lower()
        pivots = node.args.get("pivots") or []
        if pivots:
            bare = node.copy()
            bare.set("pivots", None)
            _, options = self._single(bare, ctes)
            for pivot in pivots:
                query, bound = pivoted(pivot, [n for n, _ in options[0].outs])
                options = self.query(query, ctes | {bound: options})
                alias = pivot.alias.lower() or alias
            return alias, options
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Func):
                return self._table_function(node)
            if len(node.parts) == 1 and node.name.lower() in ctes:
                return alias, with_names(ctes[node.name.lower()], node)
            relation = self.units.relations.get(".".join(p.name for p in node.parts).lower())
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
                return alias, with_names(self.item(node.this, ctes)[1], node)
            if outer is not None and is_correlated(node):
                return alias, with_names([self._correlated_item(node, ctes, outer)], node)
            return alias, self._apart(self.query(node, ctes))
        if isinstance(node, exp.Values):
            return self._values(node)
        raise UnsupportedError("clause", f"{type(node).__name__} in FROM")

    def _correlated_item(self, node: exp.Subquery, ctes: Ctes, outer: Scope) -> Block:
        """A derived table of a correlated subquery that reads the outer columns itself."""
        inner = self.subqueries.correlated(node.this, outer, ctes)
        name = fresh(node.alias.lower() or "d", self.taken)
        derived = exp.Subquery(this=inner, alias=table_alias(name))
        return Block(
            [exp.Join(this=derived, kind="CROSS")],
            [],
            [(e.alias_or_name, leaf_column(name, e.alias_or_name)) for e in inner.selects],
        )

    def _apart(self, blocks: list[Block]) -> list[Block]:
        nested = self.apart and any(e.find(exp.Query) for b in blocks for _, e in b.outs)
        return self.units.stored(blocks, self.taken) if nested else blocks

    def _table_function(self, node: exp.Table) -> tuple[str, list[Block]]:
        """range(5) and the like: a FROM item of constants."""
        name = fresh(node.alias.lower() or "f", self.taken)
        listed = node.args.get("alias")
        names = [c.name for c in listed.args.get("columns") or []] if listed is not None else []
        bare = exp.Table(this=node.this.copy())
        names = names or [c.name for c in self.analyzer.schema(f"SELECT * FROM {bare.sql(dialect='spark')}")]
        lateral = exp.Lateral(this=node.this.copy(), alias=table_alias(name, names))
        return node.alias.lower(), [
            Block([exp.Join(this=lateral, kind="CROSS")], [], [(n, leaf_column(name, n)) for n in names])
        ]

    def _nested_joins(self, node: exp.Expression, ctes: Ctes, outer: Scope | None) -> tuple[Names, list[Block]]:
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
        blocks, scopes = self.sources(exp.Select(from_=exp.From(this=first), joins=joins), ctes, outer)
        names = list(scopes[0])
        return names, [b.with_outs((n[1], s[n]) for n in names) for b, s in zip(blocks, scopes, strict=True)]

    def _values(self, node: exp.Values) -> tuple[str, list[Block]]:
        name = fresh(node.alias.lower() or "v", self.taken)
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

    # -- expressions -----------------------------------------------------------------------------

    def filtered(
        self, block: Block, scope: Scope, condition: exp.Expression | None, ctes: Ctes, outer: Scope | None = None
    ) -> Block:
        """The block with a condition's conjuncts added; subqueries may add items."""
        result = Block(list(block.items), list(block.preds), block.outs)
        values = (outer or {}) | scope
        for part in conjuncts(condition):
            result.preds.append(self.subqueries.predicate(part, values, ctes, result))
        return result

    def _generators(
        self, selected: list[tuple[str, exp.Expression]], blocks: list[Block], scopes: list[Scope], ctes: Ctes
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
                columns = self.units.generated_names(blocks[0], substituted(function, scopes[0]))
            alias = f"__ivm_generated_{len(result)}"
            lateral = exp.Lateral(this=function, alias=table_alias(alias, columns))
            blocks, scopes = self._lateral(blocks, scopes, lateral, "CROSS", None, ctes, None)
            result += [(c, leaf_column(alias, c)) for c in columns]
        return result, blocks, scopes


def _outer_variant(function: exp.Expression) -> exp.Expression:
    name = function_name(function).removesuffix("_outer")
    if name not in ("explode", "posexplode", "inline"):
        raise UnsupportedError("clause", f"LATERAL VIEW OUTER {function.sql(dialect='spark')}")
    return exp.Anonymous(this=f"{name}_outer", expressions=[a.copy() for a in function.expressions])


def _scope(names: Names, block: Block) -> Scope:
    return {name: e for name, (_, e) in zip(names, block.outs, strict=True)}


def with_names(blocks: list[Block], node: exp.Expression) -> list[Block]:
    """Apply a column alias list: `t(a, b)`."""
    alias = node.args.get("alias")
    names = [c.name for c in alias.args.get("columns") or []] if alias is not None else []
    if not names:
        return blocks
    return [b.with_outs((n, e) for n, (_, e) in zip(names, b.outs, strict=True)) for b in blocks]
