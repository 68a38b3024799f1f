"""The process dies, or one write fails, at writes of each action on Spark; then new processes must bring all right.

A run strikes every IVM_FAULT_STRIDE-th write of each action once, in a way that rotates with the write and
IVM_FAULT_SEED, several before each recovery; the nightly form (IVM_NIGHTLY=1) strikes all of them, each alone. Every
write in every way, without Spark: `tests/pure/test_faults.py`. See `ivm.testing.recovery` for what must hold.
"""

from __future__ import annotations

import os

import pytest

from tests.scenes import ACTIONS, NIGHTLY, faults, judged, saved, tries

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(
        not NIGHTLY and "IVM_FAULT_STRIDE" not in os.environ,
        reason="nightly: CI strikes every write in tests/pure/test_faults.py",
    ),
]

STRIDE = 1 if NIGHTLY else int(os.environ.get("IVM_FAULT_STRIDE", "6"))


@pytest.mark.parametrize("action", ACTIONS)
def test_faults_are_survived_on_spark(spark, tmp_path, action):
    lake, act = saved(spark, tmp_path, action), ACTIONS[action]
    points = lake.points(act)
    assert len(points) >= 8
    wanted = faults(points, STRIDE, every=False)
    judged(action, points, wanted, list(tries(lake, act, wanted, at_once=1 if NIGHTLY else 3)))
