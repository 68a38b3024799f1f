"""Which views lag behind a source, and whether the source still keeps what they have to read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from ivm.errors import IvmError
from ivm.feed.retention import warnings
from ivm.feed.source import Snapshot, inspect
from ivm.names import is_path
from ivm.refresh.context import Context
from ivm.refresh.records import Manifest
from ivm.storage.location import served


def lag_warnings(snapshots: Mapping[str, Snapshot], manifest: Manifest, now: datetime | None = None) -> list[str]:
    """A sentence for each source whose retention comes close to what a view lags behind."""
    found = []
    for name, snapshot in snapshots.items():
        read = {u: s.cursors[name] for u, s in manifest.units.items() if name in s.cursors}
        # Of another table nothing is waited for: its views are refreshed in full.
        readers = {u: c.version for u, c in read.items() if c.version is not None and c.table_id == snapshot.table_id}
        found += warnings(snapshot, readers, now or datetime.now(UTC))
    return found


def source_warnings(context: Context, manifest: Manifest) -> list[str]:
    """What there is to warn of in the sources that can be looked at without Spark.

    An unreadable one is a warning itself.
    """
    found = []
    for name, source in context.sources.items():
        if not is_path(source.location) or served(source.location) is None:
            continue
        try:
            found += lag_warnings({name: inspect(source, None, context.lane)}, manifest)
        except IvmError as error:
            found.append(str(error))
    return found
