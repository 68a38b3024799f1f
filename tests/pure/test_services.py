"""Started processes end with all that they started."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from ivm.orchestration.services import Service

#: Starts a process in a group of its own, as Airflow's supervisor does with a task, and says which.
PARENT = """
import subprocess, time
print(subprocess.Popen(["sleep", "600"], start_new_session=True).pid, flush=True)
time.sleep(600)
"""


def test_what_a_service_started_ends_with_it(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    Service("a service", parent, tmp_path / "log").stop()
    assert parent.poll() is not None
    deadline = time.monotonic() + 30
    while _lives(child):
        assert time.monotonic() < deadline, "the process in a group of its own goes on"
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.killpg(parent.pid, 0)


def _lives(process: int) -> bool:
    """Whether it runs: one that has ended and that nobody has waited for doesn't."""
    try:
        return bool(psutil.Process(process).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
