"""Accumulated: sums are added to, and the rows of the groups that look different now are replaced."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ivm.errors import StateError
from ivm.execute.changes import Changes, Run
from ivm.feed.datasets import Datasets
from ivm.lake import native
from ivm.plan.nodes import COUNT, WEIGHT, Unit
from ivm.planner.strategy import Accumulated
from ivm.rewrite.accumulators import accumulators
from ivm.rewrite.statements import NEW, OLD


def accumulated(strategy: Accumulated, datasets: Datasets, run: Run) -> Changes:
    """sums' = sums + sums over d core; dOut = rows of sums' - rows of sums."""
    groups = run(strategy.statements(datasets)[""])
    return Changes(_row_changes(strategy.unit, groups), _gained(strategy.unit, groups))


def _gained(unit: Unit, groups: pa.Table) -> pa.Table:
    """What the accumulators of each group gain.

    Raises StateError where a group would have less than no rows, or more values than rows.
    """
    assert unit.reduce is not None
    kept = accumulators(unit.reduce)
    rows = pc.add(groups["o_" + COUNT], groups["d_" + COUNT])
    for count in [COUNT, *(a.name for a in kept if a.kind == "count")]:
        after = pc.add(groups["o_" + count], groups["d_" + count])
        wrong = pc.or_(pc.less(after, 0), pc.greater(after, rows))
        if pc.any(wrong).as_py():
            raise StateError(
                f"{pc.sum(wrong).as_py():,} groups of {unit.name} would have less than no rows.",
                "Its state is built anew.",
            )
    names = [*(a.name for a in kept), COUNT]
    keys = [k.name for k in unit.reduce.keys]
    return groups.select([*keys, *("d_" + n for n in names)]).rename_columns([*keys, *names])


def _row_changes(unit: Unit, groups: pa.Table) -> pa.Table:
    """-1 for each old row, +1 for each new one, where they differ; groups that look alike are added up."""
    changed = groups.filter(pc.invert(pc.fill_null(groups["__ivm_same"], False)))
    parts = []
    for side, weight in ((OLD, -1), (NEW, 1)):
        rows = changed.filter(changed[side])
        columns = [rows[f"{side}_{i}"] for i in range(len(unit.columns))]
        parts.append(
            pa.table(
                [*columns, pa.array([weight] * rows.num_rows, pa.int64())],
                names=[*(c.name for c in unit.columns), WEIGHT],
            )
        )
    return native.sum_weights(pa.concat_tables(parts), [c.name for c in unit.columns])
