"""Step 2, apply: compute each unit's delta (or its full result) and store it where nobody reads it yet.

Here units are only scheduled, in waves: a wave's units depend only on earlier waves. Each gets its strategy
(`ivm.planner.strategy`). Those that stay incremental run together over shared slices (`ivm.refresh.incremental`), then
those in full (`ivm.refresh.full`). Deltas go to traces under the epoch's number, full results to staging; publishing is
another step.

Every attempt writes full results under a name of its own, so that what a dead one's jobs still write is nobody's. A
unit that fails incrementally is built anew in the same epoch, unless its own SQL is known to be the reason.
"""

from __future__ import annotations

import functools
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace

from ivm.engine import duck
from ivm.engine.rows import Rows
from ivm.errors import LargeSliceError
from ivm.execute.changes import StoredRowsLackingError
from ivm.parameters import AUTO
from ivm.plan.kinds import Publish, StrategyKind
from ivm.plan.nodes import Unit
from ivm.planner.choose import read_rows
from ivm.planner.lanes import stays_with_spark
from ivm.planner.strategy import Full, Known, Strategy, Unchanged, decide, surely_full
from ivm.refresh.arrangements import drop_unread
from ivm.refresh.context import Context
from ivm.refresh.full import FullBuild
from ivm.refresh.incremental import Job, Running, by_cursors
from ivm.refresh.inputs import Inputs
from ivm.refresh.instead import RECOVERED, instead, told
from ivm.refresh.integrity import ACCUMULATORS, OUTPUT, open_tables
from ivm.refresh.modes import forbidden, warning
from ivm.refresh.records import EpochPlan, Outcome
from ivm.refresh.threads import Threads
from ivm.refresh.translated import remembered
from ivm.refresh.upstream import upstream_failed, with_readers_failed
from ivm.session import statements

_log = logging.getLogger(__name__)

#: After so many seconds of work the units that have ended are recorded, while others still run.
_WORTH_RECORDING = 1.0


@dataclass(frozen=True)
class _Build:
    """A unit, or a view without a program, to refresh in full."""

    view: str
    unit: str
    strategy: Full


class Apply:
    """Applies one planned epoch; the process `goes_on` to its check, or ends."""

    def __init__(self, context: Context, plan: EpochPlan, goes_on: bool = False) -> None:
        self.context = context
        self.plan = plan
        self._goes_on = goes_on
        self.attempt = secrets.token_hex(4)
        # What an earlier attempt failed at is tried again.
        self.outcomes: dict[str, Outcome] = {u: o for u, o in context.log.applied(plan.epoch).items() if not o.error}
        self.scratch = context.layout.scratch(plan.epoch, self.attempt)
        self.inputs = Inputs(context, plan, self.outcomes, self.scratch)
        self._full = FullBuild(self.inputs, self.attempt)
        self._recorded: set[str] = set()
        self._recorded_at = time.monotonic()
        self._threads = Threads(context.spark, context.limits.threads)
        #: What units read of each other, and what was begun of which some units are not waited for yet.
        self._awaited: set[str] = set()
        #: The units of the waves to come, which may read rows that this one finds.
        self._later: list[Unit] = []
        self._running: list[tuple[str, Running]] = []
        #: Units whose stored rows turned out to be too few, and of others the relation of which they ask for too much.
        self._lacked: set[str] = set()
        self._large: dict[str, str] = {}

    def run(self) -> dict[str, Outcome]:
        """Apply every task; a view that fails leaves the others alone. Returns outcomes by unit."""
        if self._needs_spark():
            self.context.expect_spark()
        if self.context.engine == AUTO:
            duck.begin()
        waves, units = self._waves(), self.inputs.units
        self._awaited = {r for wave in waves for view, unit in wave for r in self.inputs.reads(view, unit)}
        incremental = self._incremental(waves)
        open_tables(self.context, self.inputs.manifest, incremental, (ACCUMULATORS, OUTPUT))
        self.inputs.read_ahead(incremental)
        known = remembered(self.context.layout.statements, self.context.translations)
        with known if self.context.engine == AUTO else nullcontext(), self._threads:
            for number, wave in enumerate(waves):
                self._later = [units[u] for u in self._incremental(waves[number + 1 :]) if u in units]
                self._run_wave(number, [(view, unit) for view, unit in wave if unit not in self.outcomes])
                self._told(waves)
            self._run_builds(self._rest())
        self.outcomes |= with_readers_failed(self.outcomes)
        self._told(waves, last=True)
        self._record([u for u, o in self.outcomes.items() if o.error], self.attempt)
        self.scratch.drop()
        drop_unread(self.context, self.inputs.manifest)
        return self.outcomes

    def _incremental(self, waves: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
        """The units whose deltas will be asked for."""
        tasks = self.plan.tasks
        ours = [(view, unit) for wave in waves for view, unit in wave if unit not in self.outcomes]
        return [unit for view, unit in ours if tasks[view].strategy == StrategyKind.INCREMENTAL]

    def _told(self, waves: Sequence[Sequence[tuple[str, str]]], last: bool = False) -> None:
        """Tell how many units have ended, and record those that succeeded: the last time, and where that took a while.

        What isn't recorded is done again after a stop; a commit takes longer than what few units did in a moment. Where
        the process goes on, what the last moment did is recorded with the verdict.
        """
        units = [unit for wave in waves for _, unit in wave]
        done = [u for u in units if u in self.outcomes]
        ends = last and not self._goes_on
        if ends or time.monotonic() - self._recorded_at > _WORTH_RECORDING:
            self._record([u for u in done if not self.outcomes[u].error])
        self.context.progress("apply", len(done), len(units))

    def _needs_spark(self) -> bool:
        """Whether a session will be asked for whatever comes of the deltas."""
        kinds = {t.strategy for t in self.plan.tasks.values()}
        return StrategyKind.FULL in kinds or (self.context.engine != AUTO and StrategyKind.INCREMENTAL in kinds)

    def _waves(self) -> list[list[tuple[str, str]]]:
        """(view, unit) by wave; a view without a program is one unit of its own name."""
        depth: dict[str, int] = {}
        waves: dict[int, list[tuple[str, str]]] = {}
        for view, compiled in self.context.compiled.items():
            for name in compiled.unit_names:
                depth[name] = 1 + max((depth.get(r, -1) for r in self.inputs.reads(view, name)), default=-1)
                if view in self.plan.tasks and self.plan.tasks[view].strategy != StrategyKind.UNCHANGED:
                    waves.setdefault(depth[name], []).append((view, name))
        return [waves[d] for d in sorted(waves)]

    def _run_wave(self, number: int, todo: Sequence[tuple[str, str]]) -> None:
        builds: list[_Build] = []
        jobs: list[Job] = []
        for view, unit in todo:
            lacking = self._lacking(view, unit)
            if lacking is not None:
                self._done(lacking)
                continue
            try:
                strategy = self._required(view, unit) or self._decided(view, unit)
            except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
                builds += self._instead(view, unit, error)
                continue
            self._schedule(view, unit, strategy, jobs, builds)
        for i, group in enumerate(by_cursors(jobs)):
            builds += self._run_jobs(f"{number}_{i}", group)
        if builds or not self._overlaps:
            self._run_builds([*builds, *self._rest()])

    @functools.cached_property
    def _overlaps(self) -> bool:
        """Whether a wave is read while units of the last one run: not where Spark reads, whose settings are theirs."""
        return not any(s.by_spark for s in self.inputs.snapshots.values())

    def _lacking(self, view: str, unit: str) -> Outcome | None:
        """The failure of a unit that may not run, or of which something that it reads is gone, or failed."""
        task = self.plan.tasks[view]
        if task.strategy == StrategyKind.FAILED:
            return self._forbidden(view, unit, task.code, task.reason)
        reads, strategy = self.inputs.reads(view, unit), task.strategy
        gone = next((r for r in reads if r in self.inputs.missing), None)
        if gone is not None:
            return Outcome(unit, view, strategy, "failed", "", Publish.NONE, None, error=str(self.inputs.missing[gone]))
        failed = next((r for r in reads if r in self.outcomes and self.outcomes[r].error), None)
        return upstream_failed(unit, view, strategy, failed) if failed is not None else None

    def _required(self, view: str, unit: str) -> Full | None:
        """Why a unit is refreshed in full whatever has changed, if it is."""
        task = self.plan.tasks[view]
        if task.strategy == StrategyKind.FULL:
            return Full(task.code, task.reason)
        mine = [self.outcomes[n] for n in self.context.compiled[view].unit_names if n in self.outcomes]
        inner = next((o for o in mine if o.strategy == StrategyKind.FULL and not o.error), None)
        if inner is not None:
            return Full(inner.code, inner.reason)
        replaced = next(
            (
                r
                for r in self.inputs.reads(view, unit)
                if r in self.outcomes and self.outcomes[r].publish == Publish.REPLACE
            ),
            None,
        )
        return Full("upstream_replaced", f"{replaced!r} was replaced as a whole") if replaced is not None else None

    def _decided(self, view: str, name: str) -> Strategy:
        """A unit's strategy by what has changed, and by what came out. Raises GapError where that can't be told."""
        unit, state = self.inputs.units[name], self.inputs.manifest.units[name]
        strict = self.context.views[view].mode == "incremental"
        limits = self.context.limits

        def known(sizes: Mapping[str, int], deltas: Mapping[str, Rows]) -> Known:
            facts = {r: self.inputs.facts(r, deltas.get(r)) for r in (*unit.reads, name)}
            past, lacking, large = (lambda: self.inputs.past[name]), name in self._lacked, self._large.get(name, "")
            return Known(facts, sizes, state.rows, strict, lacking, large, limits, past)

        told = self.inputs.told(unit, state)
        if stays_with_spark(told.values(), limits) and surely_full(unit, known(told, {})) is not None:
            expected = self.inputs.expected(unit, state)
            full = surely_full(unit, known(expected, {})) if expected is not None else None
            if full is not None:
                return full  # without the delta, which would cost about as much
        deltas = self.inputs.deltas(unit, state)
        return decide(unit, known({r: d.num_rows for r, d in deltas.items()}, deltas))

    def _schedule(self, view: str, unit: str, strategy: Strategy, jobs: list[Job], builds: list[_Build]) -> None:
        if isinstance(strategy, Full):
            builds += self._in_full(view, unit, strategy)
            return
        state = self.inputs.manifest.units[unit]
        if isinstance(strategy, Unchanged):
            cursors = {r: self.inputs.cursor(r) for r in self.inputs.units[unit].reads}
            self._done(
                Outcome(
                    unit,
                    view,
                    StrategyKind.UNCHANGED,
                    strategy.code,
                    strategy.reason,
                    Publish.NONE,
                    replace(state, cursors=cursors),
                )
            )
        else:
            jobs.append(Job(view, strategy, state))

    def _run_jobs(self, tag: str, jobs: Sequence[Job], staged: bool = False) -> list[_Build]:
        """Begin a group of jobs, and wait for those that later waves read; returns what must be done in full after all.

        Where what they share can't be read, each runs alone, so that only those that need it fail.
        """
        try:
            running = Running(self.inputs, self.scratch, tag, jobs, self._threads, self._awaited, self._later, staged)
        except LargeSliceError as large:
            _log.info("%s: a slice of %s has %s", tag, large.relation, large)
            return self._run_large(tag, jobs, large.relation)
        except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
            if len(jobs) == 1:
                return self._ended(tag, jobs, {jobs[0].strategy.unit.name: error})
            return [build for i, job in enumerate(jobs) for build in self._run_jobs(f"{tag}_{i}", [job])]
        self._running.append((tag, running))
        running.wait()
        return self._ended(tag, running.awaited, running.ended)

    def _run_large(self, tag: str, jobs: Sequence[Job], relation: str) -> list[_Build]:
        """Run jobs that ask for more of a relation than this process may hold, and others beside them.

        What several ask for may fit where each half of them reads for itself, one after the other. Who is expected to
        ask for too much, or did so alone, is decided again, since a full refresh may be cheaper than slices that Spark
        keeps, and runs alone if it stays: what is read beside such slices is read by Spark, too.
        """
        asking = [job for job in jobs if _asked(job, relation)]
        large = asking if len(asking) == 1 else [job for job in asking if not self._fits(job)]
        others = [job for job in jobs if job not in large]
        if not large:
            return self._run_halves(tag, [job for job in others if job not in asking], asking, relation)
        builds: list[_Build] = []
        left: list[Job] = []
        for job in large:
            unit = job.strategy.unit.name
            self._large[unit] = relation
            self._schedule(job.view, unit, self._decided(job.view, unit), left, builds)
        if others:
            builds += self._run_jobs(f"{tag}_0", others)
        for number, job in enumerate(left, start=1):
            builds += self._rest()
            builds += self._run_jobs(f"{tag}_{number}", [job], staged=len(asking) == 1)
        return builds

    def _fits(self, job: Job) -> bool:
        """Whether this process may hold what a unit asks for, alone: what is expected may be spread over the relations.

        How it is, nobody knows; who asks for too much of one of them is told then.
        """
        unit, most = job.strategy.unit, self.context.limits.slice_rows
        changed = sum(d.num_rows for d in self.inputs.deltas(unit, job.state).values())
        asked = {relation for relation, _ in job.strategy.requests.matches}
        return read_rows(job.strategy.choice, changed, self.inputs.past[unit.name]) <= most * len(asked)

    def _run_halves(self, tag: str, others: list[Job], asking: Sequence[Job], relation: str) -> list[_Build]:
        """Run one half of those that ask for a relation after the other; those that ask for the same stay together."""
        alike = sorted(asking, key=lambda job: _asked(job, relation))
        half = len(alike) // 2
        builds = self._run_jobs(f"{tag}_0", [*others, *alike[:half]])
        builds += self._rest()  # what they read is held until they have ended
        return builds + self._run_jobs(f"{tag}_1", alike[half:])

    def _rest(self) -> list[_Build]:
        """Wait for the units that no wave waited for; returns what of them must be done in full after all."""
        builds: list[_Build] = []
        while self._running:
            tag, running = self._running.pop(0)
            running.finish()
            builds += self._ended(tag, running.rest, running.ended)
        self._threads.quiet()
        return builds

    def _ended(self, tag: str, jobs: Sequence[Job], ended: Mapping[str, Outcome | Exception]) -> list[_Build]:
        """Take the outcomes of jobs that have ended; returns those that must be done in full after all."""
        builds: list[_Build] = []
        again: list[Job] = []
        for job in jobs:
            unit = job.strategy.unit.name
            result = ended[unit]
            if isinstance(result, Outcome):
                self._done(result)
            elif isinstance(result, StoredRowsLackingError):
                self._lacked.add(unit)
                self._schedule(job.view, unit, self._decided(job.view, unit), again, builds)
            else:
                builds += self._instead(job.view, unit, result)
        return builds + (self._run_jobs(f"{tag}_whole", again) if again else [])

    def _instead(self, view: str, unit: str, error: Exception) -> list[_Build]:
        """The full refresh that comes in place of an incremental one that failed.

        None where it would fail for the same reason again. Raises what keeps a session from being started, for which no
        view is to blame.
        """
        if not self.context.has_session():
            self.context.spark()
        strategy = instead(error, self.inputs.manifest.failing.get(view), self.inputs.units.get(unit))
        if strategy is None or strategy.code == RECOVERED:
            _log.warning("view %s: the incremental refresh of %s failed: %s", view, unit, told(error))
        if strategy is None:
            self._done(
                Outcome(
                    unit,
                    view,
                    StrategyKind.INCREMENTAL,
                    "failed",
                    "",
                    Publish.NONE,
                    None,
                    error=told(error),
                    first_error=told(error),
                )
            )
        return self._in_full(view, unit, strategy) if strategy is not None else []

    def _in_full(self, view: str, unit: str, strategy: Full) -> list[_Build]:
        """The build of a unit; none where the view's mode forbids it and the plan didn't let it."""
        shown = self.context.views[view]
        why = forbidden(shown.mode, shown.name, strategy) if self.plan.tasks[view].strategy != StrategyKind.FULL else ""
        if why:
            self._done(self._forbidden(view, unit, strategy.code, why))
        return [] if why else [_Build(view, unit, strategy)]

    @staticmethod
    def _forbidden(view: str, unit: str, code: str, why: str) -> Outcome:
        """The failure of a unit whose view's mode forbids what would have to be done."""
        return Outcome(unit, view, StrategyKind.FAILED, code, "", Publish.NONE, None, error=why)

    def _run_builds(self, builds: Sequence[_Build]) -> None:
        """Small ones beside each other, since planning one costs more than running it; then the others, one by one."""
        small = [b for b in builds if self._full.is_small(b.view, b.unit)]
        if small:
            with statements(self.context.spark(), small=True), ThreadPoolExecutor(self.context.limits.threads) as pool:
                list(pool.map(self._run_build, small))
        for build in builds:
            if build not in small:
                self._run_build(build)

    def _run_build(self, build: _Build) -> None:
        outcome = self._full.run(build.view, build.unit, build.strategy)
        surprise = warning(self.context.views[build.view].mode, build.strategy)
        self._done(replace(outcome, warning="; ".join(filter(None, (surprise, outcome.warning)))))

    def _done(self, outcome: Outcome) -> None:
        self.outcomes[outcome.unit] = outcome
        if outcome.strategy == StrategyKind.FULL and not outcome.error:
            self._record([outcome.unit])  # it may have taken hours

    def _record(self, units: Sequence[str], attempt: str = "") -> None:
        """Write outcomes to the log in one commit, but those that are there already.

        Each is there once for these units, or once an attempt.
        """
        new = [self.outcomes[u] for u in units if u not in self._recorded]
        self.outcomes |= self.context.log.record_outcomes(self.plan.epoch, new, attempt)
        self._recorded |= {o.unit for o in new}
        self._recorded_at = time.monotonic()


def _asked(job: Job, relation: str) -> list[str]:
    """What a unit asks for of a relation, in some words; empty where that is nothing."""
    asked = job.strategy.requests.matches.items()
    return sorted(repr(match) for (r, _), matches in asked if r == relation for match in matches)
