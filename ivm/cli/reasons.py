"""What `ivm why` shows: the rows asked for, what supports them, and what changed them, a table each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ivm.refresh.why import Why

Shown = tuple[str, list[str], list[list[Any]]]


def tables(found: Why) -> list[Shown]:
    """Title, columns and rows of each table."""
    title = f"rows of {found.view} where {found.where}, epoch {found.epoch}"
    shown = [_of_rows(title, found.rows, found.more)]
    for s in found.support:
        version = f" at version {s.version}" if s.version is not None else ""
        shown.append(_of_rows(f"supported by {s.relation}{version}", s.rows, s.more))
    names = list(found.changes[0].row) if found.changes else []
    changes = [[c.epoch, c.at, c.strategy, f"{c.weight:+d}", *_cells(c.row.values())] for c in found.changes]
    return [*shown, ("changed by", ["epoch", "at", "strategy", "weight", *names], changes)]


def notes(found: Why) -> list[str]:
    """What isn't known, in sentences."""
    return [*(f"{s.relation}: {s.note}" for s in found.support if s.note), *found.notes]


def _of_rows(title: str, rows: Sequence[dict[str, Any]], more: bool) -> Shown:
    columns = list(rows[0]) if rows else []
    return f"{title}{' (there are more)' if more else ''}", columns, [_cells(r.values()) for r in rows]


def _cells(values: Any) -> list[Any]:
    return ["NULL" if v is None else v for v in values]
