"""Step 2, apply: compute each unit's delta (or its full result) and store it where nobody reads it yet.

Units run in waves: a wave's units depend only on earlier waves. A wave's slices are read together, then its units
run in threads. Deltas go to traces under the epoch's number, full results to staging; publishing is another step.

Every attempt writes full results under a name of its own, so that what a dead one's jobs still write is nobody's. A unit
that fails incrementally is built anew in the same epoch, unless its own SQL is known to be the reason.
"""

from __future__ import annotations

import functools
import logging
import math
import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ivm.feed.datasets import NATIVE_WHOLE_ROWS, Datasets, Input, register
from ivm.feed.deltas import GapError, TooLargeError, source_delta
from ivm.feed.source import Snapshot
from ivm.lake import native
from ivm.names import ident, table_ref
from ivm.plan.anchors import keyable
from ivm.plan.nodes import COUNT, EPOCH, WEIGHT, Column, Relation, Unit
from ivm.planner.choose import Choice, choose, met_rows, wide_products
from ivm.refresh.arrange import Arrangements, drop_unread, followed
from ivm.refresh.context import Context
from ivm.refresh.fixpoint import Fixpoint
from ivm.refresh.full import FullBuild
from ivm.refresh.integrity import base
from ivm.refresh.plan import FULL, INCREMENTAL, UNCHANGED
from ivm.refresh.records import Cursor, EpochPlan, Manifest, Outcome, UnitState, with_epoch, within
from ivm.rewrite.accumulators import accumulator_columns, accumulators
from ivm.rewrite.delta_join import State, Term, delta_terms
from ivm.rewrite.slices import Facts, Reached, Requests, walk_groups, walk_term
from ivm.rewrite.statements import NEW, OLD, accumulated_delta, group_delta, linear_delta
from ivm.rewrite.top import MARK, PLACE, from_stored, top_candidates
from ivm.session import error_text, is_small, own_condition, statements_over
from ivm.storage.location import Location
from ivm.trace.store import append_batch, read_batches

_log = logging.getLogger(__name__)

#: A delta result of more rows is not collected; the view is refreshed in full instead.
RESULT_ROWS = 1_000_000
#: Up to this many input rows a full refresh is run as a small statement, beside others.
SMALL_ROWS = 50_000
#: What Spark says where a version's files are gone.
_GONE = ("FILE_NOT_EXIST", "FileNotFoundException", "DELTA_VERSION_NOT_FOUND")
#: The code of a full refresh in place of an incremental one that failed.
RECOVERED = "recovered"
#: Statements of independent units overlap: planning one uses the time another waits.
THREADS = 3


@dataclass
class _Job:
    """A unit to run in this epoch, with what its walk found."""

    unit: Unit
    view: str
    state: UnitState
    walked: list[tuple[Term, dict[str, Reached]]]
    group_levels: tuple[dict[str, Reached], ...] = ()
    choice: Choice | None = None
    #: Whether a LIMIT needs its whole input, since its stored rows were not enough.
    whole: bool = False


class Apply:
    """Applies one planned epoch."""

    def __init__(self, context: Context, plan: EpochPlan) -> None:
        self.context = context
        self.plan = plan
        self.attempt = secrets.token_hex(4)
        self.manifest: Manifest = base(context, plan)
        self.snapshots: dict[str, Snapshot] = context.survey()[0]
        self.outcomes: dict[str, Outcome] = {}
        self._recorded: set[str] = set()
        self.deltas: dict[str, pa.Table | None] = {}
        self._gaps: dict[str, GapError] = {}
        self._source_rows: dict[str, int | None] = {}
        self._units = {u.name: u for c in context.compiled.values() for u in c.program.units}
        self._columns = self._needed_columns()
        follow = functools.partial(followed, context, snapshots=self.snapshots, sources=plan.sources, units=self.manifest.units)
        self._arrangements = Arrangements(context, follow, lambda relation: [c.name for c in self._relation_columns(relation)])

    def run(self) -> dict[str, Outcome]:
        """Apply every task; a view that fails leaves the others alone. Returns outcomes by unit."""
        # What an earlier attempt failed at is tried again.
        self.outcomes = {u: o for u, o in self.context.log.outcomes(self.plan.epoch).items() if not o.error}
        waves = self._waves()
        total = sum(len(w) for w in waves)
        for number, wave in enumerate(waves):
            todo = [(view, unit) for view, unit in wave if unit not in self.outcomes]
            self._run_wave(number, todo)
            self._record([u for _, u in todo if not self.outcomes[u].error])
            self.context.progress("apply", sum(len(w) for w in waves[: number + 1]), total)
        self._record([u for u, o in self.outcomes.items() if o.error], self.attempt)
        self._scratch().drop()
        drop_unread(self.context)
        return self.outcomes

    def _scratch(self) -> Location:
        return self.context.layout.scratch(self.plan.epoch, self.attempt)

    def _record(self, units: Sequence[str], attempt: str = "") -> None:
        """Write outcomes to the log in one commit, but those that are there already: once for these units, or once an attempt."""
        new = [self.outcomes[u] for u in units if u not in self._recorded]
        self.outcomes |= self.context.log.record_outcomes(self.plan.epoch, new, attempt)
        self._recorded |= {o.unit for o in new}

    # -- order ------------------------------------------------------------------------------------

    def _waves(self) -> list[list[tuple[str, str]]]:
        """(view, unit) by wave; a view without a program is one unit of its own name."""
        depth: dict[str, int] = {}
        waves: dict[int, list[tuple[str, str]]] = {}
        for view, compiled in self.context.compiled.items():
            program = compiled.program
            for name, reads in [(u.name, u.reads) for u in program.units] or [(view, program.relations)]:
                depth[name] = 1 + max((depth.get(r, -1) for r in reads), default=-1)
                if view in self.plan.tasks and self.plan.tasks[view].strategy != UNCHANGED:
                    waves.setdefault(depth[name], []).append((view, name))
        return [waves[d] for d in sorted(waves)]

    # -- one wave ---------------------------------------------------------------------------------

    def _run_wave(self, number: int, todo: Sequence[tuple[str, str]]) -> None:
        full, jobs = [], []
        for view, unit in todo:
            task = self.plan.tasks[view]
            failed = [r for r in self._reads(view, unit) if r in self.outcomes and self.outcomes[r].error]
            if failed:
                self._done(Outcome(unit, view, task.strategy, "upstream_failed", "", "none", None, error=f"{failed[0]} failed, which it reads"))
                continue
            replaced = [r for r in self._reads(view, unit) if r in self.outcomes and self.outcomes[r].publish == "replace"]
            inner = next((o for n in self.context.compiled[view].unit_names if (o := self.outcomes.get(n)) and o.strategy == FULL and not o.error), None)
            if task.strategy == FULL or inner or replaced:
                code, reason = (
                    (task.code, task.reason)
                    if task.strategy == FULL
                    else (inner.code, inner.reason)
                    if inner
                    else ("upstream_replaced", f"{replaced[0]!r} was replaced as a whole")
                )
                full.append((view, unit, code, reason))
                continue
            try:
                prepared = self._prepare(view, self._units[unit])
            except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
                full += self._instead(view, unit, error)
                continue
            if isinstance(prepared, Outcome):
                self._done(prepared)
            elif prepared.choice is not None and prepared.choice.strategy == FULL:
                full.append((view, unit, "cost", prepared.choice.reason))
            else:
                jobs.append(prepared)
        for i, group in enumerate(_by_cursors(jobs)):
            full += self._run_incremental(f"{number}_{i}", group)
        small = [f for f in full if self._is_small(f[0], f[1])]
        if small:
            with statements_over(self.context.spark(), SMALL_ROWS), ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(lambda f: self._run_full(*f), small))
        for job in full:
            if job not in small:
                self._run_full(*job)

    def _is_small(self, view: str, unit: str) -> bool:
        """Whether a full refresh reads so little that planning it costs more than running it."""
        try:
            rows = [self._state(r).rows if r not in self.snapshots else self._rows(r) for r in self._reads(view, unit)]
        except Exception as error:  # noqa: BLE001 - what can't be counted will say so when it is read
            _log.info("the size of what %s reads is unknown: %s", unit, error)
            return False
        return all(n is not None for n in rows) and sum(n or 0 for n in rows) <= SMALL_ROWS

    def _reads(self, view: str, unit: str) -> tuple[str, ...]:
        return self._units[unit].reads if unit in self._units else self.context.compiled[view].program.relations

    def _prepare(self, view: str, unit: Unit) -> _Job | Outcome:
        """Look at the deltas: an unchanged outcome, or a job with a strategy by cost."""
        state = self.manifest.units[unit.name]
        sizes = {r: d.num_rows for r in unit.reads if (d := self._delta(r, state.cursors[r])) is not None}
        if not sizes:
            cursors = {r: self._cursor(r) for r in unit.reads}
            return Outcome(
                unit.name, view, UNCHANGED, "empty_delta", "the changes don't touch any column that the view reads", "none", replace(state, cursors=cursors)
            )
        job = _Job(unit, view, state, [])
        job.choice = self._choice(job, Requests())
        return job

    def _choice(self, job: _Job, requests: Requests) -> Choice:
        """Incremental or full, as far as is known: after the walk also by what must be read whole."""
        relations = job.unit.reads
        rows = {r: self._rows(r) for r in relations}
        deltas = {r: d.num_rows for r in relations if (d := self._delta(r, job.state.cursors[r])) is not None}
        whole = [r for r in relations if r in requests.whole and (rows[r] or 0) > NATIVE_WHOLE_ROWS]
        met = met_rows(job.unit, rows, deltas, job.state.rows, from_stored(job.unit) and not job.whole)
        return choose(rows, deltas, self.context.views[job.view].mode == "incremental", whole, met)

    def _run_incremental(self, tag: str, jobs: list[_Job]) -> list[tuple[str, str, str, str]]:
        """Run the wave's jobs over shared slices; returns those that must be done in full after all.

        Where what they share can't be read, each runs alone, so that only those that need it fail.
        """
        todo = list(jobs)
        try:
            return self._run_together(tag, jobs) if jobs else []
        except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
            left = [_Job(j.unit, j.view, j.state, [], whole=j.whole) for j in todo if j.unit.name not in self.outcomes]
            if len(todo) == 1:
                return [f for j in left for f in self._instead(j.view, j.unit.name, error)]
            return [f for i, j in enumerate(left) for f in self._run_incremental(f"{tag}_{i}", [j])]

    def _run_together(self, tag: str, jobs: list[_Job]) -> list[tuple[str, str, str, str]]:
        requests = Requests()
        inputs: dict[str, Input] = {}
        for job in jobs:
            for relation in (*job.unit.reads, job.unit.name):
                if relation not in inputs:
                    inputs[relation] = self._input(relation, job)
        refused: list[tuple[str, str, str, str]] = []
        for job in list(jobs):
            own = Requests()
            facts = {r: replace(self._facts(r), moved=_moved(inputs[r].delta)) for r in (*job.unit.reads, job.unit.name)}
            changed = frozenset(r for r in job.unit.reads if inputs[r].delta is not None)
            for branch in job.unit.core.branches:
                for term in delta_terms(branch, changed):
                    job.walked.append((term, walk_term(term, facts, own)))
            if job.unit.reduce and not job.unit.reduce.linear and (job.whole or not from_stored(job.unit)):
                job.group_levels, _ = walk_groups(job.unit, job.walked, facts, own)
            job.choice = self._choice(job, own)
            if job.choice.strategy == FULL:
                jobs.remove(job)
                refused.append((job.view, job.unit.name, "cost", job.choice.reason))
            else:
                requests.merge(own)
        if not jobs:
            return refused
        spark = self.context.spark()
        datasets = Datasets(self.context.spark, self._scratch(), f"{self.context.name}_{self.plan.epoch}_{tag}", inputs)
        datasets.load(requests)
        again: list[_Job] = []

        def run(job: _Job) -> None:
            try:
                outcome = self._run_job(job, datasets)
                if outcome is None:
                    again.append(_Job(job.unit, job.view, job.state, [], whole=True))
                else:
                    self._done(outcome)
            except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
                refused.extend(self._instead(job.view, job.unit.name, error))

        small = [job for job in jobs if is_small(datasets.rows(job.unit.reads))]
        for some, rows in ((small, 0), ([j for j in jobs if j not in small], None)):
            with statements_over(spark, rows), ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(run, some))
        datasets.close()
        return refused + self._run_incremental(f"{tag}_whole", again)

    def _instead(self, view: str, unit: str, error: Exception) -> list[tuple[str, str, str, str]]:
        """The full refresh that comes in place of an incremental one that failed; none where it would fail for the same reason again."""
        if isinstance(error, TooLargeError):
            return [(view, unit, "large_delta", str(error))]
        if isinstance(error, GapError):
            return [(view, unit, "feed_gap", error.message)]
        text = _told(error)
        if any(mark in text for mark in _GONE):
            return [(view, unit, "feed_gap", "files of the old state of a source have been vacuumed")]
        _log.warning("view %s: the incremental refresh of %s failed: %s", view, unit, text)
        known = self.manifest.failing.get(view)
        if known is not None and own_condition(text) and own_condition(text) == own_condition(known.full):
            self._done(Outcome(unit, view, INCREMENTAL, "failed", "", "none", None, error=text, first_error=text))
            return []
        return [(view, unit, RECOVERED, f"the incremental refresh failed: {text}")]

    # -- one unit ---------------------------------------------------------------------------------

    def _run_job(self, job: _Job, datasets: Datasets) -> Outcome | None:
        """The unit's outcome, its batch appended; None where a LIMIT turns out to need its whole input."""
        started = time.perf_counter()
        unit, epoch = job.unit, self.plan.epoch
        if unit.fixpoint:
            batch = self._batch(self._fixpoint(job, datasets), job.state)
        elif unit.reduce is None:
            batch = self._batch(self._collect(linear_delta(unit, job.walked, datasets)), job.state)
        elif unit.reduce.linear:
            trace, large = self._accumulators(job)
            result = self._collect(accumulated_delta(unit, job.walked, datasets, trace, large))
            append_batch(
                self.context.layout.accumulator_trace(unit.name, job.state.generation),
                _accumulator_batch(unit, result),
                epoch,
                self.context.app(unit.name, f"accumulators/{job.state.generation}"),
            )
            batch = self._batch(_row_changes(unit, result), job.state)
        elif from_stored(unit) and not job.whole:
            stored = native.read(native.table(self.context.layout.table(unit.name, job.state.public), job.state.version), [c.name for c in unit.columns])
            found = self._collect(top_candidates(unit, job.walked, datasets, datasets.stored(unit.name)))
            rows = _top_changes(unit, stored, found)
            if rows is None:
                return None
            batch = self._batch(rows, job.state)
        else:
            stored = datasets.stored(unit.name)
            batch = self._batch(self._collect(group_delta(unit, job.walked, job.group_levels, datasets, stored)), job.state)
        append_batch(
            self.context.layout.output_trace(unit.name, job.state.output_generation),
            batch,
            epoch,
            self.context.app(unit.name, f"output/{job.state.output_generation}"),
        )
        cursors = {r: self._cursor(r) for r in unit.reads}
        batches = with_epoch(job.state.batches, epoch, self.manifest.epoch)
        state = replace(job.state, cursors=cursors, epoch=epoch if batch.num_rows else job.state.epoch, batches=batches)
        task = self.plan.tasks[job.view]
        assert job.choice is not None
        rows_in = sum(d.num_rows for r in unit.reads if (d := self._delta(r, job.state.cursors[r])) is not None)
        return Outcome(
            unit.name, job.view, INCREMENTAL, task.code, task.reason, "merge" if batch.num_rows else "none", state,
            rows_in=rows_in, rows_read=datasets.rows_read((*unit.reads, unit.name)), rows_out=batch.num_rows, seconds=time.perf_counter() - started,
            cost_incremental=job.choice.cost_incremental, cost_full=job.choice.cost_full,
        )  # fmt: skip

    def _fixpoint(self, job: _Job, datasets: Datasets) -> pa.Table:
        names = (*job.unit.reads, job.unit.name)
        inputs = {r: self._input(r, job) for r in names}
        scratch = self._scratch()

        def opened(tag: str, these: Mapping[str, Input]) -> Datasets:
            return Datasets(self.context.spark, scratch, f"{self.context.name}_{self.plan.epoch}_{job.unit.name}_{tag}", these)

        return Fixpoint(job.unit, inputs, {r: self._facts(r) for r in names}, opened, self._collect).delta(job.walked, datasets)

    def _collect(self, sql: str) -> pa.Table:
        result = self.context.spark().sql(sql).limit(RESULT_ROWS + 1).toArrow()
        if result.num_rows > RESULT_ROWS:
            raise TooLargeError(f"the delta of the result has more than {RESULT_ROWS:,} rows")
        return native.plain(result)

    def _batch(self, rows: pa.Table, state: UnitState) -> pa.Table:
        """Rows with the unit's stored schema and their integer weight."""
        schema = native.arrow_schema(state.schema)
        named = rows.rename_columns([*schema.names, WEIGHT])
        return named.cast(pa.schema([*schema, pa.field(WEIGHT, pa.int64())]))

    def _accumulators(self, job: _Job) -> tuple[str, bool]:
        """The accumulator trace before this epoch, and whether it is large: small ones are handed over as Parquet, large ones scanned by Spark."""
        path = self.context.layout.accumulator_trace(job.unit.name, job.state.generation)
        before = f"{EPOCH} < {self.plan.epoch} AND {within(job.state.batches, EPOCH)}"
        assert job.unit.reduce is not None
        columns = accumulator_columns(job.unit.reduce)
        delta = native.table(path)
        if native.rows(delta) > 10 * NATIVE_WHOLE_ROWS:
            return f"(SELECT * FROM {table_ref(path)} WHERE {before})", True
        name = f"__ivm_{self.context.name}_{self.plan.epoch}_{job.unit.name}_accumulators"
        register(self.context.spark(), name, native.read(delta, [c.name for c in columns], before), columns, self._scratch())
        return ident(name), False

    def _run_full(self, view: str, unit: str, code: str, reason: str) -> None:
        try:
            warning = self._warning(view, unit) if code in ("first_build", "definition_changed") else ""
            build = FullBuild(self.context, self.plan, self.attempt, self.manifest, self.outcomes, self.snapshots)
            outcome = build.run(view, unit, code, reason, self._full_cursors(view, unit))
            self._done(replace(outcome, warning=warning, first_error=self._first_error(view, code, reason)))
        except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
            first = self._first_error(view, code, reason)
            self._done(Outcome(unit, view, FULL, "failed", "", "none", None, error=_told(error), first_error=first))

    def _first_error(self, view: str, code: str, reason: str) -> str:
        """What the incremental refresh failed with, in this epoch or in an earlier one."""
        if code != RECOVERED:
            return ""
        known = self.manifest.failing.get(view)
        return known.incremental if self.plan.tasks[view].code == RECOVERED and known is not None else reason

    def _warning(self, view: str, unit: str) -> str:
        if unit not in self._units:
            return ""
        rows = {r: self._state(r).rows if r not in self.snapshots else self._rows(r) for r in self._reads(view, unit)}
        warning = "; ".join(wide_products(self._units[unit], rows))
        if warning:
            _log.warning("view %s: %s", view, warning)
        return warning

    def _full_cursors(self, view: str, unit: str) -> dict[str, Cursor]:
        return {r: self._cursor(r) for r in self._reads(view, unit)}

    def _done(self, outcome: Outcome) -> None:
        self.outcomes[outcome.unit] = outcome
        if outcome.strategy == FULL and not outcome.error:
            self._record([outcome.unit])  # it may have taken hours

    # -- inputs -----------------------------------------------------------------------------------

    def _needed_columns(self) -> dict[str, set[str]]:
        needed: dict[str, set[str]] = {}
        for unit in self._units.values():
            for branch in unit.core.branches:
                for leaf in branch.leaves:
                    needed.setdefault(leaf.relation, set()).update(leaf.columns)
            whole = unit.fixpoint or (unit.reduce and not unit.reduce.linear)
            needed.setdefault(unit.name, set()).update(c.name for c in unit.columns if whole)
        return needed

    def _relation_columns(self, relation: str) -> tuple[Column, ...]:
        """The columns that any unit reads; at least one, since a row needs one."""
        if relation in self.snapshots:
            columns = self.snapshots[relation].columns
        elif relation in self._units:
            columns = self._units[relation].columns
        else:
            columns = self.context.compiled[relation].program.columns
        plain = [c for c in columns if keyable(c.type)] or [c for c in columns if "variant" not in c.type]
        return tuple(c for c in columns if c.name in self._columns.get(relation, set())) or tuple(plain[:1])

    def _delta(self, relation: str, cursor: Cursor) -> pa.Table | None:
        """The consolidated delta since the cursor up to this epoch; None where it is empty."""
        key = f"{relation}@{cursor.version}@{cursor.epoch}"
        if key in self._gaps:
            raise self._gaps[key]
        if key not in self.deltas:
            columns = [c.name for c in self._relation_columns(relation)]
            upto = self.plan.sources[relation].version if relation in self.snapshots else None
            if relation in self.snapshots and upto == cursor.version:
                delta = pa.table({})
            elif relation in self.snapshots:
                try:
                    delta = source_delta(self.snapshots[relation], cursor.version or 0, upto or 0, columns, self.context.spark)
                except GapError as gap:
                    self._gaps[key] = gap  # for each view that reads it, without reading it again
                    raise
            else:
                state = self._state(relation)
                delta = self._upstream_delta(relation, state, cursor, columns)
            self.deltas[key] = delta if delta.num_rows else None
        return self.deltas[key]

    def _upstream_delta(self, relation: str, state: UnitState, cursor: Cursor, columns: Sequence[str]) -> pa.Table:
        schema = native.arrow_schema(state.schema)
        if state.epoch <= cursor.epoch:  # nothing was written since
            return pa.schema([*(schema.field(c) for c in columns), pa.field(WEIGHT, pa.int64())]).empty_table()
        path = self.context.layout.output_trace(relation, state.output_generation)
        return read_batches(path, columns, cursor.epoch, self.plan.epoch, schema, within(state.batches, EPOCH))

    def _state(self, unit: str) -> UnitState:
        """A unit's state in this epoch, whether it ran in it or not."""
        outcome = self.outcomes.get(unit)
        return outcome.state if outcome is not None and outcome.state is not None else self.manifest.units[unit]

    def _cursor(self, relation: str) -> Cursor:
        """Where a reader stands after this epoch. An upstream unit's version is known once it is published."""
        if relation in self.snapshots:
            return self.plan.sources[relation]
        return Cursor(None, epoch=self._state(relation).epoch)

    def _rows(self, relation: str) -> int | None:
        if relation not in self.snapshots:
            return self.manifest.units[relation].rows
        if relation not in self._source_rows:
            snapshot = self.snapshots[relation]
            self._source_rows[relation] = None if snapshot.native else native.rows(native.table(snapshot.path))
        return self._source_rows[relation]

    def _facts(self, relation: str) -> Facts:
        if relation in self.snapshots:
            source = self.context.sources[relation]
            actual = {c.name.lower(): c.name for c in self.snapshots[relation].columns}
            key = tuple(actual[k.lower()] for k in source.primary_key)
            return Facts(Relation(relation, "source", self.snapshots[relation].columns, key), self._rows(relation), source.foreign_keys)
        columns = self._units[relation].columns if relation in self._units else self.context.compiled[relation].program.columns
        key = self._units[relation].key if relation in self._units else ()
        return Facts(Relation(relation, "unit", columns, key), self._rows(relation))

    def _input(self, relation: str, job: _Job) -> Input:
        columns = self._relation_columns(relation)
        if relation in self.snapshots:
            snapshot = self.snapshots[relation]
            version = self.plan.sources[relation].version
            since = job.state.cursors[relation].version
            delta = self._delta(relation, job.state.cursors[relation])
            schema = native.arrow_schema(snapshot.schema)
            schema = pa.schema([schema.field(c.name) for c in columns])
            indexes = self._arrangements.indexes(relation, version) if version is not None else ()
            return Input(relation, columns, schema, snapshot.path, version, State.NEW, not snapshot.native, delta, self._rows(relation), since, indexes)
        state = self.manifest.units[relation]
        public = state.public
        path = self.context.layout.table(relation, public)
        cursor = job.state.cursors.get(relation)
        delta = self._delta(relation, cursor) if cursor is not None else None
        # Of the same epoch there may be a newer version, which only moved rows between files.
        lags = cursor is not None and cursor.version is not None and cursor.epoch != state.epoch
        version = cursor.version if lags and cursor is not None else state.version
        schema = native.arrow_schema(state.schema)
        schema = pa.schema([schema.field(c.name) for c in columns])
        indexes = self._arrangements.indexes(relation, (cursor or state).epoch)
        return Input(relation, columns, schema, path, version, State.OLD, True, delta, state.rows, indexes=indexes)


def _told(error: Exception) -> str:
    return error_text(error) or type(error).__name__


def _by_cursors(jobs: Sequence[_Job]) -> list[list[_Job]]:
    """Jobs that can share deltas and slices: those that have read each common relation equally far."""
    groups: list[tuple[dict[str, Cursor], list[_Job]]] = []
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


def _top_changes(unit: Unit, stored: pa.Table, found: pa.Table) -> pa.Table | None:
    """The delta of a LIMIT from its stored rows and its candidates; None where these may not be enough."""
    assert unit.reduce is not None
    limit, columns = unit.reduce.limit, stored.column_names
    candidates = found.filter(pc.equal(found[MARK], 0))
    last = found.filter(pc.equal(found[MARK], 1))
    before = last[PLACE][0].as_py() - 1 if last.num_rows else 0
    if stored.num_rows >= limit and before < limit:
        return None
    new = candidates.sort_by(PLACE).select(columns).slice(0, limit)
    signed = [t.append_column(WEIGHT, pa.array([w] * t.num_rows, pa.int64())) for t, w in ((new, 1), (stored.cast(new.schema), -1))]
    return native.sum_weights(pa.concat_tables(signed), columns)


def _moved(delta: pa.Table | None) -> bool:
    """Whether a delta replaces one row by another, without NULLs: only then are its values the ends of a range."""
    if delta is None or delta.num_rows != 2 or sorted(delta[WEIGHT].to_pylist()) != [-1, 1]:
        return False
    return not any(v is None or (isinstance(v, float) and not math.isfinite(v)) for c in delta.columns for v in c.to_pylist())


def _accumulator_batch(unit: Unit, result: pa.Table) -> pa.Table:
    assert unit.reduce is not None
    names = [a.name for a in accumulators(unit.reduce)] + [COUNT]
    keys = [k.name for k in unit.reduce.keys]
    return result.select([*keys, *("d_" + n for n in names)]).rename_columns([*keys, *names])


def _row_changes(unit: Unit, result: pa.Table) -> pa.Table:
    """-1 for each old row, +1 for each new one, where they differ; groups that look alike are added up."""
    changed = result.filter(pc.invert(pc.fill_null(result["__ivm_same"], False)))
    parts = []
    for side, weight in ((OLD, -1), (NEW, 1)):
        rows = changed.filter(changed[side])
        columns = [rows[f"{side}_{i}"] for i in range(len(unit.columns))]
        parts.append(pa.table([*columns, pa.array([weight] * rows.num_rows, pa.int64())], names=[*(c.name for c in unit.columns), WEIGHT]))
    return native.sum_weights(pa.concat_tables(parts), [c.name for c in unit.columns])
