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
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from ivm.engine.rows import Rows, StagedRows
from ivm.errors import LargeReadError, StateError
from ivm.names import WEIGHT
from ivm.plan.nodes import EPOCH
from ivm.storage.folder import PARTIAL
from ivm.storage.location import Location
from ivm.table import whole
from ivm.table.own import own
from ivm.table.protocol import Commit, Condition
from ivm.trace import recent
from ivm.zset.weighted import consolidate

#: Nobody but a running refresh reads a trace, and compaction runs when none does.
TRACE_RETENTION_HOURS = 0
#: Nobody travels back in a trace: its times are columns. A checkpoint every few commits, which
#: forgets the files that are gone, and no log before it.
TRACE_CONFIGURATION = {
    "delta.checkpointInterval": "10",
    "delta.logRetentionDuration": "interval 0 days",
    "delta.deletedFileRetentionDuration": f"interval {TRACE_RETENTION_HOURS} hours",
}


@dataclass(frozen=True)
class Layout:
    """What lies where under a pipeline's root.

    Tables by their URL, as both lanes take it; files and folders as locations.
    """

    base: Location

    @property
    def root(self) -> str:
        return self.base.url

    @property
    def internal(self) -> Location:
        return self.base / "_ivm"

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
    def check_results(self) -> str:
        """Results of checks, a row a view, expectation and epoch (see `ivm.quality.results`)."""
        return f"{self.internal}/check_results"

    @property
    def facts(self) -> str:
        """Sums over whole views that their checks are judged by (see `ivm.quality.fact_store`)."""
        return f"{self.internal}/facts"

    @property
    def audits(self) -> Location:
        """Checksums that audits have kept, a file a view (see `ivm.refresh.checksums`)."""
        return self.internal / "audits"

    def put_aside(self, path: str) -> None:
        """Move what lies at a path, if anything does, to where repairs put things."""
        if (found := Location.of(path)).exists():
            found.move(self.lost / f"{found.name}_{datetime.now(UTC):%Y%m%dT%H%M%S%f}")

    @property
    def lock(self) -> Location:
        return self.internal / "lock"

    @property
    def checks(self) -> Location:
        return self.internal / "checks"

    @property
    def programs(self) -> Location:
        return self.internal / "programs"

    @property
    def statements(self) -> Location:
        """Translations for the embedded engine (see `ivm.refresh.translated`)."""
        return self.internal / "statements"

    @property
    def lost(self) -> Location:
        """What a repair has put aside."""
        return self.internal / "lost"

    def table(self, unit: str, public: bool) -> str:
        """The consolidated rows of a unit; a view's is an ordinary table for everyone."""
        return f"{self.root}/{unit}" if public else f"{self.internal}/units/{unit}"

    def output_trace(self, unit: str, generation: str) -> str:
        return f"{self.traces}/{unit}/output_{generation}"

    def accumulator_trace(self, unit: str, generation: str) -> str:
        return f"{self.traces}/{unit}/accumulators_{generation}"

    @property
    def traces(self) -> Location:
        return self.internal / "traces"

    @property
    def arrangements(self) -> Location:
        return self.internal / "arrangements"

    def arrangement(self, relation: str, keys: Sequence[str]) -> str:
        """Readable, and another one for other keys, whatever characters these have.

        Keys that differ only in case are the same ones, since Spark ignores it.
        """
        keys = [k.lower() for k in keys]
        readable = re.sub(r"\W", "_", "_".join(keys))[:60]
        return f"{self.arrangements}/{relation}__by_{readable}_{hashlib.sha256(repr(keys).encode()).hexdigest()[:8]}"

    def staging(self, epoch: int, attempt: str, what: str) -> Location:
        """Where one attempt at an epoch writes what is published, or judged, before it is.

        No other attempt writes there.
        """
        return self.internal / "staging" / f"{epoch}_{attempt}" / what

    @property
    def scratches(self) -> Location:
        """What a process puts here, the next refresh of any process removes."""
        return self.internal / "scratch"

    def scratch(self, epoch: int, attempt: str) -> Location:
        """Where one attempt at an epoch puts what it reads."""
        return self.scratches / f"{epoch}_{attempt}"

    def sweep(self, kept: Collection[str]) -> None:
        """Remove what attempts that are over left behind.

        That is staging, scratch, half-written files, and generations of traces but those `kept`.
        """
        left = set[str]()
        for path in kept:
            inner = path
            while inner and inner not in left:  # itself, and each folder that it lies in
                left.add(inner)
                inner = inner.rpartition("/")[0]
        for folder in self._swept():
            if folder.url not in left:
                folder.drop()

    def _swept(self) -> Iterator[Location]:
        yield from (self.internal / "staging").list()
        yield from self.scratches.list()
        for unit in self.traces.list():
            yield from unit.list()
        for folder in (self.programs, self.statements, self.checks):
            yield from (f for f in folder.list() if f.name.endswith(PARTIAL))


def append_batch(path: str, batch: Rows, epoch: int, app: str) -> int:
    """Append an epoch's batch to a trace, once; an empty batch is not written. Returns how many rows it has there.

    Where an earlier attempt appended it, that is what it has: sums of doubles may come out in another way each time.
    A staged one is stamped with the epoch already.
    """
    if batch.num_rows and _appended(path, batch, epoch, app):
        return batch.num_rows
    trace = own(path)
    last = trace.transaction(app)
    if last is None or last < epoch:
        return 0
    found = trace.query(lambda t, q: f"SELECT count(*) AS n FROM {t} WHERE {of_epoch(epoch)(q)}")
    return int(found["n"][0].as_py())


def _appended(path: str, batch: Rows, epoch: int, app: str) -> bool:
    """Append a batch; False where that was done before."""
    if isinstance(batch, StagedRows):
        return own(path).append(batch, Commit(app, epoch), TRACE_CONFIGURATION)
    stamped = batch.append_column(EPOCH, pa.array([epoch] * batch.num_rows, pa.int64()))
    made = own(path).append(stamped, Commit(app, epoch), TRACE_CONFIGURATION)
    if made:
        whole.grown(path, stamped)
    if made and WEIGHT in batch.column_names:  # or an earlier attempt appended it, made in another way perhaps
        recent.appended(path, epoch, batch)
    return made


def read_batch(path: str, schema: pa.Schema, epoch: int) -> pa.Table:
    """An epoch's batch of an output trace: the unit's columns, which `schema` has, and WEIGHT."""
    weighted = pa.schema([*schema, pa.field(WEIGHT, pa.int64())])
    batch = recent.recalled(path, epoch)
    if batch is None:
        batch = own(path).read(weighted.names, of_epoch(epoch))
    return batch.select(weighted.names).cast(weighted)


def read_batches(
    path: str,
    columns: Sequence[str],
    after: int,
    upto: int,
    schema: pa.Schema,
    counted: str = "true",
    most: int | None = None,
    alone: bool = False,
) -> pa.Table | None:
    """The consolidated output delta, with weights +1 or -1, of the epochs after < epoch <= upto.

    `counted` is a condition that lets in those that count; `alone` says that only the batch of `upto` does. None where
    the batches hold more than `most` rows. Raises StateError where the trace isn't there: who asks knows that it was
    written.
    """
    wanted = pa.schema([*(schema.field(c) for c in columns), pa.field(WEIGHT, pa.int64())])
    trace = own(path)
    if not trace.exists():
        raise StateError(
            f"The output trace {path} is gone.", "The next refresh builds the view anew; `ivm repair` does it now."
        )

    def epochs(q: Callable[[str], str]) -> str:
        return f"{q(EPOCH)} > {after} AND {q(EPOCH)} <= {upto} AND {counted}"

    last = recent.recalled(path, upto) if alone else None
    if last is not None and (most is None or last.num_rows <= most):
        return consolidate(last.select(wanted.names).cast(wanted), columns)
    try:
        rows = trace.read([*columns, WEIGHT], epochs, most=most)
    except LargeReadError:
        return None
    return consolidate(rows.cast(wanted), columns)


def gained(path: str, epoch: int) -> int:
    """By how many rows an output trace's batch makes its table grow."""
    batch = recent.recalled(path, epoch)
    if batch is not None:
        return int(pc.sum(batch[WEIGHT]).as_py() or 0)
    found = own(path).query(lambda t, q: f"SELECT sum({q(WEIGHT)}) AS n FROM {t} WHERE {of_epoch(epoch)(q)}")
    return int(found["n"][0].as_py() or 0)


def of_epoch(epoch: int) -> Condition:
    """The condition on the rows of an epoch's batch."""
    return lambda q: f"{q(EPOCH)} = {int(epoch)}"


def holds(path: str, where: Condition) -> bool:
    """Whether any row of a table meets a condition."""
    return bool(own(path).read([EPOCH], lambda q: f"{where(q)} LIMIT 1").num_rows)


def drop_epoch(path: str, epoch: int, owner: str) -> None:
    """Remove an epoch's batch from a trace: it was abandoned, or will be planned anew."""
    if own(path).exists() and holds(path, of_epoch(epoch)):
        own(path).delete(of_epoch(epoch), Commit(owner=owner))
