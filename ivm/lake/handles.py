"""Tables that are open: a log is read once for all who read the table at that version.

    shared(path)             as it is now: two looks at the log tell, where nothing was committed since
    shared(path, version)    as it was then
    keep(path, delta)        after a commit: the handle that made it knows the table already

Invariant: nobody writes with a handle that is shared, which stays at its version; who writes opens another one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from deltalake import DeltaTable

from ivm.lake.commits import commit_file, fingerprint

#: So many tables are kept, those that were used last, each at its last two versions; a handle of few files has 100 KiB.
MOST, VERSIONS = 512, 2


@dataclass
class _Open:
    """A table's handles by version, each with the fingerprint of that version's commit; `newest` is the last seen."""

    newest: int | None = None
    at: dict[int, tuple[str, DeltaTable]] = field(default_factory=dict)


_tables: OrderedDict[str, _Open] = OrderedDict()
_lock = threading.Lock()


def shared(path: str, version: int | None = None) -> DeltaTable:
    """A table to read, at its newest version or at one that is given. Raises what delta-rs raises."""
    known = _known(path, version)
    if known is not None:
        return known
    delta = DeltaTable(path, version=version)
    _put(path, delta, newest=version is None)
    return delta


def _known(path: str, version: int | None) -> DeltaTable | None:
    """The handle that is kept, if it is still what the log says."""
    with _lock:
        kept = _tables.get(path, _Open())
        wanted = kept.newest if version is None else version
        if wanted is None or wanted not in kept.at:
            return None
        _tables.move_to_end(path)
        mark, delta = kept.at[wanted]
    # A table may have been replaced, or restored from a backup: the number alone says nothing.
    stands = mark != "" and fingerprint(path, wanted) == mark
    last = version is not None or commit_file(path, wanted + 1).stat() is None
    return delta if stands and last else None


def keep(path: str, delta: DeltaTable) -> None:
    """Share a handle at the version that it is at, the newest; it isn't written with any more."""
    _put(path, delta, newest=True)


def forget() -> None:
    """Know no table, as a process that begins."""
    with _lock:
        _tables.clear()


def _put(path: str, delta: DeltaTable, newest: bool) -> None:
    version = delta.version()
    mark = fingerprint(path, version)
    with _lock:
        known = _tables.setdefault(path, _Open())
        _tables.move_to_end(path)
        known.newest = version if newest else known.newest
        known.at[version] = mark, delta
        for old in list(known.at)[:-VERSIONS]:
            del known.at[old]
        while len(_tables) > MOST:
            _tables.popitem(last=False)
