"""Random programs against random faults: random views over random sources, random changes, a fault in every action.

    python -m tests.nightly.random_faults --minutes 60 --seed 1
    python -m tests.nightly.random_faults --replay 100023

A case is a number: it makes the sources, some views, and batches of changes; each batch is followed by a refresh (or a
compaction, a backfill) that dies or fails at a random write, by a recovery, and by a comparison of every view.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from ivm.pipeline import Pipeline
from ivm.session import error_text
from ivm.sql.text import splice
from ivm.testing.faults import Effect, Fault, Injector, Moment, Trouble
from ivm.testing.oracle import Lake
from ivm.testing.recovery import REFRESHES, leftovers, said
from tests.nightly.counts import Counts
from tests.spark.test_generated import TABLES, accepted, random_lake

#: Random views of a case, and batches of changes.
VIEWS, BATCHES = 3, 3
#: The view over the first of them.
OVER = "over"


class Case:
    """One random lake with its views, and faults on its way."""

    def __init__(self, spark, folder: Path, seed: int, counts: Counts) -> None:
        self.random = random.Random(seed)
        self.seed, self.counts, self.folder = seed, counts, folder
        self.lake: Lake = random_lake(spark, folder, seed)
        self.views = accepted(spark, self.lake, range(seed * 10, seed * 10 + VIEWS))
        if self.views:
            base = next(iter(self.views))
            self.views[OVER] = f"SELECT count(*) AS n FROM {base}"
        self.told: list[str] = []

    def run(self) -> bool:
        """Whether every view was right after every batch."""
        # The number of writes isn't known before: a fault beyond the last one just doesn't strike.
        points = 50
        for batch in range(BATCHES + 1 if self.views else 0):
            if batch:
                self.told += [f"{self.lake.change(n)} {n}" for n in self.random.choices(("a", "b", "c"), k=3)]
            for _ in range(self.random.choice((1, 1, 2, 3))):
                points = self.struck(points)
            if not self.recovered(batch):
                return False
            if not self.views:
                break
        return True

    def struck(self, points: int) -> int:
        """One action with one fault; returns about how many writes such an action has."""
        fault = Fault(
            self.random.choice(list(Effect)),
            self.random.choice(list(Moment)),
            self.random.randint(1, max(5, points)),
            self.random.choice(list(Trouble)),
        )
        view = self.random.choice(list(self.views))
        name, act = self.random.choices(
            (
                ("refresh", lambda: self.pipeline().refresh()),
                ("compact", lambda: self.pipeline().compact(keep_epochs=1)),
                (f"backfill {view}", lambda: self.pipeline().backfill(view)),
            ),
            (8, 1, 1),
        )[0]
        with Injector([self.folder / "root"], [fault]) as injector:
            text = said(act)
        dies = fault.effect is Effect.DIE
        hit = bool(injector.struck)
        self.counts.add(actions=1, kills=int(hit and dies), failures=int(hit and not dies))
        self.told.append(f"{name}, {fault} ({injector.struck.get(fault, 'not reached')}): {text or 'ok'}")
        return len(injector.points) if not hit else points

    def beyond_spark(self) -> list[str]:
        """The views that Spark itself fails to compute as its own SQL: of some its optimizer leaves expressions that
        can't be evaluated.
        """
        tables = {name: f"(SELECT * FROM {self.lake.ref(name)})" for name in TABLES}
        found = []
        for name, sql in self.views.items():
            if name != OVER:
                try:
                    self.lake.spark.sql(splice(sql, tables)).toArrow()
                except Exception:  # noqa: BLE001 - a defect inside Spark arrives as whatever its client makes of it
                    found.append(name)
        return found

    def recovered(self, batch: int) -> bool:
        """Whether all is right after some refreshes, but for views that Spark can't compute: these are left out."""
        wrong = self.judged()
        if wrong and (beyond := self.beyond_spark()):
            self.counts.add(beyond_spark=len(beyond))
            self.views = {n: sql for n, sql in self.views.items() if n not in (*beyond, OVER)}
            wrong = self.judged() if self.views else []
        if wrong:
            views = "\n".join(f"  {n}: {sql}" for n, sql in self.views.items())
            told = "\n".join(f"  {t}" for t in self.told)
            self.counts.fail(
                f"case {self.seed}, batch {batch}: {wrong}\nviews:\n{views}\n"
                f"what happened:\n{told}\nreplay with --replay {self.seed}"
            )
        return not wrong

    def judged(self) -> list[str]:
        """What is wrong after some refreshes."""
        self.counts.add(compared=len(self.views))
        errors = []
        for _ in range(REFRESHES):
            errors.append(said(lambda: self.pipeline().refresh()))
            if not errors[-1]:
                break
        wrong = [f"stuck: {errors}"] if errors[-1] else []
        pipe = self.pipeline()
        try:
            wrong += [f"{n}: {w}" for n, w in self.lake.differences(pipe).items()]
        except Exception as error:  # noqa: BLE001 - the recompute's
            wrong.append(f"a recompute fails: {error_text(error)}")
        wrong += leftovers(pipe)
        wrong += [f"a traceback: {e}" for e in errors if e.startswith("!")]
        return wrong

    def pipeline(self) -> Pipeline:
        return self.lake.pipeline(self.views)


def run(spark, folder: Path, counts: Counts, cases: list[int] | None = None) -> None:
    """Cases until the minutes are over, or those given."""
    with counts.shown():
        number = 0
        while cases[number:] if cases is not None else not counts.over:
            seed = cases[number] if cases is not None else counts.seed * 100_000 + number
            number += 1
            place = folder / f"case_{seed}"
            right = Case(spark, place, seed, counts).run()
            counts.add(cases=1)
            if right:
                shutil.rmtree(place, ignore_errors=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=int, action="append", help="run this case only")
    parser.add_argument("--folder", type=Path, help="where the lakes lie; wrong ones are kept there")
    parser.add_argument("--out", type=Path, default=Path("build/nightly/random_faults.json"))
    asked = parser.parse_args()
    from ivm.session import get_session

    spark = get_session()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="ivm_random_faults_"))
    counts = Counts("random faults", asked.seed, asked.minutes)
    try:
        run(spark, folder, counts, asked.replay)
    finally:
        spark.stop()
    if not counts.failures and asked.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return counts.store(asked.out)


if __name__ == "__main__":
    sys.exit(main())
