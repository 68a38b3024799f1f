"""Units that are refreshed incrementally together: what they read is read once, then each runs in a thread.

The next wave begins once those have ended that it reads; the others run beside it.

Handlers make batches; here they are stored under the epoch's number, where nobody reads them yet: what accumulators
gain first, then the output delta.
"""

from __future__ import annotations

import functools
import logging
import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import pyarrow as pa

from ivm.engine.embedded import EmbeddedRun, StaysWithSparkError
from ivm.engine.results import Results
from ivm.engine.rows import StagedRows
from ivm.errors import LargeSliceError
from ivm.execute.changes import Changes, StoredRowsLackingError
from ivm.execute.handlers import execute
from ivm.feed.arrow_datasets import ArrowDatasets
from ivm.feed.datasets import Asker, Datasets
from ivm.feed.input import Input
from ivm.feed.staged_datasets import StagedDatasets
from ivm.lake.shapes import arrow_schema
from ivm.names import WEIGHT
from ivm.parameters import AUTO
from ivm.plan.kinds import Publish, StrategyKind
from ivm.plan.nodes import Unit
from ivm.planner.lanes import stays_with_spark
from ivm.planner.learned import Past
from ivm.planner.strategy import Fixpoint, Incremental
from ivm.refresh.inputs import Inputs, needed_columns
from ivm.refresh.records import EMBEDDED, Cursor, Outcome, UnitState
from ivm.refresh.settings import STARTED
from ivm.refresh.threads import Threads
from ivm.rewrite.slices import Requests
from ivm.storage.location import Location
from ivm.times.ranges import with_epoch
from ivm.trace.store import append_batch

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A unit to bring up to date from its state at the last epoch."""

    view: str
    strategy: Incremental
    state: UnitState


def by_cursors(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that can share deltas and slices: those that have read each common relation equally far."""
    groups: list[tuple[dict[str, Cursor], list[Job]]] = []
    for job in jobs:
        cursors = job.state.cursors
        for known, members in groups:
            if all(known.get(r, c) == c for r, c in cursors.items()):
                known.update(cursors)
                members.append(job)
                break
        else:
            groups.append((dict(cursors), [job]))
    return [members for _, members in groups]


class Running:
    """Jobs over shared slices, each in a thread: first those that later waves wait for, of each kind the longest first.

    Making it reads what they share, and begins them; it raises whatever keeps that from being read: then none began.
    That is LargeSliceError where a slice is more than this process may hold, but where Spark keeps them (`staged`).
    Rows are read with the columns that units of waves to come (`later`) read, too, which then find them there.
    How each unit ended, an outcome or an error, is in `ended` after `wait` (of the `awaited`) or `finish` (of all).
    """

    def __init__(
        self,
        inputs: Inputs,
        scratch: Location,
        tag: str,
        jobs: Sequence[Job],
        threads: Threads,
        awaited: Collection[str] = (),
        later: Sequence[Unit] = (),
        staged: bool = False,
    ) -> None:
        requests, read = Requests(), dict[str, Input]()
        units = [*(job.strategy.unit for job in jobs), *later]
        #: What each unit asks for.
        self._askers = {job.strategy.unit.name: _asker(inputs, job) for job in jobs}
        for job in jobs:
            requests.merge(job.strategy.requests)
            for relation in (*job.strategy.unit.reads, job.strategy.unit.name):
                if relation not in read:
                    read[relation] = inputs.input(relation, job.state, units)
        self.ended: dict[str, Outcome | Exception] = {}
        self.inputs, self.jobs = inputs, longest_first(jobs, lambda: inputs.past)
        self.awaited = [j for j in self.jobs if j.strategy.unit.name in awaited]
        self.rest = [j for j in self.jobs if j.strategy.unit.name not in awaited]
        self._scratch, self._tag, self._threads = scratch, tag, threads
        started = time.perf_counter()
        name = f"{inputs.context.name}_{inputs.plan.epoch}_{tag}"
        askers = tuple(self._askers.values())

        def load(datasets: Datasets) -> None:
            datasets.load(requests, askers, needed_columns(later))

        self._datasets = _loaded(inputs, scratch, name, read, load, threads.quiet, staged)
        read_by = {job.strategy.unit.name: _rows_read(job.strategy.unit, self._seen(job)) for job in jobs}
        self._shares = _shares(read_by, time.perf_counter() - started)
        #: Why units stay with Spark where both engines may run them.
        self._reasons: dict[str, str] = {}
        self._engine = self._embedded()
        self._futures: dict[str, Future[None]] = {}
        if self._engine is None:
            self._by_spark([*self.awaited, *self.rest])
        else:
            self._begin([*self.awaited, *self.rest], self._run_embedded, None)

    def wait(self) -> None:
        """Wait for those that are awaited."""
        self._wait(self.awaited)

    def finish(self) -> None:
        """Wait for all, and forget what they shared."""
        self._wait(self.jobs)
        if self._engine is not None:
            self._engine.close()
        self._datasets.close()

    def _wait(self, jobs: Sequence[Job]) -> None:
        self._wait_for(jobs)
        left = [job for job in jobs if job.strategy.unit.name not in self.ended]
        if left:
            self._by_spark(left)
            self._wait_for(left)

    def _wait_for(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if future := self._futures.get(job.strategy.unit.name):
                future.result()

    def _begin(self, jobs: Sequence[Job], run: Callable[[Job], None], small: bool | None) -> None:
        begun = self._threads.begin([functools.partial(run, job) for job in jobs], small)
        self._futures |= {job.strategy.unit.name: future for job, future in zip(jobs, begun, strict=True)}

    def _by_spark(self, jobs: Sequence[Job]) -> None:
        most = self.inputs.context.limits.small_statement_rows
        sizes = {job.strategy.unit.name: self._seen(job).rows(job.strategy.unit.reads) for job in jobs}
        small = {name for name, rows in sizes.items() if rows is not None and rows <= most}
        # Large ones begin when all small ones have ended: where such a one is awaited, so are all small ones.
        all_awaited = any(job in jobs and job.strategy.unit.name not in small for job in self.awaited)
        for kind, ordered in ((True, self.jobs if all_awaited else jobs), (False, jobs)):
            mine = [job for job in ordered if job in jobs and (job.strategy.unit.name in small) is kind]
            if not mine:  # no session is started for nothing
                continue
            try:
                self._begin(mine, self._run, kind)
            except Exception as error:  # noqa: BLE001 - what keeps a session from being started is told of each
                self.ended |= {job.strategy.unit.name: error for job in mine}

    def _run(self, job: Job) -> None:
        name, context = job.strategy.unit.name, self.inputs.context
        results = Results(
            context.spark,
            self._scratch / f"{self._tag}_{name}",
            self.inputs.plan.epoch,
            context.limits.result_rows,
            # A recursion's iterations are few rows, or it is built anew.
            isinstance(self._datasets, StagedDatasets) and not isinstance(job.strategy, Fixpoint),
            self._datasets.bound.ready,
        )
        engine = f"spark: {self._reasons[name]}" if name in self._reasons else ""
        try:
            self.ended[name] = _run(self.inputs, job, self._seen(job), results, engine, self._shares[name])
        except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
            self.ended[name] = error

    def _seen(self, job: Job) -> Datasets:
        """What was read, as a unit reads it."""
        return self._datasets.seen_by(self._askers[job.strategy.unit.name])

    def _embedded(self) -> EmbeddedRun | None:
        """The engine in this process, where what can be run there is; None where all stays with Spark."""
        context = self.inputs.context
        if context.engine != AUTO:
            return None
        if isinstance(self._datasets, StagedDatasets):
            large = "a delta or a slice is too large for this process"
            self._reasons = {job.strategy.unit.name: large for job in self.jobs}
            return None
        return EmbeddedRun(self._datasets.readable, self._datasets.tag, context.limits, context.translations)

    def _run_embedded(self, job: Job) -> None:
        name = job.strategy.unit.name
        if job.state.settings != STARTED:
            self._reasons[name] = "its state was built under settings other than Spark's defaults"
            return
        if self.inputs.context.compiled[job.view].program.functions:
            self._reasons[name] = "it calls functions of the session's own"
            return
        assert self._engine is not None
        started = time.perf_counter()
        try:
            changes = _typed(execute(job.strategy, self._seen(job), self._engine), job.state)
        except StoredRowsLackingError as lacking:
            self.ended[name] = lacking
        except Exception as error:  # noqa: BLE001 - whatever it is, Spark is asked
            self._reasons[name] = str(error) or type(error).__name__
            _log.info("%s stays with Spark: %s", name, self._reasons[name])
        else:
            try:
                took = time.perf_counter() - started
                self.ended[name] = _stored(
                    self.inputs, job, self._seen(job), changes, took, self._shares[name], EMBEDDED
                )
            except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
                self.ended[name] = error


def longest_first(jobs: Sequence[Job], past: Callable[[], Mapping[str, Past]]) -> list[Job]:
    """Those first that ran longest before, or else are expected to read most: no long one is left for the end.

    `past` is asked only where there is an order to choose.

    Longest processing time first: R. L. Graham, Bounds on Multiprocessing Timing Anomalies, 1969.
    """
    if len(jobs) < 2:
        return list(jobs)
    known = past()

    def weight(job: Job) -> tuple[float, int]:
        seconds = known[job.strategy.unit.name].running
        return statistics.median(seconds) if seconds else 0.0, job.strategy.choice.cost_incremental

    return sorted(jobs, key=weight, reverse=True)


def _asker(inputs: Inputs, job: Job) -> Asker:
    unit = job.strategy.unit
    alike = frozenset(unit.reads) - inputs.deltas(unit, job.state).keys()
    return Asker(job.strategy.requests, needed_columns([unit]), alike)


def _rows_read(unit: Unit, seen: Datasets) -> int:
    """How many rows of slices it meets."""
    return seen.rows_read((*unit.reads, unit.name))


def _shares(rows: Mapping[str, int], seconds: float) -> dict[str, float]:
    """The seconds that reading for all took, by unit: as its share of the `rows` that they meet, each counted again."""
    total = sum(1 + n for n in rows.values())
    return {name: seconds * (1 + n) / total for name, n in rows.items()}


def _typed(changes: Changes, state: UnitState) -> Changes:
    """The changes, if their columns have exactly the types that Spark gave the unit's. Raises StaysWithSparkError."""
    found = [changes.rows.schema.types] if isinstance(changes.rows, pa.Table) else []
    wanted = [*arrow_schema(state.schema).types, pa.int64()]
    if found != [wanted]:
        raise StaysWithSparkError(f"its columns would be {', '.join(map(str, *found))}")
    return changes


def _loaded(
    inputs: Inputs,
    scratch: Location,
    tag: str,
    read: Mapping[str, Input],
    load: Callable[[Datasets], None],
    quiet: Callable[[], None],
    staged: bool,
) -> Datasets:
    """The loaded datasets of what is read: with Spark, once it is `quiet`, where that is much, else in this process.

    Raises LargeSliceError where that turns out to be much.
    """
    spark, limits = inputs.context.spark, inputs.context.limits
    found: Datasets
    if staged or stays_with_spark([i.delta.num_rows for i in read.values() if i.delta is not None], limits):
        quiet()
        found = StagedDatasets(spark, scratch, tag, read, limits)
    else:
        found = ArrowDatasets(spark, scratch, tag, read, limits).sharing(inputs.found)
    try:
        load(found)
    except LargeSliceError:
        found.close()
        raise
    return found


def _run(inputs: Inputs, job: Job, datasets: Datasets, results: Results, engine: str, share: float) -> Outcome:
    """The unit's outcome by Spark, its batches appended; `share` are its seconds of what was read for all."""
    started = time.perf_counter()
    changes = execute(job.strategy, datasets, results)
    return _stored(inputs, job, datasets, changes, time.perf_counter() - started, share, engine)


def _stored(
    inputs: Inputs, job: Job, datasets: Datasets, changes: Changes, seconds: float, share: float, engine: str
) -> Outcome:
    """The outcome of changes that took so long to make from what was read, once they are appended."""
    started = time.perf_counter()
    unit, state, choice, plan = job.strategy.unit, job.state, job.strategy.choice, inputs.plan
    rows_out = _store(inputs, job, changes)
    cursors = {r: inputs.cursor(r) for r in unit.reads}
    batches = with_epoch(state.batches, plan.epoch, inputs.manifest.epoch)
    after = replace(state, cursors=cursors, epoch=plan.epoch if rows_out else state.epoch, batches=batches)
    task = plan.tasks[job.view]
    return Outcome(
        unit.name, job.view, StrategyKind.INCREMENTAL, task.code, task.reason,
        Publish.MERGE if rows_out else Publish.NONE, after,
        rows_in=sum(d.num_rows for d in inputs.deltas(unit, state).values()),
        rows_read=_rows_read(unit, datasets),
        rows_out=rows_out, seconds=share + seconds + time.perf_counter() - started, shared_seconds=share,
        cost_incremental=choice.cost_incremental, cost_full=choice.cost_full, engine=engine, reads=inputs.keyed_reads(),
    )  # fmt: skip


def _store(inputs: Inputs, job: Job, changes: Changes) -> int:
    """Append what was made to the unit's traces; returns how many rows the output batch has there."""
    unit, state, context, epoch = job.strategy.unit, job.state, inputs.context, inputs.plan.epoch
    schema, batch = arrow_schema(state.schema), changes.rows
    if not isinstance(batch, StagedRows):
        stored = pa.schema([*schema, pa.field(WEIGHT, pa.int64())])
        batch = batch.rename_columns(stored.names).cast(stored)
    if changes.accumulators is not None:
        sums = context.layout.accumulator_trace(unit.name, state.generation)
        append_batch(sums, changes.accumulators, epoch, context.app(unit.name, f"accumulators/{state.generation}"))
    output = context.layout.output_trace(unit.name, state.output_generation)
    return append_batch(output, batch, epoch, context.app(unit.name, f"output/{state.output_generation}"))
