"""Both lanes read the same: what `native.refusal` lets through, delta-rs reads exactly as Spark does.

The allow-list (`READABLE_TYPES`, `READABLE_FEATURES`) is held against this file: a name on it that no table here has
fails.
"""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from ivm.feed.deltas import _by_spark
from ivm.feed.source import Source, inspect
from ivm.lake import hiding, native, vectors
from ivm.lake.keyed import KeyedReader
from ivm.lake.parquet_scan import ParquetScan
from ivm.lake.shapes import plain
from ivm.lake.types import READABLE_TYPES
from ivm.plan.anchors import keyable
from ivm.storage.location import Location
from ivm.testing.types import EDGES, TypedLake
from ivm.zset.exact import hashable
from ivm.zset.weighted import of_change_feed

pytestmark = pytest.mark.spark

#: By the name of the type in Delta's schema.
DDL = {
    "byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "float": "float", "double": "double",
    "boolean": "boolean", "string": "string", "binary": "binary", "date": "date", "timestamp_ntz": "timestamp_ntz",
    "decimal": "decimal(38,10)",
}  # fmt: skip
NESTED = [
    "varchar(5)",
    "decimal(38,38)",
    "struct<a:double,b:array<timestamp_ntz>>",
    "array<struct<a:decimal(38,0),b:binary>>",
    "map<date,array<float>>",
]
FEATURES = {
    "deletionVectors": "'delta.enableDeletionVectors' = 'true'",
    "timestampNtz": "'delta.feature.timestampNtz' = 'supported'",
    "v2Checkpoint": "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'",
}


def bag(rows: pa.Table) -> Counter:
    return Counter(zip(*(hashable(c) for c in plain(rows).columns), strict=True))


def assert_same_rows(native_rows: pa.Table, spark_rows: pa.Table, what: str) -> None:
    columns = native_rows.column_names
    assert columns == spark_rows.column_names, what
    for name in columns:
        one, other = (bag(t.select(["k", name] if "k" in columns else [name])) for t in (native_rows, spark_rows))
        assert one == other, (
            f"{what}, column {name}: delta-rs only {list((one - other).items())[:2]}, "
            f"Spark only {list((other - one).items())[:2]}"
        )
    assert bag(native_rows) == bag(spark_rows), what


@pytest.fixture(params=[(), tuple(FEATURES)], ids=["plain", "features"])
def lake(spark, tmp_path, request):
    lake = TypedLake(spark, tmp_path, seed=11)
    lake.properties = ", ".join(FEATURES[f] for f in request.param)
    lake.table("t", [*DDL.values(), *NESTED], rows=25)
    ref = lake.ref("t")
    spark.sql(f"DELETE FROM {ref} WHERE k % 5 = 1")
    spark.sql(f"UPDATE {ref} SET c5 = -c5, c7 = NULL WHERE k % 5 = 2")
    lake.insert("t", 5)
    spark.sql(
        f"MERGE INTO {ref} t USING (SELECT k + 1 AS k FROM {ref} WHERE k % 3 = 0) s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET t.c4 = 7.5 WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
    )
    assert set(request.param) <= set(native.table(lake.path("t")).protocol().reader_features or ())
    return lake


def test_the_list_is_what_is_tested():
    assert set(DDL) == READABLE_TYPES
    assert set(FEATURES) == native.READABLE_FEATURES


def test_snapshot_slices_and_feed_are_the_same(lake, spark, tmp_path):
    path, ref = lake.path("t"), lake.ref("t")
    delta = native.table(path)
    assert native.refusal(delta) == ""
    rows = spark.sql(f"SELECT * FROM {ref}").toArrow()
    assert_same_rows(native.read(delta), rows, "snapshot")
    assert_same_rows(
        native.read(native.table(path, 1)),
        spark.sql(f"SELECT * FROM {ref} VERSION AS OF 1").toArrow(),
        "an old snapshot",
    )
    snapshot = inspect(Source("t", path), lambda: spark, "spark")
    names = rows.column_names
    feed = of_change_feed(native.change_feed(delta, 1, delta.version(), names, 1000), names)
    assert_same_rows(feed, _by_spark(snapshot, 1, delta.version(), names, 1000, spark), "feed")
    for i, (name, type_) in enumerate(lake.tables["t"].items()):
        if keyable(type_):
            wanted = pa.table({"k0": rows[name].combine_chunks().unique()[:3]})
            keys = [([name], wanted, False)]
            found = KeyedReader(path, delta).find(names, keys, Location.of(str(tmp_path / f"slice_{i}")))
            spark.createDataFrame(wanted).createOrReplaceTempView("wanted_keys")
            expected = spark.sql(f"SELECT t.* FROM {ref} t LEFT SEMI JOIN wanted_keys w ON t.{name} <=> w.k0").toArrow()
            assert_same_rows(found, expected, f"slice by {name}")
            flat = [n for n in names if not pa.types.is_nested(rows.schema.field(n).type)]
            if not pa.types.is_floating(wanted.schema.field(0).type) and not pa.types.is_timestamp(wanted["k0"].type):
                scanned = ParquetScan(path, delta).find(flat, keys, "true", None)
                assert_same_rows(scanned, expected.select(flat), f"scan by {name}")


REFUSED = {
    "char": ("c char(5)", "", "pads"),
    "a char inside": ("c struct<a:array<char(3)>>", "", "pads"),
    "variant": ("c variant", "", "variant"),
    "timestamp": (
        "c array<timestamp>",
        "",
        "timestamp",
    ),  # INT96: delta-rs reads the years before 1678 and after 2262 wrong
    "void": ("c void", "", "void"),
    "partitions": ("c int", "PARTITIONED BY (c)", "partition"),
    "column mapping": ("c int", "'delta.columnMapping.mode' = 'name'", "column mapping"),
    "vacuum check": (
        "c int",
        "'delta.feature.vacuumProtocolCheck' = 'supported'",
        "vacuumProtocolCheck",
    ),  # its query engine refuses it
    "type widening": ("c int", "'delta.enableTypeWidening' = 'true'", "typeWidening"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_anything_else_goes_to_spark(spark, tmp_path, case):
    column, extra, expected = REFUSED[case]
    partitioned, properties = (extra, "") if extra.startswith("PARTITIONED") else ("", extra)
    given = ", ".join(["'delta.enableChangeDataFeed' = 'true'", *([properties] if properties else [])])
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (k int, {column}) USING delta {partitioned} TBLPROPERTIES ({given})")
    assert expected in native.refusal(native.table(f"{tmp_path}/t"))


def test_files_with_deletion_vectors_are_counted_as_delta_rs_finds_them(spark, tmp_path, monkeypatch):
    ref = f"delta.`{tmp_path}/t`"
    spark.sql(
        f"CREATE TABLE {ref} (k int) USING delta TBLPROPERTIES "
        "('delta.enableDeletionVectors' = 'true', 'delta.checkpointInterval' = '3')"
    )
    for part in range(4):
        spark.sql(f"INSERT INTO {ref} SELECT /*+ COALESCE(1) */ id * 4 + {part} FROM range(10)")
    for gone in ("k IN (0, 1)", "k = 4", "k % 4 = 2", "k = 3", "k = 5"):
        spark.sql(f"DELETE FROM {ref} WHERE {gone}")
        delta = native.table(f"{tmp_path}/t")
        found = {b for batch in delta.deletion_vectors() for b in pa.record_batch(batch)["filepath"].to_pylist()}
        counted = vectors.of(Location.of(f"{tmp_path}/t"), delta.version())
        assert counted is not None
        assert set(counted) == {path.rpartition("/")[2] for path in found}
        assert native.rows(delta) == spark.sql(f"SELECT count(*) FROM {ref}").first()[0]
        hides = {name: vector.rows for name, vector in counted.items()}
        assert {name: len(rows) for name, rows in vectors.hidden(delta).items()} == hides
    assert len(counted) == 3
    assert native.refusal(delta) == ""
    monkeypatch.setattr(hiding, "HIDING", 2)
    assert "3 files with deletion vectors" in native.refusal(delta)


def test_every_type_has_edges():
    assert set(DDL.values()) <= EDGES.keys()
