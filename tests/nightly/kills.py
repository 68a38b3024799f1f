"""Real kills: clients of one Spark Connect server, ended by SIGKILL, beside each other and beside foreign maintenance.

    python -m tests.nightly.kills --minutes 30 --seed 1

A round changes the sources, starts one or two clients (refresh, backfill, a slice, compact), lets some be killed at a
random moment or at a random write, or one of their writes fail, and OPTIMIZE and VACUUM run beside them. Their Spark
jobs live on in the server. Then a client that nobody disturbs must bring all views right, within `REFRESHES` refreshes.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ivm.orchestration.services import HOST, Service, free_port, start_connect_server
from ivm.testing.faults import Fault, Injector
from ivm.testing.recovery import REFRESHES, Scene, differences, leftovers, said
from tests.nightly.counts import Counts
from tests.scenes import VIEWS, ref, scene

#: Modules that every client needs; the server of forks has them loaded, so that a client starts at once.
PRELOAD = [
    "tests.nightly.kills",
    "ivm.refresh.backfill",
    "ivm.quality.gate",
    "pyspark.sql.connect.session",
    "great_expectations",
]
#: A client that takes longer is taken for hanging.
PATIENCE = 300
#: Rounds after which a new server is started: each killed client leaves a session in it.
ROUNDS_OF_A_SERVER = 150
FAULTS = ("die_before", "die_amid", "die_after", "fail_before", "fail_amid", "fail_after")
#: A view of which a statement takes some seconds, so that a killed client leaves it running.
SLOW = {
    "slow": (
        "SELECT id, max(sha2(repeat(concat(id, i), 3000), 512)) AS h "
        "FROM (SELECT id, explode(sequence(1, 60)) AS i FROM orders) GROUP BY id"
    ),
    "plain": "SELECT id, sha2(repeat(concat(id, amount), 30000), 512) AS h FROM orders",
}


def client(remote: str, folder: str, views: Mapping[str, str], action: str, fault: str, says: Connection) -> None:
    """One client process: do an action, with a fault or without, and say how it went."""
    from pyspark.sql import SparkSession

    lake = Scene(SparkSession.builder.remote(remote).create(), Path(folder), views, ("orders", "customers"))
    verb, _, rest = action.partition(":")
    with Injector([lake.folder / "root"], [Fault.parse(fault)] if fault else [], real=True) as injector:
        text = said(lambda: act(lake, verb, rest))
    says.send({"said": text, "struck": "".join(map(str, injector.struck.values())), "points": len(injector.points)})


def act(lake: Scene, verb: str, rest: str) -> Any:
    pipe = lake.pipeline(lake.folder)
    if verb == "backfill":
        view, _, where = rest.partition(":")
        return pipe.backfill(view, where=where or None)
    return pipe.compact(keep_epochs=int(rest)) if verb == "compact" else pipe.refresh()


class Rounds:
    """A lake, its server, and rounds of kills on it."""

    def __init__(self, folder: Path, counts: Counts) -> None:
        self.folder, self.counts = folder, counts
        self.random = random.Random(counts.seed)
        self.forks = multiprocessing.get_context("forkserver")
        self.forks.set_forkserver_preload(PRELOAD)
        self.service: Service | None = None
        self.remote = ""
        self.lake: Scene | None = None
        #: Seconds that a client takes whom nobody disturbs: others are killed within about that time.
        self.usual = 5.0

    # -- the server -------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server (again): sessions of killed clients end with the old one."""
        from pyspark.sql import SparkSession

        self.stop()
        port = free_port()
        self.service = start_connect_server(port, self.folder / "connect.log")
        self.remote = f"sc://{HOST}:{port}"
        spark = SparkSession.builder.remote(self.remote).create()
        spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        if self.lake is None:
            self.lake = scene(spark, self.folder)
        self.lake.spark = spark

    def stop(self) -> None:
        if self.service is not None:
            if self.lake is not None:
                self.lake.spark.stop()  # else it asks a server that is gone, for minutes
            self.service.stop()

    # -- clients ----------------------------------------------------------------------------------

    def begun(self, lake: Scene, action: str, fault: str = "") -> tuple[Any, Connection]:
        hears, says = self.forks.Pipe(duplex=False)
        process = self.forks.Process(
            target=client, args=(self.remote, str(lake.folder), dict(lake.views), action, fault, says)
        )
        process.start()
        says.close()
        return process, hears

    def ended(self, process: Any, hears: Connection, what: str) -> dict[str, Any]:
        """What a client said, {} where it was killed."""
        process.join(PATIENCE)
        if process.is_alive():
            os.kill(process.pid, signal.SIGKILL)
            process.join()
            self.counts.fail(f"{what} hung for {PATIENCE} s")
        answer: dict[str, Any] = {}
        with contextlib.suppress(EOFError):  # it was killed before it said anything
            answer = hears.recv() if hears.poll() else {}
        hears.close()
        killed = process.exitcode == -signal.SIGKILL
        self.counts.add(clients=1, kills=int(killed), failures=int(bool(answer.get("struck"))))
        if not killed and process.exitcode != 0:
            self.counts.fail(f"{what} ended with {process.exitcode}")
        return answer

    # -- a round ----------------------------------------------------------------------------------

    def change(self) -> str:
        """A random change of a source."""
        assert self.lake is not None
        orders, customers, r = ref(self.lake, "orders"), ref(self.lake, "customers"), self.random
        some, cust, amount = r.randint(1, 40), r.randint(1, 8), r.randint(-3, 9)
        statement = r.choice(
            (
                (
                    f"INSERT INTO {orders} VALUES ({some}, {cust}, {amount}), "
                    f"({some + 1}, {cust}, {amount}), ({some}, NULL, NULL)"
                ),
                f"INSERT INTO {orders} SELECT * FROM {orders} WHERE id <= {some} LIMIT 5",
                f"UPDATE {orders} SET amount = {amount}, cust = {cust} WHERE id = {some}",
                f"UPDATE {orders} SET amount = amount WHERE cust = {cust}",
                f"DELETE FROM {orders} WHERE cust = {cust} AND id > {some}",
                f"DELETE FROM {orders} WHERE id = {some} OR cust IS NULL",
                f"INSERT INTO {customers} VALUES ({cust}, 'name{some}', '{r.choice(('north', 'south', 'west'))}')",
                f"DELETE FROM {customers} WHERE cust = {cust}",
                f"UPDATE {customers} SET region = NULL WHERE cust = {cust}",
                f"INSERT OVERWRITE {customers} SELECT DISTINCT * FROM {customers}",
            )
        )
        self.lake.spark.sql(statement)
        return statement

    def maintenance(self) -> str:
        """Somebody's OPTIMIZE or VACUUM, on a source or on a published table."""
        assert self.lake is not None
        tables = [self.lake.folder / "sources" / s for s in self.lake.sources] + [
            self.lake.folder / "root" / v for v in self.lake.views
        ]
        table = self.random.choice([t for t in tables if (t / "_delta_log").exists()])
        statement = self.random.choice(("OPTIMIZE delta.`{}`", "VACUUM delta.`{}` RETAIN 0 HOURS")).format(table)
        try:
            self.lake.spark.sql(statement)
        except Exception as error:  # noqa: BLE001 - it may lose against a refresh; only the views count
            return f"{statement} ({type(error).__name__})"
        return statement

    def action(self) -> str:
        r = self.random.random()
        if r < 0.65:
            return "refresh"
        if r < 0.8:
            return f"compact:{self.random.choice((1, 1, 3))}"
        if r < 0.9:
            return f"backfill:{self.random.choice(list(VIEWS))}"
        return f"backfill:totals:cust = {self.random.randint(1, 8)}"

    def round(self) -> None:
        """Changes, clients that die or fail, and what must hold after."""
        lake = self.lake
        assert lake is not None
        told = [self.change() for _ in range(self.random.randint(1, 3))]
        for _ in range(self.random.choice((1, 2, 3))):
            told += self.disturbed(lake)
        self.recovered(lake, told)
        self.counts.add(rounds=1)

    def disturbed(self, lake: Scene) -> list[str]:
        """One or two clients at a time that die or fail, perhaps with maintenance beside them; says how they ended."""
        told: list[str] = []
        running: list[tuple[Any, Connection, str, float]] = []
        for _ in range(self.random.choice((1, 1, 2))):
            action, fault, life = self.action(), "", float(PATIENCE)
            if self.random.random() < 0.5:
                fault = (
                    f"{self.random.choice(FAULTS)}:{self.random.randint(1, 60)}:"
                    f"{self.random.choice(('disk', 'permission', 'commit'))}"
                )
            else:
                life = self.random.uniform(0.05, 1.1) * self.usual
            running.append(
                (
                    *self.begun(lake, action, fault),
                    f"{action} {fault or f'killed after {life:.2f} s'}",
                    time.monotonic() + life,
                )
            )
        if self.random.random() < 0.3:
            told.append(self.maintenance())
            self.counts.add(maintenance=1)
        for process, hears, what, until in running:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
            answer = self.ended(process, hears, what)
            told.append(
                (
                    f"{what}: {'killed' if process.exitcode else answer.get('said') or 'ok'} {answer.get('struck', '')}"
                ).strip()
            )
        return told

    def recovered(self, lake: Scene, told: list[str]) -> None:
        """A client that nobody disturbs; then every view is compared with plain Spark's result."""
        before = len(self.counts.failures)
        answers: list[str] = []
        for _ in range(REFRESHES):
            started = time.monotonic()
            answers.append(self.ended(*self.begun(lake, "refresh"), "the recovery").get("said", "it died"))
            if not answers[-1]:
                self.usual = time.monotonic() - started
                break
        else:
            self.counts.fail(f"stuck after {told}: {answers}")
        wrong = [*differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)), *self.left(lake)]
        self.counts.add(compared=len(lake.views), refreshes=len(answers))
        if wrong:
            self.counts.fail(f"{wrong} after {told}, recovery: {answers}")
        if len(self.counts.failures) > before and lake is self.lake:
            self.again()

    def left(self, lake: Scene) -> list[str]:
        """What is left over for good.

        A dead client's job may write for some seconds yet, and the next refresh removes that.
        """
        for _ in range(REFRESHES):
            found = leftovers(lake.pipeline(lake.folder))
            if not found:
                break
            time.sleep(2)
            self.ended(*self.begun(lake, "refresh"), "the refresh that removes leftovers")
        return found

    def again(self) -> None:
        """Put the wrong lake aside and go on with a new one."""
        assert self.lake is not None
        kept = self.folder / f"wrong_{len(self.counts.failures)}"
        shutil.move(self.lake.folder, kept)
        print(f"the lake is kept in {kept}", flush=True)
        self.lake = scene(self.lake.spark, self.folder)

    def first_build(self) -> None:
        """A first build's client is killed while its Spark job writes; another client builds at once."""
        assert self.lake is not None
        folder = self.folder / f"first_{self.counts.counted['first_builds']}"
        lake = scene(self.lake.spark, folder)
        lake.views = SLOW
        lake.spark.sql(
            f"INSERT INTO {ref(lake, 'orders')} "
            "SELECT id, CAST(id % 9 AS int), CAST(id % 7 AS int) FROM range(100, 160)"
        )
        process, hears = self.begun(lake, "refresh")
        until = time.monotonic() + PATIENCE
        writing: list[Path] = []
        while time.monotonic() < until and process.is_alive() and not writing:
            writing = list((lake.folder / "root").rglob("_temporary"))
            time.sleep(0.02)
        time.sleep(self.random.uniform(0, 0.5))
        os.kill(process.pid, signal.SIGKILL)
        self.ended(process, hears, "the first build")
        self.recovered(lake, ["a first build whose client was killed while it wrote"])
        time.sleep(self.random.uniform(0, 4))  # its job may still run
        self.recovered(lake, ["a first build whose client was killed while it wrote, some seconds later"])
        self.counts.add(first_builds=1, killed_while_writing=int(bool(writing)))
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, counts: Counts, rounds: int | None = None) -> None:
    """Rounds until the minutes, or the rounds, are over; the server is ended in any case."""
    kills = Rounds(folder, counts)
    try:
        with counts.shown():
            while not counts.over and counts.counted["rounds"] != rounds:
                if counts.counted["rounds"] % ROUNDS_OF_A_SERVER == 0:
                    kills.start()
                if counts.counted["rounds"] % 10 == 0:
                    kills.first_build()
                kills.round()
    finally:
        kills.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, help="stop after so many rounds")
    parser.add_argument("--folder", type=Path, help="where the lakes lie; wrong ones are kept there")
    parser.add_argument("--out", type=Path, default=Path("build/nightly/kills.json"))
    asked = parser.parse_args()
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="ivm_kills_"))
    counts = Counts("kills", asked.seed, asked.minutes)
    run(folder, counts, asked.rounds)
    if not counts.failures and asked.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return counts.store(asked.out)


if __name__ == "__main__":
    sys.exit(main())
