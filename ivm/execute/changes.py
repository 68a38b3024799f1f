"""What a handler is given and what it makes.

    handler(strategy, datasets, run) -> Changes

`datasets` hold what the strategy asked for, `run` collects a statement's rows. Nothing is written but scratch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

#: Collects a statement's rows. Raises TooLargeError for more than a driver may hold.
Run = Callable[[str], pa.Table]


@dataclass(frozen=True)
class Changes:
    """The unit's consolidated output delta, and what its accumulators gain.

    The delta has the unit's columns by position, and WEIGHT; the gain is (keys, accumulators, COUNT).
    """

    rows: pa.Table
    accumulators: pa.Table | None = None


class StoredRowsLackingError(Exception):
    """A LIMIT can't be answered from its stored rows: a row that was cut off may come up."""
