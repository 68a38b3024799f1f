"""Where incremental and full cross: at each share of changed rows what the planner chose, and either strategy forced.

Three pipelines of one engine see the same batches: one in which the planner chooses, one whose views may only be
refreshed incrementally (`mode: incremental`), one that is built anew each time, with the state that it keeps.

Each share has its own rounds to warm up: who comes first at more rows than before would pay for what the JVM compiles
then, and the planner knows a share by what it saw of it. Building anew is the same work at each: of the rounds that
aren't measured it takes part in the smallest share's last one only.
"""

from __future__ import annotations

from collections import Counter
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
    """Seconds of all views by engine, share and way."""
    fractions = sorted(asked.fractions)
    batches = [(fraction, number) for fraction in fractions for number in range(-asked.warm_up, asked.rounds)]
    ways = [WAYS if n >= 0 or (f, n) == (fractions[0], -1) else (PLANNER, INCREMENTAL) for f, n in batches]
    steps.expect(len(asked.own) * (len(WAYS) + sum(map(len, ways))))
    pipes = {engine: _built(engine, lake, steps) for engine in asked.own}
    found = {engine: {f"{f:g}": _nothing_yet() for f in fractions} for engine in asked.own}
    for turn, ((fraction, number), taking_part) in enumerate(zip(batches, ways, strict=True)):
        lake.change(fraction)
        for engine in turns(asked.own, turn):
            for way in turns(taking_part, turn):
                steps.at(f"{fraction:g} of all rows changed: {engine}, {way}")
                pipe = pipes[engine][way]
                taken = pipe.run_in_full() if way == FULL else pipe.run()
                if number >= 0:
                    _keep(found[engine][f"{fraction:g}"], way, taken)
    after = load()
    steps.expect(sum(len(p.pipe.context.views) for of in pipes.values() for p in of.values()))
    return {
        "engines": {engine: {f: with_medians(at) for f, at in of.items()} for engine, of in found.items()},
        "load_after": after,
        "verified": {f"{e} {w}": verified(p, steps) for e, of in pipes.items() for w, p in of.items()},
    }


def _built(engine: str, lake: Lake, steps: Steps) -> dict[str, Refresh]:
    """An engine's three pipelines, after their first builds."""
    found = {}
    for way in WAYS:
        steps.at(f"first build: {engine}, {way}")
        mode = "incremental" if way == INCREMENTAL else "auto"
        found[way] = refresh_by(engine, lake, steps, f"{engine}_{way}", mode=mode)
        found[way].run()
    return found


def _nothing_yet() -> dict[str, Any]:
    return {way: [] for way in WAYS} | {"chosen": {}, "by_view_s": {way: {} for way in WAYS}}


def _keep(at: dict[str, Any], way: str, taken: Taken) -> None:
    """A round's seconds, and how many views the planner refreshed by which strategy in the last one."""
    at[way].append(round(taken.seconds, 3))
    for view, seconds in taken.by_view.items():
        at["by_view_s"][way].setdefault(view, []).append(round(seconds, 3))
    if way == PLANNER:
        at["chosen"] = dict(Counter(taken.strategies.values()))
        at["strategies"] = taken.strategies


def with_medians(at: dict[str, Any]) -> dict[str, Any]:
    """With `behind`: how many times as long as the better strategy the planner's choice took."""
    medians = {way: median(at[way]) or 0.0 for way in WAYS}
    better = min(medians[INCREMENTAL], medians[FULL])
    return {**at, "median": medians, "behind": round(medians[PLANNER] / better, 2) if better else None}
