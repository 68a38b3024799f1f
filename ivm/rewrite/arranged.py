"""Which units keep their rows as a table, and which are streams of deltas only (pure).

A linear reduce takes its old rows from its accumulators (`count_total`), so its own rows are kept only for others: for
the outside, if it is the view itself, or for a reader that looks them up (`count`, whose output is arranged). A reader
that takes nothing but deltas is linear in that one input, and keeps no groups' rows of it.
Source of the distinction: McSherry, "Specializing differential dataflow", 2017-05-06, postscript.
"""

from __future__ import annotations

from dataclasses import replace

from ivm.plan.nodes import Program, Unit


def with_streams(program: Program) -> Program:
    """The program with `arranged` false for each unit whose rows nothing reads."""
    units = program.units
    return replace(program, units=tuple(replace(u, arranged=u is units[-1] or not _stream(u, units)) for u in units))


def _stream(unit: Unit, units: tuple[Unit, ...]) -> bool:
    linear = unit.reduce is not None and unit.reduce.linear
    return linear and all(_deltas_only(reader, unit.name) for reader in units if unit.name in reader.reads)


def _deltas_only(reader: Unit, name: str) -> bool:
    """Whether a reader needs no rows of a relation besides its delta."""
    if reader.fixpoint or (reader.reduce is not None and not reader.reduce.linear):
        return False
    return all(
        len(b.leaves) == 1 and not b.leaves[0].scope
        for b in reader.core.branches
        if any(leaf.relation == name for leaf in b.leaves)
    )
