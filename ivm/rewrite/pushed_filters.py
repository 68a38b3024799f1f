"""Rows that no reader of a unit asks for are not kept: filters that all readers have become the unit's own (pure).

    SELECT ... WHERE k IN (SELECT k FROM (SELECT k, sum(v) AS s FROM t GROUP BY k) WHERE s > 300)

Of the groups those above 300 are stored, looked up and read as changes, whatever becomes of the others. The reduce is
the same, and so are its accumulators. This is predicate pushdown, up to the reduce and not through it.
"""

from __future__ import annotations

from dataclasses import replace

from ivm.plan.kinds import ReduceKind
from ivm.plan.nodes import Expr, Filter, Post, Program, Text, Unit
from ivm.sql.filters import PATTERNS, filter_sql

#: Of first rows all are kept: the next ones are found among them and the delta.
_KINDS = (ReduceKind.GROUP, ReduceKind.WINDOW)


def with_pushed_filters(program: Program) -> Program:
    """The program whose units inside have the filters that all their readers have.

    >>> from ivm.plan.nodes import Branch, Call, Column, Core, Leaf, Output, Reduce
    >>> def plain(alias, name):
    ...     at = (alias, name)
    ...     return Output(name, Expr(Text.of(f"`{alias}`.`{name}`"), frozenset({at}), at), "bigint")
    >>> n = (Column("n", "bigint"),)
    >>> rows = Core((Branch((Leaf("t", "t", ()),), (), ()),))
    >>> counted = Reduce((), (Call("n", "COUNT(*)", "count"),))
    >>> counts = Unit("v__1", rows, counted, Post("g", (), (plain("g", "n"),)), n)
    >>> leaf = Leaf("u", "v__1", ("n",), filters=(Filter("n", ">", ("3",)),))
    >>> view = Unit("v", Core((Branch((leaf,), (), (plain("u", "n"),)),)), None, None, n)
    >>> [p.sql for p in with_pushed_filters(Program("v", n, ("t",), (counts, view))).units[0].post.predicates]
    ['`g`.`n` > 3']
    """
    units = program.units
    return replace(program, units=tuple(_kept(u, units) for u in units))


def _kept(unit: Unit, units: tuple[Unit, ...]) -> Unit:
    """The unit with what all its readers ask of its rows; the view is read from outside."""
    if unit is units[-1] or unit.reduce is None or unit.post is None or unit.reduce.kind not in _KINDS:
        return unit
    outputs = {o.name: o for o in unit.post.outputs}
    predicates = list(unit.post.predicates)
    for found in _common(unit, units):
        at, type_ = outputs[found.column].expr.plain, next(c.type for c in unit.columns if c.name == found.column)
        if at is not None and found.op not in PATTERNS:
            predicates.append(Expr(Text.of(filter_sql(found, type_, *at)), frozenset({at})))
    return replace(unit, post=Post(unit.post.alias, tuple(predicates), unit.post.outputs))


def _common(unit: Unit, units: tuple[Unit, ...]) -> list[Filter]:
    """The filters that every leaf has which reads it."""
    leaves = [leaf for u in units for b in u.core.branches for leaf in b.leaves if leaf.relation == unit.name]
    return [f for f in leaves[0].filters if all(f in leaf.filters for leaf in leaves)] if leaves else []
