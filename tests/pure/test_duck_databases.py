"""DuckDB's databases are schemas of one instance, apart from each other, and gone once they are closed."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

duckdb = pytest.importorskip("duckdb")

from ivm.engine import duck  # noqa: E402 - needs DuckDB
from ivm.plan.nodes import Column  # noqa: E402

COLUMNS = (Column("a", "bigint"),)


@pytest.fixture(autouse=True)
def _none_begun(monkeypatch):
    monkeypatch.setattr(duck, "_instance", None)


def _made(*values):
    database = duck.Database()
    database.load("t", lambda: pa.table({"a": pa.array(values, pa.int64())}), COLUMNS)
    return database


def _sum(database):
    return database.cursor().execute("SELECT sum(a) FROM t").fetchall()[0][0]


def _schemas():
    found = duck._instance.cursor().sql("SELECT schema_name FROM duckdb_schemas() WHERE schema_name LIKE 'of_%'")
    return found.fetchall()


def test_tables_of_the_same_name_are_each_databases_own():
    first, second = _made(1), _made(2, 3)
    assert (_sum(first), _sum(second)) == (1, 5)
    first.close()
    assert _sum(second) == 5
    with pytest.raises(duckdb.Error):
        _sum(first)


def test_all_are_of_one_instance_and_leave_nothing_there():
    first = _made(1)
    instance = duck._instance
    second = _made(2)
    assert duck._instance is instance
    assert len(_schemas()) == 2
    first.close()
    first.close()
    second.close()
    assert _schemas() == []


def test_one_that_nobody_has_any_more_is_closed():
    _made(1)
    gc.collect()
    assert _schemas() == []


def test_an_instance_that_fails_is_given_up():
    broken = _made(1)
    duck._instance.close()
    whole = _made(2)
    assert _sum(whole) == 2
    broken.close()
    assert _sum(whole) == 2


def test_databases_come_and_go_beside_each_other():
    def worked(n: int) -> int:
        database = _made(*range(n + 1))
        found = _sum(database)
        database.close()
        return found

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(worked, range(200))) == [n * (n + 1) // 2 for n in range(200)]
    assert _schemas() == []


def test_one_that_begins_in_the_background_is_the_one():
    duck.begin()
    for _ in range(1000):
        if duck._instance is not None:
            break
        time.sleep(0.01)
    begun = duck._instance
    duck.begin()
    assert _sum(_made(1)) == 1
    assert duck._instance is begun


def test_settings_stay_as_they_are():
    with pytest.raises(duckdb.Error, match="lock"):
        duck.Database().cursor().execute("SET enable_external_access = true")
