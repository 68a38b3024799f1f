"""A refresh from the shell: `ivm refresh -p FOLDER` as a process of its own, from its start to its end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ivm.demo.bench.taken import Taken
from ivm.errors import IvmError


def refresh_from_shell(folder: Path, views: Sequence[str] = ()) -> Taken:
    """Refresh all views, or those named. Raises IvmError where the command fails."""
    command = [sys.executable, "-m", "ivm.cli.main", "refresh", *views, "-p", str(folder), "--json"]
    started = time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if ended.returncode:
        last = [*ended.stderr.strip().splitlines(), "it said nothing"][0]
        raise IvmError(f"`ivm refresh` in {folder} failed: {last}.", "Run it by itself to see why.")
    found = json.loads(ended.stdout)["views"]
    return Taken(
        seconds,
        {n: v["seconds"] for n, v in found.items()},
        {n: v["strategy"] for n, v in found.items()},
        {n: v["engine"] for n, v in found.items() if v["engine"]},
    )
