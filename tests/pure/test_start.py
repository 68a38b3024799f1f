"""What a command loads: one that finds nothing to do starts no JVM and imports none of what is heavy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.noop import make

#: Imported, each costs more than all that a command without work does.
HEAVY = ("pyspark", "pandas", "great_expectations", "pyarrow.dataset", "duckdb", "airflow", "ivm.compile.passes")
REPOSITORY = Path(__file__).parents[2]
#: Runs the command, then tells which of these modules it loaded; no program can be started in it, a JVM least of all.
_RUN = f"""
import json, subprocess, sys
def refused(*a, **k): raise AssertionError(f"a process was started: {{a}}")
subprocess.Popen = refused
from ivm.cli.main import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(json.dumps({{"code": end.code, "heavy": [m for m in {HEAVY} if m in sys.modules]}}), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pipeline that was refreshed once."""
    made = tmp_path_factory.mktemp("noop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        make(made, views=8, sources=3, engine="duckdb")
    return made


def command(*arguments: str) -> tuple[dict[str, object], str]:
    """What a fresh process of the command loaded, and what it printed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK", "PYSPARK"))}
    environment |= {"PYTHONPATH": str(REPOSITORY), "JAVA_HOME": "/nowhere"}
    ended = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments], capture_output=True, text=True, env=environment, check=True
    )
    return json.loads(ended.stderr.splitlines()[-1]), ended.stdout


def test_a_refresh_that_finds_nothing_to_do_starts_no_jvm(folder):
    loaded, printed = command("refresh", "--json", "-p", str(folder))
    assert loaded == {"code": 0, "heavy": []}
    assert {v["strategy"] for v in json.loads(printed)["views"].values()} == {"unchanged"}


@pytest.mark.parametrize("verb", ["status", "plan"])
def test_what_only_looks_loads_as_little(folder, verb):
    loaded, printed = command(verb, "--json", "-p", str(folder))
    assert loaded == {"code": 0, "heavy": []}
    assert json.loads(printed)["epoch"] == (1 if verb == "status" else None)


def test_an_explanation_of_a_kept_program_starts_no_jvm(folder):
    loaded, printed = command("explain", "v02", "--json", "-p", str(folder))
    assert loaded["code"] == 0
    assert not {"pyspark", "great_expectations"} & set(loaded["heavy"])
    assert json.loads(printed)["strategy"] == "incremental"


def test_help_loads_no_table_and_no_parser():
    loaded, _ = command("--help")
    assert loaded["code"] == 0
    assert loaded["heavy"] == []


def test_a_source_is_opened_once_while_nothing_is_committed(folder, without_a_jvm, monkeypatch):
    from deltalake import write_deltalake

    from ivm import Pipeline
    from ivm.lake import native
    from tests.pure.duck_session import DuckSession

    opened: list[str] = []
    table = native.table

    def counted(path, version=None):
        opened.append(path)
        return table(path, version)

    monkeypatch.setattr(native, "table", counted)
    pipe = Pipeline.load(folder, DuckSession())
    sources = [s.location for s in pipe.context.sources.values()]
    assert pipe.plan() is None
    assert sorted(p for p in opened if p in sources) == sorted(sources)
    opened.clear()
    rows = native.read(table(sources[0]))
    write_deltalake(sources[0], rows.slice(0, 1), mode="append")
    plan = pipe.plan()
    assert plan is not None
    assert {n for n, t in plan.tasks.items() if t.strategy != "unchanged"} >= {"v00"}
    # The estimates look at the size of each source that is read, the one that changed was looked at before.
    assert Counter(p for p in opened if p in sources) == {s: 1 + (s == sources[0]) for s in sources}


def test_a_refresh_by_the_embedded_engine_starts_no_jvm(tmp_path, monkeypatch):
    from deltalake import DeltaTable, write_deltalake

    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    make(tmp_path, views=8, sources=3, engine="duckdb")
    source = f"{tmp_path}/sources/s00"
    rows = DeltaTable(source).to_pyarrow_table().slice(0, 3)
    DeltaTable(source).delete("id < 2")
    write_deltalake(source, rows.slice(0, 1), mode="append")
    monkeypatch.setenv("IVM_ENGINE", "auto")
    loaded, printed = command("refresh", "--json", "-p", str(tmp_path))
    assert loaded["code"] == 0
    # pandas comes with pyarrow.dataset.
    assert set(loaded["heavy"]) <= {"duckdb", "pyarrow.dataset", "pandas"}
    views = json.loads(printed)["views"].values()
    assert {(v["strategy"], v["engine"]) for v in views} == {("incremental", "embedded"), ("unchanged", "")}


def test_a_table_that_is_piped_is_not_squeezed():
    """Where there is no terminal nobody says how wide it is; 80 columns would break each cell."""
    cell = "x" * 50
    code = f"from ivm.cli.terminal import table; table('', ['a', 'b', 'c'], [[{cell!r}] * 3])"
    environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert sum(line.count(cell) for line in told.stdout.splitlines()) == 3
    narrow = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment | {"COLUMNS": "80"}
    )
    assert cell not in narrow.stdout
