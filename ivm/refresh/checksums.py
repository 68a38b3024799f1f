"""A view's checksum: of all rows of a statement, or kept by an audit and brought forward by the output trace.

    checksum(rows)      = (how many, sum(hash(row)))
    checksum(view at n) = checksum(view at e) + sum(weight * hash(row)) over the batches that count at n, and not at e

Invariant: what is kept was equal to a recompute at e. It tells nothing of the published table, whose files it doesn't
read: it is taken only while the table is, by its log, what the last epoch left, and its files are as the log names
them (`why_scan` says why not). Nothing relies on what is kept: it can confirm, and never accuse.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ivm.lake.intact import not_as_logged
from ivm.lake.log import since
from ivm.names import WEIGHT, ident
from ivm.plan.nodes import EPOCH, Column
from ivm.refresh.context import Context
from ivm.refresh.integrity import OUTPUT, TABLE
from ivm.refresh.records import UnitState, from_json, to_json
from ivm.refresh.relations import batches
from ivm.refresh.verify import hashed_sql
from ivm.storage.location import Location
from ivm.table.own import own
from ivm.times.ranges import Ranges, within

_log = logging.getLogger(__name__)

#: Every so many audits by checksum the published table is read whole, whatever is kept.
SCAN_EVERY = 10


class Checksum(NamedTuple):
    """Of a bag of rows: how many, and the sum of their hashes (signed 64 bits each), exact."""

    rows: int
    sum: int


@dataclass(frozen=True)
class Kept:
    """A view's checksum when an audit found it equal to a recompute; `audits` were done since its table was read."""

    log: str
    definition: str
    generation: str
    epoch: int
    batches: Ranges
    rows: int
    sum: int
    audits: int = 0
    #: What its hashes mean, see `_meaning`.
    meaning: int = 1


@dataclass(frozen=True)
class Forward:
    """A kept checksum as of now, how many rows of the trace it took, and how many audits went before."""

    checksum: Checksum
    rows_read: int
    audits: int


def row_hash(columns: Sequence[Column]) -> str:
    """Spark's hash of a row's values as they are compared; and of what tells them apart beside NULLs, and in arrays.

    >>> row_hash([Column("a", "int")])
    'xxhash64((`a`) IS NULL, `a`)'
    """
    return f"xxhash64({', '.join(part for c in columns for part in hashed_sql(c))})"


def checksum_of(context: Context, columns: Sequence[Column], rows: str) -> Checksum:
    """The checksum of a FROM item with these columns, in Spark."""
    count, total, _ = _summed(context, columns, rows, "1")
    return Checksum(count, total)


def brought_forward(context: Context, view: str, state: UnitState) -> Forward | str:
    """The checksum of a view's state by what is kept and the batches since; or why the table must be read, in words."""
    try:
        kept = from_json(Kept, _place(context, view).read().decode())
        return (
            _stale(context, view, kept, state) or why_scan(context, view, state) or _forward(context, view, kept, state)
        )
    except FileNotFoundError:
        return "no checksum is kept"
    except Exception as error:  # noqa: BLE001 - whatever is wrong with what is kept, the table can be read
        _log.warning("view %s: its kept checksum can't be brought forward, its table is read: %s", view, error)
        return "what is kept, or the output trace, can't be read"


def _forward(context: Context, view: str, kept: Kept, state: UnitState) -> Forward:
    if not own(context.layout.output_trace(view, state.output_generation)).exists():
        return Forward(Checksum(kept.rows, kept.sum), 0, kept.audits)
    columns, epochs = context.compiled[view].program.columns, ident(EPOCH)
    news = f"{within(state.batches, epochs)} AND NOT {within(kept.batches, epochs)}"
    rows = f"({batches(context, view, state, [c.name for c in columns], news)}) AS `__ivm_batches`"
    count, total, read = _summed(context, columns, rows, ident(WEIGHT))
    return Forward(Checksum(kept.rows + count, kept.sum + total), read, kept.audits)


def why_scan(context: Context, view: str, state: UnitState) -> str:
    """Why a published table must be read to be known: others changed it, or its files are not as its log names them.

    Empty where the newest version is the one that the manifest names.
    """
    head, path = state.heads.get(TABLE), context.layout.table(view, True)
    if head is None:
        return "the manifest names no commit of the table"
    found = since(path, head, context.log.identity)
    if found.foreign:
        return f"the table was changed by others: {found.foreign}"
    if found.version != head.version:
        return f"the table is at version {found.version}, the last epoch left {head.version}"
    return not_as_logged(path)


def keep(context: Context, view: str, state: UnitState, checksum: Checksum, audits: int) -> None:
    """Keep a checksum that a recompute confirmed. What can't be written costs no more than the next audit's scan."""
    if not state.batches:  # a state of an older ivm, which doesn't say which batches count
        return
    kept = Kept(
        context.log.identity,
        state.definition,
        state.output_generation,
        state.epoch,
        state.batches,
        checksum.rows,
        checksum.sum,
        audits,
        _meaning(context, view),
    )
    try:
        _place(context, view).write(to_json(kept).encode())
    except Exception as error:  # noqa: BLE001 - an audit needs no right to write
        _log.warning("the checksum of view %s is not kept: %s", view, error)


def _place(context: Context, view: str) -> Location:
    return context.layout.audits / f"{view}.json"


def _meaning(context: Context, view: str) -> int:
    """Another number where rows are hashed otherwise: those of nested values once didn't tell NULLs and lengths."""
    return 2 if any("<" in c.type for c in context.compiled[view].program.columns) else 1


def _stale(context: Context, view: str, kept: Kept, state: UnitState) -> str:
    """Why what is kept can't be brought forward to a state; empty if it can."""
    if (kept.log, kept.definition, kept.generation) != (
        context.log.identity,
        state.definition,
        state.output_generation,
    ):
        return "the view was built anew"
    if kept.meaning != _meaning(context, view):
        return "what is kept is the sum of other hashes"
    if not kept.batches or not state.batches or not state.since <= kept.epoch <= state.epoch:
        return f"the output trace goes back to epoch {state.since}, what is kept is of epoch {kept.epoch}"
    if not 0 <= kept.audits < SCAN_EVERY - 1:
        return f"the table is read in every {SCAN_EVERY}th audit"
    head = state.heads.get(OUTPUT)
    trace = context.layout.output_trace(view, state.output_generation)
    return "" if head is None else since(trace, head, context.log.identity).foreign


def _summed(context: Context, columns: Sequence[Column], rows: str, weight: str) -> tuple[int, int, int]:
    """(sum of weights, sum of weight * hash, rows read) of a FROM item; a weight has at most 18 digits."""
    product = f"CAST({weight} AS decimal(18, 0)) * CAST({row_hash(columns)} AS decimal(19, 0))"
    found = (
        context.spark()
        .sql(
            f"SELECT CAST(coalesce(sum({weight}), 0) AS bigint) AS n, "
            f"CAST(CAST(coalesce(sum({product}), 0) AS decimal(38, 0)) AS string) AS h, count(*) AS r FROM {rows}"
        )
        .toArrow()
        .to_pylist()[0]
    )
    return int(found["n"]), int(found["h"]), int(found["r"])
