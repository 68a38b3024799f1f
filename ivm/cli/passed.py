"""What `ivm history` shows: a line an epoch, of a view or of the whole pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ivm.refresh.history import Passed, Refreshed

VIEW_COLUMNS = [
    "epoch",
    "at",
    "result",
    "strategy",
    "rows in",
    "rows out",
    "seconds",
    "expected",
    "saved",
    "version",
    "reason",
]
COLUMNS = ["epoch", "at", "status", "views", "rows in", "rows out", "seconds", "expected", "what is behind"]


def view_rows(epochs: Sequence[Passed]) -> list[list[Any]]:
    """A line an epoch of one view."""
    return [_line(v) for e in epochs for v in e.views]


def _line(v: Refreshed) -> list[Any]:
    expected = v.estimate.seconds if v.estimate is not None else None
    reason = v.error or "; ".join(filter(None, (v.reason, v.warning)))
    return [
        v.epoch, v.at, v.result, v.strategy, v.rows_in, v.rows_out, v.seconds, expected, v.saved, v.version, reason
    ]  # fmt: skip


def rows(epochs: Sequence[Passed]) -> list[list[Any]]:
    """A line an epoch of a pipeline."""
    return [_epoch(e) for e in epochs]


def _epoch(e: Passed) -> list[Any]:
    known = [v.estimate.seconds for v in e.views if v.estimate is not None and v.estimate.seconds is not None]
    behind = "; ".join(f"{v.view} {v.result}: {v.error}" for v in e.views if v.error)
    return [
        e.epoch,
        e.at,
        e.status,
        ", ".join(f"{n} {strategy}" for strategy, n in e.strategies.items()),
        sum(v.rows_in for v in e.views),
        sum(v.rows_out for v in e.views),
        round(sum(v.seconds for v in e.views), 3),
        round(sum(known), 3) if known else None,
        "; ".join(filter(None, (e.note, behind))),
    ]


def data(epochs: Sequence[Passed]) -> list[dict[str, Any]]:
    """For machines: all that is known of each epoch."""
    return [asdict(e) | {"views": [asdict(v) | {"saved": v.saved} for v in e.views]} for e in epochs]
