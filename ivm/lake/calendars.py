"""Dates in files of Spark's old calendar, which only Spark reads as what they mean.

    before 15 October 1582    in such a file a day is counted by the Julian calendar, everywhere else by the Gregorian

Spark 2 wrote all files so, later ones do where `spark.sql.parquet.datetimeRebaseModeInWrite` is LEGACY; a file's footer
tells. Only files whose statistics don't exclude such days are looked into, each once.
"""

from __future__ import annotations

import functools
import re
from datetime import date
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ivm.lake import native
from ivm.storage.location import Location

#: The first day that both calendars call alike.
_ALIKE = date(1582, 10, 15)
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
    folder = Location.of(path)
    for i in np.flatnonzero(~_recent(files, dates)):
        name = unquote(files["path"][int(i)].as_py())
        # A shallow clone's files are another table's.
        if ":/" in name or _says_so(folder / name):
            return "dates before 1582 may stand in files of Spark's old calendar"
    return ""


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
