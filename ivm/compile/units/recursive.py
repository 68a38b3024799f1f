"""WITH RECURSIVE: a unit that reads itself, as a bag or as a set."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ivm.compile.units.made import Units
from ivm.plan.kinds import Recursion
from ivm.plan.nodes import RANK, Column, Relation, Unit
from ivm.sql.blocks import Block, as_type, fresh, leaf_column, leaf_item
from ivm.sql.refusals import UnsupportedError
from ivm.sql.rules import SET_RECURSION


def fixpoint(
    units: Units, base: list[Block], step: Callable[[Block], list[Block]], distinct: bool, taken: set[str]
) -> list[Block]:
    """Make a unit that reads itself: its rows are those of `base` and of `step` over its rows."""
    names = [n for n, _ in base[0].outs]
    types = [c.type for c in units.types(base)]
    columns = (*(Column(f"c{i}", t) for i, t in enumerate(types)), *([Column(RANK, "int")] if distinct else []))
    name = units.new_name()
    units.relations[name] = Relation(name, "unit", columns)

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

    made = set(units.made)
    steps = []
    for block in step(reader()):
        own = units.types([block])
        outs = [
            (f"c{i}", e if o.type == t else as_type(e, t))
            for i, ((_, e), o, t) in enumerate(zip(block.outs, own, types, strict=True))
        ]
        steps.append(block.with_outs(outs))
    bases = [b.with_outs((f"c{i}", e) for i, (_, e) in enumerate(b.outs)) for b in base]
    blocks = [*bases, *steps]
    if distinct:
        blocks = [b.with_outs((n, _one_zero(e, t)) for (n, e), t in zip(b.outs, types, strict=True)) for b in blocks]
    core, _ = units.core([ranked(b) for b in blocks])
    if any(name in u.core.relations for n, u in units.made.items() if n not in made):
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
        units.rules.add(SET_RECURSION)
    units.add(Unit(name, core, None, None, columns, fixpoint=Recursion.SET if distinct else Recursion.BAG))
    return [reader()]


def _one_zero(value: exp.Expression, type_: str) -> exp.Expression:
    """A value of a set's row, with 0.0 for -0.0: to Spark's DISTINCT they are one, and to a lookup of rows two.

    >>> _one_zero(exp.column("x"), "int").sql(), _one_zero(exp.column("x"), "double").sql("spark")
    ('x', 'CASE WHEN (x) = CAST(0 AS DOUBLE) THEN CAST(0 AS DOUBLE) ELSE x END')
    """
    if type_ not in ("float", "double"):
        return value
    zero = as_type(exp.Literal.number(0), type_)
    same = exp.EQ(this=exp.Paren(this=value.copy()), expression=zero)
    return exp.Case(ifs=[exp.If(this=same, true=zero.copy())], default=value)
