"""The cache of compiled programs: read back as written, and by nobody who would understand a view otherwise."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from ivm.refresh import programs
from ivm.refresh.programs import compiler_fingerprint
from ivm.refresh.views import View, compile_view
from ivm.storage.location import Location
from tests.pure.duck import DuckAnalyzer
from tests.pure.test_compile import RELATIONS

VIEW = View("v", "SELECT ck, count(*) AS n FROM orders GROUP BY ck")


@pytest.fixture
def compiled(tmp_path):
    """Compiles the view with a cache in `tmp_path`; `.asked` counts how often that took an analyzer."""

    def compile_():
        def analyzer():
            compile_.asked += 1
            return DuckAnalyzer()

        return compile_view(VIEW, dict(RELATIONS), analyzer, Location.of(str(tmp_path / "programs")))

    compile_.asked = 0
    return compile_


def test_a_program_is_compiled_once(compiled, tmp_path):
    assert compiled() == compiled()
    assert compiled.asked == 1
    assert [f.suffix for f in (tmp_path / "programs").iterdir()] == [".json"]


def test_what_is_known_is_given_back_where_the_same_would_come_out(tmp_path):
    folder = Location.of(str(tmp_path / "programs"))

    def again(view=VIEW, relations=RELATIONS, known=None):
        return compile_view(view, dict(relations), DuckAnalyzer, folder, known=known)

    again()
    known = again()
    assert again(known=known) is known
    for view in (
        replace(VIEW, mode="full"),
        replace(VIEW, sql=VIEW.sql.replace("count(*)", "max(ok)")),
        replace(VIEW, file="f"),
    ):
        assert again(view, known=known) == again(view) != known
    orders = replace(RELATIONS["orders"], key=())
    assert again(relations={**RELATIONS, "orders": orders}, known=known).reads["orders"] == orders
    (file,) = [f for f in folder.list() if known.facts in f.name]
    file.drop()
    assert again(known=known) == known, "compiled again"


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data.replace(b"orders", b"orderz", 1),
        lambda data: b"\xff" * len(data),
        lambda data: b"null",
        lambda data: data.partition(b"\n")[2],  # as the first versions wrote it
    ],
)
def test_a_damaged_program_counts_as_absent(compiled, tmp_path, damage):
    before = compiled()
    (file,) = (tmp_path / "programs").iterdir()
    file.write_bytes(damage(file.read_bytes()))
    assert compiled() == before
    assert compiled.asked == 2
    assert compiled() == before
    assert compiled.asked == 2


def test_what_can_not_be_kept_is_compiled_again(compiled, tmp_path):
    before = compiled()
    (file,) = (tmp_path / "programs").iterdir()
    file.unlink()
    file.mkdir()
    assert compiled() == before
    assert compiled() == before
    assert compiled.asked == 3
    assert list((tmp_path / "programs").iterdir()) == [file]


def test_writers_at_the_same_time_leave_one_whole_program(compiled, tmp_path):
    results = []
    threads = [threading.Thread(target=lambda: results.append(compiled())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert all(r == results[0] for r in results)
    assert [f.suffix for f in (tmp_path / "programs").iterdir()] == [".json"]


@pytest.mark.parametrize("package", ["sqlglot", "pyspark", "ivm"])
def test_another_version_of_a_reader_is_another_compiler(monkeypatch, package):
    before = compiler_fingerprint()
    installed = {"ivm": "0.1.0", **programs.versions()}
    monkeypatch.setattr(programs, "versions", lambda: {**installed, package: "0.0.1"})
    compiler_fingerprint.cache_clear()
    try:
        assert compiler_fingerprint() != before
    finally:
        compiler_fingerprint.cache_clear()


def test_a_program_of_another_compiler_stays_and_says_what_made_it(compiled, tmp_path, monkeypatch):
    before = compiled()
    monkeypatch.setattr(programs, "compiler_fingerprint", lambda: "another")
    assert compiled() == before
    assert compiled.asked == 2
    kept = list(programs.kept(Location.of(str(tmp_path / "programs")), "v"))
    assert [k.program for k in kept] == [before.program] * 2
    assert all(before.definition in k.definitions for k in kept)
    _, head, _ = next((tmp_path / "programs").iterdir()).read_text().split("\n")
    assert {"sqlglot", "pyspark"} <= json.loads(head)["made_by"].keys()
