"""The public API: declare sources and views, refresh, read, explain, verify.

pipe = ivm.Pipeline("sales", spark=spark, root="/lake/sales")
pipe.source("orders", "/lake/orders", primary_key=["id"])
pipe.view("revenue", "SELECT ... FROM orders ...")
pipe.refresh()
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from inspect import signature as inspect_signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ivm import parameters
from ivm.config import check_checks, load_folder
from ivm.errors import ConfigError, ViewError
from ivm.explain import Explanation, explain_view
from ivm.feed.source import Source, inspect
from ivm.housekeeping import Retention
from ivm.names import check_name, is_path
from ivm.parameters import LANES, MODES, shown
from ivm.planner.limits import EMBEDDED, Limits
from ivm.refresh.compact import Compaction, compact
from ivm.refresh.context import Context, Progress
from ivm.refresh.epochs import EpochLog
from ivm.refresh.integrity import readable
from ivm.refresh.protocol import Run, advance
from ivm.refresh.records import EpochPlan
from ivm.refresh.relations import unit_table
from ivm.refresh.run import Gate, Report, committed_or_raise, view_reports
from ivm.refresh.verify import Verification, verify_view
from ivm.refresh.views import View
from ivm.session import get_session
from ivm.storage.location import Location, served
from ivm.trace.store import Layout
from ivm.visible import check_visible
from ivm.zset.collection import Collection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ivm.refresh.as_of import Revision
    from ivm.refresh.repair import Repair

#: A view as a function of collections.
Operators = Callable[..., Collection]


class Pipeline:
    """Sources and views under one root; state, traces and outputs live there.

    `spark` may be left out: a session is started when one is first needed (see `ivm.session.get_session`).
    `lane` is auto (delta-rs where a table allows it), or spark to leave reading to Spark alone. `retention` says how
    long what was replaced is kept, and how often a refresh compacts by itself; `limits` what is small and what is too
    much (see `ivm.planner.limits`).
    """

    def __init__(
        self,
        name: str,
        spark: SparkSession | None = None,
        root: str | Path | None = None,
        lane: str = "auto",
        checks: Mapping[str, Any] | None = None,
        retention: Retention | None = None,
        limits: Limits = EMBEDDED,
    ) -> None:
        check_name(name, "pipeline")
        if root is None:
            raise ConfigError(
                f"Pipeline {name!r} has no root.",
                "Pass root=, the folder or URL under which state and outputs shall live.",
            )
        if lane not in LANES:
            raise ConfigError(f"There is no lane {shown(lane)}.", f"Choose one of: {', '.join(LANES)}.")
        if checks is not None and not isinstance(checks, Mapping):
            raise ConfigError(
                f"checks must be a mapping of views to expectations, found {shown(checks)}.", "See docs/pipelines.md."
            )
        if retention is not None and not isinstance(retention, Retention):
            raise ConfigError(
                f"retention must be an ivm.housekeeping.Retention, found {shown(retention)}.",
                "Write Retention(hours=...).",
            )
        if not isinstance(limits, Limits):
            raise ConfigError(
                f"limits must be an ivm.planner.limits.Limits, found {shown(limits)}.",
                "Pass EMBEDDED, CLUSTER or one of your own.",
            )
        self.name = name
        self._spark = spark
        layout = Layout(Location.of(parameters.location(root, "root")))
        layout.base.check()
        log, has_session = EpochLog(layout.epochs, name), lambda: self._spark is not None
        self.context = Context(
            name,
            layout,
            log,
            lambda: self.spark,
            has_session,
            lane,
            retention or Retention(),
            limits,
            checks=dict(checks or {}),
        )

    @classmethod
    def load(cls, folder: str | Path, spark: SparkSession | None = None, root: str | Path | None = None) -> Pipeline:
        """A pipeline from its folder (pipeline.yml, views/*.sql, checks.yml).

        Raises ConfigError, naming file and key.
        """
        config = load_folder(Path(parameters.location(folder, "the pipeline's folder")))
        pipe = cls(
            config.name,
            spark,
            config.root if root is None else root,
            lane=config.lane,
            checks=config.checks,
            retention=config.retention,
        )
        for source in config.sources:
            pipe.source(
                source.name, source.location, source.primary_key, dict(source.foreign_keys), source.effective_date
            )
        for view in config.views:
            pipe.view(view.name, view.sql, view.mode, file=view.file)
        return pipe

    @property
    def spark(self) -> SparkSession:
        """The session. Raises UnseenError where Spark doesn't see the root (see `ivm.visible`)."""
        if self._spark is None:
            self._spark = get_session(schemes=self._schemes())
        check_visible(self._spark, self.context.layout.base, self.context.layout.internal)
        return self._spark

    def _schemes(self) -> set[str]:
        """Of the stores that the root and the sources lie in."""
        return {parameters.scheme(url) for url in (self.root, *(s.location for s in self.context.sources.values()))} - {
            ""
        }

    @property
    def root(self) -> str:
        return self.context.layout.root

    # -- declarations -----------------------------------------------------------------------------

    def source(
        self,
        name: str,
        location: str | Path,
        primary_key: Sequence[str] = (),
        foreign_keys: Mapping[tuple[str, ...] | str, str] | None = None,
        effective_date: str = "",
    ) -> None:
        """Declare a Delta table with a change feed, by path or catalog identifier.

        `foreign_keys` maps a column (or a tuple of them) to the source it refers to. Keys only steer how rows are
        found. `effective_date` names the column that tells from which day a row holds, for `read(view, as_of=...)`.
        Raises SourceError where the table can't be maintained from.
        """
        check_name(name, "source")
        self._free(name)
        what = f"Source {name!r}:"
        source = Source(
            name,
            parameters.location(location, f"{what} the location"),
            parameters.columns(primary_key, f"{what} primary_key"),
            parameters.references({} if foreign_keys is None else foreign_keys, f"{what} foreign_keys"),
            parameters.text(effective_date, f"{what} effective_date", "Name one column.")
            if effective_date != ""
            else "",
        )
        self._apart(source.location, *(v.name for v in self.context.views.values()))
        inspect(source, lambda: self.spark, self.context.lane)
        self.context.sources[name.lower()] = source

    def view(self, name: str | Operators, sql: str = "", mode: str = "auto", file: str = "") -> Any:
        """Declare a view as one Spark SQL SELECT over sources and views, or as a function of collections:

            @pipe.view
            def degrees(edges):
                return edges.map(src="src").count_total()

        whose parameters name what it reads (see `ivm.zset.collection`). The view is compiled here if all that it reads
        is declared already, else at the first refresh. Raises ViewError where Spark or Delta can't have it,
        RefusedError where `mode` is incremental and it can't be.
        """
        if callable(name):
            self.view(name.__name__, self._query_of(name), mode)
            return name
        check_name(name, "view")
        self._free(name)
        if not isinstance(sql, str) or not sql.strip():
            raise ConfigError(
                f"View {name!r} has no SQL.", "Pass a SELECT, or decorate a function of collections with @pipe.view."
            )
        if mode not in MODES:
            raise ConfigError(f"View {name!r} has the mode {shown(mode)}.", f"Choose one of: {', '.join(MODES)}.")
        if name.lower() == "_ivm":
            raise ConfigError("A view can't be named '_ivm': the pipeline's state lives there.", "Rename it.")
        parameters.text(sql, f"The SQL of view {name!r}", "Pass a SELECT.")
        for source in self.context.sources.values():
            self._apart(source.location, name)
        self.context.views[name.lower()] = View(name, sql.strip().rstrip(";"), mode, file)
        if file:
            return None
        try:
            self.context.compile_one(name.lower())
        except Exception:
            del self.context.views[name.lower()]
            raise

    def _query_of(self, function: Operators) -> str:
        """The SQL that a function of collections builds."""
        result = function(
            *(Collection.relation(n, self.context.columns(n)) for n in inspect_signature(function).parameters)
        )
        if not isinstance(result, Collection):
            raise ViewError(
                f"{function.__name__} returns {type(result).__name__}, not a collection.",
                "Return what the last operator gives; count() an explode.",
            )
        return result.sql if not result.sql.startswith("`") else f"SELECT * FROM {result.sql}"

    def _free(self, name: str) -> None:
        if name.lower() in self.context.views or name.lower() in self.context.sources:
            raise ConfigError(
                f"The name {name!r} is taken in pipeline {self.name!r}.",
                "Sources and views share one set of names, without regard to case.",
            )

    def _apart(self, location: str, *views: str) -> None:
        """Raises ConfigError where a source lies where state or a view's table lies.

        A refresh would write into its own source.
        """
        source = served(location) if is_path(location) else None
        if source is None:
            return
        root = self.context.layout.base
        if source.holds(root):
            raise ConfigError(
                f"The root {self.root} lies in the table {location}, which is a source.",
                "Give state and outputs a folder of their own.",
            )
        for table in ("_ivm", *(v.lower() for v in views)):
            if (root / table).holds(source):
                raise ConfigError(
                    f"The source at {location} lies where {self.root}/{table} is written.",
                    "Move one of the two, or rename the view.",
                )

    def _compile(self, view: str = "") -> None:
        """Compile all views. Raises ViewError where `view` can't be."""
        self.context.compile(*self.context.survey())
        if view:
            self.context.compiled_or_raise(view)

    def known(self, view: str) -> str:
        """The view's name as it is kept (lower case). Raises ConfigError for an unknown one."""
        if not isinstance(view, str) or view.lower() not in self.context.views:
            raise ConfigError(
                f"Pipeline {self.name!r} has no view {shown(view)}.",
                f"There are: {', '.join(sorted(v.name for v in self.context.views.values())) or 'none'}.",
            )
        return view.lower()

    def _known(self, views: Iterable[str] | None) -> list[str] | None:
        return None if views is None else [self.known(v) for v in parameters.names(views, "views")]

    def _check_declared(self) -> None:
        """Raises ConfigError for foreign keys and checks that lead nowhere.

        What they name may be declared after them.
        """
        parameters.check_references({s.name: (s.primary_key, s.foreign_keys) for s in self.context.sources.values()})
        check_checks(self.context.checks, [v.name for v in self.context.views.values()])

    # -- the protocol -----------------------------------------------------------------------------

    def refresh(self, views: Iterable[str] | None = None, progress: Progress | None = None) -> Report:
        """Bring all views, or those named (and what they read), to the newest versions of their sources.

        A view that fails, or whose expectations fail, is reported with its error and held back with what reads it; the
        others are published. Raises ConcurrentRefreshError where another refresh is running, StateError where the step
        itself can't go on.
        """
        return self._run(self._known(views), frozenset(), progress)

    def backfill(
        self, view: str, where: str | None = None, progress: Progress | None = None, day: str | date | None = None
    ) -> Report:
        """Rebuild a view from its sources; with `where` (over the view's columns) only that slice may change.

        With `day`, take in what has come for a past day as a new revision, and compare what is kept of that day with
        the sources: where they differ, the view is rebuilt. Raises ConfigError where `where` is not a condition over
        the view's columns, where both are given, and where the view is not kept by day.
        """
        from ivm.refresh.as_of import check_day, differing
        from ivm.refresh.backfill import backfill_slice

        name = self.known(view)
        self._check_declared()
        if day is not None:
            self._compile()
            past = check_day(self.context, name, day, where)
            report = self._run([name], frozenset(), progress)
            return self._run([name], frozenset({name}), progress) if differing(self.context, name, past) else report
        if where is None:
            return self._run([name], frozenset({name}), progress)

        with self.context.exclusive():
            self._compile(name)
            return backfill_slice(self.context, name, where, self._gate())

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
        """What a refresh would do now; nothing is written. None where nothing changed."""
        from ivm.refresh.planning import plan_epoch

        self._check_declared()
        return plan_epoch(self.context, self._known(views))

    def _gate(self) -> Gate:
        from ivm.quality.gate import run_gate

        return run_gate

    def _run(self, views: list[str] | None, rebuild: frozenset[str], progress: Progress | None) -> Report:
        started = time.perf_counter()
        self._check_declared()
        if progress is not None:
            self.context.progress = progress
        reports: dict[str, Any] = {}
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
                reports.update(
                    {n: r for n, r in done.items() if n not in reports or r.strategy != "unchanged" or r.error}
                )
                if plan.epoch != resumed:
                    break
            names = views if views is not None else list(self.context.views)
            rest = view_reports(self.context, None, {}, names)
            return Report(
                self.context.log.manifest().epoch, rest | reports, round(time.perf_counter() - started, 3), note
            )

    def compact(self, keep_epochs: int = 10) -> list[Compaction]:
        """Advance traces to the newest epoch that readers may still need, and rewrite small files."""
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
        name = self.known(view)
        self._compile(name)
        return explain_view(self.context, name)

    def verify(self, view: str) -> Verification:
        """Compare the published view, as a bag, with Spark's own result of its SQL at the same source versions."""
        name = self.known(view)
        self._compile(name)
        return verify_view(self.context, name)

    def status(self) -> dict[str, Any]:
        """Epochs and views as of now: strategy, rows, versions, and what is pending."""
        from ivm.refresh.status import status

        return status(self.context)
