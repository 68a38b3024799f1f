"""Tables of a pipeline's own: traces, accumulators, facts, results of checks, archives (see `ivm.trace.store`).

They are in the lane of delta-rs, whatever lane the pipeline's tables are in: state is read and written where no session
is started, and in an object store one lane alone may commit (docs/locations.md).
"""

from __future__ import annotations

from ivm.planner.limits import EMBEDDED, Limits
from ivm.table.protocol import Table
from ivm.table.rust import RustTable


def own(path: str, limits: Limits = EMBEDDED) -> Table:
    """A table that only ivm writes."""
    return RustTable(path, limits, ours=True)
