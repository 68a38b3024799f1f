"""Results of checks of epochs that the epoch log lets go: from their own table to the archive, beside the log's events.

A stop between the two writes leaves some in both: reading both, take each epoch once.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Sequence

import pyarrow as pa

from ivm.refresh.context import Context
from ivm.refresh.epochs import CONFIGURATION
from ivm.table.archived import archived
from ivm.table.own import own
from ivm.table.protocol import Commit

_log = logging.getLogger(__name__)


def archive_results(context: Context, first: int, needed: Sequence[int]) -> None:
    """Move the results of epochs before `first`, but those that are `needed`, as JSON lines a row an epoch."""
    results = own(context.layout.check_results)
    if not results.exists():
        return
    listed = "".join(f" AND epoch <> {int(e)}" for e in needed)
    old = f"epoch < {int(first)}{listed}"
    try:
        rows = results.read(None, lambda _: old).sort_by([("epoch", "ascending"), ("place", "ascending")])
    except Exception as error:  # noqa: BLE001 - a record that can't be read keeps nothing else from being compacted
        _log.warning("the results of checks can't be archived: %s", error)
        return
    if not rows.num_rows:
        return
    grouped = [(e, list(rs)) for e, rs in itertools.groupby(rows.to_pylist(), lambda r: r["epoch"])]
    texts = pa.table(
        {
            "epoch": pa.array([e for e, _ in grouped], pa.int64()),
            "results": pa.array(["".join(json.dumps(r, default=str) + "\n" for r in rs) for _, rs in grouped]),
        }
    )
    archived(
        context.layout.archived_checks,
        texts,
        texts.column_names,
        context.app("check_results", "archive"),
        CONFIGURATION,
    )
    results.delete(lambda _: old, Commit(owner=context.log.identity))
