"""Whether a table's data files are what its log names: without reading them, or by reading them.

    as logged(file)   it is there, has the size that the log states, and was not written again after it was committed

What has the same size and an older date is not told from what was written: only reading tells that.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

from ivm.lake import native, parquet
from ivm.lake.native import LoggedFile

#: A store's clock and the writer's may differ by so much; and a file is copied, or linked, after it was written.
_CLOCKS = timedelta(minutes=1)
#: Files looked at at the same time: a store answers in tenths of a second.
_LOOKS = 16


def not_as_logged(path: str) -> str:
    """What is wrong with a data file of a table's newest version, in words; empty if nothing is. A look-up a file."""
    with ThreadPoolExecutor(_LOOKS) as pool:
        return next(filter(None, pool.map(_wrong, native.logged_files(path, native.table(path)))), "")


def read_through(path: str) -> bool:
    """Whether every file of a table is there and can be read to its end; True where there is no table."""
    try:
        files = native.data_files(path, native.table(path)) if native.exists(path) else []
        for _ in parquet.dataset(*files).to_batches() if files else ():
            pass
    except Exception:  # noqa: BLE001 - whatever keeps it from being read
        return False
    return True


def _wrong(file: LoggedFile) -> str:
    found = file.location.stat()
    if found is None:
        return f"the file {file.location.name} is gone"
    if found.size != file.size:
        return f"the file {file.location.name} has {found.size:,} bytes, and {file.size:,} by the table's log"
    if found.modified > datetime.fromtimestamp(file.modified / 1000, UTC) + _CLOCKS:
        return f"the file {file.location.name} was written again after it was committed"
    return ""
