"""Each query by itself: its refresh against its own CREATE OR REPLACE TABLE AS, after the same change.

    speed-up(view) = median seconds of its rebuild / median seconds of its refresh

A view over a view is left out: its refresh would be timed without that of what it reads.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from ivm.demo.bench.asked import REBUILD, Asked
from ivm.demo.bench.contestants import Contestant, rebuilds, refresh_by, views_of
from ivm.demo.bench.lake import Lake
from ivm.demo.bench.machine import load
from ivm.demo.bench.record import median
from ivm.demo.bench.steps import Steps
from ivm.demo.bench.turns import turns
from ivm.demo.bench.verified import verified
from ivm.sql.text import relation_tables


def alone(asked: Asked, lake: Lake, steps: Steps) -> dict[str, Any]:
    """The seconds of each query by contestant and round, and of each engine the speed-ups together."""
    names = [*asked.own, REBUILD]
    own = {name: refresh_by(name, lake, steps) for name in asked.own}
    declared = views_of(own[names[0]])
    took_part: dict[str, Contestant] = {**own, **rebuilds([REBUILD], lake, declared)}
    known = {v.name for v in declared}
    views = sorted(v.name for v in declared if not any(n in known for n, *_ in relation_tables(v.sql)))
    rounds = asked.warm_up + asked.rounds
    steps.expect(len(names) + rounds * (1 + len(views)) + len(own) * len(declared))
    for name in names:
        steps.at(f"first build: {name}")
        if not lake.there(name):
            lake.built(name, took_part[name].run().seconds)
        elif name in own:  # what is kept is brought to the newest sources
            took_part[name].run()
    seconds: dict[str, dict[str, list[float]]] = {view: {n: [] for n in names} for view in views}
    for number in range(rounds):
        steps.at(f"round {number + 1}: {asked.fraction:g} of all rows change")
        lake.change(asked.fraction)
        for place, view in enumerate(views):
            steps.at(f"round {number + 1}: {view} alone")
            for name in turns(names, number + place):
                taken = took_part[name].run([view])
                if number >= asked.warm_up:
                    seconds[view][name].append(round(taken.seconds, 3))
    after = load()
    for of in own.values():
        of.run()
    return {
        "views": seconds,
        "engines": {name: together(seconds, name) for name in own},
        "load_after": after,
        "verified": {name: verified(of, steps) for name, of in own.items()},
    }


def together(seconds: Mapping[str, Mapping[str, list[float]]], engine: str) -> dict[str, Any]:
    """The speed-ups of an engine's refreshes: by view, their geometric mean, and the worst with its view."""
    ratios = {
        view: round((median(of[REBUILD]) or 0) / max(0.001, median(of[engine]) or 0), 2) for view, of in seconds.items()
    }
    worst = min(ratios, key=lambda view: ratios[view])
    mean = statistics.geometric_mean(max(0.01, r) for r in ratios.values())
    return {"speed_up": ratios, "geometric_mean": round(mean, 2), "worst": ratios[worst], "worst_view": worst}
