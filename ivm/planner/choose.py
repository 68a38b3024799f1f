"""Incremental or full, by the rows each would read.

A full refresh reads every input once. An incremental one reads the delta, and for each delta row the rows it
meets, which is not known before they are read: `FANOUT` stands for them. Where the inputs are small both cost
their fixed overhead and incremental is kept, because it tells what changed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ivm.plan.nodes import Branch, Unit

#: Rows an incremental refresh handles for each delta row, in units of a scanned row (measured on TPC-H: 3 to 12).
FANOUT = 8
#: The same where a delta row meets no others: filters, projections, sums and counts of one relation.
ALONE = 2
#: A relation that is read whole is read in both states.
BOTH_STATES = 2
#: Below this many input rows a full refresh saves nothing.
SMALL_INPUT = 200_000
#: A product without an equality of more rows than this is built with a warning.
WIDE_PRODUCT = 100_000_000


@dataclass(frozen=True)
class Choice:
    strategy: str
    cost_incremental: int
    cost_full: int
    reason: str = ""


def choose(rows: Mapping[str, int | None], deltas: Mapping[str, int], strict: bool, whole: Collection[str] = (), alone: bool = False) -> Choice:
    """Choose for one view: `rows` of its inputs (None if unknown), `deltas`, the changed rows of each, and which are read `whole`.

    `alone` if its delta is a function of the deltas alone.

    >>> choose({"t": 1_000_000}, {"t": 1_000}, strict=False).strategy
    'incremental'
    >>> choose({"t": 1_000_000}, {"t": 400_000}, strict=False).strategy
    'full'
    >>> choose({"t": 1_000_000}, {"t": 400_000}, strict=False, alone=True).strategy
    'incremental'
    >>> choose({"t": 1_000_000, "u": 10}, {"u": 1}, strict=False, whole=["t"]).strategy
    'full'
    """
    full = sum(n or 0 for n in rows.values())
    fanout = ALONE if alone else FANOUT
    incremental = fanout * sum(deltas.values()) + BOTH_STATES * sum(rows[r] or 0 for r in whole)
    if strict or any(n is None for n in rows.values()) or full < SMALL_INPUT or incremental < full:
        return Choice("incremental", incremental, full)
    changed = sum(deltas.values())
    if fanout * changed < full:
        why = f"no equality leads from this change to the rows of {', '.join(sorted(whole))} it affects, so a full refresh is cheaper"
        return Choice("full", incremental, full, why)
    return Choice("full", incremental, full, f"{changed:,} of {full:,} input rows changed, so a full refresh is cheaper")


def wide_products(unit: Unit, rows: Mapping[str, int | None]) -> list[str]:
    """Warnings for products that no equality holds together: what they join, and how many rows that may be."""
    found = []
    for branch in unit.core.branches:
        parts = _connected(branch)
        sizes = [max(rows.get(branch.leaf(a).relation) or 0 for a in part) for part in parts]
        product = math.prod(sizes) if len(parts) > 1 else 0
        if product > WIDE_PRODUCT:
            named = " x ".join(f"{'/'.join(branch.leaf(a).relation for a in sorted(part))} ({n:,} rows)" for part, n in zip(parts, sizes, strict=True))
            found.append(f"the join {named} has no equality of columns and may have {product:,} rows; each change reads the other side whole")
    return found


def _connected(branch: Branch) -> list[set[str]]:
    """The leaves of scope 0, in the groups that equalities connect."""
    parts = [{leaf.alias} for leaf in branch.linear]
    for edge in branch.edges:
        touched = [p for p in parts if edge.left[0] in p or edge.right[0] in p]
        if edge.scope == 0 and len(touched) == 2:
            parts = [p for p in parts if p not in touched] + [touched[0] | touched[1]]
    return parts
