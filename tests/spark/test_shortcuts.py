"""Ways to read less: a threshold that moved, a LIMIT from its stored rows.

Each equals a recompute and reads no whole input.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ivm.refresh.incremental
from ivm.feed.datasets import Datasets
from ivm.planner.limits import EMBEDDED
from tests.scenes import NIGHTLY

pytestmark = pytest.mark.spark


@pytest.fixture
def large(lake):
    """Take every relation but one-row ones for large, so that walks have to find their way."""
    lake.limits = replace(EMBEDDED, whole_rows=1, few_first_rows=-1)


@pytest.fixture
def wholes(monkeypatch):
    """The relations that were asked for whole."""
    asked = []
    load = Datasets.load

    def noted(self, requests):
        asked.extend(requests.whole)
        load(self, requests)

    monkeypatch.setattr(Datasets, "load", noted)
    return asked


THRESHOLDS = {
    "above_average": "SELECT k, v FROM t WHERE v > (SELECT avg(v) FROM t)",
    "above_share": "SELECT g, sum(p) AS s FROM t GROUP BY g HAVING sum(p) > (SELECT sum(p) * 0.1 FROM t)",
    "without_partner": (
        "SELECT k, p FROM t WHERE p >= (SELECT avg(p) FROM t WHERE v > 1) "
        "AND NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)"
    ),
    "below": "SELECT g, count(*) AS n FROM t WHERE (SELECT max(w) FROM u) >= v GROUP BY g",
    "read_twice": "SELECT t.k, m.a FROM t CROSS JOIN (SELECT avg(v) AS a FROM t) m WHERE t.v > m.a",
}


def tables(lake):
    lake.table("t", "k int, g int, v int, p decimal(10,2)", rows=60)
    lake.table("u", "k int, w double", rows=12)


def test_thresholds_that_move_equal_a_recompute(lake, large):
    tables(lake)
    pipe = lake.pipeline(THRESHOLDS, mode="incremental")
    assert pipe.refresh().ok
    for _ in range(6 if NIGHTLY else 2):
        for name in ("t", "u", "t"):
            lake.change(name)
        assert lake.differences(pipe) == {}
    lake.spark.sql(f"DELETE FROM {lake.ref('t')}")  # now averages are NULL
    assert lake.differences(pipe) == {}
    lake.insert("t", 5)
    assert lake.differences(pipe) == {}


def test_a_threshold_that_moved_reads_only_rows_between_its_values(lake, spark, large, wholes):
    lake.table("t", "k int, v int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} SELECT id, id FROM range(1000)")
    pipe = lake.pipeline({"above": "SELECT k, v FROM t WHERE v > (SELECT avg(v) FROM t)"}, mode="incremental")
    pipe.refresh()
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (5000, 5000)")
    wholes.clear()
    assert lake.differences(pipe) == {}
    assert "t" not in wholes
    outcomes = pipe.context.log.outcomes(pipe.context.log.manifest().epoch)
    assert outcomes["above"].rows_read < 20
    assert outcomes["above"].rows_out == 5  # 500 to 503 are no longer above the average, 5000 is


TOPS = {
    "first": "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 5",
    "of_groups": "SELECT g, sum(p) AS s FROM t GROUP BY g ORDER BY s DESC LIMIT 3",
    "ties": "SELECT v, g FROM t ORDER BY v LIMIT 4",
    "more_than_there_is": "SELECT k, v FROM t ORDER BY v LIMIT 5000",
    "joined": "SELECT t.k, u.w FROM t JOIN u ON t.k = u.k ORDER BY u.w, t.k LIMIT 6",
    "nothing": "SELECT k FROM t ORDER BY k LIMIT 0",
    "offset": "SELECT k, v FROM t ORDER BY v, k LIMIT 3 OFFSET 2",
}


def test_limits_equal_a_recompute(lake, large):
    tables(lake)
    pipe = lake.pipeline(TOPS, mode="incremental")
    assert pipe.refresh().ok
    for _ in range(8 if NIGHTLY else 3):
        for name in ("t", "u", "t"):
            lake.change(name)
        assert lake.differences(pipe) == {}


def test_a_limit_reads_its_input_only_where_a_row_may_come_up(lake, spark, large, wholes):
    lake.table("t", "k int, v int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} SELECT id, id FROM range(1000)")
    pipe = lake.pipeline({"first": "SELECT k, v FROM t ORDER BY v DESC LIMIT 3"}, mode="incremental")
    pipe.refresh()
    for change, whole in (
        ("INSERT INTO {t} VALUES (2000, 2000)", False),
        ("DELETE FROM {t} WHERE k = 10", False),
        ("UPDATE {t} SET v = v + 1 WHERE k = 2000", False),
        ("DELETE FROM {t} WHERE k = 2000", True),
        ("UPDATE {t} SET v = 0 WHERE k = 999", True),
    ):
        spark.sql(change.format(t=lake.ref("t")))
        wholes.clear()
        assert lake.differences(pipe) == {}, change
        assert ("t" in wholes) == whole, change


def test_counts_that_nobody_looks_up_are_a_stream(lake, spark, tmp_path):
    """`count_total`: the inner counts keep accumulators and deltas, no rows.

    A rebuild of what reads them takes the accumulators.
    """
    tables(lake)
    sql = (
        "SELECT n, count(*) AS groups, sum(s) AS s "
        "FROM (SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g) GROUP BY n"
    )
    pipe = lake.pipeline({"histogram": sql}, mode="incremental")
    assert lake.differences(pipe) == {}
    inner = next(u for u in pipe.context.compiled["histogram"].program.units if not u.arranged)
    assert "a stream" in str(pipe.explain("histogram"))
    for number in range(4):
        lake.change("t")
        assert lake.differences(pipe) == {}
        if number == 1:
            pipe.compact(keep_epochs=0)
        if number == 2:
            pipe.backfill("histogram", "n > 0")
            assert pipe.verify("histogram")
    spark.sql(f"DELETE FROM {lake.ref('t')}")
    assert lake.differences(pipe) == {}
    assert not Path(pipe.context.layout.table(inner.name, False)).exists()
    assert pipe.context.log.manifest().units[inner.name].rows == 0
    pipe.backfill("histogram")
    lake.insert("t", 5)
    assert lake.differences(pipe) == {}


LARGE = {
    "projected": "SELECT k, p * 2 AS twice FROM t WHERE v % 3 = 0",
    "sums": "SELECT g, sum(p) AS s, avg(v) AS a, count(*) AS n FROM t GROUP BY g",
    "joined": "SELECT t.k, t.p, u.w FROM t JOIN u ON u.k = t.g",
    "lacking": "SELECT t.k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.g)",
    "padded": "SELECT u.k, sum(t.p) AS s FROM u LEFT JOIN t ON t.g = u.k GROUP BY u.k",
    "greatest": "SELECT g, max(p) AS m FROM t GROUP BY g",
    "first": "SELECT k, row_number() OVER (PARTITION BY g ORDER BY p DESC) AS n FROM t QUALIFY n <= 2",
}


def test_large_changes_run_as_compiled_statements_and_equal_a_recompute(lake, spark, monkeypatch):
    kinds = []
    inner = ivm.refresh.threads.statements

    def noted(spark, small):
        kinds.append(small)
        return inner(spark, small)

    monkeypatch.setattr(ivm.refresh.threads, "statements", noted)
    lake.table("t", "k int, g int, v int, p decimal(10,2)", rows=0)
    lake.table("u", "k int, w double", rows=0)
    spark.sql(
        f"INSERT INTO {lake.ref('t')} SELECT id, id % 5000, id % 7, CAST(id % 1000 AS decimal(10,2)) FROM range(250000)"
    )
    spark.sql(f"INSERT INTO {lake.ref('u')} SELECT id * 2, id FROM range(4000)")
    pipe = lake.pipeline(LARGE, mode="incremental")
    pipe.refresh()
    for change in (
        (
            f"INSERT INTO {lake.ref('t')} "
            "SELECT 250000 + id, id % 6000, id % 7, CAST(id % 900 AS decimal(10,2)) FROM range(210000)"
        ),
        f"UPDATE {lake.ref('t')} SET p = p + 1, g = g + 1 WHERE k % 4 = 0",
        f"DELETE FROM {lake.ref('t')} WHERE v = 2",
    ):
        spark.sql(change)
        kinds.clear()
        report = pipe.refresh()
        assert {v.error for v in report.views.values()} == {""}
        assert False in kinds
        assert {n: pipe.verify(n).equal for n in LARGE} == dict.fromkeys(LARGE, True)
