"""Dates before 1582 in files of Spark's old calendar, which sources may have and what ivm keeps never has."""

from __future__ import annotations

import pytest

from ivm.session import configured

pytestmark = pytest.mark.spark

VIEWS = {
    "days": "SELECT d, count(*) AS n, max(k) AS k FROM t GROUP BY d",
    "names": "SELECT t.k, d.name FROM t JOIN d ON t.d = d.d",
    "last": "SELECT t.k, max(a.t) AS last FROM t JOIN at a ON t.k = a.k GROUP BY t.k",
    "over": "SELECT n, min(d) AS d, count(*) AS m FROM days GROUP BY n",
}


def test_views_over_files_of_the_old_calendar(lake, spark):
    modes = ("datetimeRebaseModeInWrite", "datetimeRebaseModeInRead", "int96RebaseModeInWrite")
    with configured(spark, {f"spark.sql.parquet.{m}": "LEGACY" for m in modes}):
        lake.table("t", "k bigint, d date", rows=0)
        lake.table("at", "k bigint, t timestamp", rows=0)
        lake.table("d", "d date, name string", rows=0)
        old, older = "DATE'0001-01-01'", "DATE'1500-02-28'"
        spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, {old}), (2, {old}), (3, {older}), (4, DATE'2024-01-01')")
        spark.sql(f"INSERT INTO {lake.ref('d')} VALUES ({old}, 'none'), ({older}, 'old')")
        spark.sql(f"INSERT INTO {lake.ref('at')} SELECT k, CAST(d AS timestamp) FROM {lake.ref('t')}")
        pipe = lake.pipeline(VIEWS, mode="incremental")
        assert pipe.refresh().ok
        lake.compare(pipe, "built")
        for statement in (
            f"INSERT INTO {{t}} VALUES (5, {old}), (6, {older})",
            "DELETE FROM {t} WHERE k IN (1, 3, 6)",
            f"UPDATE {{t}} SET d = {old} WHERE k = 4",
        ):
            spark.sql(statement.format(t=lake.ref("t")))
            report = pipe.refresh()
            assert {v.strategy for v in report.views.values()} <= {"incremental", "unchanged"}, (statement, report)
            lake.compare(pipe, statement)


@pytest.mark.parametrize("feed", [True, False])
def test_old_files_that_came_and_went_between_two_refreshes(lake, spark, feed):
    lake.table("t", "k bigint, d date", rows=0)
    ref = lake.ref("t")
    spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{str(feed).lower()}')")
    spark.sql(f"INSERT INTO {ref} VALUES (1, DATE'2024-01-01')")
    pipe = lake.pipeline({"days": "SELECT d, count(*) AS n FROM t GROUP BY d", "all": "SELECT k, d FROM t"})
    assert pipe.refresh().ok
    with configured(spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"}):
        spark.sql(f"INSERT INTO {ref} VALUES (2, DATE'1500-02-10')")
    with configured(spark, {"spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED"}):
        spark.sql(f"OPTIMIZE {ref}")
        assert pipe.refresh().ok
        lake.compare(pipe, "OPTIMIZE")
        spark.sql(f"INSERT OVERWRITE {ref} SELECT k, d FROM {ref} WHERE k = 2")
        assert pipe.refresh().ok
        lake.compare(pipe, "INSERT OVERWRITE")
