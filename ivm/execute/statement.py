"""Linear and Regroup: what the one statement gives is the delta."""

from __future__ import annotations

from ivm.execute.changes import Changes, Run
from ivm.feed.datasets import Datasets
from ivm.names import WEIGHT
from ivm.plan.nodes import Column
from ivm.planner.strategy import Linear, Regroup


def statement(strategy: Linear | Regroup, datasets: Datasets, run: Run) -> Changes:
    """dOut = the statement's rows."""
    batch = (*strategy.unit.columns, Column(WEIGHT, "bigint"))
    return Changes(run.rows(strategy.statements(datasets)[""], batch))
