"""What keyed reads of an epoch found, so that no wave looks for the same keys in the same table again.

    rows of (table, version) with any of the wanted keys = those recalled of known keys + those read of the others

Exact: a read found all rows with its keys, so what it didn't find isn't there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ivm.lake import native
from ivm.lake.keyed import KeyedReader
from ivm.lake.keys import matching
from ivm.planner.arranging import KeyedRead
from ivm.table.protocol import Wanted


@dataclass(frozen=True)
class _Read:
    """All rows that any of `wanted` means, with some columns."""

    rows: pa.Table
    wanted: tuple[Wanted, ...]


class FoundRows:
    """The rows found so far, up to so many; what would be more is forgotten at once, and read again."""

    def __init__(self, most: int) -> None:
        self._left = most
        #: Who reads the versions of tables, and has read what their logs say.
        self._readers: dict[tuple[str, int | None], KeyedReader] = {}
        self._reads: dict[tuple[str, int | None], list[_Read]] = {}
        self._told: list[KeyedRead] = []
        self._lock = threading.Lock()

    def tell(self, read: KeyedRead) -> None:
        """Remember what a keyed read took."""
        with self._lock:
            self._told.append(read)

    def take_told(self) -> tuple[KeyedRead, ...]:
        """What keyed reads took, since that was asked last."""
        with self._lock:
            told, self._told = tuple(self._told), []
        return told

    def reader(self, path: str, version: int | None, literals: int) -> KeyedReader:
        """Who finds rows of a table's version by their keys."""
        if (path, version) not in self._readers:
            self._readers[path, version] = KeyedReader(path, native.table(path, version), literals)
        return self._readers[path, version]

    def keep(self, path: str, version: int | None, rows: pa.Table, wanted: Sequence[Wanted]) -> None:
        """Remember all rows that any of `wanted` means in a version of a table."""
        if wanted and rows.num_rows <= self._left:
            self._left -= rows.num_rows
            self._reads.setdefault((path, version), []).append(_Read(rows, tuple(wanted)))

    def recall(
        self, path: str, version: int | None, columns: Sequence[str], wanted: Sequence[Wanted]
    ) -> tuple[pa.Table | None, list[Wanted], list[Wanted]]:
        """The rows that are known, with the columns; what of `wanted` they answer; and what is left to be read.

        None for the rows where nothing is known.
        """
        found, answered, left = list[pa.Table](), list[Wanted](), list(wanted)
        for read in self._reads.get((path, version), ()):
            there = set(read.rows.column_names)
            if not left or not there.issuperset([*columns, *(c for known in answered for c in known.columns)]):
                continue
            parted = [parts(w, read.wanted if there.issuperset(w.columns) else ()) for w in left]
            known = [mine for mine, _ in parted if mine is not None]
            if known:
                rows = but(answered, read.rows.filter(any_of(known, read.rows)))
                found.append(rows.select(list(columns)))
                answered += known
                left = [other for _, other in parted if other is not None]
        return (pa.concat_tables(found) if found else None), answered, left


def parts(wanted: Wanted, known: Sequence[Wanted]) -> tuple[Wanted | None, Wanted | None]:
    """Of what is wanted, what `known` means as well and what it doesn't; None for nothing.

    A range is known as a whole or not at all; keys of another type than the known ones are not.
    """
    names, types = wanted.keys.column_names, wanted.keys.schema.types
    same = [k for k in known if k.columns == wanted.columns and k.between == wanted.between]
    alike = [k.keys.rename_columns(names) for k in same if k.keys.schema.types == types]
    if wanted.between:
        return (wanted, None) if any(k.equals(wanted.keys) for k in alike) else (None, wanted)
    if not alike:
        return None, wanted
    mine = matching(wanted.keys, names, pa.concat_tables(alike))
    answered, left = wanted.keys.filter(mine), wanted.keys.filter(pc.invert(mine))
    return (
        replace(wanted, keys=answered) if answered.num_rows else None,
        replace(wanted, keys=left) if left.num_rows else None,
    )


def any_of(wanted: Sequence[Wanted], rows: pa.Table) -> pa.Array:
    """Which of the rows any of `wanted` (at least one) means."""
    first, *others = wanted
    found = first.of(rows)
    for other in others:
        found = pc.or_(found, other.of(rows))
    return found


def but(known: Sequence[Wanted], rows: pa.Table) -> pa.Table:
    """The rows that none of `known` means."""
    return rows.filter(pc.invert(any_of(known, rows))) if known else rows
