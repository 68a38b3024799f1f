"""How many files of a table have deletion vectors, by its log, and how many of these delta-rs reads at once.

delta-rs 1.6.6 reads each file's vector in a thread of its own, of which its runtime has 512, and each needs another one
to end: where all are taken they wait for ever (delta-rs issue 4657; seen on a table of 1,209 files with 890 vectors).
So tables with more than HIDING of them are Spark's to read, and reads of others wait for each other.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ivm.lake.commits import commit_file
from ivm.storage.location import Location

FEATURE = "deletionVectors"
#: At most so many vectors are read at once, of all tables.
HIDING = 400
#: A classic checkpoint, whole or in parts: all files of the version are named in it.
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")


def hiding(delta: DeltaTable, files: int) -> int:
    """How many of a table's `files` have deletion vectors: at most so many where its log doesn't tell."""
    if FEATURE not in (delta.protocol().reader_features or []):
        return 0
    if files <= HIDING:
        return files
    return _told(unquote(delta.table_uri), delta.version(), str(delta.metadata().id), files)


@functools.lru_cache(maxsize=256)
def _told(path: str, version: int, _table: str, files: int) -> int:
    try:
        found = hiding_paths(Location.of(path.removeprefix("file://")), version)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return files
    return files if found is None else len(found)


def hiding_paths(table: Location, version: int) -> set[str] | None:
    """The files that have deletion vectors at a version; None where a checkpoint names no files itself."""
    checkpoints: dict[int, dict[int, list[str]]] = {}
    for name in (table / "_delta_log").names():
        if (match := _CHECKPOINT.fullmatch(name)) and int(match[1]) <= version:
            checkpoints.setdefault(int(match[1]), {}).setdefault(int(match[2] or 1), []).append(name)
    # One of which parts are missing was not finished, or is being removed.
    parts = {n: names for n, of in checkpoints.items() for many, names in of.items() if len(names) == many}
    since = max(parts, default=-1)
    seen, found = set[str](), set[str]()
    for number in range(version, since, -1):
        _by_commit(commit_file(str(table), number).read(), seen, found)
    for name in parts.get(since, ()):
        adds = _adds(table / "_delta_log" / name)
        if adds is None:
            return None
        found |= {path for path, vector in adds if vector is not None and path not in seen}
    return found


def _by_commit(commit: bytes, seen: set[str], found: set[str]) -> None:
    """Take a commit's files, those of newer commits being `seen`: what adds one tells more than what removes it."""
    actions = [json.loads(line) for line in commit.splitlines() if line.strip()]
    adds = {a["add"]["path"]: a["add"].get("deletionVector") for a in actions if "add" in a}
    found |= {path for path, vector in adds.items() if vector is not None and path not in seen}
    seen |= {*adds, *(a["remove"]["path"] for a in actions if "remove" in a)}


def _adds(checkpoint: Location) -> Sequence[tuple[str, object]] | None:
    """A checkpoint's files, each with the kind of its vector; None where other files hold them."""
    file = pq.ParquetFile(pa.BufferReader(checkpoint.read()))
    columns = {file.schema.column(i).path for i in range(len(file.schema))}
    if any(c.startswith("sidecar.") for c in columns):
        return None
    kind = "add.deletionVector.storageType"
    wanted = [c for c in ("add.path", kind) if c in columns]
    adds = file.read(columns=wanted)["add"].drop_null().to_pylist()
    return [(a["path"], (a.get("deletionVector") or {}).get("storageType")) for a in adds]


class Permits:
    """Lets readers through whose vectors are no more than `most` together."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._free = threading.Condition()

    @contextmanager
    def of(self, count: int) -> Iterator[None]:
        """Wait until so many may be read, and read them; one with more than all is alone."""
        count = min(count, self._most)
        with self._free:
            self._free.wait_for(lambda: self._taken + count <= self._most)
            self._taken += count
        try:
            yield
        finally:
            with self._free:
                self._taken -= count
                self._free.notify_all()


_permits = Permits(HIDING)


@contextmanager
def reading(tables: Collection[DeltaTable]) -> Iterator[None]:
    """Wait until delta-rs may read these tables' deletion vectors, in one statement."""
    hidden = [t for t in tables if FEATURE in (t.protocol().reader_features or [])]
    with _permits.of(sum(hiding(t, len(t.file_uris())) for t in hidden)):
        yield
