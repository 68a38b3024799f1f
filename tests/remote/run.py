"""Runs the pipelines of this folder in processes of their own, and finds what they need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ivm.errors import ConfigError

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def need_jars() -> None:
    """Skips the test where Spark's S3 jars can't be had."""
    from ivm.jars import s3_jars

    try:
        s3_jars()
    except ConfigError as error:
        pytest.skip(f"Spark's S3 jars can't be had: {error}")


def shop(
    lake: str, folder: Path, *parts: str, env: Mapping[str, str] | None = None, seconds: int = 900
) -> dict[str, Any]:
    """What came of the parts of `tests.remote.shop`, by name; `folder` is made, for its files."""
    return program("tests.remote.shop", lake, folder, *parts, env=env, seconds=seconds)


def program(
    module: str, lake: str, folder: Path, *parts: str, env: Mapping[str, str] | None = None, seconds: int = 900
) -> dict[str, Any]:
    """What a module of this folder prints as its last line; fails with the end of what it said."""
    folder.mkdir()
    environment = {**os.environ, "IVM_DRIVER_MEMORY": "1g", "PYTHONPATH": str(REPOSITORY), **(env or {})}
    command = [sys.executable, "-m", module, lake, str(folder / "files"), *parts]
    log = folder / "log"
    with log.open("w") as said:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=said, text=True, env=environment, cwd=folder, timeout=seconds
        )
    assert done.returncode == 0, log.read_text()[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(module, found["seconds"])
    return dict(found["steps"])
