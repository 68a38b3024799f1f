"""Where a pipeline's tables lie under its root, and the batches of its traces.

A trace is an append-only Delta table of batches, one an epoch:

    output trace        (the unit's columns, epoch, weight)
    accumulator trace   (group keys, accumulators, row count, epoch)

Invariant: the published table at epoch n is the consolidated output trace up to n, on top of what was published
at the trace's `since`; the accumulators of a group at n are the sum of its batches up to n.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ivm.lake import native
from ivm.names import native_ident
from ivm.plan.nodes import EPOCH, WEIGHT

#: Tables keep the files of replaced versions this long for readers and time travel.
RETENTION_HOURS = 168
OUTPUT_CONFIGURATION = {"delta.enableChangeDataFeed": "true"}


@dataclass(frozen=True)
class Layout:
    """Paths under a pipeline's root."""

    root: str

    @property
    def internal(self) -> str:
        return f"{self.root}/_ivm"

    @property
    def epochs(self) -> str:
        return f"{self.internal}/epochs"

    @property
    def checks(self) -> str:
        return f"{self.internal}/checks"

    @property
    def programs(self) -> Path:
        return Path(self.internal) / "programs"

    def table(self, unit: str, public: bool) -> str:
        """The consolidated rows of a unit; a view's is an ordinary table for everyone."""
        return f"{self.root}/{unit}" if public else f"{self.internal}/units/{unit}"

    def output_trace(self, unit: str, generation: int) -> str:
        return f"{self.internal}/traces/{unit}/output_{generation}"

    def accumulator_trace(self, unit: str, generation: int) -> str:
        return f"{self.internal}/traces/{unit}/accumulators_{generation}"

    @property
    def arrangements(self) -> Path:
        return Path(self.internal) / "arrangements"

    def arrangement(self, relation: str, keys: Sequence[str]) -> Path:
        """Readable, and another one for other keys whatever characters these have (but for their case, which Spark ignores)."""
        keys = [k.lower() for k in keys]
        readable = re.sub(r"\W", "_", "_".join(keys))[:60]
        return self.arrangements / f"{relation}__by_{readable}_{hashlib.sha256(repr(keys).encode()).hexdigest()[:8]}"

    def staging(self, unit: str, epoch: int) -> str:
        return f"{self.internal}/staging/{unit}/{epoch}"

    def scratch(self, epoch: int) -> Path:
        return Path(self.internal) / "scratch" / str(epoch)

    def drop(self, path: str | Path) -> None:
        """Remove a folder of ours."""
        shutil.rmtree(path, ignore_errors=True)


def append_batch(path: str, batch: pa.Table, epoch: int, app: str) -> bool:
    """Append an epoch's batch to a trace, once; an empty batch is not written."""
    if batch.num_rows == 0:
        return False
    stamped = batch.append_column(EPOCH, pa.array([epoch] * batch.num_rows, pa.int64()))
    return native.append(path, stamped, app, epoch)


def read_batches(path: str, columns: Sequence[str], after: int, upto: int, schema: pa.Schema) -> pa.Table:
    """The consolidated output delta of the epochs after < epoch <= upto, with weights +1 or -1."""
    wanted = pa.schema([*(schema.field(c) for c in columns), pa.field(WEIGHT, pa.int64())])
    if not native.exists(path):
        return wanted.empty_table()
    epochs = f"{native_ident(EPOCH)} > {after} AND {native_ident(EPOCH)} <= {upto}"
    rows = native.read(native.table(path), [*columns, WEIGHT], epochs)
    return native.consolidate(rows.cast(wanted), columns)


def drop_epoch(path: str, epoch: int) -> None:
    """Remove an abandoned epoch's batch from a trace."""
    if native.exists(path) and native.read(native.table(path), [EPOCH], f"{native_ident(EPOCH)} = {epoch} LIMIT 1").num_rows:
        native.table(path).delete(f"{EPOCH} = {epoch}")
