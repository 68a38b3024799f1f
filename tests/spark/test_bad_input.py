"""Bad input gets a clear error, and nothing is lost."""

from __future__ import annotations

import re

import pytest

import ivm
from ivm.errors import ConfigError, RefusedError, SourceError, StateError, ViewError

pytestmark = pytest.mark.spark


@pytest.fixture
def pipe(lake):
    lake.table("t", "k bigint, v int", rows=5)
    return lake.pipeline({})


def test_unknown_table_is_named_and_what_exists(pipe):
    with pytest.raises(ViewError, match=r"reads nowhere.*There are: t"):
        pipe.view("v", "SELECT * FROM nowhere")


def test_unknown_column_is_named_and_what_exists(pipe):
    with pytest.raises(ViewError, match=r"`missing` cannot be resolved.*`k`"):
        pipe.view("v", "SELECT missing FROM t")
    assert "v" not in pipe.context.views


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT k FROM t; SELECT v FROM t", "one SELECT"),
        ("DELETE FROM t", "one SELECT"),
        ("SELECT k FROM", "can't be parsed"),
        ("SELECT k, v AS k FROM t", "two columns named 'k'"),
        ("SELECT k + 1 AS `a b` FROM t", "Delta can't store"),
        ("SELECT NULL AS n, k FROM t", "type void"),
    ],
)
def test_sql_that_can_not_be_a_view(pipe, sql, message):
    with pytest.raises(ViewError, match=message):
        pipe.view("v", sql)


def test_source_without_feed_says_how_to_switch_it_on(pipe, spark, tmp_path):
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/plain` (k int, day int) USING delta PARTITIONED BY (day)")
    with pytest.raises(
        SourceError,
        match=(
            r"no change data feed.*ALTER TABLE delta.`.*plain` "
            r"SET TBLPROPERTIES \('delta.enableChangeDataFeed' = 'true'\)"
        ),
    ):
        pipe.source("plain", f"{tmp_path}/plain")


def test_source_that_is_not_delta(pipe, spark, tmp_path):
    spark.sql("SELECT 1 AS a").write.parquet(f"{tmp_path}/parquet")
    with pytest.raises(SourceError, match=r"not a Delta table.*CONVERT TO DELTA"):
        pipe.source("p", f"{tmp_path}/parquet")
    with pytest.raises(SourceError, match="nothing at"):
        pipe.source("p", f"{tmp_path}/absent")


def test_key_that_does_not_exist(pipe, lake):
    with pytest.raises(SourceError, match=r"declared key column\(s\) id don't exist.*There are: k, v"):
        pipe.source("again", lake.path("t"), primary_key=["id"])


def test_cycle_is_shown(pipe):
    pipe.view("a", "SELECT k FROM b", file="a.sql")
    pipe.view("b", "SELECT k FROM a", file="b.sql")
    report = pipe.refresh()
    assert not report.ok
    assert all("a -> b -> a" in report.views[name].error for name in ("a", "b"))


def test_names_of_internal_tables_are_not_free(pipe):
    pipe.view("v", "SELECT k FROM (SELECT k, sum(v) AS s FROM t GROUP BY k) WHERE s IN (SELECT max(v) FROM t)")
    pipe.view("v__1", "SELECT k FROM t")
    with pytest.raises(ViewError, match=r"'v' keeps a table of its own called 'v__1'.*Rename"):
        pipe.refresh()


def test_two_views_of_one_name(pipe):
    pipe.view("v", "SELECT k FROM t")
    with pytest.raises(ConfigError, match="'V' is taken"):
        pipe.view("V", "SELECT v FROM t")
    with pytest.raises(ConfigError, match="is taken"):
        pipe.view("T", "SELECT v FROM t")


@pytest.mark.parametrize("name", ["a b", "1a", "a;drop", "`x`", "../up", "", "__ivm_x"])
def test_names_are_identifiers(pipe, name):
    with pytest.raises(ConfigError, match="name"):
        pipe.view(name, "SELECT k FROM t")


def test_paths_and_columns_are_quoted(spark, tmp_path):
    path = f"{tmp_path}/it's a `odd` path"
    quoted = path.replace("`", "``")
    spark.sql(
        f"CREATE TABLE delta.`{quoted}` (`select` int, `a.b` int) "
        "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{quoted}` VALUES (1, 2), (1, 3)")
    pipe = ivm.Pipeline("odd", spark, tmp_path / "root")
    pipe.source("t", path)
    pipe.view("v", "SELECT `select`, sum(`a.b`) AS s FROM t GROUP BY `select`")
    pipe.refresh()
    spark.sql(f"INSERT INTO delta.`{quoted}` VALUES (1, 4), (2, 5)")
    report = pipe.refresh()
    assert report.views["v"].strategy == "incremental", report
    assert pipe.verify("v")


def test_root_of_another_pipeline(pipe, spark):
    pipe.view("v", "SELECT k FROM t")
    pipe.refresh()
    with pytest.raises(StateError, match="belongs to the pipeline 'oracle', not to 'other'"):
        ivm.Pipeline("other", spark, pipe.root)


def test_strict_mode_refuses_with_reason_and_mend(pipe):
    with pytest.raises(RefusedError, match=r"rand\(\).*\[nondeterministic\].*To mend it"):
        pipe.view("w", "SELECT k, rand() AS n FROM t", mode="incremental")
    with pytest.raises(ConfigError, match="mode 'fast'"):
        pipe.view("w", "SELECT k FROM t", mode="fast")


def test_non_deterministic_views_are_full_each_time(pipe):
    pipe.view("now_view", "SELECT k, current_date() AS d FROM t")
    pipe.refresh()
    report = pipe.refresh()
    assert report.views["now_view"].strategy == "full"
    assert "another answer each time" in report.views["now_view"].reason


def test_unknown_check_and_unknown_view(pipe):
    pipe.view("v", "SELECT k FROM t")
    pipe.context.checks = {"v": {"state": [{"expect_nonsense": {}}]}}
    with pytest.raises(ConfigError, match="expect_nonsense"):
        pipe.refresh()
    pipe.context.checks = {}
    pipe.refresh()
    with pytest.raises(ConfigError, match=r"no view 'w'.*There are: v"):
        pipe.read("w")


def test_catalog_identifiers_are_sources_too(lake, spark):
    spark.sql(
        "CREATE TABLE default.ivm_catalog_t (k bigint, v int) "
        "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    try:
        spark.sql("INSERT INTO default.ivm_catalog_t VALUES (1, 1)")
        pipe = ivm.Pipeline("catalog", spark, lake.folder / "root")
        pipe.source("t", "default.ivm_catalog_t", primary_key="k")
        pipe.view("v", "SELECT k, sum(v) AS s FROM t GROUP BY k")
        pipe.refresh()
        spark.sql("INSERT INTO default.ivm_catalog_t VALUES (1, 4), (2, 2)")
        assert pipe.refresh().views["v"].strategy == "incremental"
        assert pipe.verify("v")
        with pytest.raises(SourceError, match="catalog has no table"):
            pipe.source("u", "default.nothing_here")
    finally:
        spark.sql("DROP TABLE default.ivm_catalog_t")


def test_what_spark_refuses_is_named_with_file_and_line(spark, lake, tmp_path):
    lake.table("t", "k int, v int", rows=2)
    folder = tmp_path / "pipeline"
    (folder / "views").mkdir(parents=True)
    (folder / "pipeline.yml").write_text(f"name: p\nroot: {tmp_path / 'root'}\nsources:\n  t: {lake.path('t')}\n")
    for sql, message in (
        ("-- mode: auto\nSELECT k,\n  nothing\nFROM t\n", "UNRESOLVED_COLUMN.*line 3"),
        ("SELECT k\nFROM t\nWHERE k > > 1\n", "line 3|Line 3"),
        ("SELECT k, count(*) AS n\nFROM t", "GROUP_BY"),
    ):
        (folder / "views" / "wrong.sql").write_text(sql)
        pipe = ivm.Pipeline.load(folder, spark=spark)
        report = pipe.refresh()
        assert not report.ok, "a view that can't be compiled stops no other, and is named"
        assert re.search(rf"(?s)wrong\.sql.*({message})", report.views["wrong"].error)
        with pytest.raises(ViewError, match=rf"(?s)wrong\.sql.*({message})"):
            pipe.explain("wrong")


CONDITIONS = (
    *(
        "k = 1", "k <=> NULL", "v NOT IN (1, 2)", "k BETWEEN 1 AND 2 OR NOT (v > 3 AND k <> 2)",
        "-v < -2 AND v % 3 = 1 AND ~v > -9", "k DIV 2 = 1", "k & 1 = 1 OR k ^ 2 = v | 1",
    ),
    *(
        "s = 'it''s' OR s = \"it's\"", "s LIKE '%\\_a' OR s LIKE '/%' ESCAPE '/'", "s RLIKE '^A\\\\d'", "s = r'\\d'",
        "s || 'a' = 'ba'", "trim(BOTH 'x' FROM s) = 'a'", "s = 'a\nb\\n\t'",
    ),
    *(
        "d = DATE '2026-03-01'", "d > d - INTERVAL 1 DAY", "d > d - INTERVAL '1-2' YEAR TO MONTH",
        "dateadd(DAY, 1, d) = d", "EXTRACT(YEAR FROM d) = 2026", "d = TIMESTAMP '2026-01-01 00:00:00'",
    ),
    *(
        "CASE WHEN k > 1 THEN TRUE ELSE v = 2 END", "if(k > 1, TRUE, FALSE)", "coalesce(k, v) = 1", "nvl(s, 'x') = 'x'",
        "CAST(k AS STRING) = '1'", "TRY_CAST(s AS DECIMAL(10, 2)) = 1.5BD", "k = 1L OR k = 1e1",
    ),
    *(
        "(k, v) IN ((1, 2), (3, 4))", "struct(k, v) = struct(1, 2)", "substring(s, 1, 2) = 'a'",
        "position('a' IN s) = 1", "s = X'1A'", "s ILIKE 'A%'", "TRUE", "s IS NOT NULL", "`k` = 1",
    ),
)  # fmt: skip


def test_conditions_mean_to_spark_what_was_written(spark):
    """What is made of a condition picks the same rows as its own text."""
    from ivm.sql.condition import parse_condition

    texts = ("a", "it's", "/x", "A1", "\\\\d", "ba", "xax", "1.5", "z_a")
    rows = ", ".join(
        f"({k}, {v}, '{s}', {d})".replace("it's", "it\\'s")
        for k, v, s, d in zip(
            range(9),
            (1, 2, 3, -3, 4, 5, 2, 0, 7),
            texts,
            ["DATE '2026-03-01'", "NULL", "DATE '2026-01-01'"] * 3,
            strict=True,
        )
    )
    compared = ", ".join(
        f"count_if(NOT (({text}) <=> ({parse_condition(text)}))) AS c{i}" for i, text in enumerate(CONDITIONS)
    )
    (found,) = spark.sql(f"SELECT {compared} FROM VALUES {rows}, (NULL, NULL, NULL, NULL) AS t(k, v, s, d)").collect()
    assert [text for text, n in zip(CONDITIONS, found, strict=True) if n] == []


NO_SLICES = (
    ("k = 1) OR (1=1", "can't be parsed as one expression"),
    ("k = 1 --", "comment"),
    ("k IN (SELECT k FROM t)", "list of values"),
    ("rand() > 0.5", "another answer each time"),
    ("s > 1", r"group keys.*There are: k"),
    ("k", "its type is bigint"),
    ("k ?? 1 = 1", "can't be parsed as one expression"),
    ("abs(k, 2) = 1", "group keys"),
    ("reflect('java.lang.System', 'exit', 0) = 1", "reflect"),
)


def test_a_slice_is_one_condition_and_is_refused_before_anything_is_planned(pipe):
    pipe.view("v", "SELECT k, sum(v) AS s FROM t GROUP BY k")
    pipe.refresh()
    for where, message in NO_SLICES:
        with pytest.raises(ConfigError, match=f"(?s){message}"):
            pipe.backfill("v", where)
    assert pipe.context.log.open_epoch() is None
    assert pipe.context.log.next_epoch() == 2
    assert pipe.backfill("v", "k = 1 OR k = 2").epoch == 2


def test_parameters_of_the_api_are_refused_in_our_words(pipe):
    pipe.view("v", "SELECT k, v FROM t")
    assert pipe.refresh("v").ok  # one name may stand alone
    for call in (
        lambda: pipe.refresh(5),
        lambda: pipe.refresh([5]),
        lambda: pipe.read("v", epoch=-1),
        lambda: pipe.read("v", epoch=True),
        lambda: pipe.read("v", epoch=10**30),
        lambda: pipe.read("v", revision="1"),
        lambda: pipe.read("v", as_of=5),
        lambda: pipe.compact(-1),
        lambda: pipe.compact("x"),
        lambda: pipe.backfill("v", 5),
        lambda: pipe.backfill("v", day=5),
        lambda: pipe.explain(None),
        lambda: pipe.verify(["v"]),
        lambda: pipe.source("u", pipe.context.sources["t"].location, primary_key=5),
        lambda: pipe.view("w", 5),
    ):
        with pytest.raises(ConfigError):
            call()
    assert pipe.read("v", epoch=1).count() == 5
    assert pipe.compact(2**63 - 1) is not None


def test_keys_that_lead_nowhere_are_refused_before_a_refresh(pipe, lake):
    pipe.source("u", lake.path("t"), foreign_keys={"k": "nothing"})
    pipe.view("v", "SELECT k FROM t")
    for step in (pipe.plan, pipe.refresh):
        with pytest.raises(ConfigError, match="foreign key to 'nothing'"):
            step()
    assert pipe.context.log.open_epoch() is None


def test_a_source_of_a_scheme_that_nothing_serves(pipe):
    with pytest.raises(
        SourceError, match=r"'far': ftx://n/t can't be read.*Spark says .*ftx.* delta-rs can't since it doesn't serve"
    ):
        pipe.source("far", "ftx://n/t")
    assert "far" not in pipe.context.sources
