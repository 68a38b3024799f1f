"""Dates in files of Spark's old calendar, which only Spark reads as what they mean.

    before 15 October 1582    in such a file a day is counted by the Julian calendar, everywhere else by the Gregorian

Spark 2 wrote all files so, later ones do where `spark.sql.parquet.datetimeRebaseModeInWrite` is LEGACY; a file's footer
tells. Only files whose statistics don't exclude such days are looked into, each once. A table's version has the files
that it holds, a delta others: those that came and went on the way, and those that commits keep changes in.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ivm.lake import native
from ivm.lake.commits import fingerprint
from ivm.lake.log import actions_of
from ivm.storage.location import Location

#: The first day that both calendars call alike.
_ALIKE = date(1582, 10, 15)
#: Dates in statistics compare as texts: those that don't (years beyond 9999) come out as earlier ones.
_ALIKE_TEXT = _ALIKE.isoformat()
_DATES = re.compile(r'"(?:type|elementType|keyType|valueType)"\s*:\s*"date"')
_WRITER, _LEGACY = b"org.apache.spark.version", b"org.apache.spark.legacyDateTime"
#: Files of which a process keeps what their footers say.
_KEPT = 100_000


def old_calendar(path: str, delta: DeltaTable) -> str:
    """Why a table's dates are not those that its files hold as they stand; empty where they are."""
    dates = len(_DATES.findall(delta.schema().to_json()))
    if not dates:
        return ""
    files = native.actions(delta)
    doubtful = np.flatnonzero(~_recent(files, dates))
    if any(_may_be_old(path, files["path"][int(i)].as_py()) for i in doubtful):
        return "dates before 1582 may stand in files of Spark's old calendar"
    return ""


def old_in_commits(path: str, schema_json: str, first: int, last: int, fed: bool) -> bool:
    """Whether files that tell what these commits changed may be of the old calendar.

    Where they are not `fed`, all files count that came and went, also those of commits that only moved rows.
    """
    if not _DATES.search(schema_json):
        return False
    return any(
        _may_be_old(path, name)
        for version in range(first, last + 1)
        for name in _doubtful(path, version, fingerprint(path, version), schema_json, fed)
    )


@functools.lru_cache(maxsize=4096)
def _doubtful(path: str, version: int, _mark: str, schema_json: str, fed: bool) -> tuple[str, ...]:
    """The files of a commit that neither its log nor the version before it shows to have later dates only."""
    actions = actions_of(path, version) or ()
    if fed and (changes := [a["cdc"]["path"] for a in actions if "cdc" in a]):
        return tuple(changes[:1])  # one job wrote them all
    moved = [(kind, a[kind]) for a in actions for kind in ("add", "remove") if kind in a]
    if fed:
        moved = [(kind, file) for kind, file in moved if file.get("dataChange", True)]
    dates = list(_dates(json.loads(schema_json)))
    recent = {file["path"] for kind, file in moved if kind == "add" and _later(file, dates)}
    left = {file["path"] for _, file in moved} - recent
    if left and any(kind == "remove" for kind, _ in moved):
        left -= _recent_before(path, version, len(dates))
    return tuple(sorted(left))


def _recent_before(path: str, version: int, dates: int) -> set[str]:
    """The files of the version before that have later dates only; what a commit removed it may tell nothing else of."""
    try:
        files = native.actions(native.table(path, version - 1))
    except Exception:  # noqa: BLE001 - whatever keeps it from being opened, the files themselves tell
        return set()
    return set(files.filter(pa.array(_recent(files, dates)))["path"].to_pylist())


def _dates(type_: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each date; of one in an array or a map one that statistics have nothing of.

    >>> field = {"name": "b", "type": "date"}
    >>> items = {"type": "array", "elementType": "date"}
    >>> list(_dates({"fields": [field, {"name": "a", "type": {"fields": [field]}}, {"name": "c", "type": items}]}))
    [('b',), ('a', 'b'), ('c', 'elementType')]
    """
    if type_ == "date":
        yield path
    elif isinstance(type_, dict):
        for field in type_.get("fields", ()):
            yield from _dates(field["type"], (*path, field["name"]))
        for inner in ("elementType", "keyType", "valueType"):
            yield from _dates(type_.get(inner), (*path, inner))


def _later(file: Mapping[str, Any], dates: list[tuple[str, ...]]) -> bool:
    """Whether a file's statistics show that all its dates are called alike by both calendars."""
    least = json.loads(file.get("stats") or "{}").get("minValues") or {}
    for date_path in dates:
        found: Any = least
        for name in date_path:
            found = found.get(name) if isinstance(found, dict) else None
        if not isinstance(found, str) or found < _ALIKE_TEXT:
            return False
    return True


def _may_be_old(path: str, logged: str) -> bool:
    """Whether a file of a table may be of the old calendar, by the path that the log has for it."""
    name = unquote(logged)
    # A shallow clone's files are another table's.
    return ":/" in name or _says_so(Location.of(path) / name)


def _recent(files: pa.Table, dates: int) -> Any:
    """For each file whether by the log none of its dates is that old (an array)."""
    ends = [c for n, c in zip(files.column_names, files.columns, strict=True) if n.startswith("min.") and _dated(c)]
    if len(ends) < dates:
        return np.zeros(files.num_rows, dtype=bool)
    known = [pc.fill_null(pc.greater_equal(c, pa.scalar(_ALIKE)), False).to_numpy() for c in ends]
    return np.logical_and.reduce(known)


def _dated(column: pa.ChunkedArray) -> bool:
    return bool(pa.types.is_date(column.type))


def _says_so(file: Location) -> bool:
    """Whether a file says that its dates are of the old calendar; one that can't be read tells whoever reads it."""
    try:
        return _is_old(file)
    except (OSError, pa.ArrowException):  # which isn't kept: the next time it may be readable
        return False


@functools.lru_cache(maxsize=_KEPT)
def _is_old(file: Location) -> bool:
    file_system, name = file.arrow()
    told = pq.read_metadata(name, filesystem=file_system).metadata or {}
    major = told.get(_WRITER, b"").split(b".")[0]
    return _LEGACY in told or (major.isdigit() and int(major) < 3)
