"""Tables that are open: a log is read once for all who read or write the table at that version.

    shared(path)             as it is now: two looks at the log tell, where nothing was committed since
    shared(path, version)    as it was then
    own(path)                to write to: a handle that nobody reads with, brought to the newest version
    keep(path, delta)        after a commit: the handle that made it knows the table already

Who reads gets a copy of what is kept, which shares the handle behind it; once no copy is left, nobody reads with it.
Invariant: nobody writes with a handle that somebody reads with: it stays at its version as long as they have it.
"""

from __future__ import annotations

import copy
import itertools
import logging
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from deltalake import DeltaTable

from ivm.lake.commits import commit_file, fingerprint

_log = logging.getLogger(__name__)

#: So many tables are kept, those that were used last, each at its last two versions; a handle of few files has 100 KiB.
MOST, VERSIONS = 512, 2


@dataclass
class _Handle:
    """A handle with the fingerprint of its version's commit, and the copies that readers have."""

    mark: str
    delta: DeltaTable
    lent: weakref.WeakValueDictionary[int, DeltaTable] = field(default_factory=weakref.WeakValueDictionary)

    def lend(self) -> DeltaTable:
        lent = copy.copy(self.delta)
        self.lent[next(_numbers)] = lent
        return lent

    def stands(self, path: str, version: int) -> bool:
        """Whether the commit is still the one of that number: a table may have been replaced, or restored."""
        return self.mark != "" and fingerprint(path, version) == self.mark


@dataclass
class _Open:
    """A table's handles by version; `newest` is the last seen."""

    newest: int | None = None
    at: dict[int, _Handle] = field(default_factory=dict)


_tables: OrderedDict[str, _Open] = OrderedDict()
_lock = threading.Lock()
_numbers = itertools.count()


def shared(path: str, version: int | None = None) -> DeltaTable:
    """A table to read, at its newest version or at one that is given. Raises what delta-rs raises."""
    known = _known(path, version)
    if known is not None:
        return known
    return _put(path, DeltaTable(path, version=version), newest=version is None).lend()


def open_ahead(paths: Iterable[str], threads: int) -> None:
    """Open tables that will be asked for and aren't open, beside what the caller does next: opening mostly waits.

    Whoever asks for one that can't be opened is told then.
    """
    with _lock:
        todo = [path for path in paths if path not in _tables]
    if todo:
        pool = ThreadPoolExecutor(threads, thread_name_prefix="open")
        for path in todo:
            pool.submit(_try, path)
        pool.shutdown(wait=False)


def _try(path: str) -> None:
    try:
        shared(path)
    except Exception as error:  # noqa: BLE001 - there may be no table yet
        _log.debug("%s is not opened ahead: %s", path, error)


def own(path: str) -> DeltaTable:
    """A table to write to, at its newest version, which nobody else has. Raises what delta-rs raises."""
    handle = _taken(path)
    return handle.delta if handle is not None and _brought_up(path, handle) else DeltaTable(path)


def _taken(path: str) -> _Handle | None:
    """The newest handle, if nobody reads with it: it isn't shared from here on."""
    with _lock:
        kept = _tables.get(path, _Open())
        if kept.newest is None:
            return None
        handle = kept.at.get(kept.newest)
        if handle is None or handle.lent:
            return None
        return kept.at.pop(kept.newest)


def _brought_up(path: str, handle: _Handle) -> bool:
    """Bring a handle to the newest version; False where its commit doesn't stand any more, or delta-rs can't."""
    version = handle.delta.version()
    if not handle.stands(path, version):
        return False
    if commit_file(path, version + 1).stat() is not None:
        try:
            handle.delta.update_incremental()
        except Exception as error:  # noqa: BLE001 - whatever it is, opening the table tells whether it stands
            _log.debug("%s is opened anew: %s", path, error)
            return False
    return True


def _known(path: str, version: int | None) -> DeltaTable | None:
    """The handle that is kept, if it is still what the log says."""
    with _lock:
        kept = _tables.get(path, _Open())
        wanted = kept.newest if version is None else version
        if wanted is None or wanted not in kept.at:
            return None
        _tables.move_to_end(path)
        handle = kept.at[wanted]
        delta = handle.lend()
    last = version is not None or commit_file(path, wanted + 1).stat() is None
    return delta if handle.stands(path, wanted) and last else None


def keep(path: str, delta: DeltaTable) -> None:
    """Share a handle at the version that it is at, the newest; it isn't written with any more."""
    _put(path, delta, newest=True)


def forget() -> None:
    """Know no table, as a process that begins."""
    with _lock:
        _tables.clear()


def _put(path: str, delta: DeltaTable, newest: bool) -> _Handle:
    version = delta.version()
    handle = _Handle(fingerprint(path, version), delta)
    with _lock:
        known = _tables.setdefault(path, _Open())
        _tables.move_to_end(path)
        known.newest = version if newest else known.newest
        known.at[version] = handle
        for old in list(known.at)[:-VERSIONS]:
            del known.at[old]
        while len(_tables) > MOST:
            _tables.popitem(last=False)
    return handle
