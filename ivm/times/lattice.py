"""Times as a lattice: an int (totally ordered), or a tuple of ints, compared component by component.

    a <= b      iff  a[i] <= b[i] for all i
    join(a, b)  the least time at or after both;   meet(a, b)  the greatest at or before both

(effective day, revision) and (epoch, iteration) are such products: (1, 3) and (2, 2) are not ordered, and what happened
at both is first seen together at (2, 3). Source of the closure: McSherry, "What I'm stuck on", 2017-03-22; its
quadratic search is replaced for two dimensions by a sweep that is linear in the times that come out, up to sorting.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable

Time = int | tuple[int, ...]


class TimeTypeError(TypeError):
    """A value was given as a time that is none."""


def checked(time: object) -> Time:
    """The time itself. Raises TimeTypeError naming any other type.

    >>> checked("monday")
    Traceback (most recent call last):
    ivm.times.lattice.TimeTypeError: a time is an int or a tuple of ints, not str ('monday')
    """
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    if isinstance(time, tuple) and time and all(isinstance(t, int) and not isinstance(t, bool) for t in time):
        return time
    raise TimeTypeError(f"a time is an int or a tuple of ints, not {type(time).__name__} ({time!r})")


def _parts(a: Time, b: Time) -> tuple[tuple[int, ...], tuple[int, ...]]:
    one, two = (a,) if isinstance(a, int) else a, (b,) if isinstance(b, int) else b
    if len(one) != len(two) or isinstance(a, int) != isinstance(b, int):
        raise TimeTypeError(f"times of different orders can't be compared: {a!r} and {b!r}")
    return one, two


def less_equal(a: Time, b: Time) -> bool:
    """Whether b is at or after a.

    >>> less_equal((1, 3), (2, 3)), less_equal((1, 3), (2, 2))
    (True, False)
    """
    one, two = _parts(a, b)
    return all(x <= y for x, y in zip(one, two, strict=True))


def join(a: Time, b: Time) -> Time:
    """The least upper bound.

    >>> join((1, 3), (2, 2)), join(4, 7)
    ((2, 3), 7)
    """
    one, two = _parts(a, b)
    found = tuple(max(x, y) for x, y in zip(one, two, strict=True))
    return found[0] if isinstance(a, int) else found


def meet(a: Time, b: Time) -> Time:
    """The greatest lower bound.

    >>> meet((1, 3), (2, 2))
    (1, 2)
    """
    one, two = _parts(a, b)
    found = tuple(min(x, y) for x, y in zip(one, two, strict=True))
    return found[0] if isinstance(a, int) else found


def closure(times: Iterable[Time]) -> list[Time]:
    """All joins of subsets of `times`, sorted: the only times at which a function of their accumulation can change.

    >>> closure([(1, 3), (2, 2)])
    [(1, 3), (2, 2), (2, 3)]
    """
    known = set(times)
    if not known:
        return []
    dimensions = {len(t) if isinstance(t, tuple) else 0 for t in known}
    if len(dimensions) > 1:
        raise TimeTypeError(f"times of different orders can't be compared: {sorted(map(repr, known))[:4]}")
    (width,) = dimensions
    if width in (0, 1):
        return sorted(known)  # a total order is closed under join
    return sorted(_closure_of_pairs(known) if width == 2 else _closure_by_search(known))


def _closure_of_pairs(times: Collection[Time]) -> Iterable[Time]:
    """(x, y) is a join iff some time (x, y') has y' <= y and some time (x', y) has x' <= x."""
    lowest_y: dict[int, int] = {}
    lowest_x: dict[int, int] = {}
    for x, y in times:  # type: ignore[misc]
        lowest_y[x] = min(y, lowest_y.get(x, y))
        lowest_x[y] = min(x, lowest_x.get(y, x))
    waiting = sorted((x, y) for y, x in lowest_x.items())
    live: list[int] = []
    at = 0
    for x in sorted(lowest_y):
        while at < len(waiting) and waiting[at][0] <= x:
            bisect.insort(live, waiting[at][1])
            at += 1
        for y in live[bisect.bisect_left(live, lowest_y[x]) :]:
            yield (x, y)


def _closure_by_search(times: Collection[Time]) -> Iterable[Time]:
    found, todo = set(times), list(times)
    while todo:
        time = todo.pop()
        for other in list(found):
            joined = join(time, other)
            if joined not in found:
                found.add(joined)
                todo.append(joined)
    return found
