"""What a handler is given and what it makes.

    handler(strategy, datasets, run) -> Changes

`datasets` hold what the strategy asked for, `run` gives a statement's rows. Nothing is written but scratch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ivm.engine.rows import Rows, StagedRows
from ivm.plan.nodes import Column


class Run(Protocol):
    """Runs statements. What it stages under a batch's columns is stamped with the epoch, as a trace holds it."""

    def rows(self, sql: str, batch: Sequence[Column] | None = None) -> Rows:
        """A statement's rows, staged where there are too many for this process."""

    def stage(self, sql: str, batch: Sequence[Column] | None = None) -> StagedRows:
        """The same, staged however few they are."""

    def collected(self, sql: str) -> pa.Table:
        """The rows of a statement that gives few, whatever it reads."""


@dataclass(frozen=True)
class Changes:
    """The unit's consolidated output delta, and what its accumulators gain.

    The delta has the unit's columns by position, and WEIGHT; the gain is (keys, accumulators, COUNT).
    """

    rows: Rows
    accumulators: Rows | None = None


class StoredRowsLackingError(Exception):
    """A LIMIT can't be answered from its stored rows: a row that was cut off may come up."""


class LargeRecursionError(Exception):
    """An iteration of a recursion has more rows than this process may hold."""
