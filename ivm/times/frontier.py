"""Frontiers: antichains of times, and how a time looks to readers that are at or beyond one.

    frontier <= t      iff  some f in frontier has f <= t
    advanced(t, F)     =    meet over f in F of join(t, f)

Advancing keeps what any reader beyond F can tell: for r with F <= r, t <= r iff advanced(t, F) <= r.
Source: Abadi, McSherry, Plotkin, "Foundations of differential dataflow", 2015 (compaction).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce

from ivm.times.lattice import Time, checked, join, less_equal, meet


@dataclass(frozen=True)
class Frontier:
    """The minimal elements of a set of times; the empty frontier is beyond all times."""

    times: tuple[Time, ...]

    @classmethod
    def of(cls, *times: Time) -> Frontier:
        """The antichain of the minimal ones.

        >>> Frontier.of((1, 3), (2, 2), (2, 4)).times
        ((1, 3), (2, 2))
        """
        kept: list[Time] = []
        for time in sorted(map(checked, times)):  # type: ignore[type-var]
            if not any(less_equal(k, time) for k in kept):
                kept.append(time)
        return cls(tuple(kept))

    def __iter__(self) -> Iterator[Time]:
        return iter(self.times)

    def reached_by(self, time: Time) -> bool:
        """Whether a time is at or beyond the frontier.

        >>> Frontier.of((1, 3), (2, 2)).reached_by((2, 1))
        False
        """
        return any(less_equal(f, time) for f in self.times)

    def beyond(self, other: Frontier) -> bool:
        """Whether every time of this frontier is at or beyond the other."""
        return all(other.reached_by(t) for t in self.times)


def advanced(time: Time, frontier: Frontier) -> Time | None:
    """The least time that readers at or beyond the frontier can't tell from `time`; None if there are no such readers.

    >>> advanced((0, 5), Frontier.of((1, 3))), advanced((0, 0), Frontier.of((1, 3), (2, 2)))
    ((1, 5), (1, 2))
    """
    return reduce(meet, (join(time, f) for f in frontier)) if frontier.times else None


def compacted(
    updates: Iterable[tuple[tuple[object, ...], Time, int]], frontier: Frontier
) -> list[tuple[tuple[object, ...], Time, int]]:
    """Updates (data, time, diff) with their times advanced and equal ones added up.

    >>> compacted([(("a",), 1, 1), (("a",), 3, -1), (("b",), 2, 1)], Frontier.of(3))
    [(('b',), 3, 1)]
    """
    sums: dict[tuple[tuple[object, ...], Time], int] = {}
    for data, time, diff in updates:
        at = advanced(time, frontier)
        if at is not None:
            sums[data, at] = sums.get((data, at), 0) + diff
    return [(data, at, diff) for (data, at), diff in sums.items() if diff]
