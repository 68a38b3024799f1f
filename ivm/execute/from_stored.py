"""FromStored: the first rows from those stored and the delta, where these are enough."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ivm.execute.changes import Changes, Run, StoredRowsLackingError
from ivm.feed.datasets import Datasets
from ivm.names import WEIGHT
from ivm.planner.strategy import FromStored
from ivm.rewrite.top import MARK, PLACE
from ivm.zset.weighted import sum_weights


def from_stored(strategy: FromStored, datasets: Datasets, run: Run) -> Changes:
    """dOut = first candidates - stored rows.

    Raises StoredRowsLackingError where the candidates may not be enough, or are too many.
    """
    unit = strategy.unit
    assert unit.reduce is not None
    limit, stored = unit.reduce.limit, datasets.published(unit.name)
    found = run.rows(strategy.statements(datasets)[""])
    if not isinstance(found, pa.Table):
        raise StoredRowsLackingError
    candidates = found.filter(pc.equal(found[MARK], 0))
    last = found.filter(pc.equal(found[MARK], 1))
    before = last[PLACE][0].as_py() - 1 if last.num_rows else 0
    if stored.num_rows >= limit and before < limit:
        raise StoredRowsLackingError
    new = candidates.sort_by(PLACE).select(stored.column_names).slice(0, limit)
    signed = [
        t.append_column(WEIGHT, pa.repeat(pa.scalar(w, pa.int64()), t.num_rows))
        for t, w in ((new, 1), (stored.cast(new.schema), -1))
    ]
    return Changes(sum_weights(pa.concat_tables(signed), stored.column_names))
