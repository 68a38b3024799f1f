"""What every step of the protocol works with: the pipeline's declarations, its layout and its log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ivm.checking import Checking
from ivm.errors import IvmError, UnseenError, ViewError
from ivm.feed.source import Snapshot, Source, inspect, is_newest
from ivm.housekeeping import Retention
from ivm.lake.types import padded_columns
from ivm.names import is_path
from ivm.plan.kinds import BY_ITS_SOURCES
from ivm.plan.nodes import Clock, Column, Relation
from ivm.planner.limits import EMBEDDED, Limits
from ivm.portable.translations import Translations
from ivm.refresh.epochs import EpochLog
from ivm.refresh.mentions import remembered
from ivm.refresh.views import Compiled, View, compile_view, in_order
from ivm.session import STEP_CONF, SparkAnalyzer, apart, configured, starts_plain
from ivm.sql.padding import padded_names
from ivm.sql.text import query_tree, relation_tables
from ivm.storage.location import Location
from ivm.storage.lock import exclusive
from ivm.trace.store import Layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

#: Says how far a step is: (what, done, total).
Progress = Callable[[str, int, int], None]


#: Sources that are looked at at the same time: a store answers in tenths of a second.
LOOKS = 4


class _SessionWantedError(Exception):
    """A source can't be looked at without Spark."""


def no_session() -> SparkSession:
    """In a session's place where none shall be started now."""
    raise _SessionWantedError


def silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


@dataclass
class Context:
    """One pipeline in one process."""

    name: str
    layout: Layout
    log: EpochLog
    spark: Callable[[], SparkSession]
    #: Whether there is a session already, or `spark` would start one.
    has_session: Callable[[], bool] = lambda: True
    lane: str = "auto"
    retention: Retention = field(default_factory=Retention)
    limits: Limits = EMBEDDED
    sources: dict[str, Source] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    checks: dict[str, Any] = field(default_factory=dict)
    checking: Checking = field(default_factory=Checking)
    #: Who may run a refresh's statements (see `ivm.parameters.ENGINES`).
    engine: str = "spark"
    #: Whether arrangements are made that nobody asked for (see `ivm.parameters.ARRANGE`).
    arrange: str = "auto"
    #: Statements as the embedded engine runs them.
    translations: Translations = field(default_factory=Translations, repr=False)
    compiled: dict[str, Compiled] = field(default_factory=dict)
    #: Why views can't be compiled as things are: a source that is gone, a column that was dropped.
    broken: dict[str, str] = field(default_factory=dict)
    progress: Progress = silent
    #: Tells the instant of an epoch that is planned.
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    #: Says that `spark` will be asked for soon: one that must be started is begun beside what is done until then.
    expect_spark: Callable[[], None] = lambda: None
    #: Whether the session was started for this pipeline, so that nobody else has it.
    owns_session: Callable[[], bool] = lambda: False
    #: Gives the caller's session while `spark` gives another.
    _callers: Callable[[], SparkSession] | None = field(default=None, repr=False)
    #: What a step sets on its session, to be set back at its end.
    _step: ExitStack = field(default_factory=ExitStack, repr=False)
    #: The sources as they were looked at last.
    _looked: dict[tuple[Source, str], Snapshot] = field(default_factory=dict, repr=False)

    def look(self, source: Source, spark: Callable[[], SparkSession] | None = None) -> Snapshot:
        """A source as it is now; its log is read again only where it has grown or is another one.

        `spark` gives a session where one is needed, the context's own by default. Raises SourceError as `inspect` does.
        """
        known = self._looked.get((source, self.lane))
        if known is None or not is_newest(source, known):
            known = self._looked[source, self.lane] = inspect(source, spark or self.spark, self.lane)
        return known

    def snapshots(self, names: set[str] | None = None) -> dict[str, Snapshot]:
        """The sources as they are now, those named (all by default)."""
        wanted = {n: s for n, s in self.sources.items() if names is None or n in names}
        return {n: self.look(s) for n, s in wanted.items()}

    def survey(self) -> tuple[dict[str, Snapshot], dict[str, IvmError]]:
        """The sources as they are now, and why others can't be looked at.

        One that is gone stops only the views that read it.
        """
        found: dict[str, Snapshot] = {}
        missing: dict[str, IvmError] = {}
        for (name, source), looked in zip(
            self.sources.items(), self.look_without_spark(self.sources.values()), strict=True
        ):
            try:
                result = looked or self.look(source)
            except UnseenError:
                raise
            except IvmError as error:
                result = error
            if isinstance(result, IvmError):
                missing[name] = result
            else:
                found[name] = result
        return found, missing

    def look_without_spark(self, sources: Iterable[Source]) -> list[Snapshot | IvmError | None]:
        """Several sources at the same time: each as it is, or why it can't be looked at.

        None where only a session can tell, which one thread shall start.
        """
        wanted = list(sources)
        if all(self._is_near(source) for source in wanted):
            return [self._look_without_spark(source) for source in wanted]
        with ThreadPoolExecutor(LOOKS) as pool:
            return list(pool.map(self._look_without_spark, wanted))

    def _is_near(self, source: Source) -> bool:
        """Whether a look takes less time than a thread: it was looked at before, and lies on a disk."""
        known = self._looked.get((source, self.lane))
        return known is not None and is_path(source.location) and Location.of(known.path).local

    def _look_without_spark(self, source: Source) -> Snapshot | IvmError | None:
        try:
            return self.look(source, no_session)
        except _SessionWantedError:
            return None
        except IvmError as error:
            return error

    def columns(self, relation: str) -> tuple[str, ...]:
        """The columns of a source or view. Raises ViewError for a name that is neither."""
        name = relation.lower()
        if name in self.sources:
            return tuple(c.name for c in self.snapshots({name})[name].columns)
        if name not in self.views:
            known = [*(s.name for s in self.sources.values()), *(v.name for v in self.views.values())]
            raise ViewError(
                f"There is no source or view {relation!r}.", f"There are: {', '.join(sorted(known)) or 'none yet'}."
            )
        return tuple(
            c.name for c in self._compile(in_order(self.views, [name]), self.snapshots())[name].program.columns
        )

    def compile_one(self, name: str) -> None:
        """Compile a view and the views it reads, over the sources they read."""
        order = in_order(self.views, [name])
        tables = {t.lower() for v in order for t, *_ in relation_tables(v.sql)}
        known = tables <= {*self.sources, *self.views}
        self._compile(order, self.snapshots(tables if known else None))

    def compile(
        self, snapshots: dict[str, Snapshot], missing: Mapping[str, IvmError] | None = None
    ) -> dict[str, Compiled]:
        """All views compiled, in dependency order; views can be read by later ones.

        With `missing` sources (see `survey`), a view that can't be compiled, even read, is left out and named in
        `broken`; without, its error is raised.
        """
        self.broken = {}
        with remembered(self.layout.programs, {v.sql for v in self.views.values()}):
            order = in_order(self.views, broken=None if missing is None else self.broken)
        self.compiled = self._compile(order, snapshots, missing)
        if self._callers is not None:
            self.spark = self._own(self._callers)
        return self.compiled

    def broken_among(self, views: Iterable[str] | None) -> dict[str, str]:
        """What is `broken` of the views named and of those that they read; of all if none are named."""
        if views is None:
            return dict(self.broken)
        unread: dict[str, str] = {}
        needed = {v.name.lower() for v in in_order(self.views, [v.lower() for v in views], unread)} | unread.keys()
        return {view: why for view, why in self.broken.items() if view in needed}

    def compiled_or_raise(self, view: str) -> Compiled:
        """A view that was compiled. Raises ViewError with the reason where it could not be."""
        if view in self.broken:
            raise ViewError(self.broken[view], "What was published of the view stays as it is.")
        return self.compiled[view]

    def _compile(
        self, order: list[View], snapshots: dict[str, Snapshot], missing: Mapping[str, IvmError] | None = None
    ) -> dict[str, Compiled]:
        relations = {n: self._relation(n, s) for n, s in snapshots.items()}
        compiled: dict[str, Compiled] = {}
        analyzer, raises = _once(self._analyzer), _once(self._raises)
        for view in order:
            name = view.name.lower()
            try:
                self._check_there(view, missing or {})
                result = compile_view(view, relations, analyzer, self.layout.programs, raises, self.compiled.get(name))
            except UnseenError:
                raise
            except IvmError as error:
                if missing is None:
                    raise
                self.broken[name] = str(error)
                continue
            compiled[name] = result
            self._check_free(view, {u.name for u in result.program.units} - {name})
            key = result.program.units[-1].key if result.program.units else ()
            dated = BY_ITS_SOURCES if any(relations[r].effective for r in result.program.relations) else ""
            padded = self._padded(view, result, relations)
            relations[name] = Relation(name, "view", result.program.columns, key, dated, padded)
        return compiled

    def _analyzer(self) -> SparkAnalyzer:
        """The caller's session answers, which has its variables."""
        return SparkAnalyzer(self.asked())

    def _raises(self) -> bool:
        """Whether what overflows raises an error in the session, or would in the one that this process would start."""
        return (not self.has_session() and starts_plain()) or SparkAnalyzer(self.asked()).raises()

    @property
    def clocks(self) -> dict[str, Clock]:
        """What the temporal filters of the compiled views compare with, by name."""
        return {c.name: c for compiled in self.compiled.values() for c in compiled.program.clocks}

    def _check_there(self, view: View, missing: Mapping[str, IvmError]) -> None:
        for table in dict.fromkeys(t.lower() for t, *_ in relation_tables(view.sql)):
            if table in missing:
                raise missing[table]
            if table in self.broken:
                raise ViewError(f"{self.views[table].name} can't be compiled, which it reads.", "Mend that view first.")

    @staticmethod
    def _padded(view: View, compiled: Compiled, relations: dict[str, Relation]) -> tuple[Column, ...]:
        """The view's columns that may be CHAR columns of what it reads."""
        columns = [c.name for r in compiled.program.relations for c in relations[r].padded]
        names = padded_names(query_tree(view.sql), columns) if columns else frozenset()
        return tuple(Column(c.name, "a CHAR") for c in compiled.program.columns if c.name.lower() in names)

    def _check_free(self, view: View, internal: set[str]) -> None:
        for taken in sorted(internal & {*self.views, *self.sources}):
            raise ViewError(
                f"View {view.name!r} keeps a table of its own called {taken!r}, which is also declared here.",
                f"Rename the declared {taken!r}.",
            )

    def _relation(self, name: str, snapshot: Snapshot) -> Relation:
        source = self.sources[name]
        effective = self._actual(source.effective_date, snapshot) if source.effective_date else ""
        key = tuple(self._actual(k, snapshot) for k in source.primary_key)
        return Relation(name, "source", snapshot.columns, key, effective, padded_columns(snapshot.schema))

    @staticmethod
    def _actual(key: str, snapshot: Snapshot) -> str:
        return next(c.name for c in snapshot.columns if c.name.lower() == key.lower())

    def app(self, unit: str, what: str) -> str:
        """The application id under which a unit's commits to one table are made exactly once.

        They are made by this root's log and no other.
        """
        return f"ivm/{self.name}/{self.log.identity}/{unit}/{what}"

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the pipeline's lock while a step runs; the log takes nothing more where it is lost meanwhile.

        Until then `spark` gives a session of the step's own, with what the caller's has once the views are compiled:
        settings, transactions and names of a refresh are seen by nobody else. Raises ConcurrentRefreshError where
        another process holds the lock, ConfigError or StorageError where the root can't be written to.
        """
        with exclusive(self.layout.lock, f"pipeline {self.name!r}") as fence, ExitStack() as self._step:
            self.log.fence = fence
            callers = self._callers = self.spark
            self.spark = self._own(callers)
            try:
                yield
            finally:
                self.log.fence, self.spark, self._callers = None, callers, None

    def asked(self) -> SparkSession:
        """The caller's session, which a step only asks: what it runs and sets is its own session's."""
        return (self._callers or self.spark)()

    def _own(self, callers: Callable[[], SparkSession]) -> Callable[[], SparkSession]:
        """A session apart from the caller's, made when it is first asked for.

        The caller's itself where nobody else has it, or where a view may read its variables, which no clone has.
        """

        def own() -> SparkSession:
            spark = callers()
            chance = any(r.code == "nondeterministic" for c in self.compiled.values() for r in c.program.refusals)
            mine = spark if self.owns_session() or chance else apart(spark)
            self._step.enter_context(configured(mine, STEP_CONF))
            return mine

        return _once(own)


def _once(made: Callable[[], T]) -> Callable[[], T]:
    """What a function gives the first time, whichever thread asks."""
    lock = threading.Lock()
    kept: list[T] = []

    def once() -> T:
        with lock:
            if not kept:
                kept.append(made())
            return kept[0]

    return once
