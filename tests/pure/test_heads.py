"""The head of a table of ours: found by its log's files, refused where somebody else changed rows."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.errors import StateError
from ivm.lake import native
from ivm.lake.commits import fingerprint
from ivm.lake.log import Head, head_of, own_head, since

OURS = "0000-ours"
ROWS = pa.table({"k": [1, 2, 3]})


@pytest.fixture
def path(tmp_path):
    """A table with one commit of ours."""
    made = str(tmp_path / "t")
    commit(made, 1)
    return made


def commit(path, version):
    assert native.append(path, ROWS, f"ivm/{OURS}/t/table", version)


def test_what_is_known_and_stands_is_not_opened(path, monkeypatch):
    known = head_of(path)
    commit(path, 2)
    monkeypatch.setattr(native, "table", lambda *_: pytest.fail("the table was opened"))
    found = own_head(path, OURS, known)
    assert found == Head(known.table_id, 1, fingerprint(path, 1))
    assert own_head(path, OURS, found) is found


@pytest.mark.parametrize("known", [False, True])
def test_rows_of_others_are_refused(path, known):
    head = head_of(path) if known else None
    write_deltalake(path, ROWS, mode="append")
    with pytest.raises(StateError, match=r"changed by somebody else meanwhile: WRITE at version 1"):
        own_head(path, OURS, head)


def test_rows_moved_between_files_are_no_change(path):
    known = head_of(path)
    commit(path, 2)
    DeltaTable(path).optimize.compact()
    assert own_head(path, OURS, known).version == 2


@pytest.mark.parametrize("versions", [1, 3])
def test_another_table_in_its_place_is_not_taken_for_it(path, versions):
    commit(path, 2)
    known = head_of(path)
    shutil.rmtree(path)
    for _ in range(versions):
        write_deltalake(path, ROWS, mode="append")
    with pytest.raises(StateError, match="changed by somebody else"):
        own_head(path, OURS, known)


def test_another_commit_of_the_same_number_is_seen(path):
    """A backup of the folder was put back, and somebody wrote on from there."""
    backup = shutil.copytree(path, f"{path}_backup")
    commit(path, 2)
    head = head_of(path)
    assert since(path, head, OURS).foreign == ""
    shutil.rmtree(path)
    shutil.copytree(backup, path)
    write_deltalake(path, ROWS, mode="append")
    assert head_of(path).version == head.version
    assert "version 1 is another commit" in since(path, head, OURS).foreign
