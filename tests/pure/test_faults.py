"""The process dies, or one write fails, at every write of every action; then new processes must bring all right.

DuckDB stands in Spark's place, all else is real. Each write is struck in one way a run, which rotates with the write
and IVM_FAULT_SEED, twenty before each recovery; the nightly form (IVM_NIGHTLY=1) strikes it in every way, each alone.
"""

from __future__ import annotations

import pytest

from tests.pure.duck_session import WRITES, DuckSession
from tests.scenes import ACTIONS, NIGHTLY, TINY, faults, judged, saved, tries

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def without_a_jvm(monkeypatch):
    """Spark's functions are built in this process, as over Connect."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


@pytest.mark.parametrize("action", ACTIONS)
def test_every_point_is_survived(tmp_path, action):
    lake, act = saved(DuckSession(), tmp_path, action, WRITES), ACTIONS[action]
    points = lake.points(act)
    assert len(points) >= 4
    wanted = faults(points)
    judged(action, points, wanted, list(tries(lake, act, wanted, at_once=1 if NIGHTLY else 20)))


@pytest.mark.parametrize("action", ["build", "refresh"] if NIGHTLY else ["refresh"])
def test_points_of_what_is_large_are_survived(tmp_path, action):
    """Deltas, slices and results are staged, and tables take the files: between the two nothing is lost or doubled.

    Every sixth write in CI, others with each IVM_FAULT_SEED.
    """
    lake, act = saved(DuckSession(), tmp_path, action, WRITES, TINY), ACTIONS[action]
    points = lake.points(act)
    assert any("create_write_transaction" in p.kind for p in points) or action == "build"
    wanted = faults(points, stride=1 if NIGHTLY else 6)
    judged(action, points, wanted, list(tries(lake, act, wanted, at_once=1 if NIGHTLY else 20)))
