"""What views' texts name is found by a parser once a root, and again where another compiler found it."""

from __future__ import annotations

import pytest

from ivm.errors import ViewError
from ivm.refresh import mentions
from ivm.refresh.mentions import remembered
from ivm.sql import text
from ivm.storage.location import Location

SQL = "SELECT a.x FROM t AS a JOIN `s.u` USING (x), (SELECT 1 FROM w TABLESAMPLE (5 PERCENT))"
OTHER = "WITH t AS (SELECT 1 FROM base) SELECT * FROM t"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Location:
    """Where nothing is known, as in a process that begins."""
    monkeypatch.setattr(text, "_known", {})
    return Location.of(str(tmp_path))


def _found(folder: Location, *texts: str) -> list[text.Mentions]:
    with remembered(folder, texts):
        return [text.relation_tables(sql) for sql in texts]


def test_another_process_parses_nothing(folder, monkeypatch):
    first = _found(folder, SQL, OTHER)
    assert first == [text._mentions(SQL), text._mentions(OTHER)]
    (file,) = folder.list()
    before = file.stat()
    monkeypatch.setattr(text, "_known", {})
    monkeypatch.setattr(text, "query_tree", None)
    assert _found(folder, OTHER, SQL) == first[::-1]
    assert file.stat() == before


def test_a_text_that_is_new_is_parsed_and_one_that_is_gone_is_not_kept(folder, monkeypatch):
    _found(folder, SQL)
    monkeypatch.setattr(text, "_known", {})
    assert _found(folder, OTHER) == [text._mentions(OTHER)]
    monkeypatch.setattr(text, "_known", {})
    with remembered(folder, [OTHER]):
        assert text._known.keys() == {OTHER}


def test_what_another_compiler_or_a_damaged_file_tells_is_not_taken(folder, monkeypatch):
    _found(folder, SQL)
    (file,) = folder.list()
    monkeypatch.setattr(text, "_known", {})
    file.write(file.read().replace(b"base", b"t").replace(b"10", b"11"))
    assert _found(folder, SQL) == [text._mentions(SQL)]
    monkeypatch.setattr(text, "_known", {})
    monkeypatch.setattr(mentions, "compiler_fingerprint", lambda: "another")
    with remembered(folder, [SQL]):
        assert not text._known


def test_a_text_that_is_no_view_is_told_each_time(folder):
    for _ in range(2):
        with pytest.raises(ViewError, match="one SELECT"):
            _found(folder, "DROP TABLE t")
    assert folder.list() == []


def test_so_many_texts_are_known(folder, monkeypatch):
    monkeypatch.setattr(text, "_MOST", 3)
    for number in range(10):
        assert text.relation_tables(f"SELECT {number} FROM t")[0][0] == "t"
    assert len(text._known) <= 3
