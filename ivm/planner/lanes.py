"""Where an epoch's rows are held and how they are published, by their numbers (pure)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from ivm.planner.limits import EMBEDDED, Limits


def stays_with_spark(deltas: Iterable[int], limits: Limits = EMBEDDED) -> bool:
    """Whether a group of units reads by Spark alone from the start, since a delta is too large for this process.

    Slices are not guessed at: estimates are coarse, and to read one up to the limit costs little beside what follows.

    >>> stays_with_spark([10, 20]), stays_with_spark([10, 6_000_000])
    (False, True)
    """
    return any(n > limits.delta_rows for n in deltas)


class Publishing(Enum):
    """How a batch gets into its table."""

    #: Merged by delta-rs, through this process.
    NATIVE = "native"
    #: Merged by Spark.
    MERGE = "merge"
    #: Spark writes all rows of the table anew, whose files take the place of the old ones.
    ANEW = "anew"


def publishing(batch: int, table: int, local: bool, limits: Limits = EMBEDDED, refused: str = "") -> Publishing:
    """How a batch of so many rows gets into a table of so many; `refused` says why delta-rs can't write there.

    Spark's own commits are safe on a folder only; and where a batch touches most files, to write them anew is cheaper
    than to look for its rows first.

    >>> publishing(10, 1_000_000, local=True).value, publishing(2_000_000, 60_000_000, local=True).value
    ('native', 'merge')
    >>> publishing(2_000_000, 3_000_000, local=True).value, publishing(2_000_000, 60_000_000, local=False).value
    ('anew', 'anew')
    >>> publishing(10, 1_000_000, local=True, refused="clustering").value
    'merge'
    """
    if refused:
        return Publishing.MERGE
    if batch <= limits.result_rows:
        return Publishing.NATIVE
    return Publishing.MERGE if local and batch <= limits.anew_share * table else Publishing.ANEW
