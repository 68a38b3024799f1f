"""What people and machines do to runs, in a real Airflow: each scenario in the middle of each step.

    scenario x task    retried, killed, cleared, twice, failed, restarted x tasks of refresh, backfill and maintenance

Invariant: after each the tables are equal, no epoch is lost or doubled, the lock is free, nothing is left, and a run is
green only where all views are published. In CI some cells run; with IVM_NIGHTLY=1 all
do, each in a run of its own, and a table of them is written to build/nightly/airflow.md.
"""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from deltalake import DeltaTable

from ivm.orchestration.api import call
from tests.airflow.live import REFRESH, REPO, Shop, gone, until
from tests.scenes import NIGHTLY

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]

BACKFILL, MAINTENANCE = f"{REFRESH}_backfill", f"{REFRESH}_maintenance"
QUARANTINE, AUDIT = f"{REFRESH}_quarantine", f"{REFRESH}_audit"
SHOWN = {"look": "success", "act": "success"}
DONE = ("success", "skipped")


@dataclass(frozen=True)
class Place:
    """A task, and the write in its middle: where there is none, its begin."""

    dag: str
    task: str
    middle: str = ""

    @property
    def conf(self) -> dict[str, str]:
        return {"view": "totals"} if self.dag == BACKFILL else {}

    def __str__(self) -> str:
        return f"{self.dag}.{self.task}"


LOG = "_ivm/epochs"
PLACES = {
    str(place).removeprefix(f"{REFRESH}.").removeprefix(f"{REFRESH}_"): place
    for place in (
        Place(REFRESH, "plan", LOG),
        Place(REFRESH, "apply", "traces/totals"),
        Place(REFRESH, "check", LOG),
        Place(REFRESH, "publish", "totals"),
        Place(REFRESH, "compact", "traces/totals"),
        Place(REFRESH, "views.totals"),
        Place(BACKFILL, "validate"),
        Place(BACKFILL, "backfill", "traces/totals"),
        Place(BACKFILL, "verify"),
        Place(MAINTENANCE, "compact", "traces/totals"),
    )
}


class Cell:
    """One scenario for one task: what a test does to a run of it."""

    def __init__(self, shop: Shop, place: Place) -> None:
        self.shop, self.place = shop, place
        self.gate = shop.gate(place.dag, place.task)
        if place.dag == REFRESH:
            shop.order()
            if place.task == "compact":  # due in every tenth epoch
                while (shop.manifest.epoch + 1) % 10:
                    shop.refresh()
                    shop.order()

    def begun(self) -> str:
        return self.shop.begin(self.place.dag, **self.place.conf)

    def held(self) -> tuple[str, int]:
        """A run that is held in the middle of the task, and the task's process."""
        self.gate.close("hold", self.shop.root, self.place.middle)
        run = self.begun()
        until(lambda: self.gate.arrived() or self.ended_early(run), 600)
        process = self.gate.arrived()
        assert process is not None, f"never held: {self.shop.states(run)}"
        return run, process

    def ended_early(self, run: str) -> bool:
        return self.shop.state(run) in ("success", "failed")

    def green(self, run: str, tries: int, others: int = 1) -> None:
        """The run ends well, with so many tries of the task, and of each other at most so many."""
        assert self.shop.ended(run) == "success", self.shop.states(run)
        tasks = self.shop.tasks(run)
        assert {t["state"] for t in tasks.values()} <= set(DONE)
        assert tasks[self.place.task]["try_number"] == tries
        assert max([t["try_number"] for n, t in tasks.items() if n != self.place.task], default=0) <= others


def retried(cell: Cell) -> str:
    """The task fails for a reason that passes (a full disk, a folder that does not answer), and is tried again."""
    cell.gate.close("fail", cell.shop.root, LOG if cell.place.middle else "")
    cell.green(cell.begun(), tries=2)
    return "success, 2 tries"


def killed(cell: Cell) -> str:
    """The task's process is killed, and is tried again."""
    run, process = cell.held()
    os.kill(process, signal.SIGKILL)
    cell.green(run, tries=2)
    cell.gate.open()
    return "success, 2 tries"


def cleared(cell: Cell) -> str:
    """Cleared with what comes after it, when all is done, the task tells the same again, and no view is written."""
    run = cell.begun()
    cell.green(run, tries=1)
    before, states = cell.shop.written(), cell.shop.states(run)
    cell.shop.clear(run, task_ids=[cell.place.task], include_downstream=True)
    assert cell.shop.ended(run) == "success", cell.shop.states(run)
    if cell.place.task == "plan":  # there is nothing to plan any more
        states = dict.fromkeys(states, "skipped")
    assert cell.shop.states(run) == states
    if cell.place.task not in ("compact", "backfill", "validate"):  # these do their work again
        assert cell.shop.written() == before
    return "success"


def twice(cell: Cell) -> str:
    """Another process does the same meanwhile, and another run is triggered: that waits, and finds all done."""
    run, _ = cell.held()
    other = cell.begun()
    given = {"epoch": _planned(cell.shop, run)} if cell.place.dag == REFRESH else cell.place.conf
    beside = cell.shop.beside(str(cell.place), json.dumps(given))
    try:
        time.sleep(4)
        assert cell.shop.state(other) == "queued"
        cell.gate.open()
        cell.green(run, tries=1)
        said, _ = beside.communicate(timeout=300)
        assert beside.returncode == 0, said
    finally:
        beside.kill()
    assert cell.shop.ended(other) == "success"
    if cell.place.dag == REFRESH:
        assert set(cell.shop.states(other).values()) == {"skipped"}
    return "success, both"


def _planned(shop: Shop, run: str) -> int | None:
    """The epoch that a run planned; None as long as it has not."""
    if shop.states(run)["plan"] != "success":
        return None
    told = call(shop.env, "GET", f"{run}/taskInstances/plan/xcomEntries/return_value")["value"]
    found: int = (told if isinstance(told, dict) else json.loads(told))["epoch"]
    return found


def failed(cell: Cell) -> str:
    """The run is marked failed in the middle, which ends the task; the next run goes on from there."""
    run, process = cell.held()
    cell.shop.mark_failed(run)
    until(lambda: gone(process))
    cell.gate.open()
    assert cell.shop.ended(run) == "failed"
    assert cell.shop.ended(cell.begun()) == "success"
    assert cell.shop.state(run) == "failed"
    return "failed, then success"


def restarted(cell: Cell) -> str:
    """The scheduler is killed with its workers, and started again: the task is taken for lost.

    It isn't: its process goes on while the next try begins.
    """
    run, process = cell.held()
    cell.shop.restart_scheduler(spared=process)

    def tried_again() -> bool:
        task = cell.shop.tasks(run)[cell.place.task]
        return task["state"] == "running" and task["try_number"] == 2

    until(tried_again, 600)
    assert not gone(process)
    cell.gate.open()
    cell.green(run, tries=2, others=2)  # those that ran beside it are taken for lost as well
    until(lambda: gone(process))
    return "success, 2 tries"


#: Each returns the states in which its runs ended.
SCENARIOS: dict[str, Callable[[Cell], str]] = {
    f.__name__: f for f in (retried, killed, cleared, twice, failed, restarted)
}
#: For CI: what needs a real Airflow to be seen. That tasks are tried again, cleared, and wait for another process, the
#: tests of tasks see without one (`test_shapes`).
ONCE = (
    ("killed", "apply"),
    ("failed", "plan"),
    ("restarted", "views.totals"),
)
CELLS = [(s, p) for s in SCENARIOS for p in PLACES] if NIGHTLY else ONCE


@dataclass(frozen=True)
class Line:
    """What came of a cell."""

    seconds: float
    #: The epochs that it made, and the newest one's number.
    made: int
    epoch: int
    state: str


@pytest.fixture(scope="module")
def shop(spark, tmp_path_factory):
    made = Shop(tmp_path_factory.mktemp("live"))
    made.order("a", 10)
    made.order("b", 200)
    for pipeline in ("shop", "watched"):
        made.refresh(spark, pipeline)
    try:
        made.start()
        made.pause("ivm_watched")
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize(("scenario", "place"), CELLS)
def test_whatever_is_done_to_a_task_the_tables_are_right(shop, scenario, place):
    cell = Cell(shop, PLACES[place])
    started, first = time.monotonic(), shop.manifest.epoch
    state = SCENARIOS[scenario](cell)
    seconds = time.monotonic() - started
    shop.right()
    epoch = shop.manifest.epoch
    if NIGHTLY:
        _told(scenario, place, Line(round(seconds, 1), epoch - first, epoch, state))


def test_a_held_back_view_is_red_until_it_is_released_or_mended(shop):
    """Its task is red, and those of its readers; the others are published; nothing is green. Then the quarantine's DAG.

    It looks, releases, discards, and says at once where nothing is held back.
    """
    shop.order("d", 5000)
    run = shop.begin()
    assert shop.ended(run) == "failed"
    found = {t: s for t, s in shop.states(run).items() if t.startswith("views.")}
    assert found == {"views.totals": "failed", "views.rich": "upstream_failed", "views.counted": "success"}
    assert shop.tasks(run)["views.totals"]["try_number"] == 1
    shop.clear(run, task_ids=["views.totals"], include_downstream=True)
    assert shop.ended(run) == "failed", "cleared, it is as red as before"

    assert ended(shop, QUARANTINE, view="totals", action="look") == ("success", {"look": "success", "act": "skipped"})
    assert ended(shop, QUARANTINE, view="totals", action="release") == ("success", SHOWN)
    shop.right()
    shop.clear(run, task_ids=["views.totals"], include_downstream=True)
    assert shop.ended(run) == "success", "released, it is published"
    asked = shop.begin(QUARANTINE, view="totals", action="release")
    assert shop.ended(asked) == "failed", "there is nothing to release any more"
    assert shop.states(asked) == {"look": "failed", "act": "upstream_failed"}

    shop.take_back("d", 5000)
    shop.order("e", 6000)
    with pytest.raises(AssertionError):
        shop.refresh()
    assert ended(shop, QUARANTINE, view="totals", action="discard") == ("success", SHOWN)
    assert not shop.manifest.held
    shop.take_back("e", 6000)
    shop.refresh()
    shop.right()


def test_an_audit_is_red_where_a_table_was_changed_behind_our_back(shop, spark):
    assert ended(shop, AUDIT) == ("success", {"totals": "success"})
    DeltaTable(f"{shop.root}/totals").update(updates={"total": "total + 1"}, predicate="customer = 'b'")
    asked = shop.begin(AUDIT)
    assert shop.ended(asked) == "failed"
    assert shop.tasks(asked)["totals"]["try_number"] == 1, "another try would find the same"
    shop.order()
    shop.refresh(spark)
    shop.right()


def ended(shop: Shop, dag: str, **conf: str) -> tuple[str, dict[str, str]]:
    """The states in which a run of a DAG ends, and its tasks."""
    run = shop.begin(dag, **conf)
    return shop.ended(run), shop.states(run)


def test_the_web_server_shows_the_pages(shop):
    """The package brings its plugin."""
    assert "ivm" in {p["name"] for p in call(shop.env, "GET", "/plugins")["plugins"]}
    headers = {"Authorization": f"Bearer {shop.env['IVM_TOKEN']}"}
    asked = urllib.request.Request(f"{shop.env['AIRFLOW__API__BASE_URL']}/ivm/p/shop/v/totals/", headers=headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
        assert "The incremental program" in answer.read().decode()


def test_a_pipeline_follows_the_commits_by_itself(shop):
    """Those of all that went before, and one that comes while it is looked after."""
    shop.pause("ivm_watched", paused=False)
    last = DeltaTable(str(shop.source)).version()
    until(lambda: shop.read_up_to("watched") == last)
    shop.order()
    until(lambda: shop.read_up_to("watched") == last + 1)
    shop.right("watched")


def _told(scenario: str, place: str, line: Line) -> None:
    """Add a cell to the table of the night, which is kept as JSON beside it."""
    folder = REPO / "build" / "nightly"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "airflow.json"
    cells: dict[str, Any] = json.loads(kept.read_text()) if kept.exists() else {}
    cells.setdefault(place, {})[scenario] = asdict(line)
    kept.write_text(json.dumps(cells, indent=1))
    lines = [f"| task | {' | '.join(SCENARIOS)} |", "|---" * (len(SCENARIOS) + 1) + "|"]
    for task in (p for p in PLACES if p in cells):
        found = [cells[task].get(s) for s in SCENARIOS]
        told = (f"{c['state']}; {c['made']} epochs; {c['seconds']} s" if c else "" for c in found)
        lines.append(f"| `{task}` | {' | '.join(told)} |")
    (folder / "airflow.md").write_text("\n".join(lines) + "\n")
