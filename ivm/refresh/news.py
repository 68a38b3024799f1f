"""What the sources have that the views have not read: a look at logs only, without Spark.

    news  =  {source: newest version}  where the last epoch, or a view that isn't in trouble, has read another commit

A view that fails, is held back or can't be compiled reads nothing new until it is mended, and so do those that read it:
they are no news, or whoever waits for news would try them for ever. Nor is what no view reads, or one did that is gone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ivm.errors import IvmError
from ivm.feed.source import Snapshot, inspect
from ivm.refresh.context import Context
from ivm.refresh.living import living_units, read_by_views
from ivm.refresh.records import Cursor, Manifest

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class News:
    """Sources with something unread after the committed `epoch`, and their newest versions."""

    epoch: int
    versions: Mapping[str, int]

    def __bool__(self) -> bool:
        return bool(self.versions)


def news(context: Context) -> News:
    """The unread commits of all sources that views read; one that can't be looked at is left out, and logged.

    Raises StateError where the epoch log can't be read.
    """
    manifest = context.log.manifest()
    lagging = _in_trouble(context, manifest)
    units = {u: s for u, s in living_units(context, manifest).items() if u not in lagging}
    found, wanted = {}, read_by_views(context, manifest)
    for name, source in context.sources.items():
        if name not in wanted:
            continue
        try:
            snapshot = inspect(source, None, context.lane)
        except IvmError as error:
            _log.warning("source %s can't be looked at: %s", name, error)
            continue
        read = [s.cursors[name] for s in units.values() if name in s.cursors]
        last = manifest.sources.get(name)
        if last is None or any(_other(cursor, snapshot) for cursor in (last, *read)):
            found[name] = snapshot.version
    return News(manifest.epoch, found)


def _other(cursor: Cursor, snapshot: Snapshot) -> bool:
    """Whether the newest commit is another one than was read."""
    return cursor.version != snapshot.version or any(
        was and was != now
        for was, now in ((cursor.table_id, snapshot.table_id), (cursor.fingerprint, snapshot.fingerprint))
    )


def _in_trouble(context: Context, manifest: Manifest) -> set[str]:
    """The units of views that fail or are held back, and those that read them."""
    views = {*manifest.held, *manifest.failing}
    epochs = {h.epoch for h in manifest.held.values()} | {f.epoch for f in manifest.failing.values()}
    outcomes = [o for epoch in epochs for o in context.log.outcomes(epoch).values()]
    found = views | {o.unit for o in outcomes if o.view in views}
    while more := {u for u, s in manifest.units.items() if u not in found and found & set(s.cursors)}:
        found |= more
    return found
