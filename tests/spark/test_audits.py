"""Audits by checksum on Spark: what is kept, brought forward, is what a scan of the table gives, whatever the types."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.lake.intact import not_as_logged
from ivm.plan.nodes import Column
from ivm.refresh.checksums import row_hash
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


#: By type, values (SQL) of which no two are equal; Spark's hash of them alone takes some for each other.
NESTED = {
    "array<int>": [
        "NULL", "CAST(array() AS array<int>)", "array(CAST(NULL AS int))", "array(CAST(NULL AS int), NULL)",
        "array(1)", "array(1, NULL)", "array(NULL, 1)",
    ],
    "array<array<int>>": ["array(array(1), array(2))", "array(array(1, 2))", "array(array(1, 2), array())"],
    "struct<x:int,y:array<double>>": [
        "NULL", "named_struct('x', NULL, 'y', NULL)", "named_struct('x', 1, 'y', array())",
        "named_struct('x', 1, 'y', NULL)", "named_struct('x', NULL, 'y', array(1D))",
        "named_struct('x', NULL, 'y', array(1D, NULL))", "named_struct('x', NULL, 'y', array(double('NaN')))",
    ],
    "map<string,string>": [
        "NULL", "map()", "map('a', NULL, 'b', 'x')", "map('a', 'b', 'x', NULL)", "map('b', 'x', 'a', 'b')",
    ],
    "map<int,map<int,double>>": [
        "map(1, map(2, 3D))", "map(1, map(2, NULL))", "map(1, map())", "map(1, NULL)", "map(1, map(), 2, map())",
        "map(1, map(1, NULL), 2, map(1, 2D))", "map(1, map(1, NULL, 2, 2D))",
    ],
    "array<map<int,int>>": ["array(map(1, 2))", "array(map(1, NULL))", "array(map())", "array(NULL, map())"],
}  # fmt: skip


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_nested_values_are_told_apart_by_their_hash(spark, ansi):
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for type_, values in NESTED.items():
            rows = " UNION ALL ".join(f"SELECT CAST({v} AS {type_}) AS a" for v in values)
            found = spark.sql(f"SELECT {row_hash([Column('a', type_)])} AS h FROM ({rows})").collect()
            assert len({r.h for r in found}) == len(values), type_
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


def test_an_audit_by_checksum_finds_nested_values_that_differ(spark, tmp_path):
    lake = Lake(spark, tmp_path, seed=1)
    lake.table("t", "k int, a array<int>, s struct<x:int,y:int>", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, array(1, 2), named_struct('x', 1, 'y', CAST(NULL AS int)))")
    pipe = lake.pipeline({"rows_": "SELECT k, a, s FROM t"})
    assert pipe.refresh().ok
    assert pipe.audit("rows_", "checksum")
    assert pipe.audit("rows_", "checksum").scanned == ""
    place = pipe.context.layout.audits / "rows_.json"
    kept = json.loads(place.read().decode())
    place.write(json.dumps({k: v for k, v in kept.items() if k != "meaning"}).encode())
    assert pipe.audit("rows_", "checksum").scanned == "what is kept is the sum of other hashes", "an older ivm's"
    path = pipe.context.layout.table("rows_", True)
    schema = DeltaTable(path).to_pyarrow_table().schema
    for other in ({"a": [1, None, 2]}, {"s": {"x": None, "y": 1}}):
        row = {"k": 1, "a": [1, 2], "s": {"x": 1, "y": None}} | other
        write_deltalake(path, pa.Table.from_pylist([row], schema), mode="overwrite")
        assert not pipe.audit("rows_", "checksum"), other
