"""How many files have deletion vectors is what the log says, and no more are read at once than delta-rs bears."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable

from ivm.lake import hiding, native, vectors
from tests.pure.logs import SOME, add, checkpoint, commit, remove


@pytest.fixture
def table(tmp_path):
    commit(tmp_path, 0, *map(add, "abcd"))
    commit(tmp_path, 1, *(add(p, SOME) for p in "ce"), remove("c"))
    return tmp_path


def test_where_the_log_does_not_tell_all_files_count(table, monkeypatch):
    monkeypatch.setattr(hiding, "HIDING", 1)
    delta = DeltaTable(str(table))
    assert hiding.hiding(delta, 5) == 2
    vectors._known.cache_clear()
    checkpoint(table, 1, "", {"a": True}, sidecar=[None, {"path": "elsewhere"}])
    assert hiding.hiding(delta, 5) == 5
    vectors._known.cache_clear()
    (table / "_delta_log" / f"{1:020d}.checkpoint.parquet").write_bytes(b"")
    assert hiding.hiding(delta, 5) == 5


def test_more_than_delta_rs_bears_are_not_its_to_read(table, monkeypatch):
    delta = DeltaTable(str(table))
    assert native.refusal(delta) == ""
    monkeypatch.setattr(hiding, "HIDING", 1)
    assert "2 files with deletion vectors" in native.refusal(delta)
    assert native.refusal_of_files(delta) == ""


def test_readers_wait_for_each_other():
    permits, lock = hiding.Permits(5), threading.Lock()
    now, most = 0, 0

    def read(count: int) -> None:
        nonlocal now, most
        with permits.of(count):
            with lock:
                now += min(count, 5)
                most = max(most, now)
            time.sleep(0.002)
            with lock:
                now -= min(count, 5)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(read, [1, 2, 3, 4, 5, 9, 0] * 6))
    assert (now, most) == (0, 5)
