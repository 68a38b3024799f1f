"""What a pipeline is made of: its root, sources, views and settings, each refused where it has no meaning.

Invariant: no name is taken twice, no source lies where a view's table or the state is written, and no view is left
that Spark refuses.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from inspect import signature as inspect_signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from ivm import parameters
from ivm.checking import Checking
from ivm.config import check_checks, load_folder
from ivm.errors import ConfigError, SourceError, StateError, ViewError
from ivm.feed.source import Source
from ivm.housekeeping import Retention
from ivm.names import check_name, is_path
from ivm.parameters import ARRANGE, LANES, MODES, shown
from ivm.planner import limits as profiles
from ivm.planner.limits import Limits
from ivm.quality.suites import as_rules
from ivm.refresh.brief import is_brief
from ivm.refresh.context import Context
from ivm.refresh.epochs import EpochLog
from ivm.refresh.views import View
from ivm.session import active_session, get_session, starts_plain
from ivm.sql.text import one_statement
from ivm.storage.location import Location, served
from ivm.trace.store import Layout
from ivm.visible import check_visible
from ivm.zset.collection import Collection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: A view as a function of collections.
Operators = Callable[..., Collection]


def declared(folder: str | Path) -> Context:
    """What a pipeline folder declares, with its log; no source is looked at, and no Spark is to be had.

    For those that only read the log. Raises ConfigError, naming file and key.
    """
    config = load_folder(Path(parameters.location(folder, "the pipeline's folder")))
    layout = Layout(Location.of(parameters.location(config.root, "root")))
    context = Context(config.name, layout, EpochLog(layout.epochs, config.name), _no_spark, lambda: False, config.lane)
    context.sources = {
        s.name.lower(): Source(s.name, s.location, s.primary_key, s.foreign_keys, s.effective_date)
        for s in config.sources
    }
    context.views = {v.name.lower(): View(v.name, v.sql, v.mode, v.file, v.freshness) for v in config.views}
    return context


def _from_here(location: str) -> str:
    """A relative path from the current folder on: Spark has no other one, and a process may change its own."""
    relative = is_path(location) and not parameters.is_url(location) and not location.startswith("/")
    return os.path.abspath(location) if relative else location


def _no_spark() -> SparkSession:
    raise StateError("This only reads the pipeline's log, and has no Spark session.", "Load it with Pipeline.load().")


class Declarations:
    """Sources and views under one root. See `ivm.pipeline.Pipeline`, which refreshes and reads them."""

    def __init__(
        self,
        name: str,
        spark: SparkSession | None = None,
        root: str | Path | None = None,
        lane: str = "auto",
        checks: Mapping[str, Any] | None = None,
        retention: Retention | None = None,
        limits: Limits | None = None,
        mode: str = "auto",
        checking: Checking | None = None,
        clock: Callable[[], datetime] | None = None,
        engine: str = "",
        arrange: str = parameters.AUTO,
    ) -> None:
        check_name(name, "pipeline")
        if root is None:
            raise ConfigError(
                f"Pipeline {name!r} has no root.",
                "Pass root=, the folder or URL under which state and outputs shall live.",
            )
        if lane not in LANES:
            raise ConfigError(f"There is no lane {shown(lane)}.", f"Choose one of: {', '.join(LANES)}.")
        if mode not in MODES:
            raise ConfigError(f"There is no mode {shown(mode)}.", f"Choose one of: {', '.join(MODES)}.")
        if arrange not in ARRANGE:
            raise ConfigError(
                f"There is no way {shown(arrange)} to choose arrangements.", f"Choose one of: {', '.join(ARRANGE)}."
            )
        if checks is not None and not isinstance(checks, Mapping):
            raise ConfigError(
                f"checks must be a mapping of views to expectations, found {shown(checks)}.", "See docs/pipelines.md."
            )
        if retention is not None and not isinstance(retention, Retention):
            raise ConfigError(
                f"retention must be an ivm.housekeeping.Retention, found {shown(retention)}.",
                "Write Retention(hours=...).",
            )
        if limits is not None and not isinstance(limits, Limits):
            raise ConfigError(
                f"limits must be an ivm.planner.limits.Limits, found {shown(limits)}.",
                "Pass EMBEDDED, CLUSTER or one of your own.",
            )
        if checking is not None and not isinstance(checking, Checking):
            raise ConfigError(
                f"checking must be an ivm.checking.Checking, found {shown(checking)}.", "Write Checking(values=...)."
            )
        engine = parameters.engine(engine)
        if engine == parameters.AUTO:
            from ivm.engine.embedded import check_installed

            check_installed()
        if limits is None:
            limits = profiles.EMBEDDED
        if clock is not None and not callable(clock):
            raise ConfigError(f"clock must be a function, found {shown(clock)}.", "Pass one that returns a datetime.")
        self.name, self.mode = name, mode
        self._spark = spark
        self._starting: Future[SparkSession] | None = None
        self._owns = False
        #: Whether this process ends with what it is asked for next, and so does a JVM that it starts.
        self.passing = False
        #: Where the sources lie, links followed, by location.
        self._places: dict[str, Location] = {}
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
            checks=as_rules(checks or {}),
            checking=checking or Checking(),
            engine=engine,
            arrange=arrange,
            expect_spark=self._expect_spark,
            owns_session=lambda: self._owns,
        )
        self.context.clock = clock or self.context.clock

    @classmethod
    def load(
        cls,
        folder: str | Path,
        spark: SparkSession | None = None,
        root: str | Path | None = None,
        limits: Limits | None = None,
    ) -> Self:
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
            mode=config.mode,
            checking=config.checking,
            limits=limits,
            engine=config.engine,
            arrange=config.arrange,
        )
        declared = [
            pipe._declared(s.name, s.location, s.primary_key, dict(s.foreign_keys), s.effective_date)
            for s in config.sources
        ]
        pipe.context.look_without_spark(declared)
        for source in declared:
            try:
                pipe._take(source)
            except (SourceError, StateError):  # StateError: only Spark can look at it, and none is to be started
                if not pipe.context.log.exists():
                    raise
                # What doesn't read it goes on; a refresh names the views that can't (see `Context.survey`).
                pipe.context.sources[source.name.lower()] = source
        for view in config.views:
            pipe.view(view.name, view.sql, view.mode, view.file, view.freshness)
        return pipe

    @property
    def spark(self) -> SparkSession:
        """The session. Raises UnseenError where Spark doesn't see the root (see `ivm.visible`)."""
        if self._spark is None:
            self._owns = self._starting is not None or active_session() is None
            self._spark = self._starting.result() if self._starting is not None else self._start()()
        check_visible(self._spark, self.context.layout.base, self.context.layout.scratches)
        return self._spark

    def _start(self) -> Callable[[], SparkSession]:
        """What starts the session, to be called in any thread."""
        brief = self.passing and is_brief(self.context)
        return partial(get_session, schemes=self._schemes(), brief=brief)

    def _expect_spark(self) -> None:
        """Begin to start the session in a thread. In a process that lives on it belongs to the thread that asks."""
        if self.passing and self._spark is None and self._starting is None and starts_plain():
            pool = ThreadPoolExecutor(1)
            self._starting = pool.submit(self._start())
            pool.shutdown(wait=False)

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
        self._take(self._declared(name, location, primary_key, foreign_keys, effective_date))

    @staticmethod
    def _declared(
        name: str,
        location: str | Path,
        primary_key: Sequence[str],
        foreign_keys: Mapping[tuple[str, ...] | str, str] | None,
        effective_date: str,
    ) -> Source:
        check_name(name, "source")
        what = f"Source {name!r}:"
        return Source(
            name,
            _from_here(parameters.location(location, f"{what} the location")),
            parameters.columns(primary_key, f"{what} primary_key"),
            parameters.references({} if foreign_keys is None else foreign_keys, f"{what} foreign_keys"),
            parameters.text(effective_date, f"{what} effective_date", "Name one column.")
            if effective_date != ""
            else "",
        )

    def _take(self, source: Source) -> None:
        self._free(source.name)
        self._apart(source)
        self.context.look(source)
        self.context.sources[source.name.lower()] = source

    def view(
        self,
        name: str | Operators,
        sql: str = "",
        mode: str = "",
        file: str = "",
        freshness: timedelta | None = None,
    ) -> Any:
        """Declare a view as one Spark SQL SELECT over sources and views, or as a function of collections:

            @pipe.view
            def degrees(edges):
                return edges.map(src="src").count_total()

        whose parameters name what it reads (see `ivm.zset.collection`). The view is compiled here if all that it reads
        is declared already, else at the first refresh. `mode` (the pipeline's by default) is auto; incremental, where a
        full refresh other than the first is the view's error (see `ivm.refresh.modes`); warn, where it is reported as a
        warning; or full. `freshness` says how far it may be behind its sources (see `ivm.refresh.freshness`). Raises
        ViewError where Spark or Delta can't have it, RefusedError where `mode` is incremental and it can't be.
        """
        mode = self.mode if mode == "" else mode
        if callable(name):
            self.view(name.__name__, self._query_of(name), mode)
            return name
        check_name(name, "view")
        self._free(name)
        if not isinstance(sql, str) or not sql.strip():
            raise ConfigError(
                f"View {name!r} has no SQL.", "Pass a SELECT, or decorate a function of collections with @pipe.view."
            )
        if freshness is not None and not isinstance(freshness, timedelta):
            raise ConfigError(
                f"View {name!r} has the freshness {shown(freshness)}.", "Pass a timedelta, or None for no target."
            )
        if mode not in MODES:
            raise ConfigError(f"View {name!r} has the mode {shown(mode)}.", f"Choose one of: {', '.join(MODES)}.")
        if name.lower() == "_ivm":
            raise ConfigError("A view can't be named '_ivm': the pipeline's state lives there.", "Rename it.")
        parameters.text(sql, f"The SQL of view {name!r}", "Pass a SELECT.")
        self._not_written(name.lower(), self._places)
        self.context.views[name.lower()] = View(name, one_statement(sql), mode, file, freshness)
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

    def _apart(self, source: Source) -> None:
        """Raises ConfigError where a source lies where state or a view's table lies.

        A refresh would write into its own source.
        """
        place = served(source.location) if is_path(source.location) else None
        if place is None:
            return
        place = place.followed
        if place.spans(self.context.layout.base.followed):
            raise ConfigError(
                f"The root {self.root} lies in the table {source.location}, which is a source.",
                "Give state and outputs a folder of their own.",
            )
        self._places[source.location] = place
        for table in ("_ivm", *self.context.views):
            self._not_written(table, {source.location: place})

    def _not_written(self, table: str, sources: Mapping[str, Location]) -> None:
        """Raises ConfigError where one of these sources lies where this table under the root is written."""
        written = (self.context.layout.base / table).followed
        for location, place in sources.items():
            if written.spans(place):
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
