"""Incremental or full, by the rows each would read.

A full refresh reads every input once. An incremental one reads the delta, and for each delta row the rows it
meets, which is not known before they are read: `FANOUT` stands for them. Where the inputs are small both cost
their fixed overhead and incremental is kept, because it tells what changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: Rows an incremental refresh handles for each delta row, in units of a scanned row (measured on TPC-H: 3 to 12).
FANOUT = 8
#: Below this many input rows a full refresh saves nothing.
SMALL_INPUT = 200_000


@dataclass(frozen=True)
class Choice:
    strategy: str
    cost_incremental: int
    cost_full: int
    reason: str = ""


def choose(rows: Mapping[str, int | None], deltas: Mapping[str, int], strict: bool) -> Choice:
    """Choose for one view: `rows` of its inputs (None if unknown) and `deltas`, the changed rows of each.

    >>> choose({"t": 1_000_000}, {"t": 1_000}, strict=False).strategy
    'incremental'
    >>> choose({"t": 1_000_000}, {"t": 400_000}, strict=False).strategy
    'full'
    """
    full = sum(n or 0 for n in rows.values())
    incremental = FANOUT * sum(deltas.values())
    if strict or any(n is None for n in rows.values()) or full < SMALL_INPUT or incremental < full:
        return Choice("incremental", incremental, full)
    changed = sum(deltas.values())
    return Choice("full", incremental, full, f"{changed:,} of {full:,} input rows changed, so a full refresh is cheaper")
