"""The epoch log: an append-only Delta table of what each epoch went through.

    (epoch, status, unit, at, detail)    status: planned, applied, checked, quarantined, publishing, committed, abandoned

Invariant: an epoch number is used once; `planned` is committed under an application transaction of that number, so
of two refreshes that plan at the same moment one fails. The last `committed` row is the truth about all state.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.dataset as pads
from deltalake import DeltaTable, write_deltalake

from ivm.errors import StateError
from ivm.lake import native
from ivm.refresh.records import EpochPlan, Manifest, Outcome, from_json, to_json

STATUSES = ("planned", "applied", "checked", "quarantined", "publishing", "committed", "abandoned")
_CLOSED = ("committed", "abandoned")
_SCHEMA = pa.schema([("epoch", pa.int64()), ("status", pa.string()), ("unit", pa.string()), ("at", pa.timestamp("us", "UTC")), ("detail", pa.string())])


@dataclass(frozen=True)
class Event:
    epoch: int
    status: str
    unit: str
    at: datetime
    detail: str


class EpochLog:
    """Read and append events. Raises StateError where the root belongs to another pipeline."""

    def __init__(self, path: str, pipeline: str) -> None:
        self.path = path
        self.pipeline = pipeline
        self._delta: DeltaTable | None = None
        self._files: frozenset[str] = frozenset()
        self._events: list[Event] = []
        self._manifests: dict[str, Manifest] = {}
        if not native.exists(path):
            return
        owner = native.table(path).metadata().name
        if owner != pipeline:
            raise StateError(f"This root belongs to the pipeline {owner!r}, not to {pipeline!r}.", "Give the pipeline a root of its own.")

    def events(self) -> list[Event]:
        """All events in order of epoch and time; of a log that has grown only the new files are read."""
        if not native.exists(self.path):
            return []
        self._delta = self._delta or DeltaTable(self.path)
        self._delta.update_incremental()
        files = frozenset(self._delta.file_uris())
        if files != self._files:
            grown = self._files < files and native.is_local(self.path)
            rows = pads.dataset(sorted(files - self._files), format="parquet").to_table() if grown else native.read(self._delta)
            known = self._events if grown else []
            self._events = sorted([*known, *(Event(**row) for row in rows.to_pylist())], key=lambda e: (e.epoch, e.at))
            self._files = files
        return self._events

    def record(self, epoch: int, status: str, unit: str = "", detail: str = "") -> bool:
        """Append an event, once. Raises ConcurrentRefreshError if another process appends it at the same moment."""
        assert status in STATUSES, status
        if not native.exists(self.path):
            write_deltalake(self.path, _SCHEMA.empty_table(), name=self.pipeline, mode="ignore")
        row = pa.table({"epoch": [epoch], "status": [status], "unit": [unit], "at": [datetime.now(UTC)], "detail": [detail]}, schema=_SCHEMA)
        return native.append(self.path, row, f"ivm/{self.pipeline}/epochs/{status}/{unit}", epoch)

    # -- readings ---------------------------------------------------------------------------------

    def manifest(self, epoch: int | None = None) -> Manifest:
        """The last committed manifest, or that of one epoch. Raises StateError where it was never committed."""
        committed = [e for e in self.events() if e.status == "committed" and epoch in (None, e.epoch)]
        if committed:
            text = committed[-1].detail
            if text not in self._manifests:
                self._manifests = {text: from_json(Manifest, text)}
            return self._manifests[text]
        if epoch is None:
            return Manifest()
        known = [e.epoch for e in self.events() if e.status == "committed"]
        raise StateError(f"Epoch {epoch} was not committed.", f"Committed are: {', '.join(map(str, known[-20:])) or 'none'}.")

    def open_epoch(self) -> int | None:
        """The epoch that was planned and neither committed nor abandoned."""
        events = self.events()
        closed = {e.epoch for e in events if e.status in _CLOSED}
        return next((e.epoch for e in reversed(events) if e.status == "planned" and e.epoch not in closed), None)

    def next_epoch(self) -> int:
        return max((e.epoch for e in self.events()), default=0) + 1

    def plan(self, epoch: int) -> EpochPlan:
        return from_json(EpochPlan, next(e.detail for e in self.events() if e.epoch == epoch and e.status == "planned"))

    def outcomes(self, epoch: int) -> dict[str, Outcome]:
        """By unit, what was applied in an epoch."""
        return {e.unit: from_json(Outcome, e.detail) for e in self.events() if e.epoch == epoch and e.status == "applied"}

    def has(self, epoch: int, status: str) -> bool:
        return any(e.epoch == epoch and e.status == status for e in self.events())

    def detail(self, epoch: int, status: str) -> str:
        return next((e.detail for e in self.events() if e.epoch == epoch and e.status == status), "")

    def record_outcome(self, epoch: int, outcome: Outcome) -> None:
        self.record(epoch, "applied", outcome.unit, to_json(outcome))
