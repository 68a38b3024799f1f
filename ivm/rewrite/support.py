"""Support of a recursion's rows: which rows of a given set have a derivation (pure).

Each row of a set recursion is kept with a rank: 0 where the base gives it, else one more than the highest of the rows
it was first derived from. A row is well supported by a derivation from rows of lower rank, so rows that support each
other in a cycle can't keep each other alive, and a row that lost one derivation often keeps another.

The candidates join the branch as one more leaf, equal to its outputs: the walk starts at them and asks for nothing
else.
Source: the rank is the iteration of differential dataflow's (epoch, iteration) at which a row first appears (McSherry,
Murray, Isaacs, Isard, "Differential dataflow", CIDR 2013).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ivm.names import RESERVED_PREFIX, ident
from ivm.plan.nodes import RANK, Branch, Edge, Expr, Leaf, Output, Relation, Text, Unit

#: The relation, and the alias, of the rows whose support is asked for.
CANDIDATES = f"{RESERVED_PREFIX}_candidates"
_INTEGERS = ("tinyint", "smallint", "int", "bigint")


def support(branch: Branch, unit: Unit, relations: Mapping[str, Relation], ranked: bool, on: Collection[str]) -> Branch:
    """The rows equal to a candidate in the columns `on` that a branch derives, with their rank.

    If `ranked`, only from rows of lower rank.
    `relations` are those that the branch reads. The candidates have the unit's columns.
    """
    outputs = {o.name: o for o in branch.outputs}
    values = [c for c in unit.columns if c.name in on]

    def candidate(column: str) -> Expr:
        return Expr(
            Text.of(f"{ident(CANDIDATES)}.{ident(column)}"), frozenset({(CANDIDATES, column)}), (CANDIDATES, column)
        )

    edges, predicates = list(branch.edges), list(branch.predicates)
    linear = {leaf.alias: leaf.relation for leaf in branch.linear}
    for column in values:
        made, mine = outputs[column.name].expr, candidate(column.name)
        predicates.append(Expr(Text.of("(") + made.text + Text.of(f") <=> {mine.sql}"), made.reads | mine.reads))
        if made.plain and made.plain[0] in linear:
            type_ = relations[linear[made.plain[0]]].type_of(made.plain[1])
            if type_ == column.type or {type_, column.type} <= set(_INTEGERS):
                edges.append(Edge(made.plain, (CANDIDATES, column.name), nulls=True))
    for own in (leaf for leaf in branch.leaves if leaf.relation == unit.name and ranked):
        rank = candidate(RANK)
        predicates.append(
            Expr(Text.of(f"{ident(own.alias)}.{ident(RANK)} < {rank.sql}"), rank.reads | {(own.alias, RANK)})
        )
    leaf = Leaf(CANDIDATES, CANDIDATES, tuple(c.name for c in unit.columns))
    return replace(
        branch,
        leaves=(*branch.leaves, leaf),
        predicates=tuple(predicates),
        outputs=tuple(Output(n, candidate(n), o.type) if n in on else o for n, o in outputs.items()),
        edges=tuple(edges),
        source=branch.source + Text.of(", ") + Text.leaf(CANDIDATES) + Text.of(f" AS {ident(CANDIDATES)}")
        if branch.source
        else None,
        key=(),
        bounds=(),
    )
