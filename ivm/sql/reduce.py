"""Units: cut a query where rows must be looked at together, and fuse the last cut with its select list.

    SELECT post(keys, calls) FROM core GROUP BY keys HAVING h   =   post(reduce(core))

Invariant: a unit's core computes the keys and everything a call reads as bare columns, so that a delta of the
core is all that the reduce needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqlglot import exp

from ivm.names import RESERVED_PREFIX, ident
from ivm.plan.anchors import anchor
from ivm.plan.nodes import RANK, Call, Column, Core, Output, Post, Reduce, Relation, Unit
from ivm.sql.analyzer import Analyzer
from ivm.sql.blocks import (
    Block,
    Inline,
    Scope,
    conjuncts,
    fresh,
    leaf_column,
    leaf_item,
    rewritten,
    sql_of,
    substituted,
    table_alias,
)
from ivm.sql.calls import (
    SET,
    accumulated,
    find_calls,
    grouping_calls,
    inner_column,
    key_names,
    over_arguments,
    typed_call,
)
from ivm.sql.freeze import to_branch, to_expr
from ivm.sql.keys import core_key
from ivm.sql.maps import canonical, check_comparable, decoded, encoded, has_map, sort_key
from ivm.sql.render import branch_source, core_sql, reduce_sql, schema_leaf
from ivm.sql.rules import (
    SET_RECURSION,
    TIES,
    TOP,
    by_peers,
    left_to_chance,
    ordered_value,
    settled,
    tie_broken,
    ties_matter,
)
from ivm.sql.support import UnsupportedError

#: The alias under which a post stage sees the reduced rows.
GROUP_ALIAS = f"{RESERVED_PREFIX}_group"
Selected = list[tuple[str, exp.Expression]]


def _plainly(node: exp.Expression, values: Scope, block: Block | None) -> exp.Expression:
    return substituted(node, values)


class Units:
    """The units made so far, and the relations that leaves can read (units included)."""

    def __init__(self, view: str, relations: dict[str, Relation], analyzer: Analyzer) -> None:
        self.view = view
        self.relations = relations
        self.analyzer = analyzer
        self.made: dict[str, Unit] = {}
        self.rules: set[str] = set()
        self._count = 0

    # -- blocks ----------------------------------------------------------------------------------

    def types(self, blocks: list[Block]) -> tuple[Column, ...]:
        """The columns that the blocks' UNION ALL has in Spark, called c0, c1, ..."""
        leaf = schema_leaf(self.relations)
        cores = [
            Core((to_branch(b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs)), self.relations),))
            for b in blocks
        ]
        return self.analyzer.schema("\nUNION ALL\n".join(core_sql(c, leaf) for c in cores))

    def generated_names(self, block: Block, generator: exp.Expression) -> list[str]:
        """The columns that Spark gives a table-generating function over a block's rows."""
        branch = to_branch(block.with_outs([("generated", generator)]), self.relations)
        source = branch_source(branch, schema_leaf(self.relations))
        return [
            c.name for c in self.analyzer.schema(f"SELECT {sql_of(generator)}" + (f" FROM {source}" if source else ""))
        ]

    def aligned(self, blocks: list[Block]) -> list[Block]:
        """Cast the branches of a UNION ALL to its common types, so that any of them may stand alone."""
        if len(blocks) == 1:
            return blocks
        union = self.types(blocks)
        result = []
        for block in blocks:
            own = self.types([block])
            result.append(
                block.with_outs(
                    (n, e if a.type == u.type else exp.cast(e.copy(), u.type, dialect="spark"))
                    for (n, e), a, u in zip(block.outs, own, union, strict=True)
                )
            )
        return result

    def stored(self, blocks: list[Block], taken: set[str]) -> list[Block]:
        """Make a unit of a query; the one block that reads it."""
        names = [n for n, _ in blocks[0].outs]
        blocks = [b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs)) for b in self.aligned(blocks)]
        columns = tuple(Column(f"c{i}", c.type) for i, c in enumerate(self.types(blocks)))
        name = self._name()
        unit = self._fused(name, blocks, columns) or self._linear(name, blocks, columns)
        self._add(unit)
        alias = fresh(name, taken)
        return [Block([leaf_item(alias, name)], [], [(n, leaf_column(alias, f"c{i}")) for i, n in enumerate(names)])]

    def flags(self, blocks: list[Block], taken: set[str]) -> Block:
        """A one-row unit: whether a query has rows, and whether its first column has NULLs.

        It changes only when these do.
        """
        blocks = self.aligned(blocks)
        scopes: list[Scope] = [{("", "__ivm_first"): b.outs[0][1]} for b in blocks]
        every, known = exp.Count(this=exp.Star()), exp.Count(this=inner_column("__ivm_first"))
        selected: Selected = [
            ("not_empty", exp.GT(this=every, expression=exp.Literal.number(0))),
            ("has_null", exp.GT(this=every.copy(), expression=known)),
        ]
        return self.stored(self.grouped(blocks, scopes, [], selected, None, _plainly), taken)[0]

    def is_one_row(self, block: Block) -> bool:
        """Whether a block always has exactly one row: it reads a global aggregate, unfiltered."""
        leaf = block.only_leaf()
        unit = self.made.get(leaf[1]) if leaf else None
        if unit is None or block.preds or unit.reduce is None or unit.post is None:
            return False
        return unit.reduce.kind == "group" and not unit.reduce.keys and not unit.post.predicates

    # -- grouping --------------------------------------------------------------------------------

    def distinct(self, blocks: list[Block]) -> list[Block]:
        """DISTINCT is a grouping by all columns without calls."""
        blocks = self.aligned(blocks)
        names = [n for n, _ in blocks[0].outs]
        scopes: list[Scope] = [{("", f"c{i}"): e for i, (_, e) in enumerate(b.outs)} for b in blocks]
        columns: list[exp.Expression] = [inner_column(f"c{i}") for i in range(len(names))]
        return self.grouped(
            blocks, scopes, columns, list(zip(names, [c.copy() for c in columns], strict=True)), None, _plainly
        )

    def intersection(
        self, left: list[Block], right: list[Block], minus: bool, every: bool, taken: set[str]
    ) -> list[Block]:
        """INTERSECT and EXCEPT by counting each row on both sides.

        With ALL the row comes back as often as the counts say.
        """
        names = [n for n, _ in left[0].outs]
        blocks = self.aligned(left + right)
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
            return self.grouped(blocks, scopes, columns, selected, having, _plainly)
        times: exp.Expression = exp.Sub(this=one, expression=two) if minus else exp.Least(this=one, expressions=[two])
        selected = [*selected, ("__ivm_times", times)]
        having_all = exp.GT(this=times.copy(), expression=zero)
        (block,) = self.grouped(blocks, scopes, columns, selected, having_all, _plainly)
        *outs, (_, count) = block.outs
        alias = fresh("repeated", taken)
        sequence = exp.Anonymous(
            this="EXPLODE",
            expressions=[
                exp.Anonymous(this="SEQUENCE", expressions=[exp.cast(exp.Literal.number(1), "bigint"), count])
            ],
        )
        item = exp.Join(this=exp.Lateral(this=sequence, alias=table_alias(alias, ["i"])), kind="CROSS")
        return [Block([*block.items, item], block.preds, outs)]

    def grouped(
        self,
        blocks: list[Block],
        scopes: list[Scope],
        keys: list[exp.Expression],
        selected: Selected,
        having: exp.Expression | None,
        inline: Inline,
        sets: list[tuple[int, ...]] | None = None,
    ) -> list[Block]:
        """Make a unit of `blocks` GROUP BY `keys`, by each of the grouping `sets` if given.

        Returns the block that reads it.
        Keys, select list and HAVING are in terms of the scopes' names; each block computes them its own way.
        """
        conditions = list(conjuncts(having))
        if sets is not None:
            selected = [(n, grouping_calls(e, keys, sets)) for n, e in selected]
            conditions = [grouping_calls(c, keys, sets) for c in conditions]
        names = key_names(keys)
        calls: dict[str, tuple[str, exp.Expression]] = {}
        for expression in [e for _, e in selected] + conditions:
            for call in find_calls(expression):
                calls.setdefault(sql_of(call), (f"agg_{len(calls) + 1}", call))
        arguments: dict[str, tuple[str, exp.Expression]] = {}
        sums: dict[str, Call] = {}
        others: dict[str, exp.Expression] = {}
        for name, call in calls.values():
            if summed := accumulated(name, call, arguments):
                sums[name] = summed
            else:
                others[name] = over_arguments(call, arguments)
        core_blocks = []
        for b, s in zip(blocks, scopes, strict=True):
            block = Block(list(b.items), list(b.preds))
            block.outs = [(n, inline(k, s, block)) for n, k in zip(names, keys, strict=True)] + [
                (n, inline(a, s, block)) for n, a in arguments.values()
            ]
            core_blocks.append(block)
        if sets is not None:
            core_blocks = self._by_sets(core_blocks, len(keys), sets)
            names = [*names, SET]
            keys = [*keys, inner_column(SET)]
        core, columns = self._core(self.aligned(core_blocks))
        types = {c.name: c.type for c in columns}
        mapped = {n: types[n] for n in names if has_map(types[n])}
        if mapped:
            encoded_blocks = [
                b.with_outs((n, encoded(e, mapped[n]) if n in mapped else e) for n, e in b.outs)
                for b in self.aligned(core_blocks)
            ]
            core, columns = self._core(encoded_blocks)
            types = {c.name: c.type for c in columns}
        valued = self._ordered_types(core, others)
        made = tuple(
            typed_call(sums[n], types) if n in sums else self._settled(n, others[n], valued[n])
            for n, _ in calls.values()
        )
        reduce = Reduce(tuple(Column(n, types[n]) for n in names), made)
        if not reduce.keys and not reduce.calls:
            reduce = Reduce((), (Call("agg_1", "COUNT(*)", "count"),))
        name = self._partitioned(core, reduce)
        by_key = {sql_of(k): n for n, k in zip(names, keys, strict=True)}
        by_call = {k: n for k, (n, _) in calls.items()}

        def key_value(n: str) -> exp.Expression:
            return decoded(leaf_column(name, n), mapped[n]) if n in mapped else leaf_column(name, n)

        outer: Scope = {
            (k.table.lower(), k.name.lower()): key_value(n)
            for n, k in zip(names, keys, strict=True)
            if isinstance(k, exp.Column)
        }

        def over_groups(node: exp.Expression) -> exp.Expression | None:
            text = sql_of(node)
            if text in by_call:
                return leaf_column(name, by_call[text])
            if text in by_key:
                return key_value(by_key[text])
            if isinstance(node, exp.In) and node.args.get("query") is not None:
                return exp.In(this=rewritten(node.this, over_groups), query=node.args["query"].copy())
            return node.copy() if isinstance(node, exp.Query) else None

        reader = Block([leaf_item(name, name)])
        reader.preds = [inline(rewritten(p, over_groups), outer, reader) for p in conditions]
        reader.outs = [(n, inline(rewritten(e, over_groups), outer, reader)) for n, e in selected]
        return [reader]

    def _settled(self, name: str, call: exp.Expression, type_: str) -> Call:
        chosen, rule = settled(call, type_)
        self.rules |= {rule} if rule else set()
        return Call(name, sql_of(chosen))

    def _ordered_types(self, core: Core, calls: Mapping[str, exp.Expression]) -> dict[str, str]:
        """By name of each call over a core's columns the type of its `ordered_value`, or ''."""
        values = {n: v for n, c in calls.items() if (v := ordered_value(c)) is not None}
        probes = ", ".join(f"{sql_of(v)} AS {ident(n)}" for n, v in values.items())
        found = (
            {
                c.name: c.type
                for c in self.analyzer.schema(f"SELECT {probes} FROM ({core_sql(core, schema_leaf(self.relations))})")
            }
            if probes
            else {}
        )
        return {n: found.get(n, "") for n in calls}

    def _by_sets(self, blocks: list[Block], keys: int, sets: list[tuple[int, ...]]) -> list[Block]:
        """Each block once for each grouping set, the keys that aren't in it NULL."""
        types = [c.type for c in self.types(blocks)[:keys]]
        result = []
        for number, members in enumerate(sets):
            for block in blocks:
                outs = [
                    (n, e if i in members or i >= keys else exp.cast(exp.null(), types[i], dialect="spark"))
                    for i, (n, e) in enumerate(block.outs)
                ]
                result.append(block.with_outs([*outs, (SET, exp.Literal.number(number))]))
        return result

    # -- windows and LIMIT -----------------------------------------------------------------------

    def windowed(self, blocks: list[Block], scopes: list[Scope], selected: Selected, inline: Inline) -> list[Block]:
        """Make a unit that evaluates the window functions, partition by partition; return the block that reads it."""
        windows: dict[str, exp.Window] = {}
        for _, e in selected:
            for window in e.find_all(exp.Window):
                windows.setdefault(sql_of(window), window)
        partitions = [
            {sql_of(p.unnest()): p.unnest() for p in w.args.get("partition_by") or []} for w in windows.values()
        ]
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
        core, columns = self._core(self.aligned(core_blocks))
        calls = []
        valued = self._ordered_types(core, {names[text]: body.this for text, body in bodies.items()})
        for text, body in bodies.items():
            assert isinstance(body, exp.Window)
            made: exp.Expression | None = body
            if left_to_chance(body):
                made = by_peers(body, columns, valued[names[text]])
                self.rules.add(TIES)
            elif ties_matter(body):
                made = tie_broken(body, columns)
                self.rules.add(TIES)
            if made is None:
                raise UnsupportedError(
                    "clause", f"{sql_of(body.this)} over a RANGE frame, whose rows may tie (give it a ROWS frame),"
                )
            calls.append(Call(names[text], sql_of(made)))
        types = {c.name: c.type for c in columns}
        name = self._partitioned(core, Reduce(tuple(Column(k, types[k]) for k in keys), tuple(calls), "window"))

        def over_unit(node: exp.Expression) -> exp.Expression | None:
            return (
                leaf_column(name, node.name)
                if isinstance(node, exp.Column) and not node.table and node.name in known
                else None
            )

        known = {*types, *names.values()}
        return [Block([leaf_item(name, name)], [], [(n, rewritten(e, over_unit)) for n, e in outs])]

    def top(self, blocks: list[Block], visible: int, order: list[exp.Ordered], limit: int, offset: int) -> list[Block]:
        """Make a unit of the first rows; columns beyond the `visible` ones only sort."""
        names = [n for n, _ in blocks[0].outs]
        position = {n: f"c{i}" for i, n in reversed(list(enumerate(names)))}
        core, columns = self._core(
            self.aligned([b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs)) for b in blocks])
        )
        keys = []
        for ordered in order:
            ordered.set("this", inner_column(position[ordered.this.name]))
            keys.append(sql_of(ordered))
        ties = [sql_of(sort_key(c)) for c in columns]
        self.rules.add(TOP)
        name = self._partitioned(core, Reduce((), (), "top", ", ".join(dict.fromkeys([*keys, *ties])), limit, offset))
        return [
            Block([leaf_item(name, name)], [], [(n, leaf_column(name, f"c{i}")) for i, n in enumerate(names[:visible])])
        ]

    # -- recursion -------------------------------------------------------------------------------

    def fixpoint(
        self, base: list[Block], step: Callable[[Block], list[Block]], distinct: bool, taken: set[str]
    ) -> list[Block]:
        """Make a unit that reads itself: its rows are those of `base` and of `step` over its rows."""
        names = [n for n, _ in base[0].outs]
        types = [c.type for c in self.types(base)]
        columns = (*(Column(f"c{i}", t) for i, t in enumerate(types)), *([Column(RANK, "int")] if distinct else []))
        name = self._name()
        self.relations[name] = Relation(name, "unit", columns)

        def reader() -> Block:
            alias = fresh(name, taken)
            return Block([leaf_item(alias, name)], [], [(n, leaf_column(alias, f"c{i}")) for i, n in enumerate(names)])

        def ranked(block: Block) -> Block:
            """The block with the rank of its rows, for a set: one more than that of the rows it reads, or zero."""
            if not distinct:
                return block
            own = [
                leaf_column(i.this.alias, RANK)
                for i in block.items
                if isinstance(i.this, exp.Table) and i.this.name == name
            ]
            highest = (
                exp.Greatest(this=own[0], expressions=own[1:])
                if len(own) > 1
                else own[0]
                if own
                else exp.Literal.number(-1)
            )
            return block.with_outs(
                [*block.outs, (RANK, exp.cast(exp.Add(this=highest, expression=exp.Literal.number(1)), "int"))]
            )

        made = set(self.made)
        steps = []
        for block in step(reader()):
            own = self.types([block])
            outs = [
                (f"c{i}", e if o.type == t else exp.cast(e.copy(), t, dialect="spark"))
                for i, ((_, e), o, t) in enumerate(zip(block.outs, own, types, strict=True))
            ]
            steps.append(block.with_outs(outs))
        core, _ = self._core(
            [ranked(b) for b in (*(b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs)) for b in base), *steps)]
        )
        if any(name in u.core.relations for n, u in self.made.items() if n not in made):
            raise UnsupportedError(
                "recursion", "what it has found so far is grouped, sorted or subtracted inside the recursion"
            )
        for branch in core.branches:
            own_leaves = [leaf for leaf in branch.leaves if leaf.relation == name]
            if any(leaf.scope for leaf in own_leaves) or (own_leaves and branch.dependents):
                raise UnsupportedError(
                    "recursion", "a part of it reads the recursion in an outer join or subquery, or beside one"
                )
            if len(own_leaves) > 1 and not distinct:
                raise UnsupportedError(
                    "recursion", "a part of it reads the recursion twice, which UNION ALL is not linear in"
                )
        if distinct:
            if any("<" in t for t in types):
                raise UnsupportedError("recursion", "its rows hold arrays, maps or structs and are meant as a set")
            self.rules.add(SET_RECURSION)
        self._add(Unit(name, core, None, None, columns, fixpoint="distinct" if distinct else "all"))
        return [reader()]

    # -- units -----------------------------------------------------------------------------------

    def _core(self, blocks: list[Block]) -> tuple[Core, tuple[Column, ...]]:
        """The blocks as a core whose rows can be told apart, and its columns."""
        core = Core(tuple(to_branch(b, self.relations) for b in blocks))
        self._check_scalars(core)
        columns = self.analyzer.schema(core_sql(core, schema_leaf(self.relations))) if core.columns else ()
        check_comparable(columns)
        if any(has_map(c.type) for c in columns):
            blocks = [
                b.with_outs((n, canonical(e, c.type)) for (n, e), c in zip(b.outs, columns, strict=True))
                for b in blocks
            ]
            core = Core(tuple(to_branch(b, self.relations) for b in blocks))
        return _with_types(core, columns), columns

    def _name(self) -> str:
        self._count += 1
        return f"{self.view}__{self._count}".lower()

    def _add(self, unit: Unit) -> None:
        self.made[unit.name] = unit
        self.relations[unit.name] = Relation(unit.name, "unit", unit.columns, unit.key)

    def _partitioned(self, core: Core, reduce: Reduce) -> str:
        """Add a unit that keeps a reduce's rows as they are; its name."""
        if not reduce.linear:
            core = self._anchored(core, reduce)
        columns = self.analyzer.schema(reduce_sql(reduce, core_sql(core, schema_leaf(self.relations))))
        key = tuple(k.name for k in reduce.keys) if _is_key(reduce) else ()
        check_comparable(columns)
        made = {c.name for c in reduce.calls}
        outputs = ((c.name, leaf_column(GROUP_ALIAS, c.name), c.type) for c in columns)
        post = Post(
            GROUP_ALIAS, (), tuple(Output(n, to_expr(canonical(e, t) if n in made else e)) for n, e, t in outputs)
        )
        unit = Unit(self._name(), core, reduce, post, columns, key)
        self._add(unit)
        return unit.name

    def _anchored(self, core: Core, reduce: Reduce) -> Core:
        """A core whose affected partitions can be read by their keys.

        Where several leaves make the rows and none has the keys, the rows are stored.
        """
        found = [set(anchor(b, {k.name for k in reduce.keys}, self.relations)[1]) for b in core.branches]
        if set.intersection(*found) or sum(len(b.leaves) for b in core.branches) <= 1:
            return core
        columns = self.analyzer.schema(core_sql(core, schema_leaf(self.relations)))
        unit = Unit(self._name(), core, None, None, columns, core_key(core))
        self._add(unit)
        block = Block(
            [leaf_item(unit.name, unit.name)], [], [(c.name, leaf_column(unit.name, c.name)) for c in columns]
        )
        return _with_types(Core((to_branch(block, self.relations),)), columns)

    def _check_scalars(self, core: Core) -> None:
        leaf_sql = schema_leaf(self.relations)
        for branch in core.branches:
            if not branch_source(branch, leaf_sql):
                continue
            expressions = [
                e.sql
                for e in (*branch.predicates, *(o.expr for o in branch.outputs))
                if e.plain is None and not e.text.leaves
            ]
            complaint = self.analyzer.scalar(expressions, branch_source(branch, leaf_sql)) if expressions else None
            if complaint:
                raise UnsupportedError("expression", complaint)

    def finish(self, blocks: list[Block], columns: tuple[Column, ...]) -> tuple[Unit, ...]:
        """Close the program: the last unit is the view, fused with the grouping it reads if it can be."""
        top = self._fused(self.view, blocks, columns) or self._linear(self.view, blocks, columns)
        needed = set(top.core.relations)
        for unit in reversed(list(self.made.values())):
            if unit.name in needed:
                needed |= set(unit.core.relations)
        return (*(u for u in self.made.values() if u.name in needed), top)

    def _linear(self, name: str, blocks: list[Block], columns: tuple[Column, ...]) -> Unit:
        core, _ = self._core(blocks)
        return Unit(name, core, None, None, columns, core_key(core))

    def _fused(self, name: str, blocks: list[Block], columns: tuple[Column, ...]) -> Unit | None:
        leaf = blocks[0].only_leaf() if len(blocks) == 1 else None
        if leaf is None:
            return None
        alias, inner_name = leaf
        inner = self.made.get(inner_name)
        if inner is None or inner.reduce is None or inner.post is None or inner_name in _relations(self.made.values()):
            return None
        if inner.post.predicates or any(o.expr.plain != (GROUP_ALIAS, o.name) for o in inner.post.outputs):
            return None
        scope = {(alias.lower(), c.name.lower()): leaf_column(GROUP_ALIAS, c.name) for c in inner.columns}
        post = Post(
            GROUP_ALIAS,
            tuple(to_expr(substituted(p, scope)) for p in blocks[0].preds),
            tuple(
                Output(n, to_expr(canonical(substituted(e, scope), c.type)))
                for (n, e), c in zip(blocks[0].outs, columns, strict=True)
            ),
        )
        carried = {o.expr.plain[1]: o.name for o in post.outputs if o.expr.plain}
        all_carried = all(k.name in carried for k in inner.reduce.keys)
        if not inner.reduce.linear and not all_carried:
            return None
        check_comparable(columns)
        del self.made[inner_name]
        key = tuple(carried[k.name] for k in inner.reduce.keys) if all_carried and _is_key(inner.reduce) else ()
        return Unit(name, inner.core, inner.reduce, post, columns, key)


def _with_types(core: Core, columns: tuple[Column, ...]) -> Core:
    return Core(
        tuple(
            replace(b, outputs=tuple(replace(o, type=c.type) for o, c in zip(b.outputs, columns, strict=True)))
            for b in core.branches
        )
    )


def _is_key(reduce: Reduce) -> bool:
    """Whether the group keys are a key that tables can be searched by: one row a group, and no nested values."""
    return reduce.kind == "group" and not any("<" in k.type for k in reduce.keys)


def _relations(units: Iterable[Unit]) -> set[str]:
    return {r for u in units for r in u.core.relations}
