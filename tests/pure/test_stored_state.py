"""State that earlier versions of ivm wrote is carried on.

A view is rebuilt only where its definition changed, or nothing tells what it was.
"""

from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from ivm.refresh import definitions
from ivm.rewrite import identity
from ivm.rewrite.identity import DEFINITION_VERSION, version_of
from tests.pure.duck_session import DuckSession
from tests.pure.stored_state.make import change, pipeline

STORED = Path(__file__).parent / "stored_state"
ARCHIVES = sorted(STORED.glob("*.tar.gz"))
#: How each view is refreshed after a change, whoever built it, and why.
BY_DELTA = ("incremental", "only what changed is applied")
EXPECTED = {
    "totals": BY_DELTA,
    "nested": BY_DELTA,
    "best": BY_DELTA,
    "whole": ("full", "the view is set to mode full"),
    "refused": ("full", "UNION BY NAME has no delta rule"),
}


@pytest.fixture
def folder(without_a_jvm, tmp_path, request):
    """A copy of the oldest archive, or of the one that is asked for."""
    with tarfile.open(getattr(request, "param", ARCHIVES[0])) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def found(pipe):
    """How each view is refreshed, and why."""
    return {name: (v.strategy, v.reason) for name, v in pipe.refresh().views.items()}


def versions(pipe):
    """The versions of the definitions in the manifest."""
    return {version_of(s.definition) for s in pipe.context.log.manifest().units.values()}


def right(pipe):
    """Whether each view is what its SQL gives, by DuckDB over the source as it is."""
    session = pipe.context.spark()
    orders = f"delta.`{pipe.context.sources['orders'].location}`"
    for view in pipe.context.views.values():
        wanted = session.sql(view.sql.replace("FROM orders", f"FROM {orders}")).collect()
        assert sorted(map(repr, pipe.read(view.name).collect())) == sorted(map(repr, wanted)), view.name


def otherwise_written(monkeypatch):
    """As after a refactoring of the compiler: its objects have another JSON."""
    written = definitions.program_json
    monkeypatch.setattr(definitions, "program_json", lambda p: json.dumps({"more": 1, **json.loads(written(p))}))


@pytest.mark.parametrize("folder", ARCHIVES, indirect=True, ids=lambda p: p.name.partition(".")[0])
def test_an_upgrade_rebuilds_nothing(folder):
    pipe = pipeline(DuckSession(), folder)
    assert {v.strategy for v in pipe.refresh().views.values()} <= {"unchanged"}
    change(folder)
    assert found(pipe) == EXPECTED
    right(pipe)
    assert versions(pipe) == {DEFINITION_VERSION}
    change(folder)
    assert found(pipeline(DuckSession(), folder)) == EXPECTED


@pytest.mark.parametrize("folder", ARCHIVES[-1:], indirect=True, ids=lambda p: p.name.partition(".")[0])
def test_an_older_state_is_read_and_compacted(folder):
    pipe = pipeline(DuckSession(), folder)
    right(pipe)
    assert [c for c in pipe.compact(keep_epochs=1) if c.error] == []
    right(pipe)
    change(folder)
    assert found(pipe) == EXPECTED
    right(pipe)
    assert [c for c in pipeline(DuckSession(), folder).compact(keep_epochs=1) if c.error] == []


def test_the_kept_programs_tell_what_an_older_definition_stands_for(folder, monkeypatch):
    otherwise_written(monkeypatch)
    change(folder)
    pipe = pipeline(DuckSession(), folder)
    assert found(pipe) == EXPECTED
    right(pipe)


def test_where_nothing_tells_a_view_is_rebuilt_and_says_why(folder, monkeypatch):
    otherwise_written(monkeypatch)
    for file in (folder / "root" / "_ivm" / "programs").iterdir():
        file.unlink()
    change(folder)
    pipe = pipeline(DuckSession(), folder)
    reports = found(pipe)
    assert {n for n, (_, reason) in reports.items() if "the program that built it is not kept" in reason} == {
        "totals", "nested", "best", "whole"
    }  # fmt: skip
    assert reports["refused"] == EXPECTED["refused"]
    right(pipe)


def test_a_view_that_changed_with_the_upgrade_is_rebuilt(folder):
    pipe = pipeline(
        DuckSession(),
        folder,
        totals=("SELECT cust, sum(amount) AS s, count(id) AS n FROM orders GROUP BY cust", "auto"),
    )
    assert found(pipe)["totals"] == ("full", definitions.CHANGED)
    right(pipe)


def test_the_next_version_of_definitions_rebuilds_nothing_either(folder, monkeypatch):
    change(folder)
    pipeline(DuckSession(), folder).refresh()
    text = identity.definition_text
    monkeypatch.setattr(identity, "definition_text", lambda *a: f"in other words {text(*a)}")
    for module in (identity, definitions):
        monkeypatch.setattr(module, "DEFINITION_VERSION", DEFINITION_VERSION + 1)
    change(folder)
    pipe = pipeline(DuckSession(), folder)
    assert found(pipe) == EXPECTED
    assert versions(pipe) == {DEFINITION_VERSION + 1}
    right(pipe)


def test_definitions_stay_as_they_are_while_their_version_does(folder):
    """Where this fails, every view would be rebuilt: raise DEFINITION_VERSION, or mend what changed them."""
    pipe = pipeline(DuckSession(), folder)
    compiled = pipe.context.compile(pipe.context.snapshots())
    assert {name: one.definition for name, one in compiled.items()} == {
        "totals": "2:a0af4b40a2e2b592",
        "nested": "2:58680b996417af0d",
        "best": "2:a83f4c314d735412",
        "whole": "2:a77afab38e6594a2",
        "refused": "2:63fc87cc78676ee1",
    }


def test_only_what_decides_about_state_is_in_a_definition(folder):
    pipe = pipeline(DuckSession(), folder)
    pipe.refresh()
    for name, compiled in pipe.context.compile(pipe.context.snapshots()).items():
        leaner = replace(
            compiled.program, rules=("another sentence",), units=tuple(map(_without_hints, compiled.program.units))
        )
        assert identity.definition(leaner, compiled.view.sql, compiled.reads) == compiled.definition, name
        for unit in compiled.program.units:
            wider = replace(unit, columns=(replace(unit.columns[0], type="string"), *unit.columns[1:]))
            other = replace(compiled.program, units=tuple(wider if u is unit else u for u in compiled.program.units))
            assert identity.definition(other, compiled.view.sql, compiled.reads) != compiled.definition


def _without_hints(unit):
    """A unit of which a refresh would read more than it must."""
    branches = tuple(
        replace(b, edges=(), bounds=(), leaves=tuple(replace(leaf, filters=()) for leaf in b.leaves))
        for b in unit.core.branches
    )
    return replace(unit, core=replace(unit.core, branches=branches))
