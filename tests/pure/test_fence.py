"""A root has one writer; who has lost its lock writes nothing more to its epoch log, nor moves events to the archive.

The lock in an object store: `tests/pure/test_s3.py`.
"""

from __future__ import annotations

import pytest

from ivm.errors import ConcurrentRefreshError
from ivm.lake import native
from ivm.refresh.epochs import EpochLog
from ivm.storage.location import Location
from ivm.storage.lock import exclusive


@pytest.fixture
def log(tmp_path):
    made = EpochLog(str(tmp_path / "epochs"), "p")
    for epoch in range(1, 6):
        made.record(epoch, "planned")
        made.record(epoch, "abandoned")
    return made


def lost(after: int):
    """A lock that is lost after it was asked about so often."""
    asked = iter(range(100))

    def fence() -> None:
        if next(asked) >= after:
            raise ConcurrentRefreshError("another one took over")

    return fence


@pytest.mark.parametrize(("after", "archived"), [(0, 0), (1, 4)])
def test_nothing_is_forgotten_without_the_lock(log, tmp_path, after, archived):
    before, archive = log.events(), str(tmp_path / "archive")
    log.fence = lost(after)
    with pytest.raises(ConcurrentRefreshError):
        log.forget(3, [], archive)
    assert EpochLog(log.path, "p").events() == before
    assert (native.rows(native.table(archive)) if native.exists(archive) else 0) == archived
    log.fence = None
    assert log.forget(3, [], archive) == 4
    assert [e.epoch for e in log.events()] == [3, 3, 4, 4, 5, 5]


def test_an_event_of_another_process_outlives_the_forgetting(log, tmp_path):
    """It comes between the last question about the lock and the commit."""
    asked = []

    def fence() -> None:
        asked.append(1)
        if len(asked) == 2:
            EpochLog(log.path, "p").record(6, "planned")

    log.fence = fence
    assert log.forget(3, [], str(tmp_path / "archive")) == 4
    log.fence = None
    for reader in (log, EpochLog(log.path, "p")):
        assert [(e.epoch, e.status) for e in reader.events()][-1] == (6, "planned")
        assert len(reader.events()) == 7


@pytest.mark.parametrize(("many", "left"), [(50, 10), (5, 1)])
def test_many_commits_become_one_file(log, tmp_path, monkeypatch, many, left):
    monkeypatch.setattr("ivm.refresh.epochs.FEW_FILES", many)
    before = log.events()
    assert log.forget(100, [], str(tmp_path / "archive")) == 0
    assert len(native.data_files(log.path, native.table(log.path))) == left
    for reader in (log, EpochLog(log.path, "p")):
        assert reader.events() == before
    assert log.record(6, "planned")
    assert not EpochLog(log.path, "p").record(6, "planned"), "once, also after that"
    assert [e.epoch for e in log.events()][-2:] == [5, 6]


def test_a_folder_has_one_holder_at_a_time(tmp_path):
    lock = Location.of(str(tmp_path / "root" / "_ivm" / "lock"))
    another = pytest.raises(ConcurrentRefreshError, match="pipeline 'p' is running")
    with exclusive(lock, "pipeline 'p'"), another, exclusive(lock, "pipeline 'p'"):
        pytest.fail("two hold it")
    with exclusive(lock, "pipeline 'p'"):
        pass
