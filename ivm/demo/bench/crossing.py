"""Where incremental and full cross: at each share of changed rows what the planner chose, and either strategy forced.

Three pipelines of one engine see the same batches: one in which the planner chooses, one whose views may only be
refreshed incrementally (`mode: incremental`), one that is built anew each time, with the state that it keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from ivm.demo.bench.asked import Asked
from ivm.demo.bench.contestants import Refresh, refresh_by
from ivm.demo.bench.lake import Lake
from ivm.demo.bench.machine import load
from ivm.demo.bench.record import median
from ivm.demo.bench.steps import Steps
from ivm.demo.bench.taken import Taken
from ivm.demo.bench.turns import turns
from ivm.demo.bench.verified import verified

PLANNER, INCREMENTAL, FULL = "planner", "incremental", "full"
WAYS = (PLANNER, INCREMENTAL, FULL)


def crossing(asked: Asked, lake: Lake, steps: Steps) -> dict[str, Any]:
    """Seconds of all views by engine, share and way; rounds to warm up change the smallest share."""
    steps.expect(len(asked.own) * (len(WAYS) + (asked.warm_up + asked.rounds * len(asked.fractions)) * len(WAYS)))
    found: dict[str, dict[str, Any]] = {}
    pipes: dict[str, dict[str, Refresh]] = {}
    for engine in asked.own:
        modes = {PLANNER: "auto", INCREMENTAL: "incremental", FULL: "auto"}
        pipes[engine] = {w: refresh_by(engine, lake, steps, f"{engine}_{w}", mode=modes[w]) for w in WAYS}
        for way in WAYS:
            steps.at(f"first build: {engine}, {way}")
            pipes[engine][way].run()
    warm_up = [(min(asked.fractions), False)] * asked.warm_up
    shares = warm_up + [(fraction, True) for fraction in sorted(asked.fractions) for _ in range(asked.rounds)]
    for engine in asked.own:
        found[engine] = {f"{f:g}": {w: [] for w in WAYS} | {"chosen": {}} for f in sorted(asked.fractions)}
    for number, (fraction, measured) in enumerate(shares):
        lake.change(fraction)
        for engine in turns(asked.own, number):
            by_way = pipes[engine]
            run: dict[str, Callable[[], Taken]] = {w: by_way[w].run for w in (PLANNER, INCREMENTAL)}
            run[FULL] = by_way[FULL].run_in_full
            for way in turns(WAYS, number):
                steps.at(f"{fraction:g} of all rows changed: {engine}, {way}")
                taken = run[way]()
                at = found[engine][f"{fraction:g}"]
                if measured:
                    at[way].append(round(taken.seconds, 3))
                    if way == PLANNER:
                        at["chosen"] = dict(Counter(taken.strategies.values()))
    after = load()
    steps.expect(sum(len(p.pipe.context.views) for of in pipes.values() for p in of.values()))
    return {
        "engines": {engine: {f: with_medians(at) for f, at in of.items()} for engine, of in found.items()},
        "load_after": after,
        "verified": {f"{e} {w}": verified(p, steps) for e, of in pipes.items() for w, p in of.items()},
    }


def with_medians(at: dict[str, Any]) -> dict[str, Any]:
    """With `behind`: how many times as long as the better strategy the planner's choice took."""
    medians = {way: median(at[way]) or 0.0 for way in WAYS}
    better = min(medians[INCREMENTAL], medians[FULL])
    return {**at, "median": medians, "behind": round(medians[PLANNER] / better, 2) if better else None}
