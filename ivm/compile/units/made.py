"""The units of one view as they are made, and what every operator needs of them.

Invariant: a unit's core computes the keys and everything a call reads as bare columns, so that a delta of the
core is all that the reduce needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlglot import exp

from ivm.names import RESERVED_PREFIX, ident
from ivm.plan.anchors import anchor
from ivm.plan.kinds import ReduceKind
from ivm.plan.nodes import Column, Core, Output, Post, Reduce, Relation, Unit
from ivm.sql.analyzer import Analyzer
from ivm.sql.blocks import Block, as_type, leaf_column, leaf_item, sql_of
from ivm.sql.freeze import to_branch, to_expr
from ivm.sql.maps import canonical, check_comparable, has_map
from ivm.sql.refusals import UnsupportedError
from ivm.sql.render import branch_source, core_sql, reduce_sql, schema_leaf
from ivm.sql.rules import ordered_value
from ivm.sql.unique_keys import core_key

#: The alias under which a post stage sees the reduced rows.
GROUP_ALIAS = f"{RESERVED_PREFIX}_group"

#: Types that sqlglot writes as Spark names them.
_PLAIN_TYPES = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "string", "date")


class Units:
    """The units made so far, and the relations that leaves can read (units included)."""

    def __init__(self, view: str, relations: dict[str, Relation], analyzer: Analyzer) -> None:
        self.view = view
        self.relations = relations
        self.analyzer = analyzer
        self.made: dict[str, Unit] = {}
        #: Units that are fused with what reads them: needed only where an entry of WITH is read once more.
        self.aside: set[str] = set()
        self.rules: set[str] = set()
        self._count = 0

    def types(self, blocks: list[Block]) -> tuple[Column, ...]:
        """The columns that the blocks' UNION ALL has in Spark, called c0, c1, ...

        The engine is asked only for those whose types the relations don't tell.
        """
        told = [self._told(b) for b in blocks]
        widths = {len(types) for types in told}
        known = [types[0] if len(set(types)) == 1 else "" for types in zip(*told, strict=False)]
        if not known or len(widths) > 1:
            return self._asked(blocks, range(len(blocks[0].outs)))
        asked = iter(self._asked(blocks, unknown) if (unknown := [i for i, t in enumerate(known) if not t]) else ())
        return tuple(Column(f"c{i}", t) if t else next(asked) for i, t in enumerate(known))

    def _asked(self, blocks: list[Block], columns: Collection[int]) -> tuple[Column, ...]:
        leaf = schema_leaf(self.relations)
        parts = [b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs) if i in columns) for b in blocks]
        return self.analyzer.schema(
            "\nUNION ALL\n".join(core_sql(Core((to_branch(b, self.relations),)), leaf) for b in parts)
        )

    def _told(self, block: Block) -> list[str]:
        """The types of a block's outputs that are bare columns or typed NULLs, "" for others."""
        tables = {i.this.alias: self.relations[i.this.name] for i in block.items if isinstance(i.this, exp.Table)}
        return [_type_told(e, tables) for _, e in block.outs]

    def generated_names(self, block: Block, generator: exp.Expression) -> list[str]:
        """The columns that Spark gives a table-generating function over a block's rows."""
        branch = to_branch(block.with_outs([("generated", generator)]), self.relations)
        leaf_sql = schema_leaf(self.relations)
        source = branch_source(branch, leaf_sql)
        call = branch.outputs[0].expr.text.filled(lambda alias: leaf_sql(branch.leaf(alias)))
        return [c.name for c in self.analyzer.schema(f"SELECT {call}" + (f" FROM {source}" if source else ""))]

    def aligned(self, blocks: list[Block]) -> list[Block]:
        """Cast the branches of a UNION ALL to its common types, so that any of them may stand alone.

        Branches of the same types have those in common: only for others the engine is asked what it makes of them all.
        """
        if len(blocks) == 1:
            return blocks
        owns = [self.types([block]) for block in blocks]
        if all(own == owns[0] for own in owns):
            return blocks
        union = self.types(blocks)
        result = []
        for block, own in zip(blocks, owns, strict=True):
            result.append(
                block.with_outs(
                    (n, e if a.type == u.type else as_type(e, u.type))
                    for (n, e), a, u in zip(block.outs, own, union, strict=True)
                )
            )
        return result

    def core(self, blocks: list[Block]) -> tuple[Core, tuple[Column, ...]]:
        """The blocks as a core whose rows can be told apart, and its columns."""
        core = Core(tuple(to_branch(b, self.relations) for b in blocks))
        self._check_scalars(core)
        columns = self.analyzer.schema(core_sql(core, schema_leaf(self.relations))) if core.columns else ()
        if len(columns) != len(core.columns):
            raise UnsupportedError("schema", f"{len(core.columns)} for {len(columns)} in a part of it")
        check_comparable(columns)
        if any(has_map(c.type) for c in columns):
            blocks = [
                b.with_outs((n, canonical(e, c.type)) for (n, e), c in zip(b.outs, columns, strict=True))
                for b in blocks
            ]
            core = Core(tuple(to_branch(b, self.relations) for b in blocks))
        return with_types(core, columns), columns

    def new_name(self) -> str:
        """The name of the next unit inside: the view's and a number."""
        self._count += 1
        return f"{self.view}__{self._count}".lower()

    def add(self, unit: Unit) -> None:
        """Take a unit in; leaves can read it from now on."""
        self.made[unit.name] = unit
        self.relations[unit.name] = Relation(unit.name, "unit", unit.columns, unit.key)

    def partitioned(self, core: Core, reduce: Reduce) -> str:
        """Add a unit that keeps a reduce's rows as they are; its name."""
        if not reduce.linear:
            core = self._anchored(core, reduce)
        columns = self.analyzer.schema(reduce_sql(reduce, core_sql(core, schema_leaf(self.relations))))
        key = tuple(k.name for k in reduce.keys) if is_key(reduce) else ()
        check_comparable(columns)
        made = {c.name for c in reduce.calls}
        outputs = ((c.name, leaf_column(GROUP_ALIAS, c.name), c.type) for c in columns)
        post = Post(
            GROUP_ALIAS, (), tuple(Output(n, to_expr(canonical(e, t) if n in made else e)) for n, e, t in outputs)
        )
        unit = Unit(self.new_name(), core, reduce, post, columns, key)
        self.add(unit)
        return unit.name

    def _anchored(self, core: Core, reduce: Reduce) -> Core:
        """A core whose affected partitions can be read by their keys.

        Where several leaves make the rows and none has the keys, the rows are stored.
        """
        found = [set(anchor(b, {k.name for k in reduce.keys}, self.relations)[1]) for b in core.branches]
        if set.intersection(*found) or sum(len(b.leaves) for b in core.branches) <= 1:
            return core
        columns = self.analyzer.schema(core_sql(core, schema_leaf(self.relations)))
        unit = Unit(self.new_name(), core, None, None, columns, core_key(core))
        self.add(unit)
        block = Block(
            [leaf_item(unit.name, unit.name)], [], [(c.name, leaf_column(unit.name, c.name)) for c in columns]
        )
        return with_types(Core((to_branch(block, self.relations),)), columns)

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

    def ordered_types(self, core: Core, calls: Mapping[str, exp.Expression]) -> dict[str, str]:
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


def _type_told(node: exp.Expression, tables: Mapping[str, Relation]) -> str:
    if isinstance(node, exp.Column) and node.table in tables:
        return tables[node.table].type_of(node.name)
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Null):
        spelled = node.to.sql(dialect="spark").lower()
        return spelled if spelled in _PLAIN_TYPES else ""
    return ""


def with_types(core: Core, columns: tuple[Column, ...]) -> Core:
    """The core with its columns' types."""
    return Core(
        tuple(
            replace(b, outputs=tuple(replace(o, type=c.type) for o, c in zip(b.outputs, columns, strict=True)))
            for b in core.branches
        )
    )


def is_key(reduce: Reduce) -> bool:
    """Whether the group keys are a key that tables can be searched by: one row a group, and no nested values."""
    return reduce.kind is ReduceKind.GROUP and not any("<" in k.type for k in reduce.keys)
