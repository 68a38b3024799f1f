"""How many files of a table have deletion vectors, by its log, and how many of these delta-rs reads at once.

delta-rs 1.6.6 reads each file's vector in a thread of its own, of which its runtime has 512, and each needs another one
to end: where all are taken they wait for ever (delta-rs issue 4657; seen on a table of 1,209 files with 890 vectors).
So tables with more than HIDING of them are Spark's to read, and reads of others wait for each other. Of a change feed
only the vectors count that its commits name.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from deltalake import DeltaTable

from ivm.lake import vectors

#: At most so many vectors are read at once, of all tables.
HIDING = 400


def hiding(delta: DeltaTable, files: int) -> int:
    """How many of a table's `files` have deletion vectors: at most so many where its log doesn't tell."""
    if vectors.FEATURE not in (delta.protocol().reader_features or []):
        return 0
    if files <= HIDING:
        return files
    try:
        return len(vectors.of_table(delta))
    except vectors.UntoldError:
        return files


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


def fits(path: str, first: int, last: int) -> bool:
    """Whether delta-rs may read the change feed of these versions, however many vectors the table has."""
    met = vectors.in_commits(path, first, last)
    return met is not None and met <= HIDING


@contextmanager
def feeding(delta: DeltaTable, first: int, last: int) -> Iterator[None]:
    """Wait until delta-rs may read the deletion vectors of a change feed."""
    met: int | None = 0
    if vectors.FEATURE in (delta.protocol().reader_features or []):
        met = vectors.in_commits(vectors.path_of(delta), first, last)
    with _permits.of(HIDING if met is None else met):
        yield


@contextmanager
def reading(tables: Collection[DeltaTable]) -> Iterator[None]:
    """Wait until delta-rs may read these tables' deletion vectors, in one statement."""
    hidden = [t for t in tables if vectors.FEATURE in (t.protocol().reader_features or [])]
    with _permits.of(sum(hiding(t, len(t.file_uris())) for t in hidden)):
        yield
