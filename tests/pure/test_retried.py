"""A retry whose batch comes out in another way than the one that stands in the trace already. DuckDB for Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ivm.names import WEIGHT
from ivm.refresh.run import step_plan
from ivm.trace import recent
from ivm.trace.store import append_batch
from tests.pure.test_lost_log import Lake, ints

pytestmark = pytest.mark.slow


class InMode(Lake):
    """A view of a source in some mode, and one that reads it."""

    def __init__(self, folder, mode):
        super().__init__(folder, {})
        self.mode = mode

    def pipe(self):
        made = super().pipe()
        made.view("up", "SELECT k, v FROM t WHERE k > 0", mode=self.mode)
        made.view("down", "SELECT k, sum(v) AS s FROM up GROUP BY k")
        return made


@pytest.mark.parametrize("mode", ["incremental", "full"])
def test_the_batch_that_stands_in_the_trace_counts(tmp_path, without_a_jvm, mode):
    """The first attempt appended a row (a sum of doubles that came out otherwise), and died; the second finds none."""
    lake = InMode(tmp_path, mode)
    lake.add("t", k=ints(1), v=ints(10))
    lake.refreshed()
    lake.add("t", k=ints(2), v=ints(20))
    lake.refreshed()
    lake.add("t", k=ints(-1), v=ints(0))
    context = lake.pipe().context
    plan, state = step_plan(context), context.log.manifest().units["up"]
    batch = pa.table({"k": ints(3), "v": ints(30), WEIGHT: ints(1)})
    trace, app = context.layout.output_trace("up", state.output_generation), f"output/{state.output_generation}"
    assert append_batch(trace, batch, plan.epoch, context.app("up", app))
    recent.forget()
    report = lake.refreshed()
    assert (report.epoch, report.views["up"].rows_out) == (plan.epoch, 1)
    assert lake.pipe().context.log.manifest().units["up"].epoch == plan.epoch
    assert lake.rows("up") == [(1, 10), (2, 20), (3, 30)]
    assert lake.rows("down") == [(1, 10), (2, 20), (3, 30)]
