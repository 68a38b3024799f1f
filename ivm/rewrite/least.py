"""Recursions of which only the least value is taken: that minimum may be taken at each step (pure).

    R = base + step(R),   then  SELECT k, MIN(v) FROM R GROUP BY k

If v only grows with the v it was derived from (``r.d + e.length``, or `r.label` as it is), and neither k nor a
condition depends on it but for upper bounds, a row of a greater v leads to nothing that the row of the least v doesn't
lead to with less. So R keeps one row a k: shortest paths end without a bound in graphs with cycles, and components hold
one row a node instead of one for each pair of nodes.
Source: "premappability" of MIN in recursive Datalog: Zaniolo, Yang, Interlandi, Das, Shkapsky, Condie, "Fixpoint
semantics and optimization of recursive Datalog programs with aggregates", TPLP 17 (2017).
"""

from __future__ import annotations

from dataclasses import replace

import sqlglot
from sqlglot import exp

from ivm.names import ident
from ivm.plan.nodes import RANK, Branch, Expr, Program, Unit
from ivm.sql.dialect import IvmSpark
from ivm.sql.rules import LEAST

At = tuple[str, str]
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_ORDERED = (*_WHOLE, "date", "timestamp", "timestamp_ntz")


def with_least(program: Program) -> Program:
    """The program in which such recursions keep only the least value."""
    units = tuple(replace(u, least=_least(u, program.units)) if u.fixpoint == "distinct" else u for u in program.units)
    found = any(u.least for u in units)
    return replace(program, units=units, rules=tuple(sorted({*program.rules, LEAST}))) if found else program


def _least(unit: Unit, units: tuple[Unit, ...]) -> str:
    """The column of which only the least value is taken of a recursion and needed inside; "" if there is none."""
    readers = [
        (u, b)
        for u in units
        if u is not unit
        for b in u.core.branches
        for leaf in b.leaves
        if leaf.relation == unit.name
    ]
    if unit is units[-1] or len(readers) != 1:
        return ""
    column = _taken(unit, *readers[0])
    return column if column and all(_grows(b, unit.name, column) for b in unit.core.branches) else ""


def _taken(unit: Unit, reader: Unit, branch: Branch) -> str:
    """The column of which the reader takes nothing but the minimum for each value of all others."""
    reduce = reader.reduce
    plain = {o.name: o.expr.plain[1] for o in branch.outputs if o.expr.plain}
    if (
        reduce is None
        or reduce.kind != "group"
        or len(reader.core.branches) > 1
        or len(branch.leaves) > 1
        or branch.source
        or len(plain) < len(branch.outputs)
    ):
        return ""
    minima = {f"MIN({ident(name)})": column for name, column in plain.items()}
    taken = {minima.get(call.sql, "") for call in reduce.calls}
    keys = {plain[k.name] for k in reduce.keys}
    types = {c.name: c.type for c in unit.columns if c.name != RANK}
    (column,) = taken if len(taken) == 1 else ("",)
    if (
        not keys
        or types.keys() != keys | {column}
        or column in keys
        or not (types[column] in _ORDERED or types[column].startswith("decimal("))
    ):
        return ""
    return column if all(c in keys for p in branch.predicates for _, c in p.reads) else ""


def _grows(branch: Branch, name: str, column: str) -> bool:
    """Whether what a branch derives grows with the column of the recursion's row.

    It must also come of any smaller value.
    """
    own = [leaf.alias for leaf in branch.leaves if leaf.relation == name]
    if not own:
        return True
    at = (own[0], column)
    if len(own) > 1 or branch.source or any(at in (e.left, e.right) for e in branch.edges):
        return False
    outputs = {o.name: o.expr for o in branch.outputs}
    others = [e for n, e in outputs.items() if n != column]
    return (
        _increasing(_tree(outputs[column]), at)
        and all(at not in e.reads for e in others)
        and all(_bounded_above(p, at) for p in branch.predicates)
    )


def _tree(expr: Expr) -> exp.Expression:
    return sqlglot.parse_one(expr.sql, read=IvmSpark)


def _reads(node: exp.Expression, at: At) -> bool:
    return any((c.table, c.name) == at for c in node.find_all(exp.Column))


def _increasing(node: exp.Expression, at: At) -> bool:
    """Whether an expression grows with a column, and is NULL where that is."""
    if isinstance(node, exp.Paren):
        return _increasing(node.this, at)
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        return node.to.sql(dialect="spark").lower() in _WHOLE and _increasing(node.this, at)
    if isinstance(node, exp.Add):
        return any(
            _increasing(a, at) and not _reads(b, at) for a, b in ((node.left, node.right), (node.right, node.left))
        )
    if isinstance(node, exp.Sub):
        return _increasing(node.left, at) and not _reads(node.right, at)
    return isinstance(node, exp.Column) and (node.table, node.name) == at


def _bounded_above(predicate: Expr, at: At) -> bool:
    """Whether a condition that holds for a value holds for any smaller one."""
    if at not in predicate.reads:
        return True
    node = _tree(predicate).unnest()
    if isinstance(node, exp.LT | exp.LTE):
        return _increasing(node.left, at) and not _reads(node.right, at)
    return isinstance(node, exp.GT | exp.GTE) and _increasing(node.right, at) and not _reads(node.left, at)
