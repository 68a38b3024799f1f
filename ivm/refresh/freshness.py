"""How far a view is behind its sources, beside the target that it was given.

    behind(view)  =  now - time of the oldest commit of a source that the published view has not read; 0 without one

A view with a temporal filter is behind from the moment on at which its filter may let other rows pass as well.

Read from the logs only, without Spark: the epoch log says up to which commit the view has read each source, directly or
through other views, and the sources' logs say when the next commit was made. A commit counts whatever it changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from ivm.durations import written
from ivm.errors import IvmError, SourceError
from ivm.feed.source import inspect, other_commit
from ivm.refresh.context import Context
from ivm.refresh.instants import as_instant, as_time, due_from
from ivm.refresh.past import when_read
from ivm.refresh.records import Cursor, Manifest, UnitState
from ivm.refresh.settings import TIME_ZONE
from ivm.sql.temporal import is_clock

_REFRESH = "The next refresh that succeeds mends it."


@dataclass(frozen=True)
class Freshness:
    """`behind` is None where it can't be told; `why` then says so, else what the view waits for."""

    target: timedelta
    behind: timedelta | None
    why: str = ""

    @property
    def late(self) -> bool:
        """Whether the target is missed: what can't be told isn't taken for fresh."""
        return self.behind is None or self.behind > self.target

    def __str__(self) -> str:
        behind = "not known" if self.behind is None else written(self.behind)
        return f"{behind} of {written(self.target)}"

    def to_dict(self) -> dict[str, object]:
        """As plain data; lengths of time in seconds."""
        return {
            "target_seconds": self.target.total_seconds(),
            "behind_seconds": None if self.behind is None else round(self.behind.total_seconds(), 3),
            "late": self.late,
            "why": self.why,
        }


def freshness(context: Context, view: str, now: datetime | None = None) -> Freshness | None:
    """How far a view is behind its sources; None where it has no target."""
    target = context.views[view].freshness
    if target is None:
        return None
    manifest = context.log.manifest()
    state = manifest.units.get(view)
    if state is None or state.version is None:
        return Freshness(target, None, "it has not been refreshed yet")
    waits: list[tuple[datetime, str]] = []
    try:
        for reader, relation, cursor in _read(context, manifest, state):
            if is_clock(relation):
                waits.append((_passes(reader, relation, cursor), "rows leave or enter it by time"))
            elif (since := _since(context, relation, cursor)) is not None:
                waits.append((since, f"version {(cursor.version or 0) + 1} of source {relation!r} has not been read"))
    except IvmError as error:
        return Freshness(target, None, str(error))
    now = now or as_time(as_instant(context.clock()))
    waits = [(since, why) for since, why in waits if since <= now]
    if not waits:
        return Freshness(target, timedelta(0))
    since, why = min(waits)
    return Freshness(target, now - since, why)


def _passes(reader: UnitState, clock: str, cursor: Cursor) -> datetime:
    """From when on a unit's temporal filter may let other rows pass than the published."""
    since = due_from(clock, cursor.version or 0, reader.settings.get(TIME_ZONE, ""))
    return as_time(cursor.version or 0) if since is None else since


def _since(context: Context, name: str, cursor: Cursor) -> datetime | None:
    """When the first commit was made that was not read; None where all were read.

    Raises SourceError where that can't be told: the source went another way since, its log was cleaned up, or it can't
    be looked at without Spark.
    """
    snapshot = inspect(context.sources[name], None, context.lane)
    version = cursor.version or 0
    other = other_commit(snapshot, version, cursor.table_id, cursor.fingerprint)
    if other:
        raise SourceError(f"Source {name!r}: {other}.", _REFRESH)
    if snapshot.version == version:
        return None
    since = snapshot.commits.at(version + 1)
    if since is None:
        raise SourceError(
            f"Source {name!r}: the log entry of version {version + 1}, the first one not read, is gone.", _REFRESH
        )
    return since


def _read(context: Context, manifest: Manifest, state: UnitState) -> Iterator[tuple[UnitState, str, Cursor]]:
    """Up to where a unit has read each source and clock, directly or through other units, as these were then."""
    for relation, cursor in state.cursors.items():
        if relation in context.sources or is_clock(relation):
            yield state, relation, cursor
        else:
            yield from _read(context, *when_read(context, manifest, relation, cursor))
