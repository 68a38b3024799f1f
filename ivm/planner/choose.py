"""Incremental or full, by the rows each would read, and by what about as many took before.

A full refresh reads every input once, and costs its fixed overhead, as much as reading `small_input` rows. An
incremental one reads the delta twice over (from the feed, and in its statements), and the rows that the changed ones
meet. As many of these are expected as if all were spread evenly; how many of the expected ones a unit reads, its own
refreshes tell, and before there are any, those of others (`ivm.planner.learned`). A row that an incremental refresh
reads costs, in rows of a full one,

    HERE        in this process
    BY_SPARK    by Spark
    STAGED      for each that is expected, where the delta is too large for this process

Where both inputs and change are small, incremental is kept, because it tells what changed. Where the unit's own
refreshes of about as many rows tell clearly otherwise (`ivm.planner.learned`), they are believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from ivm.plan.kinds import ReduceKind, StrategyKind
from ivm.plan.nodes import Branch, Unit
from ivm.planner.lanes import stays_with_spark
from ivm.planner.learned import Past, better, reached
from ivm.planner.limits import EMBEDDED, Limits

#: A changed row is read from the feed and by a statement.
CHANGED = 2
#: Where a delta is too large for this process, each row that is expected for it costs so many scanned ones: Spark
#: stages delta, keys and slices, and compares them. Measured on TPC-H at SF10 with a tenth of all rows changed: eleven
#: units took 2 to 30 times as long as their full builds by the same count of rows, the median 9.5.
STAGED = 10
#: A row that is read in this process, and by Spark. Measured on TPC-H at SF1 with a tenth of all rows changed, 64 M
#: rows with the delta counted twice: 26 and 49 s, where full refreshes of 172 M took 94 and 78 in the same runs, so
#: 0.75 and 1.7. The choices at five shares were measured with 0.6. Since slices are one partition, the same took 34 s
#: by Spark where full refreshes took 73: 1.2.
HERE, BY_SPARK = 0.6, 1.2
#: Rows that a changed row meets in its window partition, in a recursion's iterations, and between the old and the new
#: value of a bound: nobody knows.
UNKNOWN = 8
#: A relation that is read whole is read in both states.
BOTH_STATES = 2


@dataclass(frozen=True)
class Choice:
    """Costs are rows to read; `weighed` are the incremental ones in rows that a full refresh reads at the same cost."""

    strategy: StrategyKind
    cost_incremental: int
    cost_full: int
    weighed: int
    reason: str = ""


def choose(
    rows: Mapping[str, int | None],
    deltas: Mapping[str, int],
    strict: bool,
    whole: Collection[str] = (),
    met: int = 0,
    limits: Limits = EMBEDDED,
    past: Callable[[], Past] = Past,
    large: str = "",
) -> Choice:
    """Choose for one view.

    `rows` are those of its inputs (None if unknown), `deltas` the changed rows of each; `whole` are the inputs that are
    read whole, and `met` the rows that the changed ones meet; `large` is the relation of which these turned out to be
    too many for this process. `past` is asked only where there is a choice.

    >>> choose({"t": 1_000_000}, {"t": 1_000}, strict=False).strategy.value
    'incremental'
    >>> choose({"t": 1_000_000}, {"t": 400_000}, strict=False).strategy.value
    'incremental'
    >>> choose({"t": 1_000_000}, {"t": 400_000}, strict=False, met=1_400_000).strategy.value
    'full'
    >>> choose({"t": 2_000_000, "u": 10}, {"u": 1}, strict=False, whole=["t"]).strategy.value
    'full'
    >>> choose({"t": 100_000_000}, {"t": 8_000_000}, strict=False).strategy.value
    'full'
    >>> choose({"t": 1_000_000_000}, {"t": 8_000_000}, strict=False).strategy.value
    'incremental'
    >>> choose({"t": 1_000_000}, {"t": 400_000}, False, met=1_400_000, past=lambda: Past(met=0.1)).strategy.value
    'incremental'
    >>> choose({"t": 9_000_000, "u": 9}, {"u": 1}, strict=False, met=6_000_000, large="t").reason
    "the rows of 't' that this change affects are too many for this process, so a full refresh is cheaper"
    """
    full = sum(n or 0 for n in rows.values())
    in_full = full + limits.small_input
    changed = sum(deltas.values())
    read_whole = BOTH_STATES * sum(rows[r] or 0 for r in whole)
    by_delta = CHANGED * changed + met
    staged = bool(large) or stays_with_spark(deltas.values(), limits)
    by_delta_weighed = by_delta * (STAGED if staged else 1)
    incremental, weighed = by_delta + read_whole, by_delta_weighed + read_whole
    small = full < limits.small_input and weighed < in_full
    if strict or any(n is None for n in rows.values()) or small:
        return Choice(StrategyKind.INCREMENTAL, incremental, full, weighed)
    before = past()
    if before.met is not None and not staged:
        read = reached(before.met * met, full)
        # A statement reads both states of what is met; of the delta's rows those come to it that are gone.
        fits = before.here and read + changed // 2 <= limits.embedded_rows
        by_delta_weighed = round((HERE if fits else BY_SPARK) * (CHANGED * changed + read))
        weighed = by_delta_weighed + read_whole
    if learned := better(incremental, full, before, limits):
        strategy, why = learned
        return Choice(strategy, incremental, full, weighed, why)
    if weighed < in_full:
        return Choice(StrategyKind.INCREMENTAL, incremental, full, weighed)
    if by_delta_weighed < in_full:
        why = (
            f"no equality leads from this change to the rows of {', '.join(sorted(whole))} it affects, "
            "so a full refresh is cheaper"
        )
        return Choice(StrategyKind.FULL, incremental, full, weighed, why)
    why = f"{changed:,} of {full:,} input rows changed"
    if large:
        why = f"the rows of {large!r} that this change affects are too many for this process"
    return Choice(StrategyKind.FULL, incremental, full, weighed, f"{why}, so a full refresh is cheaper")


def read_rows(choice: Choice, changed: int, past: Past) -> int:
    """About how many rows an incremental refresh reads beside its delta, as the unit's own ones tell.

    >>> choice = Choice(StrategyKind.INCREMENTAL, 2_000 + 500_000, 1_000_000_000, 502_000)
    >>> read_rows(choice, 1_000, Past()), read_rows(choice, 1_000, Past(met=0.1))
    (499875, 49999)
    """
    met = max(0, choice.cost_incremental - CHANGED * changed)
    return reached((1.0 if past.met is None else past.met) * met, choice.cost_full)


def met_rows(
    unit: Unit,
    rows: Mapping[str, int | None],
    deltas: Mapping[str, int],
    stored: int,
    from_stored: bool,
    moved: Collection[str] = (),
) -> int:
    """The rows that the changed ones meet, if these are spread evenly.

    They meet rows in what a branch joins, and in groups that are computed anew.
    `stored` is how many rows the unit has; `from_stored` says that a LIMIT is answered from these; of the relations
    that `moved` one row has another value.
    """
    known = {r: n or 0 for r, n in rows.items()}
    total = sum(
        _evaluated_again(b, known, deltas) if b.dependents else _joined(b, known, deltas, moved)
        for b in unit.core.branches
    )
    changed = sum(deltas.values())
    if unit.fixpoint:
        return total + UNKNOWN * changed
    if unit.reduce is None or unit.reduce.linear or from_stored:
        return total
    every = sum(known.values())
    anew = every * changed // max(1, stored) if unit.reduce.kind is ReduceKind.GROUP else UNKNOWN * changed
    return total + min(every, anew)


def _joined(branch: Branch, rows: Mapping[str, int], deltas: Mapping[str, int], moved: Collection[str]) -> int:
    """In a product: the rows of each other leaf, of a bound that moved those between its values."""
    bounding = {b.bounding[0] for b in branch.bounds}
    total = 0
    for leaf in branch.leaves:
        between = leaf.alias in bounding and leaf.relation in moved
        for other in (o for o in branch.leaves if o is not leaf):
            there, changed = rows.get(other.relation, 0), deltas.get(leaf.relation, 0)
            each = UNKNOWN if between else max(1, there // max(1, rows.get(leaf.relation, 0)))
            total += min(there, changed * each)
    return total


def _evaluated_again(branch: Branch, rows: Mapping[str, int], deltas: Mapping[str, int]) -> int:
    """With outer joins or subqueries: in both states the affected rows of the product, and all that they read."""
    outer = max([1, *(rows.get(leaf.relation, 0) for leaf in branch.linear)])
    affected = sum(deltas.get(leaf.relation, 0) for leaf in branch.linear)
    affected += sum(
        deltas.get(leaf.relation, 0) * max(1, outer // max(1, rows.get(leaf.relation, 0))) for leaf in branch.dependents
    )
    there = [rows.get(leaf.relation, 0) for leaf in branch.leaves]
    return BOTH_STATES * sum(min(n, min(outer, affected) * max(1, n // outer)) for n in there)


def wide_products(unit: Unit, rows: Mapping[str, int | None], limits: Limits = EMBEDDED) -> list[str]:
    """Warnings for products that no equality holds together: what they join, and how many rows that may be."""
    found = []
    for branch in unit.core.branches:
        sizes = [(part, max(rows.get(branch.leaf(a).relation) or 0 for a in part)) for part in _connected(branch)]
        factors = [(part, n) for part, n in sizes if n > 1]  # one row, as a clock has, multiplies nothing
        product = math.prod(n for _, n in factors) if len(factors) > 1 else 0
        if product > limits.wide_product:
            named = " x ".join(
                f"{'/'.join(branch.leaf(a).relation for a in sorted(part))} ({n:,} rows)" for part, n in factors
            )
            found.append(
                f"the join {named} has no equality of columns and may have {product:,} rows; "
                "each change reads the other side whole"
            )
    return found


def _connected(branch: Branch) -> list[set[str]]:
    """The leaves of scope 0, in the groups that equalities connect."""
    parts = [{leaf.alias} for leaf in branch.linear]
    for edge in branch.edges:
        touched = [p for p in parts if edge.left[0] in p or edge.right[0] in p]
        if edge.scope == 0 and len(touched) == 2:
            parts = [p for p in parts if p not in touched] + [touched[0] | touched[1]]
    return parts
