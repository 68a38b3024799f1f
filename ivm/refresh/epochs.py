"""The epoch log: an append-only Delta table of what each epoch went through.

    (epoch, status, unit, at, detail)    status: planned, applied, checked, committed,
                                         abandoning, abandoned

Invariant: an epoch number is used once; `planned` is committed under an application transaction of that number, so
of two refreshes that plan at the same moment one fails. The last `committed` row is the truth about all state.
An epoch that was `checked` is published as it was checked; one that wasn't may be planned anew.
The log's own table id is the root's identity: transactions of another log's epochs are not taken for this one's.
"""

from __future__ import annotations

import functools
import hashlib
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, TypeVar

import pyarrow as pa

from ivm.errors import IvmError, StateError
from ivm.refresh.records import EpochPlan, Manifest, Outcome, from_json, to_json
from ivm.refresh.upstream import with_readers_failed
from ivm.storage.lock import Fence
from ivm.table.archived import archived
from ivm.table.growing import FEW_FILES, GrowingTable
from ivm.table.own import own
from ivm.table.protocol import Commit

F = TypeVar("F", bound=Callable[..., Any])

STATUSES = ("planned", "applied", "checked", "committed", "abandoning", "abandoned")
CLOSED = ("committed", "abandoned")
_SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("status", pa.string()),
        ("unit", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("detail", pa.string()),
    ]
)
#: What tells events apart.
_KEY = ("epoch", "status", "unit", "at")
#: Its history is of no use to anybody: a checkpoint every few commits, which forgets the files that are gone (else it
#: would list a week's), and what lies before it is removed.
CONFIGURATION = {
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 0 days",
    "delta.deletedFileRetentionDuration": "interval 0 days",
}


@dataclass(frozen=True)
class Event:
    epoch: int
    status: str
    unit: str
    at: datetime
    detail: str


_EPOCH, _ORDER = attrgetter("epoch"), attrgetter("epoch", "at")


def _events(rows: pa.Table) -> Iterator[Event]:
    """The log's rows; their times are made here, since Arrow would import pandas for them."""
    if not rows.num_rows:
        return
    at = rows.schema.get_field_index("at")
    plain = rows.set_column(at, "at", rows["at"].cast(pa.timestamp("us")).cast(pa.int64()))
    for row in plain.to_pylist():
        yield Event(**row | {"at": _START + timedelta(microseconds=row["at"])})


def _applied(outcome: Outcome) -> tuple[str, str, str]:
    return "applied", outcome.unit, to_json(outcome)


_START = datetime(1970, 1, 1, tzinfo=UTC)


def _rows(events: Sequence[Event]) -> pa.Table:
    return pa.Table.from_pylist([{c: getattr(e, c) for c in _SCHEMA.names} for e in events], schema=_SCHEMA)


def _readable(function: F) -> F:
    """Whatever keeps the log from being read becomes one sentence."""

    @functools.wraps(function)
    def guarded(self: EpochLog, *args: Any, **kwargs: Any) -> Any:
        try:
            return function(self, *args, **kwargs)
        except IvmError:
            raise
        except Exception as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise StateError(
                f"The epoch log at {self.path} can't be read ({first}).",
                "Run `ivm repair`, which says what it would do first.",
            ) from error

    return guarded  # type: ignore[return-value]


def listed(manifest: Manifest) -> Manifest:
    """The manifest, each unit of it with its batches.

    An older ivm listed none, and left none in a trace that didn't count.
    """
    return replace(
        manifest,
        units={n: s if s.batches else replace(s, batches=((0, manifest.epoch),)) for n, s in manifest.units.items()},
    )


class EpochLog:
    """Read and append events.

    Raises StateError where the root belongs to another pipeline, or the log can't be read.
    """

    def __init__(self, path: str, pipeline: str) -> None:
        self.path = path
        self.pipeline = pipeline
        self._table = GrowingTable(path)
        self._identity = ""
        self._lock = threading.RLock()
        self._events: list[Event] = []
        self._manifests: dict[str, Manifest] = {}
        #: Asked before each write: raises where the lock of the root was lost. None where none is held.
        self.fence: Fence | None = None
        self._check_owner()

    def _check_owner(self) -> None:
        try:
            owner = self._table.name() if self.exists() else self.pipeline
        except Exception:  # noqa: BLE001 - whoever reads it will be told
            return
        if owner != self.pipeline:
            raise StateError(
                f"This root belongs to the pipeline {owner!r}, not to {self.pipeline!r}.",
                "Give the pipeline a root of its own.",
            )

    def forget_all(self) -> None:
        """Forget what was read: another log lies at the path now, or none."""
        self._table.forget()
        self._identity, self._events, self._manifests = "", [], {}

    def exists(self) -> bool:
        """Whether there is a log, readable or not."""
        return own(self.path).exists()

    @property
    @_readable
    def identity(self) -> str:
        """The log's own id, which the root's transactions carry; the log is made where there is none."""
        if not self._identity:
            self._create()
            self._identity = own(self.path).snapshot().table_id[:13]
        return self._identity

    def _create(self) -> None:
        self._table.create(_SCHEMA, self.pipeline, CONFIGURATION)

    @_readable
    def events(self) -> list[Event]:
        """All events in order of epoch and time; of a log that has grown only the new files are read.

        It is asked at every step: where no file of its log came or went, one listing and one look at a file tell so.
        """
        with self._lock:
            found = self._table.read()
            if found is not None:
                if found.whole:
                    # Another log may lie at the path now, or none.
                    self._identity, self._events = "", []
                self._events = sorted([*self._events, *_events(found.rows)], key=_ORDER)
            return self._events

    def record(self, epoch: int, status: str, unit: str = "", detail: str = "") -> bool:
        """Append an event, once. Raises ConcurrentRefreshError if another process appends it at the same moment."""
        return self._append(epoch, status, [(status, unit, detail)], unit)

    def record_checked(self, epoch: int, detail: str, outcomes: Sequence[Outcome] = ()) -> bool:
        """Append that an epoch was checked, and in the same commit the outcomes that were not recorded before.

        False where it was recorded already: nothing is written then.
        """
        return self._append(epoch, "checked", [*map(_applied, outcomes), ("checked", "", detail)], "")

    def _append(self, epoch: int, status: str, events: Sequence[tuple[str, str, str]], once: str) -> bool:
        """One commit of events (status, unit, detail), made once for this epoch, status and `once`."""
        assert status in STATUSES, status
        self.ask()
        self._create()
        now, n = datetime.now(UTC), len(events)
        statuses, units, texts = zip(*events, strict=True)
        rows = pa.table(
            {"epoch": [epoch] * n, "status": statuses, "unit": units, "at": [now] * n, "detail": texts},
            schema=_SCHEMA,
        )
        with self._lock:  # units that run in threads must not clean up what another one's commit reads
            made_once = Commit(f"ivm/{self.pipeline}/epochs/{status}/{once}", epoch)
            return self._table.append(rows, made_once)

    def ask(self) -> None:
        """Raises ConcurrentRefreshError where the lock of the root was lost: nothing may be written any more.

        Asked before each event, and before what drops or replaces rows that a later holder's may be among.
        """
        if self.fence is not None:
            self.fence()

    # -- readings ---------------------------------------------------------------------------------

    def manifest(self, epoch: int | None = None) -> Manifest:
        """The last committed manifest, or that of one epoch. Raises StateError where it was never committed."""
        known = self.events() if epoch is None else self._of(epoch)
        committed = next((e for e in reversed(known) if e.status == "committed"), None)
        if committed is not None:
            text = committed.detail
            if text not in self._manifests:
                last = [*self._manifests.items()][-1:]  # two are kept: who compares them asks for both in turn
                self._manifests = dict([*last, (text, listed(from_json(Manifest, text)))])
            return self._manifests[text]
        if epoch is None:
            return Manifest()
        kept = [e.epoch for e in self.events() if e.status == "committed"]
        raise StateError(
            f"Epoch {epoch} was not committed, or is kept no more.",
            f"Kept are: {', '.join(map(str, kept[-20:])) or 'none'}.",
        )

    def open_epoch(self) -> int | None:
        """The epoch that was planned and neither committed nor abandoned."""
        events = self.events()
        closed = {e.epoch for e in events if e.status in CLOSED}
        return next((e.epoch for e in reversed(events) if e.status == "planned" and e.epoch not in closed), None)

    def next_epoch(self) -> int:
        return max((e.epoch for e in self.events()), default=0) + 1

    def plan(self, epoch: int) -> EpochPlan:
        """An epoch's plan. Raises StateError where there is none."""
        planned = self.detail(epoch, "planned")
        if not planned:
            raise StateError(f"Epoch {epoch} has no plan.", "Run a refresh.")
        return from_json(EpochPlan, planned)

    def outcomes(self, epoch: int) -> dict[str, Outcome]:
        """By unit, what came of an epoch: what was applied, but of what read a view that failed."""
        return with_readers_failed(self.applied(epoch))

    def applied(self, epoch: int) -> dict[str, Outcome]:
        """By unit, what was applied in an epoch; of several attempts the last, of a success the first."""
        found: dict[str, Outcome] = {}
        for event in self._of(epoch):
            if event.status == "applied" and (event.unit not in found or found[event.unit].error):
                found[event.unit] = from_json(Outcome, event.detail)
        return found

    def has(self, epoch: int, status: str) -> bool:
        return any(e.status == status for e in self._of(epoch))

    def detail(self, epoch: int, status: str) -> str:
        return next((e.detail for e in self._of(epoch) if e.status == status), "")

    def _of(self, epoch: int) -> list[Event]:
        """The events of an epoch, which lie together."""
        events = self.events()
        return events[bisect_left(events, epoch, key=_EPOCH) : bisect_right(events, epoch, key=_EPOCH)]

    def record_outcomes(self, epoch: int, outcomes: Sequence[Outcome], attempt: str = "") -> dict[str, Outcome]:
        """Append outcomes in one commit: once for these units, or once an attempt.

        Returns what the log holds for these units, which another process may have written.
        """
        units = ",".join(sorted(o.unit for o in outcomes))
        once = f"{attempt}{hashlib.sha256(units.encode()).hexdigest()[:12]}"
        if outcomes and not self._append(epoch, "applied", [*map(_applied, outcomes)], once):
            known = self.applied(epoch)
            return {o.unit: known.get(o.unit, o) for o in outcomes}
        return {o.unit: o for o in outcomes}

    # -- upkeep -----------------------------------------------------------------------------------

    def forget(self, keep: int, needed: Sequence[int], archive: str) -> int:
        """Move the events of all but the last `keep` epochs to the archive; returns how many.

        Events of epochs that are `needed` stay. Where many commits' small files are left, one file takes their place.
        The archive is an ordinary Delta table of the same columns. A stop between the two writes leaves events in both:
        reading both, take each event once.
        """
        events = self.events()
        first = self.next_epoch() - keep
        old = [e for e in events if e.epoch < first and e.epoch not in needed]
        if not old and self._table.files <= FEW_FILES:
            return 0
        if old:
            self.ask()
            app = f"ivm/{self.pipeline}/{self.identity}/archive"
            archived(archive, _rows(old), _KEY, app, CONFIGURATION)
        self.ask()
        self._table.keep_only(_rows([e for e in events if e.epoch >= first or e.epoch in needed]), self.identity)
        return len(old)
