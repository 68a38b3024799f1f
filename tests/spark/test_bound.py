"""Rows of this process that Spark is given: how it reads them."""

from __future__ import annotations

import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from ivm.feed.bound import Bound, register
from ivm.plan.nodes import Column
from ivm.session import statements
from ivm.storage.location import Location

pytestmark = pytest.mark.spark

COLUMNS = (Column("k", "bigint"), Column("v", "bigint"))
#: The shape of a delta: terms that join and semijoin, added up by rows.
DELTA = """
    SELECT k, sum(w) AS w FROM (
        SELECT a.k, b.v AS w FROM one AS a JOIN other AS b ON a.k = b.k
            WHERE EXISTS (SELECT 1 FROM other AS c WHERE c.v = a.v)
        UNION ALL
        SELECT b.k, -b.v AS w FROM other AS b LEFT JOIN one AS a ON a.k = b.k AND a.v > 1
    ) GROUP BY k HAVING sum(w) <> 0
"""


@pytest.fixture
def given(spark, tmp_path):
    """Two names that stand for rows."""
    for name, step in (("one", 1), ("other", 2)):
        rows = pa.table({"k": [n * step for n in range(50)], "v": list(range(50))})
        register(spark, name, rows, COLUMNS, Location.of(str(tmp_path)), 50)
    yield spark
    for name in ("one", "other"):
        spark.catalog.dropTempView(name)


def plan(frame, capsys):
    capsys.readouterr()
    frame.explain()
    return capsys.readouterr().out


def test_few_rows_are_joined_and_grouped_without_a_shuffle(given, capsys):
    with statements(given, small=True):
        frame = given.sql(DELTA)
        shown = plan(frame, capsys)
        found = Counter(map(tuple, frame.collect()))
    assert re.findall(r"(?<!Broadcast)Exchange", shown) == []
    assert "BroadcastExchange" in shown, "the plan was read"
    joined = {k: k // 2 for k in range(0, 50, 2)}
    assert found == Counter((2 * n, joined.get(2 * n, 0) - n) for n in range(50) if joined.get(2 * n, 0) != n)


def test_many_rows_are_read_by_several_tasks(spark, tmp_path, capsys):
    register(spark, "many", pa.table({"k": range(50), "v": range(50)}), COLUMNS, Location.of(str(tmp_path)), 49)
    try:
        assert "Coalesce" not in plan(spark.table("many"), capsys)
        assert spark.table("many").count() == 50
    finally:
        spark.catalog.dropTempView("many")


def test_a_name_that_another_thread_is_giving_is_waited_for(spark, tmp_path, monkeypatch):
    """Who runs a statement meanwhile must find it there."""
    bound = Bound(lambda: spark, Location.of(str(tmp_path)), 50)
    bound.bind("shared", pa.table({"k": [1, 2], "v": [3, 4]}), COLUMNS)
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*asked):
        begun.set()
        assert go_on.wait(60)
        register(*asked)

    monkeypatch.setattr("ivm.feed.bound.register", slowly)
    sql = "SELECT sum(v) AS v FROM `shared`"

    def asked():
        bound.ready(sql)
        return spark.sql(sql).collect()[0].v

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(asked)
        assert begun.wait(60)
        second = pool.submit(asked)
        assert not second.done()
        go_on.set()
        assert (first.result(60), second.result(60)) == (7, 7)
    bound.drop(["shared"])
    assert not spark.catalog.tableExists("shared")
    assert bound.readable("shared") is None
