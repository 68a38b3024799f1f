"""What every benchmark writes: its figures with the machine they are from, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ivm.demo.bench.machine import machine, versions

HERE = Path(__file__).parent


def read(name: str) -> dict[str, Any]:
    """A benchmark's kept figures; empty where there are none."""
    path = HERE / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else {}


def write(name: str, figures: Mapping[str, Any]) -> Path:
    """Keep a benchmark's figures as results/<name>.json."""
    path = HERE / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps({"benchmark": name, "machine": machine(), "versions": versions(), **figures}, indent=1) + "\n"
    )
    return path
