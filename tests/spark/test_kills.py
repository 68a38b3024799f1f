"""Some rounds of the nightly kills: clients of a shared Spark Connect server die by SIGKILL; what they left is mended.

The first round is a first build whose client dies while its job lives on, and whose successor builds at once. It runs
in a process of its own: a process that has had a Connect session takes every later one for one of Connect.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
ROUNDS = """
import json, sys
from pathlib import Path
from tests.nightly.counts import Counts
from tests.nightly.kills import run

counts = Counts("kills", int(sys.argv[2]), minutes=10)
run(Path(sys.argv[1]), counts, rounds=2)
print(json.dumps({**counts.counted, "troubles": counts.failures}))
"""


def test_some_rounds_of_kills(tmp_path):
    seed = os.environ.get("IVM_FAULT_SEED", "1")
    done = subprocess.run(
        [sys.executable, "-c", ROUNDS, str(tmp_path), seed], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    counted = json.loads(done.stdout.splitlines()[-1])
    assert not counted["troubles"], "\n".join(counted["troubles"])
    assert counted["first_builds"] == 1
    assert counted["kills"] >= 1
    assert counted["compared"] >= 2 * 7
