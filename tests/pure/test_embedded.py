"""The embedded engine refreshes without a Spark session, with the same rows; what isn't portable asks for one."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import duckdb
import pytest

from ivm.cli.reports import show_report
from ivm.errors import ConfigError, IvmError
from ivm.lake import native
from ivm.lake.keyed import KeyedReader
from ivm.pipeline import Pipeline
from ivm.planner.limits import EMBEDDED
from ivm.refresh.views import View
from tests.pure.duck_session import DuckSession
from tests.scenes import VIEWS, change, path, scene

pytestmark = pytest.mark.usefixtures("without_a_jvm")


class SessionAskedError(Exception):
    """A session was asked for."""


@pytest.fixture
def made(tmp_path, monkeypatch):
    """The scene, built by Spark's stand-in (an arrangement at the first change); then nobody gets a session."""
    made = scene(DuckSession(), tmp_path)
    for _ in range(2):
        assert pipeline(made, spark=made.spark).refresh().ok
        change(made)

    def no_session(*args, **kwargs):
        raise SessionAskedError

    monkeypatch.setattr("ivm.declarations.get_session", no_session)
    return made


def pipeline(made, views=VIEWS, spark=None, engine="auto", **settings):
    pipe = Pipeline("shop", spark, made.folder / "root", engine=engine, **settings)
    for name in ("orders", "customers"):
        pipe.source(name, path(made, name), primary_key=["cust"] if name == "customers" else ())
    for name, sql in views.items():
        pipe.context.views[name] = View(name, sql, pipe.mode)
    return pipe


def rows(made, view):
    table = native.table(f"{made.folder}/root/{view}").to_pyarrow_table()
    return Counter(map(str, table.to_pylist()))


def recomputed(made):
    """All views, built anew by Spark's stand-in in a root of its own."""
    again = Pipeline("again", made.spark, made.folder / f"again_{id(object())}")
    for name in ("orders", "customers"):
        again.source(name, path(made, name))
    for name, sql in VIEWS.items():
        again.view(name, sql)
    assert again.refresh().ok
    return {v: Counter(map(str, native.table(f"{again.root}/{v}").to_pyarrow_table().to_pylist())) for v in VIEWS}


def test_a_refresh_of_portable_views_starts_no_session(made):
    for _ in range(2):
        report = pipeline(made).refresh()
        told = {n: (v.strategy, v.error, v.engine) for n, v in report.views.items()}
        assert told == dict.fromkeys(VIEWS, ("incremental", "", "embedded"))
        assert {v: rows(made, v) for v in VIEWS} == recomputed(made)
        change(made)


def test_of_many_sums_those_of_the_changed_groups_are_read(made, monkeypatch):
    read = []
    find = KeyedReader.find

    def counted(self, columns, keys, *args, **kwargs):
        found = find(self, columns, keys, *args, **kwargs)
        if "accumulators_" in self._delta.table_uri:
            read.append((self._delta.table_uri.split("/traces/")[1].partition("/")[0], found.num_rows))
        return found

    monkeypatch.setattr(KeyedReader, "find", counted)
    for _ in range(3):
        assert pipeline(made, limits=replace(EMBEDDED, searched_rows=-1)).refresh().ok
        assert {v: rows(made, v) for v in VIEWS} == recomputed(made)
        change(made)
    assert {unit for unit, _ in read} >= {"totals", "idle", "nested__1"}
    # More customers have sums than change at a time.
    assert min(n for unit, n in read if unit == "totals") < len(rows(made, "totals"))


def test_the_next_process_translates_no_statement_again(made, monkeypatch):
    assert pipeline(made).refresh().ok
    (file,) = (made.folder / "root" / "_ivm" / "statements").iterdir()
    change(made)

    def again(*args):
        raise AssertionError("translated again")

    monkeypatch.setattr("ivm.portable.translations.written", again)
    report = pipeline(made).refresh()
    assert {n: v.engine for n, v in report.views.items()} == dict.fromkeys(VIEWS, "embedded")
    assert {v: rows(made, v) for v in VIEWS} == recomputed(made)
    monkeypatch.undo()
    # What was damaged, or written by another version, is translated anew, and in its place.
    text = file.read_text()
    for broken, name in ((text[:-2], file.name), (text, "another.json")):
        file.unlink()
        file.with_name(name).write_text(broken)
        change(made)
        assert pipeline(made, spark=made.spark).refresh().views["big"].engine == "embedded"
        assert [f.name for f in file.parent.iterdir()] == [file.name]
        anew, before = (json.loads(t.partition("\n")[2]) for t in (file.read_text(), text))
        assert anew
        assert before | anew == before


def test_what_is_not_portable_asks_for_a_session_with_its_reason(made, capsys):
    views = {"turned": "SELECT id, reverse(CAST(amount AS string)) AS r FROM orders", "totals": VIEWS["totals"]}
    assert pipeline(made, views, made.spark).refresh().ok
    change(made)
    report = pipeline(made, views, made.spark).refresh()
    assert report.views["totals"].engine == "embedded"
    assert report.views["turned"].engine.startswith("spark: REVERSE(")
    show_report(report, as_json=False)
    assert "view turned ran by Spark: REVERSE(" in capsys.readouterr().out
    change(made)
    # Without one, that view alone fails, as it would without Java.
    with pytest.raises(IvmError, match="SessionAskedError"):
        pipeline(made, views).refresh()


def test_too_many_rows_stay_with_spark(made):
    few = replace(EMBEDDED, embedded_rows=1)
    report = pipeline(made, {"totals": VIEWS["totals"]}, made.spark, limits=few).refresh()
    assert report.views["totals"].strategy == "incremental"
    assert "more than 1" in report.views["totals"].engine


def test_other_settings_than_sparks_stay_with_spark(made):
    pipe = pipeline(made, {"totals": VIEWS["totals"]}, made.spark)
    made.spark.conf.get = lambda key, default=None: "Europe/Berlin" if "timeZone" in key else default
    assert pipe.refresh().views["totals"].strategy == "full"
    change(made)
    assert "settings" in pipe.refresh().views["totals"].engine


def test_what_duckdb_raises_is_sparks_to_tell(made, monkeypatch):
    def broken(*args):
        raise duckdb.OutOfRangeException("Overflow in addition")

    monkeypatch.setattr("ivm.engine.duck.Database.run", broken)
    report = pipeline(made, {"totals": VIEWS["totals"]}, made.spark).refresh()
    assert report.ok
    assert "Overflow in addition" in report.views["totals"].engine


def test_spark_alone_is_the_default(made, monkeypatch):
    report = pipeline(made, {"totals": VIEWS["totals"]}, made.spark, engine="").refresh()
    assert report.views["totals"].strategy == "incremental"
    assert report.views["totals"].engine == ""
    monkeypatch.setenv("IVM_ENGINE", "auto")
    change(made)
    assert pipeline(made, {"totals": VIEWS["totals"]}, engine="").refresh().views["totals"].engine == "embedded"


def test_engines_and_installations_are_told(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="no engine 'duckdb'"):
        Pipeline("shop", None, tmp_path, engine="duckdb")
    monkeypatch.setenv("IVM_ENGINE", "sail")
    with pytest.raises(ConfigError, match="IVM_ENGINE"):
        Pipeline("shop", None, tmp_path)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1.4.2")
    with pytest.raises(ConfigError, match=r"DuckDB 1\.4\.2 is installed.*pip install 'ivm\[embedded\]'"):
        Pipeline("shop", None, tmp_path, engine="auto")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="there is none"):
        Pipeline("shop", None, tmp_path, engine="auto")


@pytest.mark.parametrize("variable", ["IVM_SPARK_REMOTE", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"])
def test_a_session_of_somebody_else_is_asked_for_its_settings(made, monkeypatch, variable):
    monkeypatch.setenv(variable, "there")
    with pytest.raises(IvmError, match="SessionAskedError"):
        pipeline(made, {"totals": VIEWS["totals"]}).refresh()


@pytest.mark.parametrize("mode", ["incremental", "warn"])
def test_modes_that_watch_full_refreshes_find_none(made, mode):
    report = pipeline(made, mode=mode).refresh()
    told = {(v.strategy, v.error, v.warning, v.engine) for v in report.views.values()}
    assert told == {("incremental", "", "", "embedded")}
