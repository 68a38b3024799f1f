"""What makes a refresh cheap, each mean switched off by itself: how many times as long the same change then takes.

    times(mean) = median seconds without it / median seconds with all

One state an engine: a pipeline for each mean reads and writes it, by turns, and meets a batch of its own, as large as
the others. What can't be switched off by a profile of limits is patched here, as nobody else may.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

from ivm.demo.bench.asked import Asked
from ivm.demo.bench.contestants import Refresh, refresh_by
from ivm.demo.bench.lake import Lake
from ivm.demo.bench.machine import load
from ivm.demo.bench.record import median
from ivm.demo.bench.steps import Steps
from ivm.demo.bench.turns import turns
from ivm.demo.bench.verified import verified
from ivm.parameters import ENGINES, SPARK
from ivm.pipeline import Pipeline

#: More rows than there are.
_ALL = 2**62


def _without_duckdb() -> AbstractContextManager[Any]:
    """Files are read and merged by delta-rs; statements still run in DuckDB where that is the engine."""
    return mock.patch("ivm.lake.parquet_scan.lacking", return_value="is switched off")


@dataclass(frozen=True)
class Mean:
    """One that can be switched off: by other limits, or by what is patched meanwhile; `without` says what then is."""

    name: str
    without: str
    limits: Mapping[str, Any] = field(default_factory=dict)
    off: Callable[[], AbstractContextManager[Any]] = nullcontext
    engines: tuple[str, ...] = ENGINES


EVERYTHING = Mean("all", "as it is")
MEANS = (
    EVERYTHING,
    Mean("threads", "one statement after the other", {"threads": 1}),
    Mean("small statements", "settings for large ones for all", {"small_statement_rows": 0}, engines=(SPARK,)),
    Mean("one partition", "Spark is not told that a slice is one", {"partition_rows": -1}, engines=(SPARK,)),
    Mean("groups by key", "statements read accumulators whole", {"searched_rows": _ALL}),
    Mean("found rows kept", "each wave reads its rows anew", {"found_rows": 0}),
    Mean("own slices", "each unit reads what any asked for of a relation", {"shared_rows": _ALL}),
    Mean("whole relations here", "Spark scans what is read whole", {"native_whole_rows": 0}),
    Mean("files by DuckDB", "delta-rs looks for keys, and merges", off=_without_duckdb),
    Mean("rows in this process", "deltas and slices stay with Spark as Parquet", {"delta_rows": 0, "slice_rows": 0}),
    Mean("results in this process", "results are staged as Parquet, too", {"result_rows": 0}),
    Mean("past refreshes", "the planner goes by rows only", {"learned_seconds": math.inf}),
)


def means(asked: Asked, lake: Lake, steps: Steps) -> dict[str, Any]:
    """Seconds of all views by engine and mean that is off, and how many views were refreshed by which strategy."""
    batches = [m for n in range(asked.warm_up + asked.rounds) for m in turns([m.name for m in MEANS], n)]
    steps.expect(len(asked.own) * (1 + len(batches)) + len(batches))
    built = {}
    for engine in asked.own:
        steps.at(f"first build: {engine}")
        built[engine] = refresh_by(engine, lake, steps)
        built[engine].run()
    known = {m.name: m for m in MEANS}
    pipes = {e: {m.name: _limited(of, m, lake) for m in MEANS if e in m.engines} for e, of in built.items()}
    seconds: dict[str, dict[str, list[float]]] = {e: {name: [] for name in of} for e, of in pipes.items()}
    chosen: dict[str, dict[str, dict[str, int]]] = {e: {} for e in pipes}
    for number, name in enumerate(batches):
        steps.at(f"{asked.fraction:g} of all rows change")
        lake.change(asked.fraction)
        for engine in turns(asked.own, number):
            steps.at(f"{engine} without {name}" if name != EVERYTHING.name else engine)
            pipe = pipes[engine].get(name, built[engine])
            with known[name].off():
                taken = pipe.run()
            if name in seconds[engine] and number >= asked.warm_up * len(MEANS):
                seconds[engine][name].append(round(taken.seconds, 3))
                chosen[engine][name] = dict(Counter(taken.strategies.values()))
    after = load()
    steps.expect(sum(len(of.pipe.context.views) for of in built.values()))
    return {
        "engines": {e: {name: _told(of, name, chosen[e]) for name in of} for e, of in seconds.items()},
        "without": {m.name: m.without for m in MEANS},
        "load_after": after,
        "verified": {e: verified(of, steps) for e, of in built.items()},
    }


def _limited(built: Refresh, mean: Mean, lake: Lake) -> Refresh:
    """A pipeline over what was built, under the limits of a mean that is off."""
    limits = replace(built.pipe.context.limits, **mean.limits)
    return replace(built, pipe=Pipeline.load(built.folder, lake.spark, limits=limits))


def _told(seconds: Mapping[str, list[float]], name: str, chosen: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    mine, every = median(seconds[name]), median(seconds[EVERYTHING.name])
    times = round(mine / every, 2) if mine and every else None
    return {"seconds": seconds[name], "median": mine, "times": times, "chosen": chosen.get(name, {})}
