"""What figures are from: the machine, how busy it was, and the versions of all that took part."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("ivm", "pyspark", "delta-spark", "deltalake", "duckdb", "sqlglot", "pyarrow")


def machine() -> dict[str, Any]:
    """Cores, memory, processor, and the load as it is now."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30),
        "processor": _processor(),
        "load_average": load(),
        "python": platform.python_version(),
        "at": datetime.now(UTC).date().isoformat(),
    }


def load() -> list[float]:
    """Averages of 1, 5 and 15 minutes."""
    return [round(n, 2) for n in os.getloadavg()]


def versions() -> dict[str, str]:
    """By package; those that aren't installed are left out."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"python": platform.python_version(), **found}


def _processor() -> str:
    """The model of the first core, by Linux; elsewhere what Python knows."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()
