"""Which epochs' batches of a trace count: closed ranges of epochs, in order; none at all means any.

A batch of an attempt that failed or died is in the trace, and in no range.
"""

from __future__ import annotations

Ranges = tuple[tuple[int, int], ...]


def within(ranges: Ranges, column: str) -> str:
    """The SQL condition that a column's epoch is in one of the ranges; none at all means any.

    >>> within(((1, 3), (5, 5)), "e")
    '(e BETWEEN 1 AND 3 OR e BETWEEN 5 AND 5)'
    """
    return "(" + " OR ".join(f"{column} BETWEEN {int(a)} AND {int(b)}" for a, b in ranges) + ")" if ranges else "true"


def with_epoch(ranges: Ranges, epoch: int, follows: int) -> Ranges:
    """The ranges with one more epoch, whose committed predecessor is `follows`.

    >>> with_epoch(((1, 3),), 4, 3), with_epoch(((1, 2),), 4, 3)
    (((1, 4),), ((1, 2), (4, 4)))
    """
    if not ranges:
        return ((0, epoch),)
    if any(a <= epoch <= b for a, b in ranges):
        return ranges
    if ranges and ranges[-1][1] == follows == epoch - 1:
        return (*ranges[:-1], (ranges[-1][0], epoch))
    return tuple(sorted({*ranges, (epoch, epoch)}))
