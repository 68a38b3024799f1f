"""The process dies, or one write fails, at each write of each action; then new processes must bring all right.

Every run strikes every point of every action once, in a way that rotates over points and IVM_FAULT_SEED; the nightly
form (IVM_NIGHTLY=1) strikes it in every way. See `ivm.testing.recovery` for what must hold afterwards.
"""

from __future__ import annotations

import os
from itertools import product

import pytest

from ivm.testing.faults import Effect, Fault, Point, Trouble
from tests.spark.scenes import change, scene

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NIGHTLY = os.environ.get("IVM_NIGHTLY") == "1"
SEED = int(os.environ.get("IVM_FAULT_SEED", "0"))
#: In CI every how manieth point is struck.
STRIDE = 1 if NIGHTLY else int(os.environ.get("IVM_FAULT_STRIDE", "1"))

ACTIONS = {
    "build": lambda pipe: pipe.refresh(),
    "refresh": lambda pipe: pipe.refresh(),
    "backfill": lambda pipe: pipe.backfill("totals"),
    "slice": lambda pipe: pipe.backfill("totals", where="cust = 1"),
    "compact": lambda pipe: pipe.compact(keep_epochs=1),
}


def faults(points: list[Point]) -> list[Fault]:
    """Those to try: all of each point, or one of each that rotates."""
    chosen = []
    for number, point in enumerate(points):
        ways = [Fault(e, m, point, t) for e, m in product(Effect, point.moments) for t in (Trouble if e is Effect.FAIL else (Trouble.DISK,))]
        chosen += ways if NIGHTLY else [ways[(number + SEED) % len(ways)]] if (number + SEED) % STRIDE == 0 else []
    return chosen


@pytest.fixture(scope="module")
def lakes(spark, tmp_path_factory):
    """A saved scene for each action, made when it is first asked for."""
    made = {}

    def of(action: str):
        state = {"build": "empty", "refresh": "changed", "compact": "grown"}.get(action, "built")
        if state not in made:
            lake = scene(spark, tmp_path_factory.mktemp(state))
            if state != "empty":
                assert lake.pipeline(lake.folder).refresh().ok
            if state == "changed":
                change(lake)
            if state == "grown":
                for _ in range(2):
                    change(lake)
                    assert lake.pipeline(lake.folder).refresh().ok
            lake.save()
            made[state] = lake
        return made[state]

    return of


@pytest.mark.parametrize("action", ACTIONS)
def test_every_point_is_survived(lakes, action):
    lake, act = lakes(action), ACTIONS[action]
    points = lake.points(act)
    assert len(points) > 10
    tried = [lake.tried(act, fault, early=bool(n % 3)) for n, fault in enumerate(faults(points))]
    struck = [t for t in tried if t.struck is not None]
    print(f"{action}: {len(points)} points, {len(tried)} faults, {len(struck)} struck, {sum(t.refreshes for t in tried)} refreshes")
    assert len(struck) >= 0.9 * len(tried), [str(t.fault) for t in tried if t.struck is None]
    wrong = [str(t) for t in tried if t.troubles]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(tried)}:", *wrong])
