"""Rows of epochs that move to an archive, so that whoever removes them where they were loses none.

    archived(path, rows)    afterwards the table at `path` holds every row, each once, however often its move was begun

Rows don't come in the order of their epochs: what was held back for long moves after much that is younger. So no epoch
that a transaction names tells whether rows are there; the table is asked, of which few files hold these epochs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from ivm.errors import ConcurrentRefreshError
from ivm.table.own import own
from ivm.table.protocol import Commit, Table

_EPOCH, _NUMBER = "epoch", "number"


def archived(path: str, rows: pa.Table, keys: Sequence[str], app: str, configuration: Mapping[str, str]) -> None:
    """Append the rows that the table doesn't hold yet; `keys`, the epoch among them, tell them apart.

    Raises ConcurrentRefreshError where another process appends at the same moment: what isn't known to be there must
    not be removed elsewhere.
    """
    table: Table = own(path)
    last = table.transaction(app) or 0
    missing = _missing(table, rows, keys) if table.exists() else rows
    if missing.num_rows and not table.append(missing, Commit(app, last + 1), configuration):
        raise ConcurrentRefreshError(
            f"Another process moved rows to {path} at the same moment.", "It wins; run the compaction again."
        )


def _missing(table: Table, rows: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows that a table doesn't hold."""
    epochs = rows[_EPOCH].to_pylist()
    mine = rows.select(list(keys))
    there = table.read(keys, lambda q: f"{q(_EPOCH)} BETWEEN {min(epochs)} AND {max(epochs)}").cast(mine.schema)
    numbered = mine.append_column(_NUMBER, pa.array(range(mine.num_rows), pa.int64()))
    return rows.take(numbered.join(there, list(keys), join_type="left anti")[_NUMBER].sort())
