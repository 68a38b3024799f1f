"""Every type that Delta stores, through feed, deltas, traces, gate, merge and verify: random tables, changes and views.

Nightly: IVM_TYPES_SEEDS=20 (or IVM_NIGHTLY=1) tries that many tables of random nested types.
"""

from __future__ import annotations

import os

import pytest

from ivm.lake import native
from ivm.testing.types import TypedLake, changed_bag, differences, exact_bag, typed_views

pytestmark = pytest.mark.spark

SEEDS = int(os.environ.get("IVM_TYPES_SEEDS", "20" if os.environ.get("IVM_NIGHTLY") else "0"))
#: Tables whose columns hold every type of `EDGES` and each way to nest them.
PACKS = {
    "scalars": [
        "double",
        "string",
        "binary",
        "timestamp_ntz",
        "float",
        "decimal(38,38)",
        "smallint",
        "boolean",
        "date",
        "varchar(5)",
        "decimal(38,10)",
        "timestamp",
    ],
    "nested": [
        "struct<a:double,b:array<string>>",
        "array<struct<a:decimal(38,0),b:float>>",
        "map<string,array<double>>",
        "map<date,struct<a:binary,b:int>>",
    ],
    "padded": [
        "char(5)",
        "struct<a:char(3),b:varchar(5)>",
        "array<char(5)>",
        "tinyint",
        "variant",
        "array<variant>",
        "bigint",
    ],
}


def follow(lake: TypedLake, views: dict[str, str], batches: int, lane: str = "auto") -> None:
    pipe = lake.pipeline(views, lane)
    # What a first build gets wrong is still wrong after a batch, so it isn't compared by itself.
    assert pipe.refresh().ok
    for batch in range(batches):
        kinds = [lake.change("t") for _ in range(4)]
        found = differences(lake, pipe, views, verify=batch == batches - 1)
        assert not found, f"seed {lake.seed}, {lane} lane, {lake.tables}, after {kinds}: {found}"


@pytest.mark.parametrize("pack", PACKS)
def test_types_follow_their_changes(spark, tmp_path, pack):
    lake = TypedLake(spark, tmp_path, seed=len(pack))
    follow(lake, typed_views("t", lake.table("t", PACKS[pack])), batches=1)


def test_types_in_the_spark_lane(spark, tmp_path):
    lake = TypedLake(spark, tmp_path, seed=3)
    columns = lake.table("t", ["double", "timestamp", "decimal(38,0)", "map<int,array<float>>"])
    follow(
        lake,
        {n: v for n, v in typed_views("t", columns).items() if n in ("project", "pairs", "ends")},
        batches=1,
        lane="spark",
    )


@pytest.mark.skipif(not SEEDS, reason="nightly: set IVM_TYPES_SEEDS")
@pytest.mark.parametrize("lane", ["auto", "spark"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_types(spark, tmp_path, seed, lane):
    lake = TypedLake(spark, tmp_path, seed=seed)
    columns = lake.table("t", [lake.type(lake.random.choice([0, 1, 2])) for _ in range(5)])
    follow(lake, typed_views("t", columns, joined=2), batches=3, lane=lane)


def test_char_columns_are_padded_as_spark_pads_them(spark, tmp_path):
    lake = TypedLake(spark, tmp_path)
    lake.table("t", ["char(5)", "char(3)"], rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 1, 'a', 'a'), (2, 1, 'b', NULL)")
    views = {
        "lengths": "SELECT k, c0, length(c0) AS n FROM t",
        "groups": "SELECT c0, count(*) AS n FROM t GROUP BY c0",
        "compared": "SELECT k FROM t WHERE c0 = 'a'",
        "joined": "SELECT a.k, b.k AS j FROM t a JOIN t b ON a.c0 = b.c1",
        "above": "SELECT k, c0 AS x FROM lengths WHERE c0 = 'a'",
        "mixed": "SELECT c0 AS x FROM t UNION ALL SELECT c1 FROM t",
    }
    pipe = lake.pipeline(views)
    assert not differences(lake, pipe, views)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (3, 1, 'a', 'a'), (4, 1, 'b', 'a'), (5, 1, 'b', 'a')")
    spark.sql(f"DELETE FROM {lake.ref('t')} WHERE k < 3")
    report = pipe.refresh()
    assert not differences(lake, pipe, views)
    assert {n: v.strategy for n, v in report.views.items()} == {
        "lengths": "incremental", "groups": "incremental", "mixed": "incremental", "compared": "full", "joined": "full",
        "above": "full",
    }  # fmt: skip
    assert "Spark pads" in report.views["compared"].reason


def test_a_char_that_becomes_a_string_is_another_definition(spark, tmp_path):
    lake = TypedLake(spark, tmp_path)
    lake.table("t", ["char(5)"], rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 1, 'a')")
    views = {"lengths": "SELECT k, c0, length(c0) AS n FROM t"}
    assert not differences(lake, lake.pipeline(views), views)
    spark.sql(f"ALTER TABLE {lake.ref('t')} ALTER COLUMN c0 TYPE string")
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (2, 1, 'b')")
    assert not differences(lake, lake.pipeline(views), views)


def test_not_null_dropped_on_a_source_column(spark, tmp_path):
    lake = TypedLake(spark, tmp_path)
    lake.tables["t"] = {"k": "bigint", "s": "struct<a:int>"}
    spark.sql(
        f"CREATE TABLE {lake.ref('t')} (k bigint NOT NULL, s struct<a:int NOT NULL> NOT NULL) "
        "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, named_struct('a', 1)), (2, named_struct('a', 2))")
    views = {
        "sums": "SELECT k, sum(s.a) AS n FROM t GROUP BY k",
        "keys": "SELECT DISTINCT k, s FROM t",
        "rows": "SELECT k, s FROM t",
    }
    pipe = lake.pipeline(views)
    assert not differences(lake, pipe, views)
    for column in ("k", "s.a", "s"):
        spark.sql(f"ALTER TABLE {lake.ref('t')} ALTER COLUMN {column} DROP NOT NULL")
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (NULL, NULL), (NULL, named_struct('a', 5))")
    assert not differences(lake, lake.pipeline(views), views)


def test_variants_are_published_as_variants_and_checked(spark, tmp_path):
    lake = TypedLake(spark, tmp_path)
    lake.table("t", ["variant"], rows=6)
    views = {
        "whole": "SELECT k, c0, named_struct('v', c0) AS s FROM t",
        "parts": "SELECT k, try_variant_get(c0, '$.a', 'int') AS a FROM t",
        "n": "SELECT count(*) AS n FROM t",
    }
    pipe = lake.pipeline(views)
    pipe.context.checks = {
        "whole": {w: [{"expect_column_values_to_not_be_null": {"column": "k"}}] for w in ("delta", "state")}
    }
    assert not differences(lake, pipe, views)
    assert [f.dataType.simpleString() for f in pipe.read("whole").schema.fields] == [
        "bigint",
        "variant",
        "struct<v:variant>",
    ]
    lake.insert("t", 3)
    spark.sql(f"DELETE FROM {lake.ref('t')} WHERE k = 1")
    assert not differences(lake, pipe, views)


def test_the_published_change_feed_is_the_change(spark, tmp_path):
    lake = TypedLake(spark, tmp_path, seed=5)
    columns = lake.table("t", ["double", "array<double>", "map<string,int>", "binary"])
    views = {n: v for n, v in typed_views("t", columns).items() if n in ("project", "bag", "by_c0")}
    pipe = lake.pipeline(views)
    for _ in range(3):
        assert not differences(lake, pipe, views)
        lake.change("t")
    for name in views:
        path = pipe.context.layout.table(name, True)
        last = native.table(path).version()
        before, after = (exact_bag(spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF {v}")) for v in (0, last))
        assert before + changed_bag(spark, path, 1, last, +1) == after + changed_bag(spark, path, 1, last, -1), name


def test_other_session_settings(spark, tmp_path):
    setting = {"spark.sql.session.timeZone": "America/New_York", "spark.sql.ansi.enabled": "false"}
    before = {k: spark.conf.get(k) for k in setting}
    try:
        for k, v in setting.items():
            spark.conf.set(k, v)
        lake = TypedLake(spark, tmp_path, seed=8)
        columns = lake.table("t", ["timestamp", "timestamp_ntz", "decimal(38,10)", "array<timestamp>"])
        follow(
            lake,
            {n: v for n, v in typed_views("t", columns).items() if n in ("project", "texts", "pairs", "ends")},
            batches=1,
        )
    finally:
        for k, v in before.items():
            spark.conf.set(k, v)


def test_the_order_of_a_map_that_a_unit_keeps_is_not_seen(lake, spark):
    """It is kept sorted, so that equal maps are found: what reads it in order is left to Spark."""
    lake.table("labels", "k int, v int, m map<string,int>", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('labels')} VALUES (1, 1, map('z', 1, 'a', 2)), (1, 2, map('c', 1))")
    numbered = "(SELECT *, row_number() OVER (PARTITION BY k ORDER BY v) AS r FROM labels) WHERE r = 1"
    views = {
        "shown": f"SELECT k, to_json(m) AS j FROM {numbered}",
        "keys": f"SELECT k, map_keys(m) AS j FROM {numbered}",
        "entries": f"SELECT k, m, element_at(m, 'a') AS a, m['b'] AS b, m.c AS c FROM {numbered}",
        "latest": "SELECT k, map_values(max_by(m, v)) AS l FROM labels GROUP BY k",
        "inside": "SELECT k, max(to_json(m)) AS j FROM labels GROUP BY k",
        "in_frames": "SELECT k, max(map_keys(m)[0]) OVER (PARTITION BY k) AS j FROM labels",
        "held": "SELECT k, max_by(struct(m, v), v) AS s, count(m) AS n, max(size(m)) AS z FROM labels GROUP BY k",
    }
    pipe = lake.pipeline(views)
    assert lake.differences(pipe) == {}
    spark.sql(f"INSERT INTO {lake.ref('labels')} VALUES (2, 1, map('y', 1, 'b', 2))")
    assert lake.differences(pipe) == {}
    codes = {n: [r.code for r in c.program.refusals] for n, c in pipe.context.compiled.items()}
    assert codes == {"shown": ["clause"], "keys": ["clause"], "entries": [], "latest": ["clause"]} | {
        "inside": ["clause"],
        "in_frames": ["clause"],
        "held": [],
    }
