"""Which handler carries out which strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ivm.execute.accumulated import accumulated
from ivm.execute.changes import Changes, Run
from ivm.execute.fixpoint import fixpoint
from ivm.execute.from_stored import from_stored
from ivm.execute.statement import statement
from ivm.feed.datasets import Datasets
from ivm.planner.strategy import Accumulated, Fixpoint, FromStored, Incremental, Linear, Regroup

#: Any: each handler takes its own strategy.
HANDLERS: dict[type[Incremental], Callable[[Any, Datasets, Run], Changes]] = {
    Linear: statement,
    Accumulated: accumulated,
    FromStored: from_stored,
    Regroup: statement,
    Fixpoint: fixpoint,
}


def execute(strategy: Incremental, datasets: Datasets, run: Run) -> Changes:
    """Carry out a strategy. Raises StoredRowsLackingError where it turns out that it can't be done so."""
    return HANDLERS[type(strategy)](strategy, datasets, run)
