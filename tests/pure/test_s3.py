"""The whole refresh protocol with its sources and its root on an S3 server.

DuckDB stands in Spark's place, all else is real.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ivm.errors import ConcurrentRefreshError, ConfigError
from ivm.planner.limits import EMBEDDED
from ivm.storage import lock as locks
from ivm.storage.location import Location
from ivm.testing.faults import Effect, Fault, Moment
from ivm.testing.recovery import differences, leftovers
from tests.pure.duck_session import WRITES, DuckSession
from tests.scenes import ACTIONS, TINY, VIEWS, change, scene


@pytest.fixture(autouse=True)
def without_a_jvm(monkeypatch, tmp_path):
    """Spark's functions are built in this process, as over Connect.

    What lies in the working directory at the end was put there by mistake.
    """
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield
    assert not list((tmp_path / "here").iterdir())


@pytest.fixture
def made(s3):
    return few(scene(DuckSession(), Location.of(s3), WRITES))


def few(made):
    """Sums, a join over an arrangement, and a view over a view: each request takes moto some hundredths of a second."""
    made.views = {
        **{name: VIEWS[name] for name in ("totals", "named")},
        "rich": "SELECT cust, s FROM totals WHERE s > 3",
    }
    return made


def right(made) -> list[str]:
    pipe = made.pipeline(made.folder)
    return differences(pipe, made.recomputed(made.folder)) + leftovers(pipe)


@pytest.mark.slow
def test_a_pipeline_from_its_first_build_to_its_repair(made):
    pipe = made.pipeline(made.folder)
    assert pipe.root == f"{made.folder}/root"
    report = pipe.refresh()
    assert report.ok, report
    assert right(made) == []
    change(made)
    report = made.pipeline(made.folder).refresh()
    assert {v.strategy for v in report.views.values()} == {"incremental"}, report
    assert right(made) == []
    assert {v.strategy for v in made.pipeline(made.folder).refresh().views.values()} == {"unchanged"}
    assert all(made.pipeline(made.folder).verify(view) for view in ("totals", "rich"))
    assert made.pipeline(made.folder).backfill("totals", where="cust = 1").ok
    assert made.pipeline(made.folder).compact(keep_epochs=1)
    assert right(made) == []
    Location.of(made.pipeline(made.folder).context.layout.epochs).drop()
    repaired = made.pipeline(made.folder).repair()
    assert repaired.known_again
    assert repaired.report.ok
    assert differences(made.pipeline(made.folder), made.recomputed(made.folder)) == []
    status = made.pipeline(made.folder).status()
    assert status["root"] == f"{made.folder}/root"
    assert not status.get("warnings")


@pytest.mark.slow
def test_large_results_are_committed_by_delta_rs_too(made):
    """Spark's writers of Delta tables are not called: the session that stands for it has none."""
    made.limits = replace(EMBEDDED, compare_rows=1)
    assert made.pipeline(made.folder).refresh().ok
    change(made)
    assert made.pipeline(made.folder).refresh().ok
    assert right(made) == []


@pytest.mark.slow
def test_what_is_large_is_copied_by_the_store(made):
    """Staged files become files of tables under names of their own, and the staged ones go."""
    made.limits = TINY
    assert made.pipeline(made.folder).refresh().ok
    change(made)
    report = made.pipeline(made.folder).refresh()
    assert {v.strategy for v in report.views.values()} == {"incremental"}, report
    assert right(made) == []
    assert made.pipeline(made.folder).compact(keep_epochs=0)
    assert right(made) == []


@pytest.mark.slow
def test_a_build_that_dies_is_taken_up_by_the_next_process(s3):
    """Two faults as a process that ends leaves them: before a commit, and in the middle of staging."""
    made, act = few(scene(DuckSession(), Location.of(s3), WRITES)), ACTIONS["build"]
    made.save()
    wanted = [Fault(Effect.DIE, Moment.BEFORE, 9), Fault(Effect.DIE, Moment.AFTER, 14)]
    found = made.tried(act, wanted)
    assert [text for _, text in found.runs] == ["killed", "killed"]
    assert found.troubles == [], found


# -- the lock ---------------------------------------------------------------------------------------


@pytest.fixture
def lock(s3):
    return Location.of(s3) / "root/_ivm/lock"


def test_one_holder_at_a_time(lock):
    with locks.exclusive(lock, "pipeline 'p'") as fence:
        fence()
        with (
            pytest.raises(
                ConcurrentRefreshError,
                match=r"Another refresh of pipeline 'p' is running \(process \d+ on .*taken over 60 seconds",
            ),
            locks.exclusive(lock, "pipeline 'p'"),
        ):
            pass
    with locks.exclusive(lock, "pipeline 'p'"):
        pass
    assert [f.name for f in lock.parent.list()] == ["lock"]


def held_by(lock: Location, **other: object) -> None:
    lock.write(
        json.dumps(
            {
                "token": "t",
                "host": "elsewhere",
                "machine": "m",
                "pid": 7,
                "started": "1",
                "since": "then",
                "beat": 0,
                **other,
            }
        ).encode()
    )


def test_who_gave_no_sign_of_life_is_followed_by_another(lock, monkeypatch):
    held_by(lock)
    with pytest.raises(ConcurrentRefreshError, match="process 7 on elsewhere, since then"), locks.exclusive(lock, "p"):
        pass
    monkeypatch.setattr(locks, "LEASE", -10.0)
    with locks.exclusive(lock, "p") as fence:
        monkeypatch.setattr(locks, "LEASE", 60.0)
        fence()


def test_a_process_of_this_machine_that_is_gone_is_followed_at_once(lock):
    held_by(lock, machine=locks._machine(), pid=2**22 - 1, started="5")
    with locks.exclusive(lock, "p"):
        pass


def test_who_lost_the_lock_commits_no_more(made, monkeypatch):
    context = made.pipeline(made.folder).context
    context.log.record(1, "planned")
    with context.exclusive():
        held_by(context.layout.lock)
        monkeypatch.setattr(locks, "LEASE", 0.0)
        with pytest.raises(ConcurrentRefreshError, match="another one took over"):
            context.log.record(1, "committed")
    assert not context.log.has(1, "committed")
    assert json.loads(context.layout.lock.read())["token"] == "t"  # and leaves it to its holder


def test_what_is_no_lock_is_not_taken_for_one(lock):
    lock.write(b"not ours")
    with pytest.raises(ConfigError, match="is not a lock of ours"), locks.exclusive(lock, "p"):
        pass
