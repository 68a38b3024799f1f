"""Some rounds of the nightly kills: clients of a shared Spark Connect server die by SIGKILL, and what they left is mended.

Its first round is a first build whose client dies while its job lives on, and whose successor builds at once.
"""

from __future__ import annotations

import os

import pytest

from tests.nightly.counts import Counts
from tests.nightly.kills import run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_some_rounds_of_kills(tmp_path):
    counts = Counts("kills", int(os.environ.get("IVM_FAULT_SEED", "1")), minutes=10)
    run(tmp_path, counts, rounds=3)
    assert not counts.failures, "\n".join(counts.failures)
    assert counts.counted["first_builds"] == 1
    assert counts.counted["kills"] >= 1
    assert counts.counted["compared"] >= 3 * 7
