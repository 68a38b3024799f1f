"""versitygw, an S3 server in Go over a folder: it serves Spark at speed, checks signatures, honours conditional PUTs.

Built once from its module by the go command, into the folder of the jars; where that can't be, tests that need it are
skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ivm.jars import jars_folder
from tests.s3 import free_port, running, settings

MODULE = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "v1.8.0"
#: Seconds that the build may take; four minutes were seen on two busy cores.
PATIENCE = 900


def _program() -> Path:
    return jars_folder() / f"versitygw-{VERSION}" / "versitygw"


def wanted() -> bool:
    """Whether it is built already, or the tests are a night's, which may build it."""
    return _program().exists() or os.environ.get("IVM_NIGHTLY") == "1"


def built() -> Path:
    """The program; skips the test where it isn't there and can't be built."""
    program = _program()
    if program.exists():
        return program
    folder = program.parent
    go = shutil.which("go")
    if go is None:
        pytest.skip(f"versitygw {VERSION} is not in {folder}, and there is no go command to build it")
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "GOBIN": str(folder), "CGO_ENABLED": "0"}
    done = subprocess.run(
        [go, "install", f"{MODULE}@{VERSION}"], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    if done.returncode:
        pytest.skip(f"versitygw {VERSION} could not be built: {(done.stderr.strip().splitlines() or [''])[-1]}")
    return program


@contextmanager
def served(folder: Path) -> Iterator[Mapping[str, str]]:
    """A server over a folder while the block runs; its settings, which are not set yet."""
    port = free_port()
    found = settings(port)
    for name in ("objects", "attributes"):
        (folder / name).mkdir(parents=True)
    keys = ["--access", found["AWS_ACCESS_KEY_ID"], "--secret", found["AWS_SECRET_ACCESS_KEY"]]
    options = [*keys, "--region", found["AWS_REGION"], "--port", f"127.0.0.1:{port}", "--keep-alive", "--quiet"]
    backend = ["posix", "--sidecar", str(folder / "attributes"), str(folder / "objects")]
    with running([str(built()), *options, *backend], port):
        yield found
