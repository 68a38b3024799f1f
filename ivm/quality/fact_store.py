"""The kept sums of views: one small Delta table in the root.

    (log, view, epoch, key, numbers)     numbers: JSON

Invariant: rows of (log, view, epoch) tell of the view's rows as the epoch of that log published them, or would.
They hold for what is published now if the manifest of the same log says that the view was changed last by that epoch,
and that it has as many rows. Nothing relies on the table otherwise: what it lacks is counted anew from all rows.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping

import pyarrow as pa

from ivm.lake.shapes import delta_schema
from ivm.quality.facts import Numbers
from ivm.refresh.context import Context
from ivm.refresh.epochs import CONFIGURATION
from ivm.refresh.records import UnitState
from ivm.table.own import own
from ivm.table.protocol import Commit

_log = logging.getLogger(__name__)
_SCHEMA = pa.schema(
    [
        ("log", pa.string()),
        ("view", pa.string()),
        ("epoch", pa.int64()),
        ("rows", pa.int64()),
        ("key", pa.string()),
        ("numbers", pa.string()),
    ]
)
#: Sums by their key.
Facts = Mapping[str, Numbers]


class FactStore:
    """What is kept of all views, read once an epoch and written once."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.path = context.layout.facts
        self.log = context.log.identity
        self._rows = self._read()
        self._known = list(self._rows)

    def _read(self) -> list[dict[str, object]]:
        table = own(self.path)
        if not table.exists():
            return []
        try:
            rows: list[dict[str, object]] = table.read(_SCHEMA.names).to_pylist()
            return rows
        except Exception as error:  # noqa: BLE001 - what can't be read is counted anew
            _log.warning("the kept sums can't be read, and are put aside: %s", error)
            self.context.layout.put_aside(self.path)
            return []

    def published(self, view: str, state: UnitState | None) -> tuple[Facts, str]:
        """The sums of a view as it is published, and why there are none."""
        if state is None:
            return {}, "the view is built"
        mine = [r for r in self._rows if (r["log"], r["view"], r["epoch"]) == (self.log, view, state.epoch)]
        if not mine:
            return {}, f"no sums are kept of epoch {state.epoch}, which changed the view last"
        if any(r["rows"] != state.rows for r in mine):
            return {}, f"the sums of epoch {state.epoch} are of another number of rows"
        return {str(r["key"]): json.loads(str(r["numbers"])) for r in mine}, ""

    def put(self, view: str, epoch: int, rows: int, facts: Facts) -> None:
        """Keep the sums of a view as an epoch would publish it."""
        self._rows = [r for r in self._rows if (r["view"], r["epoch"]) != (view, epoch)]
        self._rows += [
            {"log": self.log, "view": view, "epoch": epoch, "rows": rows, "key": k, "numbers": json.dumps(n)}
            for k, n in facts.items()
        ]

    def carry(self, view: str, state: UnitState, epoch: int) -> None:
        """An epoch changes nothing of a view's rows, but is the last that the manifest names for it."""
        facts, _ = self.published(view, state)
        if facts and state.epoch != epoch:
            self.put(view, epoch, state.rows, facts)

    def write(self, epoch: int) -> None:
        """Keep what was put, and of what was known only what published and held views need.

        A failure costs no more than counting anew.
        """
        manifest = self.context.log.manifest()
        needed = {(v, s.epoch) for v, s in manifest.units.items()} | {(v, h.epoch) for v, h in manifest.held.items()}
        kept = [r for r in self._rows if r["log"] == self.log and self._is_needed(r, needed, epoch)]
        if kept == self._known:
            return
        try:
            rows = pa.Table.from_pylist(kept, _SCHEMA)
            own(self.path).replace(rows, delta_schema(_SCHEMA), Commit(), CONFIGURATION)
        except Exception as error:  # noqa: BLE001 - no view waits for what is only faster with it
            _log.warning("the sums of epoch %s are not kept: %s", epoch, error)

    @staticmethod
    def _is_needed(row: Mapping[str, object], needed: Collection[tuple[str, int]], epoch: int) -> bool:
        return row["epoch"] == epoch or (row["view"], row["epoch"]) in needed
