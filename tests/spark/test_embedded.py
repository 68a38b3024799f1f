"""Views that are refreshed by the embedded engine equal Spark's recompute after each batch; TPC-H's are portable."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ivm.demo.tpch import TABLES
from ivm.names import table_ref
from ivm.pipeline import Pipeline
from ivm.planner.limits import EMBEDDED
from ivm.testing.oracle import Lake
from tests.scenes import NIGHTLY

pytestmark = pytest.mark.spark

VIEWS = {
    "joined": "SELECT a.k, a.v, b.s FROM a JOIN b ON a.k = b.k WHERE a.v > 1",
    "padded": "SELECT a.k, b.s, b.p FROM a LEFT JOIN b ON a.k = b.k AND b.p > 2",
    "both": "SELECT a.k AS ka, b.k AS kb, a.v, b.d FROM a FULL JOIN b ON a.k = b.k",
    "partners": "SELECT a.v, count(b.s) AS n, sum(b.p) AS t FROM a LEFT JOIN b ON a.k = b.k AND b.p > 1 GROUP BY a.v",
    "sums": (
        "SELECT b.s, sum(a.p) AS t, avg(a.p) AS m, avg(a.v) AS w, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY b.s"
    ),
    "shares": (
        "SELECT k, sum(p) / count(*) AS q, sum(CASE WHEN v > 2 THEN p ELSE 0 END) / sum(p + 1) AS r FROM a GROUP BY k"
    ),
    "extremes": "SELECT k, min(d) AS least, max(s) AS most, count(DISTINCT p) AS n FROM b GROUP BY k",
    "whole": "SELECT count(*) AS n, sum(v) AS s, max(p) AS m FROM a",
    "none_of": "SELECT k, v FROM a WHERE k NOT IN (SELECT k FROM b WHERE p > 3 AND k IS NOT NULL)",
    "some": "SELECT k, p FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.s LIKE '%b%')",
    "ranked": "SELECT k, v, p, rank() OVER (PARTITION BY k ORDER BY p DESC) AS r FROM a",
    "first": "SELECT k, v, p FROM a ORDER BY p DESC, k, v LIMIT 5",
    "doubles": "SELECT k, x, x * 2 AS y FROM b WHERE x IS NOT NULL",
    "once": "SELECT k FROM a UNION SELECT k FROM b",
    "over": "SELECT s, n FROM sums WHERE n > 1",
    "dated": (
        "SELECT year(d) AS y, d + INTERVAL '1' MONTH AS m, count(*) AS n FROM b "
        "GROUP BY year(d), d + INTERVAL '1' MONTH"
    ),
}
#: What isn't on the list, with what the reason names.
WITH_SPARK = {
    "listed": ("SELECT k, sort_array(collect_list(v)) AS vs FROM a GROUP BY k", "array_sort|sort_array|collect_list")
}


def test_views_equal_their_recompute_after_each_batch(spark, tmp_path):
    lake = Lake(spark, tmp_path, seed=5, engine="auto")
    lake.limits = replace(EMBEDDED, few_first_rows=-1)  # first rows from the stored ones, too
    spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION ivm_next(x BIGINT) RETURNS BIGINT RETURN x + 1")
    lake.table("a", "k int, v bigint, p decimal(15,2)", rows=40)
    lake.table("b", "k int, s string, d date, p decimal(7,3), x double", rows=30)
    views = VIEWS | {name: sql for name, (sql, _) in WITH_SPARK.items()}
    pipe = lake.pipeline(views)
    assert lake.differences(pipe) == {}
    ran: dict[str, set[str]] = {}
    for _ in range(4 if NIGHTLY else 2):
        for name in ("a", "b", "a"):
            lake.change(name)
        report = pipe.refresh()
        assert {n: v.error for n, v in report.views.items() if v.error} == {}
        for name, told in report.views.items():
            ran.setdefault(name, set()).update({told.engine} - {""})
        assert lake.differences(pipe) == {}
    for name in VIEWS:
        assert ran[name] == {"embedded"}, (name, ran[name])
    for name, (_, why) in WITH_SPARK.items():
        assert all(engine.startswith("spark: ") and re.search(why, engine, re.I) for engine in ran[name])
        assert ran[name]
        assert re.search(why, pipe.explain(name).spark[name], re.I)


#: The columns of TPC-H's tables, as tpchgen-cli makes them.
COLUMNS = {
    "region": "r_regionkey bigint, r_name string, r_comment string",
    "nation": "n_nationkey bigint, n_name string, n_regionkey bigint, n_comment string",
    "supplier": (
        "s_suppkey bigint, s_name string, s_address string, s_nationkey bigint, s_phone string, "
        "s_acctbal decimal(15,2), s_comment string"
    ),
    "customer": (
        "c_custkey bigint, c_name string, c_address string, c_nationkey bigint, c_phone string, "
        "c_acctbal decimal(15,2), c_mktsegment string, c_comment string"
    ),
    "part": (
        "p_partkey bigint, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
        "p_container string, p_retailprice decimal(15,2), p_comment string"
    ),
    "partsupp": (
        "ps_partkey bigint, ps_suppkey bigint, ps_availqty int, ps_supplycost decimal(15,2), ps_comment string"
    ),
    "orders": (
        "o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2), o_orderdate date, "
        "o_orderpriority string, o_clerk string, o_shippriority int, o_comment string"
    ),
    "lineitem": (
        "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int, l_quantity decimal(15,2), "
        "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag string, "
        "l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, "
        "l_shipmode string, l_comment string"
    ),
}


def test_all_statements_of_tpch_are_portable(spark, tmp_path, monkeypatch):
    for table in TABLES:
        spark.sql(
            f"CREATE TABLE {table_ref(f'{tmp_path}/sources/{table}')} ({COLUMNS[table]}) USING delta "
            "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
    monkeypatch.setenv("IVM_TPCH_SOURCES", f"{tmp_path}/sources")
    monkeypatch.setenv("IVM_TPCH_ROOT", f"{tmp_path}/root")
    pipe = Pipeline.load(Path(__file__).parents[2] / "pipelines" / "tpch", spark)
    told = {unit: why for view in pipe.context.views for unit, why in pipe.explain(view).spark.items()}
    assert {unit: why for unit, why in told.items() if why} == {}
    assert set(told) == {u.name for c in pipe.context.compiled.values() for u in c.program.units}
