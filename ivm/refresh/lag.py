"""Which views lag behind a source, and whether the source still keeps what they have to read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from ivm.errors import IvmError
from ivm.feed.retention import warnings
from ivm.feed.source import Snapshot, inspect
from ivm.names import is_path
from ivm.refresh.context import Context
from ivm.refresh.living import declared_units
from ivm.refresh.records import Manifest, UnitState
from ivm.storage.location import served


def lag_warnings(
    snapshots: Mapping[str, Snapshot], units: Mapping[str, UnitState], now: datetime | None = None
) -> list[str]:
    """A sentence for each source whose retention comes close to what a view's unit lags behind."""
    found = []
    for name, snapshot in snapshots.items():
        read = {u: s.cursors[name] for u, s in units.items() if name in s.cursors}
        # Of another table nothing is waited for: its views are refreshed in full.
        readers = {u: c.version for u, c in read.items() if c.version is not None and c.table_id == snapshot.table_id}
        found += warnings(snapshot, readers, now or datetime.now(UTC))
    return found


def source_warnings(context: Context, manifest: Manifest) -> list[str]:
    """What there is to warn of in the sources that can be looked at without Spark.

    An unreadable one is a warning itself.
    """
    sources = [s for s in context.sources.values() if is_path(s.location) and served(s.location) is not None]
    found, units = [], declared_units(context, manifest)
    for source, looked in zip(sources, context.look_without_spark(sources), strict=True):
        try:
            snapshot = looked or inspect(source, None, context.lane)
        except IvmError as error:
            snapshot = error
        if isinstance(snapshot, IvmError):
            found.append(str(snapshot))
        else:
            found += lag_warnings({source.name.lower(): snapshot}, units)
    return found
