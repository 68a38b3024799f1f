"""Of which columns of what it reads each column of a unit, and of a view, is made (pure).

    lineage(unit)[c]  =  the (relation, column) pairs that the expression of c reads, through groupings and calls

Columns that only decide which rows there are (conditions, join keys, groups that are not shown) are not in it.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.plan.nodes import Program, Unit
from ivm.sql.dialect import IvmSpark

#: (relation, column)
Origin = tuple[str, str]


def program_lineage(program: Program) -> dict[str, frozenset[Origin]]:
    """By column of the view its origins in sources and other views, through the program's inner units."""
    found: dict[str, dict[str, frozenset[Origin]]] = {}
    for unit in program.units:  # in dependency order; a recursion's own rows add nothing to what they are made of
        found[unit.name] = {
            column: frozenset[Origin]().union(
                *(found[r].get(c, frozenset()) if r in found else {(r, c)} for r, c in origins if r != unit.name)
            )
            for column, origins in lineage(unit).items()
        }
    return found[program.units[-1].name] if program.units else {}


def lineage(unit: Unit) -> dict[str, frozenset[Origin]]:
    """By column of the unit its origins; of a column that is a constant, or that can't be traced, none."""
    core: dict[str, frozenset[Origin]] = dict.fromkeys(unit.core.columns, frozenset())
    for branch in unit.core.branches:
        relations = {leaf.alias: leaf.relation for leaf in branch.leaves}
        for output in branch.outputs:
            core[output.name] |= {(relations[alias], column) for alias, column in output.expr.reads}
    if unit.reduce is None or unit.post is None:
        return {c.name: core[n] for n, c in zip(unit.core.columns, unit.columns, strict=True)}
    reduced = dict(core)
    for call in unit.reduce.calls:
        reads = [call.argument] if call.argument is not None else _columns(call.sql)
        reduced[call.name] = frozenset[Origin]().union(*(core.get(c, frozenset()) for c in reads))
    return {
        output.name: frozenset[Origin]().union(*(reduced.get(c, frozenset()) for _, c in output.expr.reads))
        for output in unit.post.outputs
    }


def _columns(sql: str) -> list[str]:
    """The columns that a call reads.

    >>> _columns("max(`a`) FILTER (WHERE `b` > 1)")
    ['a', 'b']
    """
    try:
        return sorted({c.name for c in sqlglot.parse_one(sql, read=IvmSpark).find_all(exp.Column)})
    except SqlglotError:
        return []
