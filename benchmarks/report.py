"""What every benchmark writes: its figures with the machine they are from, as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def machine() -> dict[str, Any]:
    """Cores, memory and load at the end of a run."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "at": datetime.now(UTC).date().isoformat(),
    }


def read(name: str) -> dict[str, Any]:
    """A benchmark's kept figures; empty where there are none."""
    path = HERE / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(name: str, figures: Mapping[str, Any]) -> Path:
    """Keep a benchmark's figures as results/<name>.json."""
    path = HERE / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"benchmark": name, "machine": machine(), **figures}, indent=1) + "\n")
    return path
