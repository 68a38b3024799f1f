"""The commits of a Delta table by their files.

fingerprint(v) = hash of the bytes of commit v
"""

from __future__ import annotations

import functools
import hashlib

from ivm.storage.location import Location, Stat


def commit_file(path: str, version: int) -> Location:
    """Where a version's commit lies, if it was not cleaned up yet."""
    return Location.of(path) / "_delta_log" / f"{version:020d}.json"


def fingerprint(path: str, version: int) -> str:
    """A hash of a version's commit; "" where its file is gone."""
    file = commit_file(path, version)
    try:
        stat = file.stat()
        return _fingerprint(file, stat) if stat is not None else ""
    except OSError:
        return ""


@functools.lru_cache(maxsize=4096)
def _fingerprint(file: Location, _as_it_is: Stat) -> str:
    return hashlib.sha256(file.read()).hexdigest()[:16]
