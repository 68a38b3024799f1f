"""What must hold after a fault: a lake that is kept as it was, restored for each try, and judged after the recovery.

    scene = Scene(spark, folder, views)          # sources under folder/sources, the pipeline's root under folder/root
    scene.save()                                 # from now on `tried` works on copies of it
    outcome = scene.tried(lambda pipe: pipe.refresh(), [Fault(...)])
    assert not outcome.troubles

Invariant: after a fault and at most `REFRESHES` refreshes by new processes, every view's table, as its readers see it,
equals Spark's result of the view's SQL over the sources as they are, and nothing that no state refers to is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from ivm.errors import IvmError
from ivm.lake import handles, native
from ivm.names import table_ref
from ivm.pipeline import Pipeline
from ivm.plan.nodes import EPOCH
from ivm.planner.limits import EMBEDDED, Limits
from ivm.storage.folder import PARTIAL
from ivm.storage.location import Location
from ivm.testing.faults import Fault, Injector, Killed, Point
from ivm.testing.oracle import bag
from ivm.testing.primitives import Primitive
from ivm.trace import recent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Refreshes within which a pipeline must be well again.
REFRESHES = 3
#: So many writes fail in one run of an action.
TOGETHER = 4
Action = Callable[[Pipeline], Any]


@dataclass
class Try:
    """Faults of an action, and what came of its runs."""

    faults: Sequence[Fault]
    #: Those that struck in each run of the action, and what it said: killed, ok, or an error.
    runs: list[tuple[list[Fault], str]] = field(default_factory=list)
    refreshes: int = 0
    troubles: list[str] = field(default_factory=list)

    @property
    def struck(self) -> list[Fault]:
        """Those that struck: another one's point was not reached, since an earlier one changed what there was to do."""
        return [f for run, _ in self.runs for f in run]

    def __str__(self) -> str:
        told = [f"{' and '.join(map(str, run)) or 'no fault'} (it said: {said or 'ok'})" for run, said in self.runs]
        return f"{', then '.join(told)}: {'; '.join(self.troubles) or 'right'} after {self.refreshes} refreshes"


@dataclass
class Scene:
    """Sources, views over them and a pipeline's root in one folder, which can be saved and tried upon."""

    spark: SparkSession
    folder: Path | Location
    views: Mapping[str, str]
    sources: tuple[str, ...]
    #: Rows to append to sources between a fault and what comes next, (source, rows); all of them by the end.
    follow_up: tuple[tuple[str, pa.Table], ...] = ()
    lane: str = "auto"
    #: Writes of an engine in Spark's place.
    writes: Sequence[Primitive] = ()
    limits: Limits = EMBEDDED
    arrange: str = "auto"

    def __post_init__(self) -> None:
        self._tries = 0
        self._expected: dict[bool, dict[str, Counter[str]]] = {}

    def pipeline(self, folder: Path | Location) -> Pipeline:
        """A pipeline as a new process would declare it."""
        handles.forget()
        recent.forget()
        root = f"{folder}/root"
        pipe = Pipeline("faults", self.spark, root, lane=self.lane, limits=self.limits, arrange=self.arrange)
        for name in self.sources:
            pipe.source(name, f"{folder}/sources/{name}")
        for name, sql in self.views.items():
            pipe.view(name, sql)
        return pipe

    def save(self) -> None:
        """Take the lake as it is for the state that every try starts from.

        Computes what is right there, and with all follow-ups.
        """
        after = self._copy("after")
        self._follow(after, len(self.follow_up))
        self._expected = {False: self.recomputed(self.folder), True: self.recomputed(after)}
        after.drop()

    def moved(self, folder: Path | Location) -> Scene:
        """A copy of the lake in another folder, with what is right there."""
        Location.of(str(self.folder)).copy(Location.of(str(folder)))
        made = replace(self, folder=folder)
        made._expected = self._expected
        return made

    def _follow(self, folder: Location, upto: int, after: int = 0) -> None:
        for name, rows in self.follow_up[after:upto]:
            write_deltalake(f"{folder}/sources/{name}", rows, mode="append")

    def recomputed(self, folder: Path | Location) -> dict[str, Counter[str]]:
        """Each view's rows, by plain Spark from the sources' newest state; nothing of ours takes part."""
        views = {**{n: f"SELECT * FROM {table_ref(f'{folder}/sources/{n}')}" for n in self.sources}, **self.views}
        try:
            for name, sql in views.items():
                self.spark.sql(sql).createOrReplaceTempView(name)
            return {name: bag(self.spark.table(name).toArrow()) for name in self.views}
        finally:
            for name in views:
                self.spark.catalog.dropTempView(name)

    # -- trying -----------------------------------------------------------------------------------

    def points(self, action: Action) -> list[Point]:
        """The writes of an action without a fault, whose results are compared as well."""
        folder = self._copy("counted")
        with Injector([f"{folder}/root"], more=self.writes) as counted:
            action(self.pipeline(folder))
        found = self.judged(folder, Try([]), followed=False)
        folder.drop()
        assert not found.troubles, f"without any fault: {found}"
        return counted.points

    def tried(self, action: Action, faults: Sequence[Fault], late: bool = False) -> Try:
        """Runs of an action until its faults have struck, or none is reached; then the recovery by new processes.

        Returns what is not right then. A run ends with a death; of the writes that fail it has `TOGETHER` at most, or
        one would hide what comes of another.
        Between the runs the sources move on; `late`, only when all is well again, which is judged before.
        """
        folder = self._copy(f"try_{self._tries}")
        self._tries += 1
        found = Try(faults)
        followed = len(self.follow_up) if late else 0
        while left := [f for f in faults if f not in found.struck]:
            with Injector([f"{folder}/root"], left, most=TOGETHER, more=self.writes) as injector:
                text = said(lambda: action(self.pipeline(folder)))
            found.runs.append((list(injector.struck), text))
            if not injector.struck and followed >= len(self.follow_up):
                break
            if not late:
                self._follow(folder, followed + 1, followed)
                followed += 1
        found.troubles += [f"a traceback: {text}" for _, text in found.runs if text.startswith("!")]
        if late:
            self.judged(folder, found, followed=False)
            followed = 0
        self._follow(folder, len(self.follow_up), followed)
        self.judged(folder, found, followed=True)
        folder.drop()
        return found

    def judged(self, folder: Location, found: Try, followed: bool) -> Try:
        """Refresh until all is well, then compare."""
        errors: list[str] = []
        for _ in range(REFRESHES):
            found.refreshes += 1
            error = said(lambda: self.pipeline(folder).refresh())
            if not error:
                break
            errors.append(error)
        else:
            found.troubles.append(f"stuck: {errors[-1]}")
        found.troubles += [f"a traceback: {e}" for e in errors if e.startswith("!")]
        pipe = self.pipeline(folder)
        found.troubles += differences(pipe, self._expected[followed])
        try:
            found.troubles += leftovers(pipe)
        except IvmError as error:
            found.troubles.append(f"its state can't be read: {error}")
        return found

    def _copy(self, name: str) -> Location:
        # A path of its own for each try: Spark keeps what it read of a table by its path.
        target = Location.of(f"{self.folder}_{name}")
        Location.of(str(self.folder)).copy(target)
        return target


def said(action: Callable[[], Any]) -> str:
    """What an action says that went wrong; an exception that is not one of ours begins with "!"."""
    try:
        report = action()
    except Killed:
        return "killed"
    except IvmError as error:
        return f"{type(error).__name__}: {error}"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return f"!{type(error).__name__}: {str(error)[:300]}"
    views = getattr(report, "views", {})
    return "; ".join(f"{n}: {v.error}" for n, v in views.items() if v.error)


def differences(pipe: Pipeline, expected: Mapping[str, Counter[str]]) -> list[str]:
    """Views whose table, at its head, is not the bag that is expected."""
    found = []
    for name, right in expected.items():
        try:
            actual = bag(DeltaTable(pipe.context.layout.table(name, True)).to_pyarrow_table())
        except Exception as error:  # noqa: BLE001 - a missing table is a difference
            found.append(f"{name} can't be read: {type(error).__name__}: {error}")
            continue
        if actual != right:
            found.append(
                f"{name} differs: missing {list((right - actual).items())[:3]}, "
                f"unexpected {list((actual - right).items())[:3]}"
            )
    return found


def leftovers(pipe: Pipeline) -> list[str]:
    """What lies under the root and belongs to no state.

    Staged rows, scratch, traces of no generation, rows of no epoch.
    """
    layout, log = pipe.context.layout, pipe.context.log
    internal = layout.internal
    manifest = log.manifest()
    files = [f.url[len(internal.url) + 1 :] for f in internal.files()]
    found = [
        f"a leftover: {f}"
        for f in files
        if f.startswith(("staging/", "scratch/")) or f.endswith(PARTIAL) or "lock-" in f
    ]
    kept = {layout.output_trace(u, s.output_generation) for u, s in manifest.units.items()}
    kept |= {layout.accumulator_trace(u, s.generation) for u, s in manifest.units.items()}
    committed = {e.epoch for e in log.events() if e.status == "committed"}
    for trace in (t for unit in layout.traces.list() for t in unit.list()):
        if trace.url not in kept:
            found.append(f"a trace that no state refers to: {trace}")
        elif native.exists(trace.url):
            epochs = set(native.read(native.table(trace.url), [EPOCH])[EPOCH].to_pylist())
            found += [f"rows of epoch {e}, which was not committed, in {trace}" for e in sorted(epochs - committed)]
    return found
