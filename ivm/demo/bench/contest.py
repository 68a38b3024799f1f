"""All contestants by turns over the same sources and the same changes, then a proof that what they made is right.

    round = change the sources, then each contestant in an order that changes from round to round
    phases = first build, changes, one changed row, (the same two from the shell), verification

A refresh that finds nothing to do is timed right after each refresh of ivm's. Those that build all views anew warmed up
in the first builds: of the rounds that aren't measured they take part in the last one only.
"""

from __future__ import annotations

from typing import Any

from ivm.demo.bench.asked import DUCKDB, REBUILD, Asked
from ivm.demo.bench.contestants import Contestant, rebuilds, refresh_by, views_of
from ivm.demo.bench.duck_rebuild import DuckRebuild
from ivm.demo.bench.lake import Lake
from ivm.demo.bench.machine import load
from ivm.demo.bench.record import Record
from ivm.demo.bench.shell import refresh_from_shell
from ivm.demo.bench.steps import Steps
from ivm.demo.bench.turns import turns
from ivm.demo.bench.verified import verified

#: The view that one changed row is followed to: three joins.
ONE = ["q03"]


def contest(asked: Asked, lake: Lake, steps: Steps) -> dict[str, Any]:
    """The figures of every contestant by round, and what was verified after timing."""
    return _Contest(asked, lake, steps).figures()


class _Contest:
    def __init__(self, asked: Asked, lake: Lake, steps: Steps) -> None:
        self._asked, self._lake, self._steps = asked, lake, steps
        self._own = {name: refresh_by(name, lake, steps) for name in asked.own}
        self._first = next(iter(self._own.values()))
        others = rebuilds(asked.engines, lake, views_of(self._first))
        self._all: dict[str, Contestant] = {name: {**others, **self._own}[name] for name in asked.engines}
        self._records = {name: Record() for name in self._all}

    def figures(self) -> dict[str, Any]:
        """Run it all."""
        rounds = self._asked.warm_up + self._asked.rounds
        shells = self._asked.rounds * (1 + 2 * len(self._own)) if self._asked.shell else 0
        builds = len(self._all) + (REBUILD in self._all and not self._lake.there(REBUILD))
        turns_of_all = sum(1 + len(self._turns(number)) for number in range(rounds))
        self._steps.expect(builds + turns_of_all + (self._asked.rounds + 1) * (1 + len(self._all)) + shells + 1)
        self._first_builds()
        for number in range(rounds):
            self._change(number)
        for number in range(self._asked.rounds + 1):
            self._one_row(number)
        for number in range(self._asked.rounds if self._asked.shell else 0):
            self._from_shell(number)
        after = load()
        return {
            "contestants": {name: record.told() for name, record in self._records.items()},
            "load_after": after,
            "verified": self._verified(),
        }

    def _first_builds(self) -> None:
        """Spark's rebuild comes before ivm's builds and after them: the first one finds a cold JVM.

        Of those that an earlier run left its seconds are told, and what ivm keeps is brought to the newest sources.
        """
        names = sorted(self._all, key=lambda n: n != REBUILD)
        first = [name for name in names if not self._lake.there(name)]
        for name in [*names, *(n for n in first if n == REBUILD)]:
            self._steps.at(f"first build: {name}")
            taken = self._all[name].run() if name in first or name in self._own else None
            if name in first and taken is not None:
                self._lake.built(name, taken.seconds)
                self._records[name].failed |= taken.failed
        for name in names:
            self._records[name].first_build_s += self._lake.built(name)

    def _turns(self, number: int) -> list[str]:
        """Who takes part in a round of changes, in its order."""
        last_to_warm_up = self._asked.warm_up - 1
        return [n for n in turns(list(self._all), number) if n in self._own or number >= last_to_warm_up]

    def _change(self, number: int) -> None:
        measured = number >= self._asked.warm_up
        title = f"round {number + 1}{'' if measured else ' (warm-up)'}"
        self._steps.at(f"{title}: {self._asked.fraction:g} of all rows change")
        self._lake.change(self._asked.fraction)
        for name in self._turns(number):
            self._steps.at(f"{title}: {name}")
            taken = self._all[name].run()
            idle = self._all[name].run().seconds if name in self._own else None
            if measured:
                self._records[name].change(taken, idle)

    def _one_row(self, number: int) -> None:
        """The first time is a warm-up."""
        self._steps.at("one row changes")
        self._lake.change_row(self._first.q03)
        for name in turns(list(self._all), number):
            self._steps.at(f"one row to q03: {name}")
            taken = self._all[name].run(ONE)
            if number:
                self._records[name].one_row(taken)

    def _from_shell(self, number: int) -> None:
        self._steps.at(f"from the shell, round {number + 1}: {self._asked.fraction:g} of all rows change")
        self._lake.change(self._asked.fraction)
        order = turns(list(self._own), number)
        for name in order:
            self._steps.at(f"from the shell: {name}")
            folder = self._own[name].folder
            self._records[name].from_shell(refresh_from_shell(folder), refresh_from_shell(folder).seconds)
        self._lake.change_row(self._first.q03)
        for name in order:
            self._steps.at(f"one row to q03 from the shell: {name}")
            self._records[name].one_row_from_shell(refresh_from_shell(self._own[name].folder, ONE))

    def _verified(self) -> dict[str, Any]:
        """Every view of ivm's engines against a recompute, all at the newest sources; DuckDB by its numbers of rows."""
        self._steps.at("bringing what is compared to the newest sources")
        for name, contestant in self._all.items():
            if name != REBUILD:
                contestant.run()
        self._steps.expect(sum(len(of.pipe.context.views) for of in self._own.values()))
        found = {name: verified(of, self._steps) for name, of in self._own.items()}
        duck = self._all.get(DUCKDB)
        if isinstance(duck, DuckRebuild):
            ours, theirs = found[self._first.name]["rows"], duck.rows()
            differing = {v: f"{n:,} rows, ivm has {ours[v]:,}" for v, n in theirs.items() if n != ours.get(v, n)}
            found[DUCKDB] = {"what": "numbers of rows", "rows": theirs, "differing": differing}
        return found
