"""Statements that were written for DuckDB before: an epoch's differ from the last one's in names and versions only.

    form(sql, tag) = (text, versions)     the epoch's tag left out of names, of a table's version only which one it is

What was written for a form serves all statements of that form whose relations have the same columns.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from ivm.names import RESERVED_PREFIX, native_ident
from ivm.plan.nodes import Column
from ivm.portable.expressions import NotPortableError
from ivm.portable.statement import Relation, Written, written

#: What a FROM item stands for: a name, or a table's path and version; None where its rows are not to be had.
Lookup = Callable[[str, bool, "int | None"], "Relation | None"]

#: A literal, a quoted name, or a version of Spark's SQL as it is rendered here: what looks so within a literal is none.
_PARTS = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|\bVERSION AS OF (\d+)""", re.DOTALL)
#: Literals in which a backslash is a plain character: `_PARTS` can't tell where they end.
_RAW = re.compile(r"""\b[rR]['"]""")
#: The same of DuckDB's, in which quotes are doubled.
_DUCK_PARTS = re.compile(r"""('(?:[^']|'')*'|"(?:[^"]|"")*")""")
_MARK = f"{RESERVED_PREFIX}_@_"
_READ = f"{RESERVED_PREFIX}_read_@"


@dataclass(frozen=True)
class _Read:
    """A relation as a form calls it; `version` is its place among the statement's versions."""

    name: str
    path: bool
    version: int | None


@dataclass(frozen=True)
class _Kept:
    """What was written for a form: the text around the relations' names, and what each was when it was written."""

    pieces: tuple[str | int, ...]
    columns: tuple[Column, ...]
    reads: tuple[tuple[_Read, tuple[Column, ...]], ...]


class Translations:
    """Keeps what was written for `most` forms, those that were used last; threads may share it."""

    def __init__(self, most: int = 2_000) -> None:
        self._most = most
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._lock = threading.Lock()
        #: Whether something was written anew since they were last taken, or told.
        self.fresh = False

    @property
    def empty(self) -> bool:
        """Whether nothing is known."""
        return not self._kept

    def told(self) -> str:
        """All of it as JSON, for another process whose code and DuckDB are the same."""
        with self._lock:
            self.fresh = False
            return json.dumps({form: _told(kept) for form, kept in self._kept.items()})

    def take(self, told: str) -> None:
        """Know what another process knew."""
        with self._lock:
            self._kept.update({form: _taken(kept) for form, kept in json.loads(told).items()})

    def written(self, sql: str, tag: str, lookup: Lookup) -> Written:
        """A statement of Spark's for DuckDB, whose names have the tag. Raises NotPortableError."""
        if _RAW.search(sql):
            return written(sql, lambda node: _relation(node, lookup))
        text, versions = form(sql, tag)

        def find(read: _Read) -> Relation | None:
            name = (
                read.name.replace(_MARK, f"{RESERVED_PREFIX}_{tag}_", 1) if read.name.startswith(_MARK) else read.name
            )
            return lookup(name, read.path, None if read.version is None else versions[read.version])

        with self._lock:
            kept = self._kept.get(text)
            if kept is not None:
                self._kept.move_to_end(text)
        if kept is None or (found := _same(kept, find)) is None:
            try:
                kept, found = _made(text, find)
            except NotPortableError:
                return written(sql, lambda node: _relation(node, lookup))  # which says so with the names as they are
            with self._lock:
                self._kept[text] = kept
                self.fresh = True
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        duck = "".join(native_ident(found[p]) if isinstance(p, int) else p for p in kept.pieces)
        return Written(duck, kept.columns, tuple(dict.fromkeys(found)))


def form(sql: str, tag: str) -> tuple[str, list[int]]:
    """A statement without what differs from epoch to epoch, and the versions that its tables are read at.

    >>> form("SELECT '`__ivm_s_7_x`' FROM `__ivm_s_7_x` JOIN delta.`/t` VERSION AS OF 12", "s_7")
    ("SELECT '`__ivm_s_7_x`' FROM `__ivm_@_x` JOIN delta.`/t` VERSION AS OF 0", [12])
    """
    versions: list[int] = []
    prefix = f"`{RESERVED_PREFIX}_{tag}_"

    def swap(found: re.Match[str]) -> str:
        part, number = found[0], found[1]
        if number is None:
            return f"`{_MARK}{part[len(prefix) :]}" if part.startswith(prefix) else part
        if int(number) not in versions:
            versions.append(int(number))
        return f"VERSION AS OF {versions.index(int(number))}"

    return _PARTS.sub(swap, sql), versions


def _told(kept: _Kept) -> list[Any]:
    reads = [[r.name, r.path, r.version, [[c.name, c.type] for c in columns]] for r, columns in kept.reads]
    return [kept.pieces, [[c.name, c.type] for c in kept.columns], reads]


def _taken(told: list[Any]) -> _Kept:
    pieces, columns, reads = told
    listed = tuple((_Read(name, path, version), _columns(of)) for name, path, version, of in reads)
    return _Kept(tuple(pieces), _columns(columns), listed)


def _columns(told: list[list[str]]) -> tuple[Column, ...]:
    return tuple(Column(name, type_) for name, type_ in told)


def _same(kept: _Kept, find: Callable[[_Read], Relation | None]) -> list[str] | None:
    """The names of the relations now; None where one isn't there, or has other columns."""
    names = []
    for read, columns in kept.reads:
        found = find(read)
        if found is None or tuple(found.columns) != columns:
            return None
        names.append(found.name)
    return names


def _made(text: str, find: Callable[[_Read], Relation | None]) -> tuple[_Kept, list[str]]:
    """What is written for a form, and the names of its relations now. Raises NotPortableError."""
    reads: dict[_Read, Relation] = {}

    def known(node: exp.Table) -> Relation | None:
        read = _read(node)
        found = find(read) if read is not None else None
        if read is None or found is None:
            return None
        reads.setdefault(read, found)
        return Relation(f"{_READ}{list(reads).index(read)}", found.columns)

    made = written(text, known)
    places = {native_ident(f"{_READ}{i}"): i for i in range(len(reads))}
    pieces: list[str | int] = [places.get(p, p) for p in _DUCK_PARTS.split(made.sql)]
    listed = tuple((read, tuple(found.columns)) for read, found in reads.items())
    return _Kept(tuple(pieces), made.columns, listed), [found.name for found in reads.values()]


def _relation(node: exp.Table, lookup: Lookup) -> Relation | None:
    read = _read(node)
    return lookup(read.name, read.path, read.version) if read is not None else None


def _read(node: exp.Table) -> _Read | None:
    version = node.args.get("version")
    number = int(version.expression.name) if version is not None else None
    return _Read(node.name, node.db == "delta", number) if node.db in ("", "delta") else None
