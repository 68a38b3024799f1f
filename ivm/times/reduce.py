"""Reduce over partially ordered times: the output's changes from the input's, for one key.

    output accumulated up to t  =  logic(input accumulated up to t)          for every time t

The output can change at any join of input times, also where no input changed. New input can change it only at joins in
which a new time takes part; there, in an order that respects <=, the output is set right:

    out[t]  =  logic(sum of input at times <= t)  -  sum of output at times <= t, other than t's own

Source: McSherry, "What I'm stuck on", 2017-03-22 (algorithm), and differential dataflow's reduce.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from ivm.times.lattice import Time, checked, closure, less_equal

In = TypeVar("In", bound=Hashable)
Out = TypeVar("Out", bound=Hashable)
#: An update: what, when, how many times more (or fewer).
Update = tuple[In, Time, int]
#: A function of an accumulated collection (no zero counts), in the same form.
Logic = Callable[[Mapping[In, int]], Mapping[Out, int]]


class NegativeError(ValueError):
    """A collection would hold something less than no times: an input deleted what was not there."""


def accumulated(updates: Iterable[tuple[In, Time, int]], upto: Time) -> dict[In, int]:
    """The collection at a time.

    >>> accumulated([("a", (1, 3), 1), ("b", (2, 2), 1)], (2, 2))
    {'b': 1}
    """
    sums: dict[In, int] = {}
    for value, time, diff in updates:
        if less_equal(time, upto):
            sums[value] = sums.get(value, 0) + diff
    return {v: n for v, n in sums.items() if n}


def interesting(new: Iterable[Time], old: Iterable[Time]) -> list[Time]:
    """The times at which new input may change the output: joins of new and old times in which a new one takes part.

    >>> interesting([(2, 2)], [(1, 3)])
    [(2, 2), (2, 3)]
    """
    added = {checked(t) for t in new}
    if not added:
        return []
    return [t for t in closure(added | set(old)) if any(less_equal(a, t) for a in added)]


def reduced(
    new: Iterable[tuple[In, Time, int]],
    old: Iterable[tuple[In, Time, int]],
    emitted: Iterable[tuple[Out, Time, int]],
    logic: Logic[In, Out],
) -> list[tuple[Out, Time, int]]:
    """The output's updates for new input, given the input and output there were.

    Raises NegativeError naming value and time.

    >>> names = lambda c: {" ".join(sorted(c)): 1} if c else {}
    >>> updates = reduced([("carrot", (1, 3), 1), ("turnip", (2, 2), 1)], [], [], names)
    >>> updates[:2]
    [('carrot', (1, 3), 1), ('turnip', (2, 2), 1)]
    >>> updates[2:]
    [('carrot turnip', (2, 3), 1), ('carrot', (2, 3), -1), ('turnip', (2, 3), -1)]
    """
    added, known = list(new), list(old)
    history = known + added
    output = list(emitted)
    result: list[tuple[Out, Time, int]] = []
    for time in interesting((t for _, t, _ in added), (t for _, t, _ in known)):
        collection = accumulated(history, time)
        for value, count in collection.items():
            if count < 0:
                raise NegativeError(
                    f"{value!r} would occur {count} times at time {time!r}: more was deleted than there was"
                )
        correction = dict(logic(collection))
        for out, count in accumulated(output, time).items():
            correction[out] = correction.get(out, 0) - count
        changes = [(out, time, diff) for out, diff in correction.items() if diff]
        output += changes
        result += changes
    return result
