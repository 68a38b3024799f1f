"""The public API: declare sources and views, refresh, read, explain, verify.

pipe = ivm.Pipeline("sales", spark=spark, root="/lake/sales")
pipe.source("orders", "/lake/orders", primary_key=["id"])
pipe.view("revenue", "SELECT ... FROM orders ...")
pipe.refresh()
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from datetime import date
from typing import TYPE_CHECKING, Any

from ivm import parameters
from ivm.declarations import Declarations
from ivm.errors import ConfigError, ViewError
from ivm.refresh.context import Progress
from ivm.refresh.integrity import check_history, readable
from ivm.refresh.protocol import Run, advance
from ivm.refresh.published import together
from ivm.refresh.records import EpochPlan
from ivm.refresh.run import Gate, Report, ViewReport, builds, committed_or_raise, view_reports

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ivm.explain import Explanation
    from ivm.quality.quarantine import Quarantine
    from ivm.quality.results import Result
    from ivm.refresh.as_of import Revision
    from ivm.refresh.audit import Audit
    from ivm.refresh.compact import Compaction
    from ivm.refresh.estimate import Estimate
    from ivm.refresh.history import Passed
    from ivm.refresh.repair import Repair
    from ivm.refresh.verify import Verification
    from ivm.refresh.why import Why


class Pipeline(Declarations):
    """Sources and views under one root; state, traces and outputs live there.

    `spark` may be left out: a session is started when one is first needed (see `ivm.session.get_session`).
    `lane` is auto (delta-rs where a table allows it), or spark to leave reading to Spark alone. `retention` says how
    long what was replaced is kept, and how often a refresh compacts by itself; `limits` what is small and what is too
    much (see `ivm.planner.limits`). `mode` is that of views which are declared without one (see `view`); `checking`
    says whether results of checks show values, and whom they are told to. `clock` tells the instant of each epoch, at
    which temporal filters are evaluated (a time with a zone): by default the machine's. `engine` is spark, or auto to
    let the embedded engine run what it can (see docs/engine.md); $IVM_ENGINE says it where it isn't given. `arrange` is
    auto, or hints to make no arrangement that no view asks for (see docs/arrangements.md).
    """

    # -- the protocol -----------------------------------------------------------------------------

    def refresh(self, views: Iterable[str] | None = None, progress: Progress | None = None) -> Report:
        """Bring all views, or those named (and what they read), to the newest versions of their sources.

        A view that fails, or whose expectations fail, is reported with its error and held back with what reads it; the
        others are published. Raises ConcurrentRefreshError where another refresh is running, StateError where the step
        itself can't go on.
        """
        return self._run(self._known(views), frozenset(), progress)

    def backfill(
        self,
        view: str,
        where: str | None = None,
        progress: Progress | None = None,
        day: str | date | None = None,
        until: str | date | None = None,
    ) -> Report:
        """Rebuild a view from its sources; with `where` (over the view's columns) only that slice may change.

        With `day` (and `until`, the last one of several), take in what has come for past days as a new revision, and
        compare what is kept of them with the sources: where they differ, the view is rebuilt. A backfill that was
        stopped goes on where it was; a slice begins anew. Readers see the result all at once. Raises ConfigError where
        `where` is not a condition over the view's columns, where a slice and days are given, and where the view is not
        kept by day.
        """
        from ivm.refresh.as_of import differing
        from ivm.refresh.backfill import backfill_slice

        name, days = self._backfill_of(view, where, day, until)
        if progress is not None:
            self.context.progress = progress
        if days is not None:
            report = self._run([name], frozenset(), progress)
            return self._run([name], frozenset({name}), progress) if differing(self.context, name, *days) else report
        if where is None:
            return self._run([name], frozenset({name}), progress)

        with self.context.exclusive():
            self._compile(name)
            return backfill_slice(self.context, name, where, self._gate())

    def estimate(
        self,
        view: str,
        where: str | None = None,
        day: str | date | None = None,
        until: str | date | None = None,
    ) -> Estimate:
        """What `backfill` would read, write and cost with the same arguments; nothing is written. Raises as it does."""
        from ivm.refresh.estimate import estimate_days, estimate_slice, estimate_whole

        name, days = self._backfill_of(view, where, day, until)
        if days is not None:
            return estimate_days(self.context, name, *days)
        self._compile(name)
        return estimate_whole(self.context, name) if where is None else estimate_slice(self.context, name, where)

    def _backfill_of(
        self, view: str, where: str | None, day: str | date | None, until: str | date | None
    ) -> tuple[str, tuple[date, date] | None]:
        """The view as it is kept, and the days, None where none are asked for."""
        from ivm.refresh.as_of import check_days

        name = self.known(view)
        self._check_declared()
        if day is None:
            if until is not None:
                raise ConfigError("A backfill has until without day.", "Give the first day of the range as day.")
            return name, None
        self._compile()
        return name, check_days(self.context, name, day, until, where)

    def release(self, view: str) -> Report:
        """Publish the batches of a view that a failed expectation holds back.

        Raises StateError where there are none.
        """
        from ivm.refresh.held import release

        name = self.known(view)
        with self.context.exclusive():
            self._compile()
            return release(self.context, name)

    def discard(self, view: str) -> Report:
        """Drop the batches of a view that a failed expectation holds back. Raises StateError where there are none."""
        from ivm.refresh.held import discard

        name = self.known(view)
        with self.context.exclusive():
            return discard(self.context, name)

    def quarantine(self, view: str, limit: int = 20, show: bool = False) -> Quarantine:
        """What is held back of a view: the expectations that fail, each with up to `limit` of its failing rows.

        Values are hidden unless `show`, or the pipeline's `checking`, says otherwise. Raises StateError where nothing
        is held back.
        """
        from ivm.quality.quarantine import quarantine

        name = self.known(view)
        self._compile()
        return quarantine(self.context, name, parameters.number(limit, "limit"), show)

    def checks(self, view: str | None = None, last: int | None = None) -> list[Result]:
        """The kept results of checks by epoch, of one view or all, of the last epochs or all that are kept."""
        from ivm.quality.results import load

        name = "" if view is None else self.context.views[self.known(view)].name
        return load(self.context.layout, None if last is None else parameters.number(last, "last"), name)

    def repair(
        self, views: Iterable[str] | None = None, dry_run: bool = False, progress: Progress | None = None
    ) -> Repair:
        """Say what is wrong with the pipeline's state, and mend it.

        It mends all that it finds, or builds the views named anew.
        With `dry_run` nothing is done. Published tables are replaced by their successors in one commit each, never
        emptied.
        """
        from ivm.refresh.repair import Repair, findings, recover_log, to_rebuild

        names = self._known(views)
        with self.context.exclusive():
            lost = [f for f in findings(self.context) if not f.view]
            if not lost:
                self._compile()
            found = lost or findings(self.context)
            if dry_run:
                return Repair(tuple(found))
            again = tuple(recover_log(self.context)) if lost else ()
        if lost:
            report: Report | None = self._run(names, frozenset(names or ()), progress)
        else:
            rebuild = to_rebuild(found, names)
            report = self._run(sorted(rebuild), rebuild, progress) if rebuild else None
        return Repair(tuple(found), report, again)

    def plan(self, views: Iterable[str] | None = None) -> EpochPlan | None:
        """What a refresh would do now, with what it is expected to cost; nothing is written.

        None where nothing changed. No Spark session is started where the views were compiled before: whether the
        settings of a session changed is only seen where there is one.
        """
        from ivm.refresh.planning import plan_epoch

        self._check_declared()
        return plan_epoch(self.context, self._known(views), may_start=False)

    def _gate(self) -> Gate:
        from ivm.quality.gate import run_gate

        return run_gate

    def _run(self, views: list[str] | None, rebuild: frozenset[str], progress: Progress | None) -> Report:
        started = time.perf_counter()
        self._check_declared()
        if progress is not None:
            self.context.progress = progress
        told: list[tuple[int, dict[str, ViewReport]]] = []
        note = ""
        with self.context.exclusive():
            for _ in range(2):  # an interrupted epoch is finished first, then what came since is applied
                resumed = self.context.log.open_epoch()
                run = Run(self.context, self._gate(), views, rebuild)
                advance(run)
                plan = run.plan
                if plan is None:
                    break
                note = plan.note or note
                done = view_reports(self.context, plan, run.outcomes, [*plan.tasks, *plan.broken])
                told.append((plan.epoch, done))
                if plan.epoch != resumed:
                    break
                rebuild -= {v for v in rebuild if builds(plan, v) and not done[self.context.views[v].name].error}
            names = views if views is not None else list(self.context.views)
            reports = view_reports(self.context, None, {}, names) | together(self.context, told)
            return Report(self.context.log.manifest().epoch, reports, round(time.perf_counter() - started, 3), note)

    def compact(self, keep_epochs: int = 10) -> list[Compaction]:
        """Advance traces to the newest epoch that readers may still need, and rewrite small files.

        Raises OpenEpochError where a refresh left an epoch open, or is between two of its steps.
        """
        from ivm.refresh.compact import compact

        keep_epochs = parameters.number(keep_epochs, "keep_epochs")
        with self.context.exclusive():
            self._compile()
            return compact(self.context, keep_epochs)

    # -- reading ----------------------------------------------------------------------------------

    def read(
        self, view: str, epoch: int | None = None, as_of: str | date | None = None, revision: int | None = None
    ) -> DataFrame:
        """The view's rows as of the last committed epoch, or of an earlier one: exactly the view's columns.

        With `as_of`, a day: what the view held on that day, as it was known at epoch `revision` (the last one by
        default). It comes from what is kept by day, or is computed from the sources' rows that were effective then (see
        `ivm.refresh.as_of`).
        """
        from ivm.refresh.relations import unit_table

        name = self.known(view)
        epoch = None if epoch is None else parameters.number(epoch, "epoch")
        revision = None if revision is None else parameters.number(revision, "revision")
        if as_of is not None or revision is not None:
            from ivm.refresh.as_of import as_of_sql

            self._compile()
            return self.spark.sql(as_of_sql(self.context, name, as_of, revision if revision is not None else epoch))
        if epoch is None:
            state = committed_or_raise(self.context, name)
            version = readable(self.context, name)
        else:
            units = self.context.log.manifest(epoch).units
            if name not in units:
                raise ViewError(f"View {view!r} did not exist at epoch {epoch}.", "Read it at a later epoch.")
            state, version = units[name], units[name].version
            check_history(self.context, name, state, epoch)
        return self.spark.sql(f"SELECT * FROM {unit_table(self.context, name, state, version)}")

    def revisions(self, view: str) -> list[Revision]:
        """Which days each revision of a view changed, for a view that is kept by day. Raises ConfigError for others."""
        from ivm.refresh.as_of import revisions

        name = self.known(view)
        self._compile(name)
        return revisions(self.context, name)

    def explain(self, view: str) -> Explanation:
        """The incremental program, its strategy, each refusal with its reason and its mend.

        Print it, or take .to_dict().
        """
        from ivm.explain import explain_view

        name = self.known(view)
        self._compile(name)
        return explain_view(self.context, name)

    def why(self, view: str, where: str, limit: int = 20) -> Why:
        """The view's rows that meet a condition, the source rows that support them, and the epochs that changed them.

        At most `limit` of each. Raises ConfigError where `where` is not a condition over the view's columns.
        """
        from ivm.refresh.why import step_why

        name = self.known(view)
        limit = parameters.number(limit, "limit")
        self._compile(name)
        return step_why(self.context, name, where, limit)

    def verify(self, view: str) -> Verification:
        """Compare the published view, as a bag, with Spark's own result of its SQL at the same source versions."""
        from ivm.refresh.verify import verify_view

        name = self.known(view)
        self._compile(name)
        return verify_view(self.context, name)

    def history(self, view: str | None = None, limit: int = 20) -> list[Passed]:
        """What the last epochs did, the newest first; of one view, those that had something to do for it.

        No Spark session is started.
        """
        from ivm.refresh.history import history

        return history(self.context, "" if view is None else self.known(view), parameters.number(limit, "limit"))

    def audit(self, view: str, how: str = "full", sample: float = 0.01, rescan: bool = False) -> Audit:
        """Compare the published view with a recompute: in `full`, a `sample` of its groups, or by `checksum`.

        `sample` is the share of the groups, others each epoch. By checksum, the published rows are read only where what
        earlier audits kept doesn't tell, or with `rescan` (see docs/checks.md). Raises ConfigError for another way or
        share.
        """
        from ivm.refresh.audit import audit

        name = self.known(view)
        self._compile(name)
        return audit(self.context, name, how, sample, rescan=rescan)

    def status(self) -> dict[str, Any]:
        """Epochs and views as of now: strategy, rows, versions, and what is pending."""
        from ivm.refresh.status import status

        return status(self.context)
