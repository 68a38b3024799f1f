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


@pytest.mark.parametrize("limits", [EMBEDDED, replace(EMBEDDED, delta_rows=1)], ids=["small", "staged"])
def test_a_column_may_be_called_like_one_of_a_feed(lake, spark, limits):
    """A feed that was saved: it can't have one of its own, and its times are read by Spark."""
    lake.limits = limits
    columns = {"id": "bigint", "_change_type": "string", "_commit_timestamp": "timestamp"}
    lake.tables["t"] = [*columns.items()]
    spark.sql(f"CREATE TABLE {lake.ref('t')} ({', '.join(f'{c} {t}' for c, t in columns.items())}) USING delta")
    rows = ", ".join(f"({i}, '{t}', TIMESTAMP'2024-01-01 00:00:00')" for i in (1, 2) for t in ("insert", "delete"))
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES {rows}")
    counted = "SELECT id, _change_type AS kind, count(*) AS n FROM t GROUP BY id, _change_type"
    pipe = lake.pipeline({"counted": counted}, mode="incremental")
    assert pipe.refresh().ok
    for statement in (f"INSERT INTO {{t}} VALUES {rows}", "DELETE FROM {t} WHERE id = 1"):
        spark.sql(statement.format(t=lake.ref("t")))
        assert pipe.refresh().views["counted"].strategy == "incremental", statement
        lake.compare(pipe, statement)


def test_a_feed_is_on_however_true_is_written(lake, spark):
    """Delta keeps the text; files alone don't hold the columns that a table is partitioned by."""
    place = lake.ref("t")
    lake.tables["t"] = [("k", "bigint"), ("v", "int"), ("day", "string")]
    spark.sql(
        f"CREATE TABLE {place} (k bigint, v int, day string) USING delta PARTITIONED BY (day) "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'True')"
    )
    spark.sql(f"INSERT INTO {place} VALUES (1, 1, 'a'), (2, 2, 'b')")
    pipe = lake.pipeline({"totals": "SELECT day, sum(v) AS s, count(*) AS n FROM t GROUP BY day"}, mode="incremental")
    assert pipe.refresh().ok
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 9 days')")
    spark.sql(f"INSERT INTO {place} VALUES (3, 7, 'a')")
    assert pipe.refresh().views["totals"].strategy == "incremental"
    lake.compare(pipe, "inserted")
