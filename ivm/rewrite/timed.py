r"""The companion of a view over sources with effective dates: its core with the day from which each row holds (pure).

    time of a core row  =  join of the times of the rows it was made of
                        =  (latest of their days, the epoch that made it)

A trace of the companion by epoch is a collection over the product times (day, revision), and the view as of (d, r) is
its reduce over what has come up to there. For a linear reduce the companion keeps sums by group and day (the cheap
decomposition: sums of sums), for any other the core's rows. Source of the times: Murray et al., "Naiad", SOSP 2013, and
McSherry, "What I'm stuck on", 2017-03-22.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ivm.names import RESERVED_PREFIX, ident
from ivm.plan.nodes import Branch, Column, Core, Expr, Leaf, Output, Post, Program, Reduce, Relation, Text, Unit

#: The companion's column of the day, a date: NULL where a row holds on no day.
DAY = f"{RESERVED_PREFIX}_day"
_GROUP = f"{RESERVED_PREFIX}_group"
#: For rows that were made of no row with a date.
_ALWAYS = "DATE '0001-01-01'"


def companion_name(view: str) -> str:
    return f"{view}__by_day"


def with_companion(program: Program, relations: Mapping[str, Relation]) -> Program:
    """The program with a companion before its unit.

    It is as it was where there is no date, or where time is no part of a product.
    That is so for programs of several units, for rows read inside outer joins and subqueries, and for temporal filters:
    when these hold is not a matter of one row's day.

    >>> day = Relation("d", "source", (Column("x", "int"), Column("day", "date")), effective="day")
    >>> x = Output("x", Expr(Text.of("`d`.`x`"), frozenset({("d", "x")}), ("d", "x")), "int")
    >>> unit = Unit("v", Core((Branch((Leaf("d", "d", ("x",)),), (), (x,)),)), None, None, (Column("x", "int"),))
    >>> made = with_companion(Program("v", unit.columns, ("d",), (unit,)), {"d": day})
    >>> [(u.name, [c.name for c in u.columns]) for u in made.units]
    [('v__by_day', ['x', '__ivm_day']), ('v', ['x'])]
    """
    if len(program.units) != 1 or program.units[0].fixpoint or program.clocks:
        return program
    (unit,) = program.units
    timed = tuple(b for b in (_timed(b, relations) for b in unit.core.branches) if b)
    if len(timed) < len(unit.core.branches) or not any(_dated(leaf, relations) for b in timed for leaf in b.leaves):
        return program
    core = Core(timed)
    day = Column(DAY, "date")
    name = companion_name(unit.name)
    if unit.reduce is None or not unit.reduce.linear:
        companion = Unit(name, core, None, None, (*unit.core.typed, day))
    else:
        keys = (*unit.reduce.keys, day)
        outputs = tuple(
            Output(
                k.name,
                Expr(Text.of(f"{ident(_GROUP)}.{ident(k.name)}"), frozenset({(_GROUP, k.name)}), (_GROUP, k.name)),
            )
            for k in keys
        )
        reduce = Reduce(keys, unit.reduce.calls)
        companion = Unit(
            name, core, reduce, Post(_GROUP, (), outputs), keys, tuple(k.name for k in keys), arranged=False
        )
    return replace(program, units=(companion, unit))


def _dated(leaf: Leaf, relations: Mapping[str, Relation]) -> bool:
    return bool(relations[leaf.relation].effective)


def _timed(branch: Branch, relations: Mapping[str, Relation]) -> Branch | None:
    """The branch with its rows' day as an output."""
    if branch.dependents or any(
        relations[leaf.relation].kind == "view" and _dated(leaf, relations) for leaf in branch.leaves
    ):
        return None
    days, reads, leaves = [], set(), []
    for leaf in branch.leaves:
        column = relations[leaf.relation].effective
        if column:
            days.append(f"CAST({ident(leaf.alias)}.{ident(column)} AS date)")
            reads.add((leaf.alias, column))
        leaves.append(replace(leaf, columns=leaf.columns if column in (*leaf.columns, "") else (*leaf.columns, column)))
    sql = days[0] if days else _ALWAYS
    if len(days) > 1:
        unknown = " OR ".join(f"{d} IS NULL" for d in days)
        sql = f"CASE WHEN {unknown} THEN NULL ELSE GREATEST({', '.join(days)}) END"
    return replace(
        branch,
        leaves=tuple(leaves),
        outputs=(*branch.outputs, Output(DAY, Expr(Text.of(sql), frozenset(reads)), "date")),
    )
