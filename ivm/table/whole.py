"""Small tables of our own, whole, as this process read them and made them grow: the next refresh doesn't read them.

    known(table) = what was read + what this process has appended since, or None

Invariant: what is recalled is what the table holds. Its head is still the commit after which that was so.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import pyarrow as pa

from ivm.lake import native
from ivm.lake.commits import fingerprint
from ivm.lake.log import Head, head_of

#: So many bytes of tables are held, those that were asked for last; one of more than an eighth of that is not.
BYTES = 128 * 1024 * 1024
#: In more pieces a table is put together: each append adds one.
_PIECES = 32


class _Held(NamedTuple):
    head: Head
    rows: pa.Table
    bytes: int


_tables: OrderedDict[str, _Held] = OrderedDict()
_lock = threading.Lock()


def rows(path: str) -> pa.Table:
    """All rows of a table, which are held from now on where they are few."""
    head = head_of(path)
    found = native.read(native.table(path, head.version))
    _hold(path, head, found)
    return found


def known(path: str) -> pa.Table | None:
    """All rows of a table, if they are held."""
    with _lock:
        held = _tables.get(path)
    if held is None or head_of(path) != held.head:
        return None
    with _lock:
        if path in _tables:
            _tables.move_to_end(path)
    return held.rows


def grown(path: str, appended: pa.Table) -> None:
    """Add rows that this process has just appended in one commit to what is held of a table, if that is still so."""
    with _lock:
        held = _tables.pop(path, None)
    if held is None:
        return
    head = head_of(path)
    if head.version == held.head.version + 1 and fingerprint(path, held.head.version) == held.head.fingerprint:
        try:
            new = appended.select(held.rows.column_names).cast(held.rows.schema)
        except (pa.ArrowInvalid, KeyError):  # it tells of other columns than were read
            return
        both = pa.concat_tables([held.rows, new])
        _hold(path, head, both.combine_chunks() if both.column(0).num_chunks > _PIECES else both)


def forget() -> None:
    """Know no table, as a process that begins."""
    with _lock:
        _tables.clear()


def _hold(path: str, head: Head, found: pa.Table) -> None:
    size = found.nbytes
    if not head.fingerprint or not found.num_columns or size > BYTES // 8:
        return
    with _lock:
        _tables[path] = _Held(head, found, size)
        while sum(held.bytes for held in _tables.values()) > BYTES:
            _tables.popitem(last=False)
