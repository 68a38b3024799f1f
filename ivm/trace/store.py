"""Where a pipeline's tables lie under its root, and the batches of its traces.

A trace is an append-only Delta table of batches, one an epoch:

    output trace        (the unit's columns, epoch, weight)
    accumulator trace   (group keys, accumulators, row count, epoch)

Invariant: the published table at epoch n is the consolidated output trace up to n, on top of what was published
at the trace's `since`; the accumulators of a group at n are the sum of its batches up to n. Only batches of the epochs
that the manifest lists for the unit count; others are of attempts that failed or died.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from ivm.errors import StateError
from ivm.lake import native
from ivm.lake.log import tagged
from ivm.names import native_ident
from ivm.plan.nodes import EPOCH, WEIGHT

#: Nobody travels back in a trace: its times are columns. A checkpoint every few commits, and no log before it.
TRACE_CONFIGURATION = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 0 days"}


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
    def archive(self) -> str:
        """Events of epochs that the log has let go."""
        return f"{self.internal}/archive"

    @property
    def archived_checks(self) -> str:
        """Results of checks of these epochs: (epoch, results as JSON lines)."""
        return f"{self.internal}/archive_checks"

    @property
    def checks(self) -> str:
        return f"{self.internal}/checks"

    @property
    def programs(self) -> Path:
        return Path(self.internal) / "programs"

    def table(self, unit: str, public: bool) -> str:
        """The consolidated rows of a unit; a view's is an ordinary table for everyone."""
        return f"{self.root}/{unit}" if public else f"{self.internal}/units/{unit}"

    def output_trace(self, unit: str, generation: str) -> str:
        return f"{self.traces}/{unit}/output_{generation}"

    def accumulator_trace(self, unit: str, generation: str) -> str:
        return f"{self.traces}/{unit}/accumulators_{generation}"

    @property
    def traces(self) -> str:
        return f"{self.internal}/traces"

    @property
    def arrangements(self) -> Path:
        return Path(self.internal) / "arrangements"

    def arrangement(self, relation: str, keys: Sequence[str]) -> Path:
        """Readable, and another one for other keys whatever characters these have (but for their case, which Spark ignores)."""
        keys = [k.lower() for k in keys]
        readable = re.sub(r"\W", "_", "_".join(keys))[:60]
        return self.arrangements / f"{relation}__by_{readable}_{hashlib.sha256(repr(keys).encode()).hexdigest()[:8]}"

    def staging(self, epoch: int, attempt: str, what: str) -> str:
        """Where one attempt at an epoch writes what is published, or judged, before it is. No other attempt writes there."""
        return f"{self.internal}/staging/{epoch}_{attempt}/{what}"

    def scratch(self, epoch: int, attempt: str) -> Path:
        """Where one attempt at an epoch puts what it reads."""
        return Path(self.internal) / "scratch" / f"{epoch}_{attempt}"

    def drop(self, path: str | Path) -> None:
        """Remove a folder or a file of ours."""
        if Path(path).is_file():
            Path(path).unlink(missing_ok=True)
        else:
            shutil.rmtree(path, ignore_errors=True)

    def sweep(self, kept: Collection[str]) -> None:
        """Remove what attempts that are over left behind: staging, scratch, half-written programs, generations of traces but those `kept`."""
        for folder in self._swept():
            if not any(path == str(folder) or path.startswith(f"{folder}/") for path in kept):
                self.drop(folder)

    def _swept(self) -> Iterator[Path]:
        internal = Path(self.internal)
        for pattern in ("staging/*", "scratch/*", "traces/*/*", "programs/*.partial"):
            yield from internal.glob(pattern)


def append_batch(path: str, batch: pa.Table, epoch: int, app: str) -> bool:
    """Append an epoch's batch to a trace, once; an empty batch is not written."""
    if batch.num_rows == 0:
        return False
    stamped = batch.append_column(EPOCH, pa.array([epoch] * batch.num_rows, pa.int64()))
    return native.append(path, stamped, app, epoch, TRACE_CONFIGURATION)


def read_batches(path: str, columns: Sequence[str], after: int, upto: int, schema: pa.Schema, counted: str = "true") -> pa.Table:
    """The consolidated output delta of the epochs after < epoch <= upto that `counted` (a condition) lets in, with weights +1 or -1.

    Raises StateError where the trace isn't there: who asks knows that it was written.
    """
    wanted = pa.schema([*(schema.field(c) for c in columns), pa.field(WEIGHT, pa.int64())])
    if not native.exists(path):
        raise StateError(f"The output trace {path} is gone.", "The next refresh builds the view anew; `ivm repair` does it now.")
    epochs = f"{native_ident(EPOCH)} > {after} AND {native_ident(EPOCH)} <= {upto} AND {counted}"
    rows = native.read(native.table(path), [*columns, WEIGHT], epochs)
    return native.consolidate(rows.cast(wanted), columns)


def drop_epoch(path: str, epoch: int, owner: str) -> None:
    """Remove an epoch's batch from a trace: it was abandoned, or will be planned anew."""
    if native.exists(path) and native.read(native.table(path), [EPOCH], f"{native_ident(EPOCH)} = {epoch} LIMIT 1").num_rows:
        native.table(path).delete(f"{EPOCH} = {epoch}", commit_properties=tagged(owner))
