"""What is large stays with Spark: the scenarios of other tests, where a few rows are too many for this process.

Each view equals its recompute after each batch, and only counts and capped samples are collected.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ivm.lake import native
from ivm.names import ident, table_ref
from ivm.pipeline import Pipeline
from ivm.planner.limits import EMBEDDED
from ivm.refresh.verify import recompute_sql
from ivm.testing.oracle import bag
from ivm.testing.types import TypedLake, differences, typed_views
from tests.scenes import NIGHTLY, TINY
from tests.spark.test_dml import ROWS, SCRIPTS
from tests.spark.test_generated import accepted, random_lake
from tests.spark.test_types import PACKS

pytestmark = pytest.mark.spark

#: Batches are merged by Spark.
MERGED = replace(TINY, anew_share=1e9)
VIEWS = int(os.environ.get("IVM_LARGE_VIEWS", "60" if NIGHTLY else "2"))
#: By night all scripts are run in both ways.
CHOSEN = {
    "insert, update, delete": (MERGED,),
    "deletion vectors": (TINY,),
}
RUNS = [
    pytest.param(limits, script, id=f"{'anew' if limits is TINY else 'merged'}-{script}")
    for script in SCRIPTS
    for limits in ((TINY, MERGED) if NIGHTLY else CHOSEN.get(script, ()))
]
FIXED = {
    "plain": "SELECT k, v + 1 AS w, s FROM t WHERE v > 1 OR v IS NULL",
    "doubled": "SELECT k, v, s FROM t UNION ALL SELECT k, v, s FROM t WHERE k = 2",
    "sums": "SELECT k, sum(v) AS total, count(*) AS n FROM t GROUP BY k",
    "extremes": "SELECT k, min(v) AS low, max(s) AS last FROM t GROUP BY k",
    "one_row": "SELECT sum(v) AS total, count(*) AS n FROM t",
    "named": "SELECT u.name, count(t.v) AS n FROM u LEFT JOIN t ON t.k = u.k GROUP BY u.name",
    "outer_both": "SELECT t.k, t.v, u.name FROM t FULL JOIN u ON t.k = u.k",
    "pairs": "SELECT a.v AS x, b.v AS y FROM t a JOIN t b ON a.k = b.k",
    "ranked": "SELECT k, v, row_number() OVER (PARTITION BY k ORDER BY v, s) AS r FROM t",
    "unknown": "SELECT DISTINCT s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "first": "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 3",
    "above": "SELECT n, count(*) AS groups, sum(total) AS s FROM sums GROUP BY n",
    "prefixed": "SELECT t.k, u.name FROM t JOIN u ON t.k = u.k WHERE t.s IN ('a', 'c') AND u.name LIKE 't%'",
}
#: A MERGE is what Spark is slowest at. These have rows that are there several times, NULLs, and readers.
MERGED_VIEWS = ("plain", "doubled", "sums", "one_row", "outer_both", "above")


@pytest.fixture(params=[TINY, MERGED] if NIGHTLY else [TINY], ids=["anew", "merged"] if NIGHTLY else ["anew"])
def limits(request):
    """In CI, batches that are merged are those of `test_views_follow` and of the crash in the middle of a MERGE."""
    return request.param


def needed(views: list[str]) -> list[str]:
    """These views, and what they read."""
    return ["sums", *(v for v in views if v != "sums")] if "above" in views else views


def two_tables(spark, lake, more=""):
    names = {"t": lake.ref("t"), "u": lake.ref("u")}
    spark.sql(f"CREATE TABLE {names['t']} (k int, v int, s string) USING delta {more}")
    spark.sql(f"CREATE TABLE {names['u']} (k int, name string) USING delta")
    for ref in names.values():
        spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql(f"INSERT INTO {names['t']} VALUES {ROWS}")
    spark.sql(f"INSERT INTO {names['u']} VALUES (1, 'one'), (2, 'two'), (6, 'six'), (NULL, 'none')")
    lake.tables = {"t": [], "u": []}
    return names


@pytest.fixture
def collected(monkeypatch):
    """How many rows each statement gave to this process."""
    from pyspark.sql.classic.dataframe import DataFrame

    seen = []
    plain = DataFrame.toArrow

    def noted(self):
        rows = plain(self)
        seen.append(rows.num_rows)
        return rows

    monkeypatch.setattr(DataFrame, "toArrow", noted)
    return seen


def not_equal(spark, pipe) -> dict[str, str]:
    """What differs from a recompute, by view."""
    manifest, found = pipe.context.log.manifest(), {}
    for name in pipe.context.views:
        expected = bag(spark.sql(recompute_sql(pipe.context, name, manifest)).toArrow())
        actual = bag(native.table(pipe.context.layout.table(name, True)).to_pyarrow_table())
        by_spark = bag(spark.sql(f"SELECT * FROM delta.{ident(pipe.context.layout.table(name, True))}").toArrow())
        if not actual == expected == by_spark:
            found[name] = f"missing {expected - actual}, unexpected {actual - expected}, by Spark {by_spark - expected}"
    return found


@pytest.mark.parametrize(("limits", "script"), RUNS)
def test_views_follow(spark, lake, limits, script, collected):
    more, statements = SCRIPTS[script]
    lake.limits = limits
    names = two_tables(spark, lake, more)
    chosen = list(FIXED) if NIGHTLY else needed(list(FIXED)[1::2])
    pipe = lake.pipeline({n: FIXED[n] for n in (chosen if limits is TINY else MERGED_VIEWS)})
    # What a first build gets wrong is still wrong after a statement, so it isn't compared by itself.
    assert pipe.refresh().ok
    for statement in statements:
        for part in statement.lstrip("=").split("; "):
            spark.sql(part.format(**names))
        collected.clear()
        report = pipe.refresh()
        assert report.ok, report
        assert max(collected, default=0) <= 2, collected
        assert not_equal(spark, pipe) == {}, statement
        strategies = {n: (v.strategy, v.reason) for n, v in report.views.items()}
        assert statement.startswith("=") or "full" not in {s for s, _ in strategies.values()}, strategies


def test_random_views_equal_their_recompute(spark, tmp_path, limits):
    lake = random_lake(spark, tmp_path, 11)
    lake.limits = limits
    first = 200 if limits is TINY else 300
    views = accepted(spark, lake, range(first, first + VIEWS))
    pipe = lake.pipeline(views)
    assert pipe.refresh().ok
    for batch in range(2 if NIGHTLY else 1):
        changed = [f"{lake.change(n)} {n}" for n in ("a", "b", "c", "a")]
        found = lake.differences(pipe)
        assert found == {}, (batch, changed, {n: views[n] for n in found})


@pytest.mark.parametrize("pack", PACKS if NIGHTLY else list(PACKS)[:1])
def test_types_follow_their_changes(spark, tmp_path, limits, pack):
    lake = TypedLake(spark, tmp_path, seed=len(pack), limits=limits)
    views = typed_views("t", lake.table("t", PACKS[pack]))
    if limits is MERGED:  # the statements are the same: what is merged are all types
        views = {n: views[n] for n in ("project", "bag", "texts")}
    elif not NIGHTLY:
        views = {n: views[n] for n in ("project", "texts", "pairs", "ends", "different")}
    pipe = lake.pipeline(views)
    assert pipe.refresh().ok
    for _ in range(2 if NIGHTLY else 1):
        for _ in range(3):
            lake.change("t")
        found = differences(lake, pipe, views)
        assert not found, found


def test_a_recursion_says_why_it_is_built_anew(spark, lake):
    lake.limits = TINY
    lake.table("e", "src int, dst int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('e')} VALUES (1, 2), (2, 3), (5, 6)")
    pipe = lake.pipeline(
        {
            "reach": "WITH RECURSIVE r (a, b) AS (SELECT src, dst FROM e UNION SELECT r.a, e.dst FROM r JOIN e "
            "ON r.b = e.src) SELECT a, b FROM r"
        }
    )
    for statement in ("INSERT INTO {} VALUES (3, 4), (4, 5), (6, 1)", "DELETE FROM {} WHERE src = 2"):
        assert pipe.refresh().ok
        spark.sql(statement.format(lake.ref("e")))
    assert pipe.refresh().ok
    reached = {1: [2], 3: [4, 5, 6, 1, 2], 4: [5, 6, 1, 2], 5: [6, 1, 2], 6: [1, 2]}
    assert sorted(map(tuple, pipe.read("reach").collect())) == sorted((a, b) for a, to in reached.items() for b in to)
    outcomes = pipe.context.log.outcomes(pipe.context.log.manifest().epoch)
    assert "large_recursion" in {o.code for o in outcomes.values()}
    assert pipe.verify("reach")


@pytest.mark.parametrize(
    ("limits", "stops"),
    [(TINY, ("placed", "taken", "merged")), (MERGED, ("placed", "taken", "merged"))]
    if NIGHTLY
    else [(TINY, ("placed", "taken")), (MERGED, ("merged",))],
    ids=["anew", "merged"],
)
def test_a_crash_between_staging_and_commit_is_survived(spark, lake, limits, stops, monkeypatch):
    from ivm.lake import files
    from ivm.table import rust
    from ivm.table.spark import SparkTable

    places = {"placed": (files, "_placed"), "taken": (rust, "takes_files"), "merged": (SparkTable, "_committing")}
    lake.limits = limits
    names = two_tables(spark, lake)
    views = FIXED if NIGHTLY and limits is TINY else {n: FIXED[n] for n in MERGED_VIEWS}
    pipe = lake.pipeline(views)
    assert pipe.refresh().ok

    class Stop(BaseException):
        pass

    def stopped(*_, **__):
        raise Stop

    for module, name in (places[stop] for stop in stops):
        spark.sql(f"UPDATE {names['t']} SET v = v + 1, k = k + 1 WHERE k IS NOT NULL")
        with monkeypatch.context() as patch, suppress(Stop):
            patch.setattr(module, name, stopped)
            pipe.refresh()
        pipe = lake.pipeline(views)
        assert pipe.refresh().ok
        assert not_equal(spark, pipe) == {}, name


def test_the_gate_judges_what_it_does_not_collect(spark, lake, limits):
    lake.limits = limits
    names = two_tables(spark, lake)
    rules = {
        "plain": {
            "delta": [{"expect_column_values_to_be_between": {"column": "w", "max_value": 50}}],
            "state": [{"expect_table_row_count_to_be_between": {"max_value": 100}}],
        },
        "sums": {"delta": [{"expect_column_values_to_not_be_null": {"column": "n"}}]},
    }
    pipe = lake.pipeline({n: FIXED[n] for n in ("plain", "sums")})
    pipe.context.checks.update(rules)
    assert pipe.refresh().ok
    spark.sql(f"UPDATE {names['t']} SET v = v + 10 WHERE k < 3")
    assert pipe.refresh().ok
    spark.sql(f"UPDATE {names['t']} SET v = 90 WHERE k < 3")
    report = pipe.refresh()
    assert not report.ok
    assert "w" in str(report.views["plain"].error or report)
    assert "sums" not in not_equal(spark, pipe)


def test_tables_made_of_files_are_read_by_spark(spark, lake, tmp_path: Path):
    """Rows, an older version, the change feed of a table that was put in another's place, and OPTIMIZE."""
    lake.limits = TINY
    names = two_tables(spark, lake)
    pipe = lake.pipeline({"plain": FIXED["plain"]})
    assert pipe.refresh().ok
    path = pipe.context.layout.table("plain", True)
    first = bag(spark.sql(f"SELECT * FROM delta.{ident(path)}").toArrow())
    spark.sql(f"UPDATE {names['t']} SET v = v + 10")
    assert pipe.refresh().ok
    second = bag(spark.sql(f"SELECT * FROM delta.{ident(path)}").toArrow())
    assert bag(spark.sql(f"SELECT * FROM delta.{ident(path)} VERSION AS OF 0").toArrow()) == first
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
    told = feed.where("_change_type = 'insert'").drop("_change_type", "_commit_version", "_commit_timestamp")
    gone = feed.where("_change_type = 'delete'").drop("_change_type", "_commit_version", "_commit_timestamp")
    assert (bag(told.toArrow()), bag(gone.toArrow())) == (second, first)
    spark.sql(f"OPTIMIZE delta.{ident(path)}")
    assert bag(spark.sql(f"SELECT * FROM delta.{ident(path)}").toArrow()) == second


def test_a_feed_that_hides_more_rows_of_a_file_than_deltas_reader_takes(spark, tmp_path):
    """A third of a file's million rows, after others by a deletion vector: delta-io/delta#5662."""
    path = str(tmp_path / "t")
    properties = "'delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = 'true'"
    spark.sql(f"CREATE TABLE {table_ref(path)} (k bigint) USING delta TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {table_ref(path)} SELECT /*+ COALESCE(1) */ id FROM range(1000000)")
    pipe = Pipeline("large", spark, tmp_path / "root", limits=replace(EMBEDDED, delta_rows=1000), mode="incremental")
    pipe.source("t", path)
    pipe.view("tens", "SELECT k % 10 AS d, count(*) AS n, sum(k) AS s FROM t GROUP BY k % 10")
    assert pipe.refresh().ok
    for part in (0, 1):
        spark.sql(f"DELETE FROM {table_ref(path)} WHERE pmod(hash(k), 3) = {part}")
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(path)
    with pytest.raises(Exception, match="UTFDataFormatException"):
        feed.write.format("noop").mode("overwrite").save()
    report = pipe.refresh()
    assert report.views["tens"].strategy == "incremental", report.views["tens"]
    assert pipe.verify("tens")


def joined(spark, lake, rows: int, names: int):
    """A table `t` of so many rows, each of which meets one of the `names` in `u`."""
    lake.table("t", "k int, g int", rows=0)
    lake.table("u", "g int, name string", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} SELECT id, id % {names} FROM range({rows})")
    spark.sql(f"INSERT INTO {lake.ref('u')} SELECT id, concat('n', id) FROM range({names})")


def test_who_asks_for_more_than_this_process_holds_is_weighed_again(spark, lake):
    """A join that meets many rows is built anew; one that meets few of the same relation isn't staged for its sake."""
    lake.limits = replace(EMBEDDED, whole_rows=0, native_whole_rows=-1, slice_rows=50, shared_rows=0, small_input=0)
    joined(spark, lake, rows=400, names=20)
    lake.table("w", "k int, x int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('w')} SELECT id, id FROM range(200)")
    views = {
        "many": "SELECT t.k, u.name FROM t JOIN u ON t.g = u.g",
        "few": "SELECT w.x, t.g FROM w JOIN t ON t.k = w.k",
        "none": "SELECT x % 3 AS r, count(*) AS n FROM w GROUP BY x % 3",
    }
    lake.engine = "auto"
    pipe = lake.pipeline(views)
    assert pipe.refresh().ok
    for meets_many in (True, False):
        spark.sql(f"UPDATE {lake.ref('u')} SET name = upper(concat(name, 'x')) WHERE g < {4 if meets_many else 1}")
        spark.sql(f"UPDATE {lake.ref('w')} SET x = x + 1 WHERE k = 7")
        report = pipe.refresh()
        assert report.ok
        assert lake.differences(pipe) == {}
        outcomes = pipe.context.log.outcomes(report.epoch)
        assert (outcomes["many"].strategy == "full") is meets_many, outcomes["many"]
        assert "'t' that this change affects are too many" in outcomes["many"].reason or not meets_many
        assert [outcomes[v].engine for v in ("few", "none")] == ["embedded", "embedded"]
        assert outcomes["few"].rows_read == 1, "its own slice"


def test_what_several_ask_for_is_read_in_parts_where_it_is_too_much_together(spark, lake):
    lake.limits = replace(EMBEDDED, whole_rows=0, native_whole_rows=-1, slice_rows=50, shared_rows=0, small_input=0)
    lake.table("t", "k int, g int, h int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} SELECT id, id % 20, id DIV 20 FROM range(400)")
    for name in ("u", "v", "w"):
        lake.table(name, f"{name} int, name string", rows=0)
        spark.sql(f"INSERT INTO {lake.ref(name)} SELECT id, concat('n', id) FROM range(20)")
    views = {
        "one": "SELECT t.k, u.name FROM t JOIN u ON t.g = u.u",
        "same": "SELECT u.name, count(*) AS n FROM t JOIN u ON t.g = u.u GROUP BY u.name",
        "two": "SELECT t.k, v.name FROM t JOIN v ON t.h = v.v",
        "beside": "SELECT count(*) AS n FROM w WHERE name LIKE 'n1%'",
        "many": "SELECT t.k, w.name FROM t JOIN w ON t.g = w.w",
    }
    lake.engine = "auto"
    pipe = lake.pipeline(views)
    assert pipe.refresh().ok
    for name, changed in {"u": 2, "v": 2, "w": 5}.items():
        spark.sql(f"UPDATE {lake.ref(name)} SET name = concat(name, 'x') WHERE {name} < {changed}")
    report = pipe.refresh()
    assert report.ok
    assert lake.differences(pipe) == {}
    outcomes = pipe.context.log.outcomes(report.epoch)
    found = {name: (o.strategy, o.engine, o.rows_read) for name, o in outcomes.items()}
    assert [found[v] for v in ("one", "same", "two")] == [("incremental", "embedded", 40)] * 3, found
    assert found["beside"][:2] == ("incremental", "embedded")
    assert found["many"][0] == "full", "a hundred rows are more than this process holds for anybody"
    assert "'t' that this change affects are too many" in outcomes["many"].reason


def test_slices_that_are_cheaper_than_a_full_refresh_stay_with_spark_and_nothing_beside_them(spark, lake):
    lake.limits = replace(EMBEDDED, whole_rows=0, native_whole_rows=-1, slice_rows=5, small_input=0)
    joined(spark, lake, rows=2000, names=200)
    views = {
        "many": "SELECT t.k, u.name FROM t JOIN u ON t.g = u.g",
        "one": "SELECT t.k, u.name FROM t JOIN u ON t.k = u.g",
        "beside": "SELECT count(*) AS n FROM u WHERE name LIKE 'n1%'",
    }
    lake.engine = "auto"
    pipe = lake.pipeline(views)
    assert pipe.refresh().ok
    spark.sql(f"UPDATE {lake.ref('u')} SET name = 'one' WHERE g = 1")
    report = pipe.refresh()
    assert report.ok
    assert {name: view.strategy for name, view in report.views.items()} == dict.fromkeys(views, "incremental")
    assert lake.differences(pipe) == {}
    outcomes = pipe.context.log.outcomes(report.epoch)
    assert {name: outcomes[name].engine for name in views} == {
        "many": "spark: a delta or a slice is too large for this process",
        "one": "embedded",
        "beside": "embedded",
    }
