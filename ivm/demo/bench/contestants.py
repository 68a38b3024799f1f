"""Who takes part: each brings the views to the newest sources, in its own place, and says what that took.

    spark     ivm's refresh by Spark
    auto      ivm's refresh, by the embedded engine where it can
    rebuild   Spark's CREATE OR REPLACE TABLE AS of each view's own SQL
    duckdb    DuckDB's rebuild of each view's own SQL into Parquet files

A turn is timed by the wall clock, from the call to its return.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ivm.demo.bench.asked import DUCKDB, REBUILD
from ivm.demo.bench.duck_rebuild import DuckRebuild
from ivm.demo.bench.lake import Lake
from ivm.demo.bench.spark_rebuild import SparkRebuild
from ivm.demo.bench.steps import Steps
from ivm.demo.bench.taken import Taken
from ivm.errors import IvmError
from ivm.refresh.views import View, in_order

if TYPE_CHECKING:
    from ivm.pipeline import Pipeline
    from ivm.refresh.run import Report


class Contestant(Protocol):
    """One that brings views, all by default, to the newest sources. Raises IvmError where it can't."""

    name: str

    def run(self, views: Sequence[str] | None = None) -> Taken: ...


@dataclass
class Refresh:
    """ivm, warm: a pipeline that stays loaded. Its views' `by_view` seconds are those in apply, and overlap."""

    name: str
    folder: Path
    pipe: Pipeline
    steps: Steps = field(repr=False)

    def run(self, views: Sequence[str] | None = None) -> Taken:
        started = time.perf_counter()
        report = self.pipe.refresh(views, progress=self.steps.within)
        return reported(report, time.perf_counter() - started)

    def run_in_full(self) -> Taken:
        """Build every view anew, its state as well: what a full refresh by the planner's choice does."""
        every = sorted(self.pipe.context.views)
        started = time.perf_counter()
        report = self.pipe._run(every, frozenset(every), self.steps.within)
        return reported(report, time.perf_counter() - started)

    @property
    def q03(self) -> str:
        """The path of its table."""
        return f"{self.pipe.root}/q03"


def reported(report: Report, seconds: float) -> Taken:
    """What a refresh took. Raises IvmError where a view failed: there is nothing to compare then."""
    failed = {v.view: v.error for v in report.views.values() if v.error}
    if failed:
        raise IvmError(f"{len(failed)} views failed: {failed}.", "Mend them before anything is measured.")
    views = report.views.values()
    return Taken(
        seconds,
        {v.view: v.seconds for v in views},
        {v.view: str(v.strategy) for v in views},
        {v.view: v.engine for v in views if v.engine},
    )


def refresh_by(engine: str, lake: Lake, steps: Steps, place: str = "", **settings: str) -> Refresh:
    """ivm by an engine, in a place of its own. Raises ConfigError where that engine isn't installed."""
    from ivm.pipeline import Pipeline

    folder = lake.pipeline(place or engine, engine=engine, **settings)
    return Refresh(engine, folder, Pipeline.load(folder, lake.spark), steps)


def views_of(refresh: Refresh) -> list[View]:
    """The views of its pipeline, each after those that it reads."""
    return in_order(refresh.pipe.context.views)


def rebuilds(names: Sequence[str], lake: Lake, views: Sequence[View]) -> dict[str, Contestant]:
    """Those of the names that build all views anew. Raises ConfigError where one isn't installed."""
    found: dict[str, Callable[[Lake, Sequence[View]], Contestant]] = {REBUILD: SparkRebuild, DUCKDB: DuckRebuild}
    return {name: make(lake, views) for name, make in found.items() if name in names}
