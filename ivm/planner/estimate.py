"""What a refresh is expected to cost, before it runs: rows, bytes, seconds (pure).

    rows     what `ivm.planner.choose` weighs: a full refresh reads its inputs once, an incremental one its delta and
             the rows that it meets
    bytes    rows x the mean width of the inputs' rows in their files
    seconds  a line through what the same strategy took before, by its rows

An estimate decides nothing: what is unknown is None.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ivm.plan.kinds import StrategyKind
from ivm.plan.nodes import Unit
from ivm.planner.learned import Actuals, Past
from ivm.planner.limits import Limits
from ivm.planner.strategy import Full, Incremental, Known, Unchanged, decide
from ivm.rewrite.slices import Facts


@dataclass(frozen=True)
class Reading:
    """A large relation that is read whole, or searched by columns that it isn't kept by, and what would mend that."""

    relation: str
    rows: int
    how: str
    mend: str


@dataclass(frozen=True)
class Estimate:
    """Of a view (or a unit of it): the expected strategy and its reason, the changed rows of what it reads, and the
    rows, bytes and seconds of its refresh.
    """

    strategy: StrategyKind
    code: str
    reason: str
    changed: int | None = None
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    readings: tuple[Reading, ...] = ()


@dataclass(frozen=True)
class Size:
    """Of a relation: rows and bytes of its files, None where nobody knows."""

    rows: int | None
    bytes: int | None = None


def seconds_like(rows: int, actuals: Actuals) -> float | None:
    """The seconds that so many rows would take: by the least squares' line through what was, or their mean.

    >>> seconds_like(3_000, [(1_000, 2.0), (2_000, 3.0)])
    4.0
    >>> seconds_like(500, [(1_000, 2.0), (1_000, 4.0)])
    3.0
    >>> seconds_like(500, []) is None
    True
    """
    if not actuals:
        return None
    n = len(actuals)
    mean_rows, mean_seconds = sum(r for r, _ in actuals) / n, sum(s for _, s in actuals) / n
    spread = sum((r - mean_rows) ** 2 for r, _ in actuals)
    slope = sum((r - mean_rows) * (s - mean_seconds) for r, s in actuals) / spread if spread else 0.0
    slope = max(0.0, slope)
    return round(max(min(s for _, s in actuals) / 2, mean_seconds + slope * (rows - mean_rows)), 3)


def bytes_of(rows: int | None, sizes: Collection[Size]) -> int | None:
    """So many rows of the mean width of these relations.

    >>> bytes_of(10, [Size(100, 1_000), Size(100, 3_000)])
    200
    """
    known = [(s.rows, s.bytes) for s in sizes if s.rows is not None and s.bytes is not None]
    total = sum(r for r, _ in known)
    if rows is None or len(known) < len(sizes):
        return None
    return rows * sum(b for _, b in known) // total if total else 0


def full_estimate(code: str, reason: str, sizes: Collection[Size], actuals: Actuals) -> Estimate:
    """Of a refresh in full, which reads all its inputs once."""
    unknown = any(s.rows is None for s in sizes)
    rows = None if unknown else sum(s.rows or 0 for s in sizes)
    seconds = seconds_like(rows, actuals) if rows is not None else None
    return Estimate(StrategyKind.FULL, code, reason, None, rows, bytes_of(rows, sizes), seconds)


def unit_estimate(
    unit: Unit,
    facts: Mapping[str, Facts],
    deltas: Mapping[str, int],
    stored: int,
    sizes: Mapping[str, Size],
    arranged: Collection[tuple[str, tuple[str, ...]]],
    past: Past,
    strict: bool,
    limits: Limits,
) -> Estimate:
    """Of a unit whose state holds: what `decide` would say of these changed rows, and what it would read.

    The readings are those of an incremental refresh, also where they make a full one cheaper.
    """
    changed = sum(deltas.values())
    known = Known(facts, deltas, stored, strict, limits=limits, past=lambda: past)
    strategy = decide(unit, known)
    by_delta = decide(unit, replace(known, strict=True)) if isinstance(strategy, Full) else strategy
    if isinstance(strategy, Unchanged):
        return Estimate(StrategyKind.UNCHANGED, strategy.code, strategy.reason, changed, 0, 0, 0.0)
    inputs = [sizes[r] for r in unit.reads]
    readings = _readings(unit, by_delta, facts, arranged, limits) if isinstance(by_delta, Incremental) else ()
    if isinstance(strategy, Full):
        estimate = full_estimate(strategy.code, strategy.reason, inputs, past.whole)
        return replace(estimate, changed=changed, readings=readings)
    rows = strategy.choice.cost_incremental
    return Estimate(
        StrategyKind.INCREMENTAL, "incremental", "only what changed is applied", changed, rows,
        bytes_of(rows, inputs), seconds_like(rows, past.incremental), readings,
    )  # fmt: skip


def total(parts: Sequence[Estimate]) -> Estimate:
    """Of a view, from those of its units: full if one is; what one of them lacks the whole lacks."""
    lead = next((p for p in parts if p.strategy == StrategyKind.FULL), None)
    lead = lead or next((p for p in reversed(parts) if p.strategy == StrategyKind.INCREMENTAL), parts[-1])

    def sum_of(values: Sequence[float | None]) -> float | None:
        return None if None in values else sum(v for v in values if v is not None)

    def whole(value: float | None) -> int | None:
        return None if value is None else int(value)

    seconds = sum_of([p.seconds for p in parts])
    return replace(
        lead,
        changed=parts[0].changed,
        rows=whole(sum_of([p.rows for p in parts])),
        bytes=whole(sum_of([p.bytes for p in parts])),
        seconds=None if seconds is None else round(seconds, 3),
        readings=tuple(dict.fromkeys(r for p in parts for r in p.readings)),
    )


def _readings(
    unit: Unit,
    strategy: Incremental,
    facts: Mapping[str, Facts],
    arranged: Collection[tuple[str, tuple[str, ...]]],
    limits: Limits,
) -> tuple[Reading, ...]:
    """What an incremental refresh reads whole, or scans for keys, of relations that are not small."""
    requests = strategy.requests
    whole = [
        Reading(r, facts[r].rows or 0, "read whole", _mend_whole(unit))
        for r in sorted(requests.whole)
        if r in unit.reads and (facts[r].rows or 0) > limits.native_whole_rows
    ]
    searched: dict[tuple[str, tuple[str, ...]], int] = {}
    for (relation, _), matches in requests.matches.items():
        rows = facts[relation].rows or 0
        if relation not in unit.reads or relation in requests.whole or rows <= limits.small_input:
            continue
        for match in matches:
            if not any(r == relation and set(keys) <= set(match.columns) for r, keys in arranged):
                searched[relation, match.columns] = rows
    return (
        *whole,
        *(
            Reading(
                relation,
                rows,
                f"searched by {', '.join(columns)}",
                f"unless it lies in that order: cluster it by {columns[0]}, or ask for an arrangement in the view: "
                f"/*+ ARRANGE({relation}, {', '.join(columns)}) */",
            )
            for (relation, columns), rows in sorted(searched.items())
        ),
    )


def _mend_whole(unit: Unit) -> str:
    if unit.reduce is not None and not unit.reduce.linear and not unit.reduce.keys:
        return "group or partition by a column, so that a change affects a part of the input only"
    return "join it by an equality of columns, so that the rows that a change meets can be found"
