"""Published tables to which their owner gives features that delta-rs doesn't write: Spark publishes there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ivm.lake import native
from ivm.names import table_ref
from ivm.planner.limits import EMBEDDED
from tests.scenes import NIGHTLY

pytestmark = pytest.mark.spark

#: By view what its owner does to its table.
WRITER = {
    "clustered": "CLUSTER BY (k)",
    "mapped": (
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV2' = 'true', "
        "'delta.enableDeletionVectors' = 'false')"
    ),
    "tracked": "SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "timed": "SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
}
#: Those that delta-rs writes as any table, seen by the same steps.
OTHERS = {
    "with_vectors": "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "checkpointed": "SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
}
CHOSEN = WRITER | OTHERS if NIGHTLY else {v: WRITER[v] for v in ("clustered", "mapped")}


@pytest.fixture
def pipe(lake, spark):
    lake.table("t", "k bigint, v int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 1), (1, 2), (2, 2), (3, 9)")
    return lake.pipeline(dict.fromkeys(CHOSEN, "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k"))


def test_a_view_goes_on_whatever_its_table_can(pipe, lake, spark):
    assert pipe.refresh().ok
    tables = {v: pipe.context.layout.table(v, True) for v in CHOSEN}
    for view, does in CHOSEN.items():
        spark.sql(f"ALTER TABLE {table_ref(tables[view])} {does}")
        assert bool(native.unwritable(native.table(tables[view]))) == (view in WRITER), view
    spark.sql(f"DELETE FROM {lake.ref('t')} WHERE v = 2")
    report = pipe.refresh()
    assert {(v.strategy, v.error) for v in report.views.values()} == {("incremental", "")}
    lake.compare(pipe, "merged")
    assert all(not c.error for c in pipe.compact(keep_epochs=1))
    lake.compare(pipe, "compacted")
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (5, 5), (3, 1)")
    pipe.context.limits = replace(EMBEDDED, compare_rows=0)
    for view in CHOSEN:
        assert pipe.backfill(view).ok, "replaced as a whole"
    lake.compare(pipe, "replaced")
    detail = spark.sql(f"DESCRIBE DETAIL {table_ref(tables['clustered'])}").collect()[0]
    assert detail.clusteringColumns == ["k"], "what the owner asked for stays"


def test_a_feature_that_can_not_be_read_is_named(lake, spark):
    lake.table("t", "k bigint, v int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 1), (3, 9)")
    pipe = lake.pipeline({"totals": "SELECT k, sum(v) AS s FROM t GROUP BY k", "other": "SELECT k FROM t"})
    assert pipe.refresh().ok
    table = table_ref(pipe.context.layout.table("totals", True))
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 2)")
    report = pipe.refresh()
    assert "has features that ivm can't read (typeWidening). Drop them: ALTER TABLE" in report.views["totals"].error
    assert not report.views["other"].error
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'false')")
    spark.sql(f"ALTER TABLE {table} DROP FEATURE typeWidening")
    assert pipe.refresh().ok
    lake.compare(pipe, "dropped")
