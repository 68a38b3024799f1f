"""A relation as an epoch reads it, and what of it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ivm.engine.rows import Rows
from ivm.plan.nodes import EPOCH, Column
from ivm.rewrite.delta_join import State
from ivm.storage.location import Location
from ivm.table.protocol import Wanted
from ivm.times.ranges import Ranges, within


@dataclass(frozen=True)
class Index:
    """The same rows arranged by `keys`; `find` gives those that are wanted (columns, keys, scratch folder).

    None where it can't be read: the relation itself can.
    """

    keys: tuple[str, ...]
    find: Callable[[Sequence[str], Wanted, Location], pa.Table | None]


@dataclass(frozen=True)
class Accumulators:
    """A trace of accumulators, of which the batches count whose epochs are in `batches`, and the groups' keys."""

    path: str
    keys: tuple[str, ...]
    columns: tuple[Column, ...]
    batches: Ranges

    @property
    def counted(self) -> str:
        """Which rows of the trace count, as a condition of SQL."""
        return within(self.batches, EPOCH)


@dataclass(frozen=True)
class Input:
    """A relation in an epoch: its snapshot that is read, which state that is, and its delta.

    `delta` is None where nothing changed; its rows have the needed columns and WEIGHT +1 or -1. Of a `native` one
    delta-rs reads the snapshot, of another Spark; of a `searched` one it isn't asked where DuckDB's reader finds rows.
    """

    relation: str
    columns: tuple[Column, ...]
    schema: pa.Schema
    path: str
    version: int | None
    base: State
    native: bool
    delta: Rows | None
    rows: int | None
    #: The version of the old state, where the table still has it.
    since: int | None = None
    indexes: tuple[Index, ...] = ()
    #: All its rows as they are now, where no table has them.
    given: pa.Table | None = None
    #: Of a unit that keeps them.
    accumulators: Accumulators | None = None
    searched: bool = False

    def index(self, wanted: Wanted) -> Index | None:
        """The index that finds these rows, if there is one."""
        fitting = (i for i in self.indexes if not wanted.between and set(i.keys) <= set(wanted.columns))
        return max(fitting, key=lambda i: len(i.keys), default=None)
