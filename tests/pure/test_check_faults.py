"""The process dies, or a write fails, where results of checks and kept sums are written; then all must come right.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import pytest

from ivm.quality.results import load
from ivm.testing.recovery import Scene
from tests.pure.duck_session import WRITES, DuckSession
from tests.scenes import ACTIONS, faults, judged, saved, tries

pytestmark = pytest.mark.slow
CHECKS = {
    "totals": {
        "state": [
            {"expect_column_values_to_be_unique": {"column": "cust"}},
            {"expect_column_sum_to_be_between": {"column": "n", "max_value": 1_000}},
        ]
    }
}


class Checked(Scene):
    """The scene, with checks."""

    def pipeline(self, folder):
        pipe = super().pipeline(folder)
        pipe.context.checks.update(CHECKS)
        return pipe


def test_records_of_checks_hold_nothing_up(tmp_path, without_a_jvm):
    lake, act = saved(DuckSession(), tmp_path, "refresh", WRITES), ACTIONS["refresh"]
    lake.__class__ = Checked
    points = [p for p in lake.points(act) if "check_results" in p.path or p.path.rstrip("/").endswith("facts")]
    assert {p.path.rstrip("/").rpartition("/")[2] for p in points} == {"check_results", "facts"}
    wanted = faults(points, every=True)[::3]
    judged("refresh", points, wanted, list(tries(lake, act, wanted, at_once=1)))
    assert lake.pipeline(lake.folder).refresh().ok
    assert {r.success for r in load(lake.pipeline(lake.folder).context.layout)} == {True}
