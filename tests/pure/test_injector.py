"""The fault injector itself, on delta-rs and on files: what it counts, and what each fault leaves."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from ivm.errors import ConfigError
from ivm.lake import native
from ivm.testing.faults import Effect, Fault, Injector, Killed, Moment, Point, Trouble

ROWS = pa.table({"k": [1, 2, 3]})


def work(root: Path) -> None:
    """Some of everything, as the product calls it."""
    native.append(str(root / "t"), ROWS, "app", 1)
    native.table(str(root / "t")).delete("k = 1")
    native.table(str(root / "t")).optimize.compact()
    folder = root / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(ROWS, folder / "rows.parquet")
    (folder / "note.partial").write_text("a note of some length")
    (folder / "note.partial").rename(folder / "note")
    with (root / "lock").open("a+"):
        pass
    shutil.rmtree(folder)


POINTS = [
    "delta append t", "delta delete t", "delta compact t", "mkdir scratch", "parquet scratch/rows.parquet",
    "text scratch/note.partial", "rename scratch/note", "open lock", "rmtree scratch",
]  # fmt: skip


def test_points_are_the_writes_under_the_root_in_order(tmp_path):
    before = native.write_deltalake, os.rename, Path.write_text, open, DeltaTable.delete
    (tmp_path / "root").mkdir()
    with Injector([tmp_path / "root"]) as counted:
        work(tmp_path / "root")
        work(tmp_path / "elsewhere")
    assert [str(p) for p in counted.points] == POINTS
    assert (native.write_deltalake, os.rename, Path.write_text, open, DeltaTable.delete) == before
    work(tmp_path / "root")
    assert len(counted.points) == len(POINTS)


def test_what_was_there_already_is_no_write(tmp_path):
    (tmp_path / "lock").touch()
    with Injector([tmp_path]) as counted:
        tmp_path.mkdir(exist_ok=True)
        with (tmp_path / "lock").open("a+"), (tmp_path / "lock").open():
            pass
        shutil.rmtree(tmp_path / "none", ignore_errors=True)
    assert counted.points == []


@pytest.mark.parametrize("place", range(len(POINTS)))
def test_death_before_and_after_each_point(tmp_path, place):
    for moment in (Moment.BEFORE, Moment.AFTER):
        root = tmp_path / moment.value
        root.mkdir()
        with Injector([root], [Fault(Effect.DIE, moment, place + 1)]) as injector:
            with pytest.raises(Killed):
                work(root)
            with pytest.raises(Killed):
                work(root)  # a dead process writes nothing
        assert [str(p) for p in injector.struck.values()] == [POINTS[place]]
        assert len(injector.points) == place + 1
        done = place + (moment is Moment.AFTER)
        assert (root / "t").exists() == (done >= 1)
        if done >= 1:
            assert DeltaTable(root / "t").version() == min(done, 2) - 1, "one file needs no compaction"
        assert (root / "lock").exists() == (done >= 8)
        assert (root / "scratch").exists() == (4 <= done < 9)


def test_half_done_writes_leave_what_a_crash_leaves(tmp_path):
    def struck(path: str, kind: str) -> Path:
        root = tmp_path / path.replace("/", "_")
        root.mkdir()
        with (
            Injector([root], [Fault(Effect.DIE, Moment.AMID, Point(kind, path, 1, True))]) as injector,
            pytest.raises(Killed),
        ):
            work(root)
        assert injector.struck
        return root

    table = struck("t", "delta delete") / "t"
    assert DeltaTable(table).version() == 0
    assert len(list(table.glob("*.parquet"))) == 2
    assert (struck("scratch/note.partial", "text") / "scratch" / "note.partial").read_text() == "a note of "
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(struck("scratch/rows.parquet", "parquet") / "scratch" / "rows.parquet")
    assert [p.name for p in (struck("scratch", "rmtree") / "scratch").iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize("trouble", Trouble)
def test_a_write_fails_once_as_its_library_does(tmp_path, trouble):
    fault = Fault(Effect.FAIL, Moment.BEFORE, Point("delta append", "t", 1, True), trouble)
    with Injector([tmp_path], [fault]) as injector:
        with pytest.raises(Exception, match=r"os error|Failed to commit") as raised:
            native.write_deltalake(str(tmp_path / "t"), ROWS, mode="append")
        assert isinstance(raised.value, CommitFailedError if trouble is Trouble.COMMIT else OSError)
        native.write_deltalake(str(tmp_path / "t"), ROWS, mode="append")
    assert len(injector.points) == 2
    assert DeltaTable(tmp_path / "t").version() == 0
    with (
        Injector([tmp_path], [Fault(Effect.FAIL, Moment.BEFORE, 1)]),
        pytest.raises(OSError, match="No space left") as full,
    ):
        (tmp_path / "x").write_text("x")
    assert full.value.errno == errno.ENOSPC


def test_an_answer_that_is_lost_after_the_write(tmp_path):
    with Injector([tmp_path], [Fault(Effect.FAIL, Moment.AFTER, 1)]), pytest.raises(OSError, match="No space left"):
        native.write_deltalake(str(tmp_path / "t"), ROWS, mode="append")
    assert DeltaTable(tmp_path / "t").version() == 0


def test_a_folder_that_can_not_be_removed_stays_in_silence_where_that_is_asked_for(tmp_path):
    (tmp_path / "d").mkdir()
    with Injector([tmp_path], [Fault(Effect.FAIL, Moment.BEFORE, 1)]):
        shutil.rmtree(tmp_path / "d", ignore_errors=True)
    assert (tmp_path / "d").exists()


def test_a_real_death_ends_the_process(tmp_path):
    code = (
        "import sys; from pathlib import Path; from ivm.testing.faults import *; root = Path(sys.argv[1])\n"
        "with Injector([root], [Fault.parse('die_after:1')], real=True):\n"
        "    try: (root / 'one').write_text('1'); (root / 'two').write_text('2')\n"
        "    finally: (root / 'three').write_text('3')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -9
    assert [p.name for p in tmp_path.iterdir()] == ["one"]


def test_a_fault_that_is_none_is_refused():
    with pytest.raises(ConfigError, match="is no fault"):
        Fault.parse("die_sometimes:3")
