"""The epoch log beside what other processes do to it.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import shutil

import pytest

from ivm.testing.recovery import differences
from tests.scenes import change

pytestmark = pytest.mark.slow


#: What the scene is made ready for.
BEFORE = "backfill"


@pytest.mark.parametrize("removed", ["", "epochs"])
def test_a_log_that_is_removed_meanwhile_is_forgotten(lake, removed):
    pipe = lake.pipeline(lake.folder)
    identity = pipe.context.log.identity
    change(lake)
    assert pipe.refresh().ok
    shutil.rmtree(lake.folder / "root" / "_ivm" / removed)
    change(lake)
    assert pipe.refresh().ok
    assert pipe.context.log.identity != identity
    assert differences(pipe, lake.recomputed(lake.folder)) == []


def test_a_log_that_is_begun_anew_meanwhile_is_read_anew(lake):
    pipe, other = lake.pipeline(lake.folder), lake.pipeline(lake.folder)
    assert pipe.refresh().ok
    shutil.rmtree(lake.folder / "root" / "_ivm" / "epochs")
    other.repair()
    change(lake)
    assert pipe.refresh().ok
    assert pipe.context.log.identity == other.context.log.identity
    assert differences(pipe, lake.recomputed(lake.folder)) == []
