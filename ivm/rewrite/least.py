"""Recursions of which only the least value is taken: that minimum may be taken at each step (pure).

    R = base + step(R),   then  SELECT k, MIN(v) FROM R GROUP BY k

If v only grows with the v it was derived from (``r.d + e.length``, or `r.label` as it is), and neither k nor a
condition depends on it but for upper bounds, a row of a greater v leads to nothing that the row of the least v doesn't
lead to with less. And a lesser v leads to a lesser one, never to the same: else a row could take its own seed's place,
coming back in a cycle that ends below it, and stay when the seed goes. So R keeps one row a k: shortest paths end
without a bound in graphs with cycles, and components hold one row a node instead of one for each pair of nodes.
Source: "premappability" of MIN in recursive Datalog: Zaniolo, Yang, Interlandi, Das, Shkapsky, Condie, "Recursion
semantics and optimization of recursive Datalog programs with aggregates", TPLP 17 (2017).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sqlglot
from sqlglot import exp

from ivm.names import ident
from ivm.plan.kinds import Recursion, ReduceKind
from ivm.plan.nodes import RANK, Branch, Expr, Program, Relation, Unit
from ivm.sql.dialect import IvmSpark
from ivm.sql.rules import LEAST

At = tuple[str, str]
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_TIMES = ("date", "timestamp", "timestamp_ntz")
#: The types of the columns that a branch reads.
_Types = Mapping[At, str]


def with_least(program: Program, relations: Mapping[str, Relation]) -> Program:
    """The program over these relations in which such recursions keep only the least value.

    >>> from ivm.plan.nodes import Call, Column, Core, Leaf, Output, Post, Reduce, Text
    >>> def out(name, sql, *reads):
    ...     return Output(name, Expr(Text.of(sql), frozenset(reads), reads[0] if sql.count("`") == 4 else None), "int")
    >>> edges = Relation("e", "source", (Column("a", "int"), Column("b", "int")))
    >>> e, r = Leaf("e", "e", ("a", "b")), Leaf("r", "r", ("k", "d", RANK))
    >>> zero, one = out(RANK, "0"), out(RANK, f"`r`.`{RANK}` + 1", ("r", RANK))
    >>> base = Branch((e,), (), (out("k", "`e`.`a`", ("e", "a")), out("d", "0"), zero))
    >>> step = Branch((r, e), (), (out("k", "`e`.`b`", ("e", "b")), out("d", "`r`.`d` + 1", ("r", "d")), one))
    >>> columns = tuple(Column(n, "int") for n in ("k", "d", RANK))
    >>> rows = Unit("r", Core((base, step)), None, None, columns, fixpoint=Recursion.SET)
    >>> core = Core((Branch((r,), (), (out("k", "`r`.`k`", ("r", "k")), out("d", "`r`.`d`", ("r", "d")))),))
    >>> reduce = Reduce(columns[:1], (Call("m", "MIN(`d`)"),))
    >>> view = Unit("v", core, reduce, Post("g", (), (out("k", "`g`.`k`", ("g", "k")),)), columns[:1])
    >>> [u.least for u in with_least(Program("v", columns[:1], ("e",), (rows, view)), {"e": edges}).units]
    ['d', '']
    """
    columns = {name: r.columns for name, r in relations.items()} | {u.name: u.columns for u in program.units}
    types = {name: {c.name: c.type for c in listed} for name, listed in columns.items()}
    units = tuple(
        replace(u, least=_least(u, program.units, types)) if u.fixpoint is Recursion.SET else u for u in program.units
    )
    found = any(u.least for u in units)
    return replace(program, units=units, rules=tuple(sorted({*program.rules, LEAST}))) if found else program


def _least(unit: Unit, units: tuple[Unit, ...], types: Mapping[str, Mapping[str, str]]) -> str:
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
    return column if column and all(_grows(b, unit.name, column, types) for b in unit.core.branches) else ""


def _taken(unit: Unit, reader: Unit, branch: Branch) -> str:
    """The column of which the reader takes nothing but the minimum for each value of all others."""
    reduce = reader.reduce
    plain = {o.name: o.expr.plain[1] for o in branch.outputs if o.expr.plain}
    if (
        reduce is None
        or reduce.kind is not ReduceKind.GROUP
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
        or not (types[column] in (*_WHOLE, *_TIMES) or types[column].startswith("decimal("))
    ):
        return ""
    return column if all(c in keys for p in branch.predicates for _, c in p.reads) else ""


def _grows(branch: Branch, name: str, column: str, types: Mapping[str, Mapping[str, str]]) -> bool:
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
    derived = _tree(outputs[column])
    return (
        _increasing(derived, at)
        and _keeps_apart(derived, at, {(x.alias, c): types[x.relation][c] for x in branch.leaves for c in x.columns})
        and all(at not in e.reads for e in others)
        and all(_bounded_above(p, at) for p in branch.predicates)
    )


def _tree(expr: Expr) -> exp.Expression:
    return sqlglot.parse_one(expr.sql, read=IvmSpark)


def _reads(node: exp.Expression, at: At) -> bool:
    return any((c.table, c.name) == at for c in node.find_all(exp.Column))


def _increasing(node: exp.Expression, at: At) -> bool:
    """Whether an expression grows with a column (or stays, if that is a time), and is NULL where that is.

    No cast does: what it cuts off, or rounds, makes one value of two.
    """
    if isinstance(node, exp.Paren):
        return _increasing(node.this, at)
    if isinstance(node, exp.Add):
        return any(
            _increasing(a, at) and not _reads(b, at) for a, b in ((node.left, node.right), (node.right, node.left))
        )
    if isinstance(node, exp.Sub):
        return _increasing(node.left, at) and not _reads(node.right, at)
    return isinstance(node, exp.Column) and (node.table, node.name) == at


def _keeps_apart(node: exp.Expression, at: At, types: _Types) -> bool:
    """Whether an expression that grows with a column is another value for each of the column's.

    Sums of numbers are exact. A month later the last days of one are a single day, and so are, a day later, the hours
    by which a clock is put forward.
    """
    return types[at] not in _TIMES or isinstance(node.unnest(), exp.Column) or _whole(node, {**types, at: "int"})


def _whole(node: exp.Expression, types: _Types) -> bool:
    """Whether an expression is plainly one of whole numbers."""
    if isinstance(node, exp.Column):
        return types[node.table, node.name] in _WHOLE
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return _whole(node.left, types) and _whole(node.right, types)
    if isinstance(node, exp.Paren | exp.Neg):
        return _whole(node.this, types)
    return isinstance(node, exp.Literal) and node.is_int


def _bounded_above(predicate: Expr, at: At) -> bool:
    """Whether a condition that holds for a value holds for any smaller one."""
    if at not in predicate.reads:
        return True
    node = _tree(predicate).unnest()
    if isinstance(node, exp.LT | exp.LTE):
        return _increasing(node.left, at) and not _reads(node.right, at)
    return isinstance(node, exp.GT | exp.GTE) and _increasing(node.right, at) and not _reads(node.left, at)
