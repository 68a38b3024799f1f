r"""What a view's state is, in words of its own: its identity, which outlives the objects of any one compiler (pure).

    definition  =  "2:" + hash(text)        text  =  for each unit what is stored of it, and what its rows are

State built by one definition can be carried on by a program of the same definition. So the text has all that state
depends on: columns and types, keys, accumulators, groups, and the SQL of every core, in order. It has nothing that
only decides how fast a refresh is (edges, filters, bounds), nor how the compiler's objects are called or nested: those
may change with any release.

Invariant: two programs of one text store the same rows from the same sources. Whoever changes how a program is
written here raises `DEFINITION_VERSION`; then the kept programs tell whether an older definition is the same
(`ivm.refresh.definitions`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping

from ivm.names import ident
from ivm.plan.nodes import Branch, Column, Post, Program, Reduce, Relation, Unit
from ivm.rewrite.accumulators import accumulator_columns

#: The version of the text. Version 1 was a hash of the program's JSON, without a version in front.
DEFINITION_VERSION = 2


def definition(program: Program, sql: str, relations: Mapping[str, Relation]) -> str:
    """The identity of a program's state: version and hash of its text."""
    text = definition_text(program, sql, relations)
    return f"{DEFINITION_VERSION}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def version_of(known: str) -> int:
    """The version of a definition that was stored.

    >>> version_of("2:0123456789abcdef"), version_of("0123456789abcdef")
    (2, 1)
    """
    number, colon, _ = known.partition(":")
    return int(number) if colon and number.isdigit() else 1


def definition_text(program: Program, sql: str, relations: Mapping[str, Relation]) -> str:
    """The text of a program; of one without units it is the view's own SQL over the columns that it reads.

    `relations` are those that the view reads. What Spark pads in them decides what is stored.

    >>> from ivm.plan.nodes import Core, Expr, Leaf, Output, Text
    >>> a = Expr(Text.of("`t`.`a`"), frozenset({("t", "a")}), ("t", "a"))
    >>> core = Core((Branch((Leaf("t", "t", ("a",)),), (), (Output("x", a, "int"),)),))
    >>> unit = Unit("v", core, None, None, (Column("x", "int"),))
    >>> print(definition_text(Program("v", unit.columns, ("t",), (unit,)), "SELECT a AS x FROM t", {}))
    unit v
      table `x` int
      branch
        from "`t` AS `t`"
        reads `t` `a`
        row `x` int = "`t`.`a`"
    """
    lines: list[str] = []
    if program.units:
        for unit in program.units:
            lines += [f"unit {unit.name}", *(f"  {line}" for line in _unit(unit))]
    else:
        lines += [f"statement {program.view} {_quoted(sql)}"]
        lines += [f"reads {n} {_columns(r.columns)}" for n, r in sorted(relations.items())]
    lines += [f"function {name} {_quoted(body)}" for name, body in program.functions]
    lines += [f"clock {c.name} {c.type} = {_quoted(c.sql)}" for c in program.clocks]
    lines += [f"padded {n} {_columns(r.padded)}" for n, r in sorted(relations.items()) if r.padded]
    return "\n".join(lines)


def _unit(unit: Unit) -> Iterator[str]:
    yield f"{'table' if unit.arranged else 'stream'} {_columns(unit.columns)}"
    if unit.key:
        yield f"key {_names(unit.key)}"
    if unit.fixpoint:
        yield f"fixpoint {unit.fixpoint}" + (f" least {ident(unit.least)}" if unit.least else "")
    for branch in unit.core.branches:
        yield "branch"
        yield from (f"  {line}" for line in _branch(branch))
    if unit.reduce is not None:
        yield from _reduce(unit.reduce)
    if unit.post is not None:
        yield from _post(unit.post)


def _branch(branch: Branch) -> Iterator[str]:
    relation = {leaf.alias: ident(leaf.relation) for leaf in branch.leaves}
    source = (
        branch.source.filled(relation.__getitem__)
        if branch.source is not None
        else ", ".join(f"{relation[leaf.alias]} AS {ident(leaf.alias)}" for leaf in branch.linear)
    )
    yield f"from {_quoted(source)}"
    # In the order of the relation: what a table held before its columns were reordered isn't carried on.
    yield from (f"reads {ident(leaf.alias)} {_names(leaf.columns)}".rstrip() for leaf in branch.leaves)
    yield from (f"where {_quoted(p.text.filled(relation.__getitem__))}" for p in branch.predicates)
    for output in branch.outputs:
        yield f"row {ident(output.name)} {output.type} = {_quoted(output.expr.text.filled(relation.__getitem__))}"


def _reduce(reduce: Reduce) -> Iterator[str]:
    yield f"{reduce.kind} {_columns(reduce.keys)}".rstrip()
    if reduce.linear:
        yield f"sums {_columns(accumulator_columns(reduce))}"
    yield from (f"call {ident(c.name)} = {_quoted(c.sql)}" for c in reduce.calls)
    if reduce.tail:
        yield f"first {_quoted(reduce.tail)}"


def _post(post: Post) -> Iterator[str]:
    yield f"of {ident(post.alias)}"
    yield from (f"having {_quoted(p.sql)}" for p in post.predicates)
    yield from (f"out {ident(o.name)} = {_quoted(o.expr.sql)}" for o in post.outputs)


def _columns(columns: Iterable[Column]) -> str:
    return ", ".join(f"{ident(c.name)} {c.type}" for c in columns)


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(ident, names))


def _quoted(sql: str) -> str:
    """On one line, whatever the text holds."""
    return json.dumps(sql)
