"""Sources without a change feed, of types that Spark reads, and in deltas that stay with Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ivm.planner.limits import EMBEDDED

pytestmark = pytest.mark.spark

DDL = "k bigint, at timestamp, v decimal(38,10), s struct<a:int,b:string>, l array<double>"
VIEWS = {
    "rows": "SELECT * FROM t",
    "all": "SELECT count(*) AS n FROM t",
    "totals": "SELECT k, count(*) AS n, sum(v) AS s, max(at) AS last FROM t GROUP BY k",
}
NEW = "(1, TIMESTAMP '1500-01-01 00:00:00', 1.5, named_struct('a', 1, 'b', NULL), array(0.0D, -0.0D, double('NaN')))"


@pytest.mark.parametrize("limits", [EMBEDDED, replace(EMBEDDED, delta_rows=1)], ids=["small", "staged"])
def test_views_follow_the_files(lake, spark, limits):
    lake.limits = limits
    lake.table("t", DDL, rows=12)
    spark.sql(f"ALTER TABLE {lake.ref('t')} UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')")
    pipe = lake.pipeline(VIEWS, mode="incremental")
    assert pipe.refresh().ok
    statements = (
        f"INSERT INTO {{t}} VALUES {NEW}, {NEW}",
        "UPDATE {t} SET v = v + 1 WHERE k < 3",
        "DELETE FROM {t} WHERE k = 1",
        "RESTORE {t} TO VERSION AS OF 3",
        "INSERT OVERWRITE {t} SELECT * FROM {t} WHERE k > 1",
    )
    for statement in statements:
        spark.sql(statement.format(t=lake.ref("t")))
        report = pipe.refresh()
        assert {v.strategy for v in report.views.values()} <= {"incremental", "unchanged"}, (statement, report)
        lake.compare(pipe, statement)


def test_rows_that_deletion_vectors_hide_are_a_gap(lake, spark):
    lake.table("t", "k bigint, v int", rows=0)
    table = lake.ref("t")
    spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES "
        "('delta.enableChangeDataFeed' = 'false', 'delta.enableDeletionVectors' = 'true')"
    )
    spark.sql(f"INSERT INTO {table} SELECT id, 1 FROM range(0, 100, 1, 1)")
    pipe = lake.pipeline({"totals": "SELECT v, count(*) AS n FROM t GROUP BY v"})
    assert pipe.refresh().ok
    spark.sql(f"DELETE FROM {table} WHERE k = 7")
    report = pipe.refresh()
    assert "it has no feed, and deletion vectors hide rows of its files" in report.views["totals"].reason
    lake.compare(pipe, "deleted")
    spark.sql(f"INSERT INTO {table} VALUES (200, 1)")
    assert pipe.refresh().views["totals"].strategy == "incremental"
    lake.compare(pipe, "inserted")
