"""A refresh runs in a session of its own: what it sets and names is not in the caller's, whose functions it has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from ivm.pipeline import Pipeline
from ivm.refresh import settings
from ivm.session import apart, configured
from tests.scenes import VIEWS, change, path, scene

pytestmark = pytest.mark.spark


@pytest.fixture
def made(spark, tmp_path):
    return scene(spark, tmp_path)


def test_the_callers_session_is_left_as_it_is(spark, made, monkeypatch):
    """While it compiles and runs, too: another thread of the caller's would commit under its transaction."""
    pipe = Pipeline("shop", spark, made.folder / "root")
    for name in ("orders", "customers"):
        pipe.source(name, path(made, name))
    for name, sql in VIEWS.items():
        pipe.view(name, sql)
    pipe.view("with_a_query", "WITH big AS (SELECT * FROM orders WHERE amount > 1) SELECT id, amount FROM big")
    touched = []
    monkeypatch.setattr(spark.conf, "set", lambda key, value: touched.append(key))
    monkeypatch.setattr(spark.conf, "unset", touched.append)
    assert pipe.refresh().ok
    assert set(touched) <= {"spark.sql.debug.maxToStringFields"}, "only to read a plan in full"
    touched.clear()
    change(made)
    names = spark.sql("SHOW VIEWS").collect()
    report = pipe.refresh()
    assert {v.strategy for v in report.views.values()} == {"incremental"}
    assert pipe.compact(keep_epochs=0)
    assert touched == []
    assert spark.sql("SHOW VIEWS").collect() == names


def test_a_session_of_another_thread_is_left_as_it_is(spark, made):
    """To a thread it isn't active, and whoever asks PySpark for one with settings has them set on it."""
    own = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.shuffle.partitions": "7"}

    def refresh():
        pipe = Pipeline("shop", None, made.folder / "root")
        pipe.source("orders", path(made, "orders"))
        pipe.view("one", "SELECT id, date(timestamp_seconds(id)) AS d FROM orders")
        return pipe.refresh().ok

    with configured(spark, own), ThreadPoolExecutor(1) as thread:
        assert thread.submit(refresh).result()
        assert {name: spark.conf.get(name) for name in own} == own


def test_what_the_caller_registers_between_refreshes_is_there(spark, made):
    pipe = Pipeline("shop", spark, made.folder / "root")
    pipe.source("orders", path(made, "orders"))
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION ivm_apart(x INT) RETURNS INT RETURN x + 1")
    pipe.view("one", "SELECT id, ivm_apart(amount) AS a FROM orders")
    assert pipe.refresh().ok
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION ivm_later(x INT) RETURNS INT RETURN x + 2")
    pipe.view("two", "SELECT id, ivm_later(amount) AS a FROM orders")
    change(made)
    assert pipe.refresh().ok
    assert pipe.verify("one")
    assert pipe.verify("two")
    for name in ("ivm_apart", "ivm_later"):
        spark.sql(f"DROP TEMPORARY FUNCTION {name}")


def test_a_view_over_a_variable_reads_the_callers(spark, made):
    pipe = Pipeline("shop", spark, made.folder / "root")
    pipe.source("orders", path(made, "orders"))
    spark.sql("DECLARE OR REPLACE VARIABLE ivm_least INT DEFAULT 3")
    pipe.view("some", "SELECT id FROM orders WHERE amount > ivm_least")
    pipe.view("chance", "SELECT id, rand() AS r FROM orders WHERE amount > ivm_least")
    assert pipe.refresh().ok
    spark.sql("SET VAR ivm_least = 1")
    report = pipe.refresh()
    assert {v.strategy for v in report.views.values()} == {"full"}
    assert pipe.verify("some")
    spark.sql("DROP TEMPORARY VARIABLE ivm_least")


@pytest.mark.parametrize("engine", ["spark", "auto"])
def test_what_looks_like_a_setting_is_a_text(spark, made, engine):
    """In what ivm makes of it the text stands without its backslash, and Spark would replace it."""
    pipe = Pipeline("shop", spark, made.folder / "root", engine=engine)
    pipe.source("orders", path(made, "orders"))
    with configured(spark, {"region": "EU"}):
        pipe.view("one", "SELECT id, '$\\{region}' AS r, concat('$', '{region}') AS s FROM orders")
        assert pipe.refresh().ok
        change(made)
        assert pipe.refresh().views["one"].strategy == "incremental"
        assert {tuple(row) for row in pipe.read("one").select("r", "s").collect()} == {("${region}", "${region}")}
        assert pipe.verify("one")
        assert spark.sql("SELECT '${region}'").collect()[0][0] == "EU"


def test_a_session_apart_shares_nothing_that_is_set_later(spark):
    spark.conf.set("ivm.test", "before")
    other = apart(spark)
    other.conf.set("ivm.test", "there")
    assert spark.conf.get("ivm.test") == "before"
    spark.conf.unset("ivm.test")
    assert other.conf.get("ivm.test") == "there"
    assert other.sparkContext is spark.sparkContext


def test_what_can_not_be_cloned_is_used_as_it_is():
    stand_in = object()
    assert apart(stand_in) is stand_in


def test_all_settings_in_one_answer_are_those_that_come_one_by_one(spark, monkeypatch):
    odd = {"spark.sql.legacy.sizeOfNull": "true", "spark.sql.columnNameOfCorruptRecord": 'a "b" = {c, d}\\ü'}
    with configured(spark, odd):
        one_by_one = dict(spark.conf.getAll)
        assert settings._all(spark) == one_by_one
        assert odd.items() <= settings.settings(spark).items()
        monkeypatch.setattr(settings.json, "loads", None)  # whatever keeps the answer from being read
        assert settings._all(spark) == one_by_one
