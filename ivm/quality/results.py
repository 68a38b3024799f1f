"""Results of checks: a Delta table in the root, one row a view, expectation and epoch.

    (epoch, view, scope, expectation, arguments, severity, success, observed, unexpected, elements, seconds, judged,
     message, document, at)

Invariant: of an epoch and a view there are the rows of one check, the last one. The table is a record: nothing relies
on it, so one that can't be read any more is put aside and begun anew.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ivm.errors import StateError
from ivm.lake.shapes import delta_schema
from ivm.names import literal
from ivm.quality.severity import QUARANTINE, WARN
from ivm.refresh.epochs import CONFIGURATION
from ivm.table.own import own
from ivm.table.protocol import Commit
from ivm.trace.store import Layout

_log = logging.getLogger(__name__)
#: The transaction of an epoch's first results: there are none of it before, nor of a later one.
_FIRST = "ivm/check_results"
_SCHEMA = pa.schema(
    [
        ("epoch", pa.int64()),
        ("view", pa.string()),
        ("scope", pa.string()),
        ("expectation", pa.string()),
        ("arguments", pa.string()),
        ("severity", pa.string()),
        ("success", pa.bool_()),
        ("observed", pa.string()),
        ("unexpected", pa.int64()),
        ("elements", pa.int64()),
        ("seconds", pa.float64()),
        ("judged", pa.string()),
        ("message", pa.string()),
        ("document", pa.string()),
        ("place", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass(frozen=True)
class Result:
    """One expectation's verdict in one epoch. `scope` is built-in, key, delta or state.

    `document` names the file (in `_ivm/checks`) with Great Expectations' own result of the whole suite; `seconds` is
    what that suite took. `judged` tells by what: rows, counts (kept ones, with the change), or rows and why.
    """

    view: str
    epoch: int
    scope: str
    expectation: str
    arguments: dict[str, Any]
    success: bool
    message: str = ""
    document: str = ""
    severity: str = QUARANTINE
    observed: Any = None
    unexpected: int | None = None
    elements: int | None = None
    seconds: float = 0.0
    judged: str = "rows"

    @property
    def sentence(self) -> str:
        arguments = ", ".join(f"{k}={v}" for k, v in self.arguments.items())
        return f"view {self.view}, {self.scope}: {self.expectation}({arguments}) failed: {self.message}"

    @property
    def verdict(self) -> str:
        """In a word: passed, warned or FAILED."""
        return "passed" if self.success else "FAILED" if self.holds else "warned"

    @property
    def holds(self) -> bool:
        """Whether the view is held back for it."""
        return not self.success and self.severity != WARN


def store(layout: Layout, epoch: int, views: Collection[str], results: Sequence[Result]) -> None:
    """Keep the results of an epoch's check of some views, in place of those of an earlier check of them."""
    if not results:
        return
    rows = pa.Table.from_pylist([_row(r, i) for i, r in enumerate(results)], _SCHEMA)
    try:
        _write(layout.check_results, epoch, views, rows)
    except Exception as error:
        if _readable(layout.check_results):  # a full disk, say: the step fails, and is run again
            raise
        _log.warning("the kept results of checks are put aside, and begun anew: %s", error)
        layout.put_aside(layout.check_results)
        _write(layout.check_results, epoch, views, rows)


def _readable(path: str) -> bool:
    try:
        return not own(path).exists() or own(path).read().num_rows >= 0
    except Exception:  # noqa: BLE001 - whatever keeps it from being read
        return False


def _write(path: str, epoch: int, views: Collection[str], rows: pa.Table) -> None:
    """An epoch's first results are added, which costs half of looking for those of an earlier check of it."""
    if own(path).append(rows, Commit(_FIRST, epoch), CONFIGURATION):
        return
    # The lanes escape alike what names may hold.
    listed = ", ".join(literal(v) for v in sorted(views))
    earlier = f"epoch = {int(epoch)} AND view IN ({listed})"
    own(path).replace(rows, delta_schema(_SCHEMA), Commit(), CONFIGURATION, lambda _: earlier)


def load(layout: Layout, last: int | None = None, view: str = "") -> list[Result]:
    """All kept results by epoch, or those of the `last` epochs that were checked; of one view where it is named.

    Raises StateError where they can't be read.
    """
    table = own(layout.check_results)
    if not table.exists():
        return []
    try:
        first = 0
        if last is not None:
            checked = table.read(["epoch", "view"]).to_pylist()
            epochs = sorted({r["epoch"] for r in checked if view in {"", r["view"]}})[-last:]
            first = epochs[0] if epochs else 0
        rows = table.read(_SCHEMA.names, lambda _: f"epoch >= {first}").to_pylist()
    except Exception as error:
        raise StateError(
            f"The kept results of checks in {layout.check_results} can't be read.",
            "Remove that folder: the next refresh writes its own.",
        ) from error
    mine = [row for row in rows if view in {"", row["view"]}]
    return [_of(row) for row in sorted(mine, key=lambda r: (r["epoch"], r["place"]))]


def _row(result: Result, place: int) -> dict[str, Any]:
    texts = {
        "arguments": json.dumps(result.arguments, default=str),
        "observed": None if result.observed is None else json.dumps(result.observed, default=str),
    }
    return {**vars(result), **texts, "place": place, "at": datetime.now(UTC)}


def _of(row: dict[str, Any]) -> Result:
    observed = None if row["observed"] is None else json.loads(row["observed"])
    kept = {k: v for k, v in row.items() if k not in ("place", "at")}
    return Result(**{**kept, "arguments": json.loads(row["arguments"]), "observed": observed})
