"""What is large stays with Spark: a pipeline's life where a few rows are too many for this process.

DuckDB stands in Spark's place and runs the same statements; batches are published by writing tables anew.
"""

from __future__ import annotations

import pytest

from ivm.lake import native
from ivm.testing.recovery import differences, leftovers
from tests.pure.duck_session import WRITES, DuckSession
from tests.scenes import TINY, VIEWS, change, pinned, scene

pytestmark = pytest.mark.slow


@pytest.fixture
def empty(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    found = scene(DuckSession(), tmp_path, WRITES)
    found.limits = TINY
    return found


@pytest.fixture
def made(empty):
    assert empty.pipeline(empty.folder).refresh().ok
    return empty


def right(made) -> list[str]:
    pipe = made.pipeline(made.folder)
    return differences(pipe, made.recomputed(made.folder)) + leftovers(pipe)


def test_views_are_followed_and_their_traces_compacted(made):
    for _ in range(2):
        change(made)
        report = made.pipeline(made.folder).refresh()
        assert {v.strategy for v in report.views.values()} == {"incremental"}, report
        assert right(made) == []
    done = made.pipeline(made.folder).compact(keep_epochs=1)
    assert not [c for c in done if c.error]
    trace = next(c for c in done if "/totals/accumulators" in c.table)
    assert trace.rows_before > trace.rows_after > TINY.summed_rows, "Spark summed them"
    assert right(made) == []
    change(made)
    assert made.pipeline(made.folder).refresh().ok
    assert right(made) == []
    assert made.pipeline(made.folder).verify("totals")


def test_a_slice_and_its_sums_are_rebuilt(empty):
    empty.views = {"totals": VIEWS["totals"]}
    made, pipe = empty, empty.pipeline(empty.folder)
    assert pipe.refresh().ok
    state = pipe.context.log.manifest().units["totals"]
    trace = pipe.context.layout.accumulator_trace("totals", state.generation)
    for path, column in ((pipe.context.layout.table("totals", True), "s"), (trace, "s_arg_1")):
        native.table(path).update(updates={column: f"{column} + 1000"}, predicate="cust < 3")
    pinned(pipe, "totals")
    assert not made.pipeline(made.folder).verify("totals")
    report = made.pipeline(made.folder).backfill("totals", where="cust < 3")
    assert report.ok, report
    assert report.views["totals"].rows_out == 4
    change(made)
    assert made.pipeline(made.folder).refresh().ok
    assert right(made) == []
