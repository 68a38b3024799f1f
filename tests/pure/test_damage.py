"""State that is wrong though its commits are ours (a defect, a disk): what can be told from the counts is built anew.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from ivm.lake import native
from ivm.lake.log import head_of
from ivm.refresh.integrity import paths
from ivm.refresh.records import to_json
from ivm.testing.recovery import differences
from tests.scenes import change

pytestmark = pytest.mark.slow


#: What the scene is made ready for.
BEFORE = "backfill"


@pytest.mark.parametrize("damage", [{"__ivm_count": "__ivm_count - 9"}, {"n_arg_1": "n_arg_1 + 5"}])
def test_counts_that_cannot_be_are_answered_by_a_rebuild(lake, damage):
    pipe = lake.pipeline(lake.folder)
    state = pipe.context.log.manifest().units["totals"]
    trace = pipe.context.layout.accumulator_trace("totals", state.generation)
    native.table(trace).update(updates=damage, predicate="cust = 1")
    taken_for_true(pipe, "totals")
    change(lake)
    view = lake.pipeline(lake.folder).refresh().views["totals"]
    assert view.strategy == "full"
    assert "less than no rows" in view.reason
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def taken_for_true(pipe, unit):
    """Commit an epoch whose manifest has the unit's tables as they are now."""
    log = pipe.context.log
    manifest, epoch = log.manifest(), log.next_epoch()
    state = manifest.units[unit]
    heads = {what: head_of(path) for what, path in paths(pipe.context, unit, state).items() if native.exists(path)}
    units = manifest.units | {unit: replace(state, heads=heads)}
    log.record(epoch, "committed", detail=to_json(replace(manifest, epoch=epoch, units=units)))
