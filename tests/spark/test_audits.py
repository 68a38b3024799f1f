"""Audits by checksum on Spark: what is kept, brought forward, is what a scan of the table gives, whatever the types."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from ivm.lake.intact import not_as_logged
from ivm.testing.oracle import Lake

pytestmark = pytest.mark.spark

#: Views whose rows hold floats, NULLs, nested values, maps and duplicates.
VIEWS = {
    "rows_": "SELECT k, f, d, s, m, f AS again FROM t",
    "totals": "SELECT s, count(*) AS n, sum(d) AS d, min(f) AS least FROM t GROUP BY s",
}
CHANGES = [
    "INSERT INTO {t} VALUES (100, -0.0D, NULL, 'z', map('a', 0.0D, 'b', -0.0D)), (101, double('NaN'), 1, NULL, NULL)",
    "INSERT INTO {t} SELECT * FROM {t} WHERE k >= 100",
    "UPDATE {t} SET f = 0.0D WHERE k = 100",
    "UPDATE {t} SET f = double('NaN'), m = map('c', double('NaN')) WHERE k < 3",
    "DELETE FROM {t} WHERE k = 101",
    "MERGE INTO {t} USING (SELECT 1 AS k UNION ALL SELECT 200) s ON {t}.k = s.k WHEN MATCHED THEN UPDATE SET s = NULL "
    "WHEN NOT MATCHED THEN INSERT (k, f) VALUES (s.k, -1e300)",
]


def test_what_is_kept_is_brought_forward_by_every_kind_of_change(spark, tmp_path):
    lake = Lake(spark, tmp_path, seed=1)
    lake.table("t", "k int, f double, d decimal(12,2), s string, m map<string,double>", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} SELECT id, id / 7, id, string(id % 5), map('a', id / 3) FROM range(40)")
    pipe = lake.pipeline(VIEWS)
    assert pipe.refresh().ok
    assert all(pipe.audit(view, "checksum").scanned == "no checksum is kept" for view in VIEWS)
    for change in CHANGES:
        spark.sql(change.replace("MERGE INTO {t}", "MERGE INTO {t} t").replace("{t}.k", "t.k").format(t=lake.ref("t")))
        assert pipe.refresh().ok
        for view in VIEWS:
            found = pipe.audit(view, "checksum")
            assert (bool(found), found.scanned) == (True, ""), f"{change}: {found}"
            assert found.rows_read <= 24, f"{change}: {found}"
    spark.sql(f"OPTIMIZE {lake.ref('t')}")
    pipe.compact(0)
    assert all(pipe.audit(view, "checksum") for view in VIEWS)
    assert all(pipe.audit(view, "checksum", rescan=True) for view in VIEWS)
    for view in VIEWS:
        table = pipe.context.layout.table(view, True)
        assert not_as_logged(table) == "", "whoever wrote the files, their dates are those of the log"
        DeltaTable(table).update(updates={"s": "'other'"}, predicate="s = '3'")
        assert not pipe.audit(view, "checksum")
