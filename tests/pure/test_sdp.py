"""A project of Spark Declarative Pipelines (tests/sdp_shop) becomes a pipeline; DuckDB stands in Spark's place."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path
from random import Random

import duckdb
import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from ivm.cli.main import main
from ivm.config import check_checks, load_folder
from ivm.errors import ConfigError, IvmError
from ivm.feed.history import FEED
from ivm.pipeline import Pipeline
from ivm.sdp import project, statements
from ivm.sdp.spec import read_spec, spec_at
from tests.pure.duck_session import DuckSession

SHOP = Path(__file__).resolve().parents[1] / "sdp_shop"
PAGE = SHOP.parents[1] / "docs" / "from_sdp.md"
TABLES = {
    "orders": {
        "id": [1, 2, 3, 4],
        "customer": ["ann", "ann", "bob", "cid"],
        "amount": [30, 5, 12, 7],
        "status": ["paid", "paid", "open", "paid"],
    },
    "customers": {"customer": ["ann", "bob", "cid"], "region": ["north", "south", None]},
    "clicks": {"click": [1, 2, 3], "page": ["a", "a", "b"], "campaign": ["spring", "autumn", "spring"]},
}
VIEWS = ["clicks_autumn", "clicks_spring", "customer_totals", "customers_by_region", "region_totals"]


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setattr("ivm.declarations.get_session", lambda **_: DuckSession())
    monkeypatch.setattr("ivm.cli.terminal.out.size", (250, 50))
    for name, data in TABLES.items():
        write_deltalake(str(tmp_path / "lake" / name), pa.table(data), configuration={FEED: "true"})
    return tmp_path / "lake"


def written(folder, libraries="transformations/**", head="", **files):
    """A project of files; `__` in a name stands for the dot."""
    (folder / "transformations").mkdir(parents=True)
    spec = f"name: p\nstorage: file:///tmp/p\n{head}libraries: [{{glob: {{include: '{libraries}'}}}}]\n"
    (folder / "spark-pipeline.yml").write_text(spec)
    for name, text in files.items():
        (folder / "transformations" / name.replace("__", ".")).write_text(text)
    return folder / "spark-pipeline.yml"


def adopt(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["adopt", *arguments])
    return end.value.code


def test_a_with_keeps_its_names(tmp_path):
    sql = """
        CREATE TEMPORARY VIEW p AS SELECT id FROM raw.orders;
        CREATE MATERIALIZED VIEW v AS WITH orders AS (SELECT 1 AS id) SELECT o.id FROM orders o, p;
    """
    found = project.look(project.read(written(tmp_path / "p", a__sql=sql)), "", {})
    assert [(t.name, t.location) for t in found.tables] == [("raw_orders", "raw.orders")]


def test_a_key_of_several_columns_is_a_check(tmp_path):
    sql = "CREATE MATERIALIZED VIEW v TBLPROPERTIES ('ivm.primary_key' = 'a, b') AS SELECT a, b FROM t"
    found = project.read(written(tmp_path / "p", a__sql=sql))
    unique, *given = found.checks["v"]["state"]
    assert unique == {"expect_compound_columns_to_be_unique": {"column_list": ["a", "b"]}}
    assert given == [{"expect_column_values_to_not_be_null": {"column": c}} for c in "ab"]
    check_checks(found.checks, found.views)


def test_what_the_project_defines():
    found = project.read(SHOP / "spark-pipeline.yml")
    assert sorted(found.views) == VIEWS
    assert found.views["region_totals"].startswith("WITH named AS (SELECT customer, region FROM customers")
    assert "FROM customer_totals AS t" in found.views["region_totals"]
    assert found.settings == {
        "customer_totals": {"mode": "incremental", "freshness": "1h"},
        "clicks_spring": {"mode": "warn"},
        "clicks_autumn": {"mode": "warn"},
    }
    assert found.left == (
        "customers_by_region (transformations/clicks.py:22) is taken over without partition_cols",
        "large_orders (transformations/clicks.py:27) is left out: "
        "it calls DataFrame.filter, and a DataFrame has no SQL",
        "events (transformations/clicks.py:32) is a streaming table; a view that reads it has it as a source",
        "alerts (transformations/clicks.py:37) is a sink; ivm writes Delta tables only",
        "customer_totals (transformations/totals.sql:5) is taken over without "
        "CLUSTER BY, delta.appendOnly, its columns' types",
        "SET spark.sql.ansi.enabled = true (transformations/totals.sql:21) is a setting; "
        "give it to the Spark that runs ivm",
        "clicks (transformations/totals.sql:23) is a streaming table; a view that reads it has it as a source",
        "late_clicks (transformations/totals.sql:26) is a flow; streams stay with Spark",
        "spark.sql.shuffle.partitions (spark-pipeline.yml) is a setting; give it to the Spark that runs ivm",
        "shop.campaigns (spark-pipeline.yml) is a setting; give it to the Spark that runs ivm",
        "transformations/notes.txt is neither .sql nor .py",
    )
    looked = project.look(found, "", {"orders": "other.orders"})
    assert {t.name: (t.location, t.primary_key) for t in looked.tables} == {
        "clicks": ("shop.clicks", ("click",)),
        "customers": ("shop.customers", ()),
        "orders": ("other.orders", ()),
    }


def test_the_adopted_pipeline_equals_the_definitions(lake, tmp_path, capsys):
    shop = tmp_path / "shop"
    assert adopt(str(SHOP), "--to", str(shop), "--tables", str(lake)) == 0
    assert "large_orders (transformations/clicks.py:27) is left out" in capsys.readouterr().out
    written = yaml.safe_load((shop / "pipeline.yml").read_text())
    assert written["views"]["customer_totals"] == {"mode": "incremental", "freshness": "1h"}
    assert written["sources"]["clicks"] == {"path": f"{lake}/clicks", "primary_key": "click"}
    loaded = load_folder(shop)
    assert sorted(v.name for v in loaded.views) == VIEWS
    assert list(loaded.checks) == ["customer_totals"]
    (shop / "checks.yml").unlink()  # they need Great Expectations, which takes seconds to import
    pipe = Pipeline.load(shop, DuckSession())
    assert pipe.refresh().ok
    first = rows(pipe)
    assert first == expected(lake)
    more = {"id": [5], "customer": ["bob"], "amount": [100], "status": ["paid"]}
    write_deltalake(str(lake / "orders"), pa.table(more), mode="append")
    DeltaTable(str(lake / "clicks")).delete("click = 3")
    report = pipe.refresh()
    assert report.ok
    assert report.views["customer_totals"].strategy == report.views["region_totals"].strategy == "incremental"
    assert rows(pipe) == expected(lake)
    assert rows(pipe) != first


def rows(pipe):
    return {view: sorted(map(tuple, pipe.read(view).collect()), key=repr) for view in VIEWS}


def expected(lake):
    """What the project's own text says, by DuckDB."""
    duck = duckdb.connect()
    duck.execute("CREATE SCHEMA shop; USE shop")
    for name in TABLES:
        duck.register(f"arrow_{name}", DeltaTable(str(lake / name)).to_pyarrow_table())
        duck.execute(f"CREATE TABLE {name} AS FROM arrow_{name}")
    text = (SHOP / "transformations" / "totals.sql").read_text()
    for name, query in re.findall(
        r"CREATE (?:TEMPORARY|MATERIALIZED) VIEW (\w+).*?\bAS\b(?: --.*?)?\n(.*?);", text, re.S
    ):
        duck.execute(f"CREATE VIEW {name} AS {query}")
    for campaign in ("spring", "autumn"):
        query = f"SELECT page, count(*) FROM clicks WHERE campaign = '{campaign}' GROUP BY page"
        duck.execute(f"CREATE VIEW clicks_{campaign} AS {query}")
    duck.execute("CREATE VIEW customers_by_region AS FROM customers")
    return {view: sorted(duck.sql(f"FROM {view}").fetchall(), key=repr) for view in VIEWS}


def test_json_tells_what_is_left_out(lake, tmp_path, capsys):
    assert adopt(str(SHOP / "spark-pipeline.yml"), "--to", str(tmp_path / "p"), "--tables", str(lake), "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["left"]) == 11
    assert told["settings"]["clicks_spring"] == {"mode": "warn"}


def views(folder, **files):
    return project.read(written(folder, **files)).views


def test_names_mean_what_they_meant(tmp_path):
    sql = """
        CREATE TEMPORARY VIEW orders (id, twice COMMENT 'x') AS SELECT id, 2 * amount FROM raw.orders;
        CREATE TEMP VIEW both AS (SELECT id FROM orders UNION ALL SELECT id FROM web.orders);
        CREATE MATERIALIZED VIEW IF NOT EXISTS raw.daily AS SELECT o.id FROM orders o JOIN both ON both.id = o.id;
        CREATE OR REPLACE VIEW named AS SELECT id FROM `raw`.`daily`;
        CREATE MATERIALIZED VIEW last AS SELECT id FROM default.named, other.daily, daily, spark_catalog.raw.daily d;
    """
    twice = "SELECT * FROM (\nSELECT id, 2 * amount FROM raw.orders\n) AS named(`id`, `twice`)"
    both = f"(SELECT id FROM (\n{twice}\n) AS `orders` UNION ALL SELECT id FROM web.orders)"
    named = "SELECT id FROM daily"
    assert views(tmp_path / "p", a__sql=sql) == {
        "daily": f"SELECT o.id FROM (\n{twice}\n) o JOIN (\n{both}\n) AS `both` ON both.id = o.id",
        "last": f"SELECT id FROM (\n{named}\n) AS `named`, other.daily, default.daily AS `daily`, daily d",
    }


def test_settings_of_the_spec_are_written_out(tmp_path):
    head = """configuration: {region: EU, t: orders, of: "${region}", least: "5", fresh: 1h, twice: "1"}\n"""
    sql = """
        CREATE TEMPORARY VIEW part AS SELECT id FROM ${t} WHERE amount > ${spark:least};
        CREATE MATERIALIZED VIEW v TBLPROPERTIES ('ivm.freshness' = '${fresh}') AS SELECT id, '${of}' AS r FROM part;
        CREATE MATERIALIZED VIEW home AS SELECT '${env:HOME}' AS h;
        CREATE MATERIALIZED VIEW other AS SELECT '${other}' AS h;
        CREATE MATERIALIZED VIEW open AS SELECT '${ region}' AS h;
        SET twice = 2;
        CREATE MATERIALIZED VIEW again AS SELECT ${twice} AS n;
    """
    python = """
from pyspark import pipelines as dp

@dp.materialized_view
def mine():
    return spark.sql("SELECT '${region}' AS r")

@dp.materialized_view(spark_conf={"region": "US"})
def own():
    return spark.sql("SELECT '${region}' AS r")
"""
    found = project.read(written(tmp_path / "p", head=head, a__sql=sql, b__py=python))
    assert found.views == {
        "v": "SELECT id, 'EU' AS r FROM (\nSELECT id FROM orders WHERE amount > 5\n) AS `part`",
        "mine": "SELECT 'EU' AS r",
    }
    assert found.settings == {"v": {"freshness": "1h"}}
    left = {line.split(" ")[0]: line for line in found.left}
    assert "left out: it holds ${env:HOME}, which is none of the settings" in left["home"]
    assert "left out: it holds ${other}" in left["other"]
    assert "left out: its SQL holds ${: Spark replaces" in left["open"]
    assert "left out: it holds ${twice}" in left["again"]
    assert "left out: it holds ${region}" in left["own"]


def test_the_example_of_the_page(tmp_path):
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S))
    found = project.read(written(tmp_path / "p", head="database: shop\n", a__sql=blocks["definitions"]))
    assert found.views == {"totals": blocks["totals"].rstrip(), "large": blocks["large"].rstrip()}
    assert found.settings == {"totals": {"mode": "incremental", "freshness": "1h"}}
    assert not found.left
    python = project.read(written(tmp_path / "q", a__py=blocks["python"]))
    assert list(python.views) == ["totals"]
    assert not python.left


def test_a_view_that_is_left_out_is_a_table_for_those_that_read_it(tmp_path):
    file = written(
        tmp_path / "p",
        head="catalog: lake\nschema: shop\n",
        a__sql="CREATE MATERIALIZED VIEW t AS SELECT id FROM frames; CREATE MATERIALIZED VIEW x AS SELECT * FROM a.b",
        b__py="from pyspark import pipelines as dp\n@dp.materialized_view\ndef frames():\n    return spark.range(3)\n",
    )
    found = project.read(file)
    assert found.left == ("frames (transformations/b.py:2) is left out: it calls spark.range, which gives no SQL",)
    tables = project.look(found, "", {}).tables
    assert [(t.name, t.location) for t in tables] == [("frames", "lake.shop.frames"), ("b", "lake.a.b")]


@pytest.mark.parametrize(
    ("head", "written_as", "places"),
    [
        ("catalog: lake\n", "lake.default.orders", ["lake.default.orders"]),
        ("catalog: lake\n", "orders", ["lake.default.orders"]),
        ("catalog: lake\n", "Orders o, lake.default.Orders", ["lake.default.Orders"]),
        ("catalog: lake\n", "sales.orders", ["lake.sales.orders"]),
        ("database: shop\n", "shop.orders o, orders", ["shop.orders"]),
        ("database: shop\n", "spark_catalog.shop.orders", ["spark_catalog.shop.orders"]),
        ("", "default.orders", ["default.orders"]),
        ("", "orders", ["orders"]),
    ],
)
def test_no_part_of_a_tables_name_is_lost(tmp_path, head, written_as, places):
    file = written(tmp_path / "p", head=head, a__sql=f"CREATE MATERIALIZED VIEW v AS SELECT 1 AS id FROM {written_as}")
    assert [t.location for t in project.look(project.read(file), "", {}).tables] == places


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT * FROM STREAM t", "it reads a stream"),
        ("SELECT * FROM STREAM(t)", "it reads a stream"),
        ("SELECT * FROM r1", "it reads r1, and it reads r2, and it reads r1, and it reads itself"),
        (
            "WITH t AS (SELECT 1 AS a) SELECT t.a FROM t, p",
            "its WITH names t, which is also a table that p reads",
        ),
        (
            "WITH kept AS (SELECT 1 AS a), k AS (SELECT a FROM default.kept) SELECT k.a FROM k, kept",
            "its WITH names kept, as does the project a view that it reads",
        ),
        ("SELECT * FROM csv_files", "it reads csv_files, and its definition has no query"),
        ("SELECT * FROM other_texts", "it reads other_texts, and its DEFAULT COLLATION changes how texts compare"),
        ("SELECT (", "can't be parsed"),
        ("INSERT INTO t SELECT 1", "one SELECT"),
    ],
)
def test_views_that_are_left_out(tmp_path, sql, said):
    text = f"""
        CREATE MATERIALIZED VIEW kept AS SELECT a FROM t;
        CREATE TEMPORARY VIEW p AS SELECT a FROM t;
        CREATE TEMPORARY VIEW r1 AS SELECT * FROM r2;
        CREATE TEMPORARY VIEW r2 AS SELECT * FROM r1;
        CREATE TEMPORARY VIEW csv_files USING csv OPTIONS (path '/tmp/x');
        CREATE VIEW other_texts DEFAULT COLLATION UTF8_LCASE AS SELECT name FROM t; CREATE MATERIALIZED VIEW v AS {sql}
    """
    found = project.read(written(tmp_path / "p", a__sql=text))
    assert list(found.views) == ["kept"]
    catalog, left = found.left
    assert catalog.startswith("other_texts (transformations/a.sql:7) is a view of the catalog")
    assert left.startswith("v (transformations/a.sql:7) is left out: ")
    assert said in left


MV = "CREATE MATERIALIZED VIEW v{} AS SELECT 1 AS one"


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("USE other; " + MV.format(""), "a.sql:1 says USE"),
        ("SET CATALOG other; " + MV.format(""), "a.sql:1 says SET"),
        (f"{MV.format('')}; {MV.format('').replace('v', 'B.V', 1)}", "is called as v"),
        (MV.format(" TBLPROPERTIES ('ivm.mode' = 'often')"), "ivm.mode of v .* is 'often'"),
        (MV.format(" TBLPROPERTIES ('ivm.speed' = 'fast')"), "ivm.speed of v .* is no property of a materialized view"),
        (MV.format(" TBLPROPERTIES (ivm.freshness = '5s')"), "out of bounds"),
        ("CREATE STREAMING TABLE s TBLPROPERTIES ('ivm.mode' = 'full')", "is no property of a streaming table"),
        ("CREATE TEMPORARY VIEW s AS SELECT 1 AS one", "no materialized view"),
        (MV.format(" 'x"), "can't be read as SQL"),
        ("CREATE MATERIALIZED VIEW AS SELECT 1", "has no name"),
        ("CREATE MATERIALIZED VIEW `a b` AS SELECT 1 AS one", "not a name for a view"),
    ],
)
def test_projects_that_are_refused(tmp_path, sql, said):
    with pytest.raises(ConfigError, match=said):
        project.read(written(tmp_path / "p", a__sql=sql))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: p\nspeed: 3", "unknown key 'speed'"),
        ("- name", "is no mapping"),
        ("name: p", "names no libraries"),
        ("libraries: [{file: x.sql}]", "libraries holds"),
        ("libraries: [{glob: {include: 'a/**/*.sql'}}]", "libraries holds"),
        ("libraries: [{glob: {include: /etc/**}}]", "libraries holds"),
        ("configuration: 3\nlibraries: [{glob: {include: a.sql}}]", "configuration is 3"),
    ],
)
def test_specs_that_are_refused(tmp_path, text, said):
    (tmp_path / "spark-pipeline.yml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_spec(tmp_path / "spark-pipeline.yml")


def test_the_files_of_a_spec_are_those_of_spark_pipelines(tmp_path):
    pytest.importorskip("grpc", reason="the extra connect is not installed")
    from pyspark.pipelines.cli import load_pipeline_spec, register_definitions

    file = written(tmp_path / "p", a__sql="SELECT 1", b__sql="SELECT 2")
    deep = tmp_path / "p" / "transformations" / "more" / "__pycache__"
    deep.mkdir(parents=True)
    (deep / "no.sql").write_text("")
    (deep.parent / "yes.sql").write_text("")

    class Registry:
        def register_sql(self, text, file):
            files.append(file)

    files = []
    register_definitions(file, Registry(), load_pipeline_spec(file), None, "")
    read = read_spec(file)
    assert sorted(files) == [f.relative_to(read.folder) for f in read.files]
    assert len(read.files) == 3


def test_where_a_spec_is(tmp_path):
    file = written(tmp_path / "p")
    assert spec_at(str(file)) == spec_at(str(file.parent)) == file
    assert spec_at(str(tmp_path)) is None
    assert spec_at("SELECT " + "1, " * 5000 + "1") is None


def test_properties_in_every_spelling():
    properties = "TBLPROPERTIES (a.b = 1, 'c.d' 'x;y', e = true, f.g -2)"
    sql = f"CREATE MATERIALIZED VIEW v {properties} COMMENT 'AS SELECT' AS SELECT 1;"
    (found,) = statements.read(sql, "f")
    assert found.properties == {"a.b": "1", "c.d": "x;y", "e": "true", "f.g": "-2"}
    assert found.clauses == ("COMMENT",)
    assert found.sql == "SELECT 1"


@pytest.mark.parametrize(
    ("header", "clause"),
    [
        ("(id BIGINT, CONSTRAINT c EXPECT (id > 0) ON VIOLATION DROP ROW)", "CONSTRAINT"),
        ("(name STRING COLLATE UTF8_LCASE)", "COLLATE"),
        ("(name STRING MASK hidden)", "MASK"),
        ("(id BIGINT, PRIMARY KEY (id))", "PRIMARY"),
        ("WITH ROW FILTER f ON (id)", "WITH"),
        ("COMMENT 'x' SCHEDULE EVERY 1 HOUR", "SCHEDULE"),
        ("TBLPROPERTIES ('a' = 'b') TRIGGER ON UPDATE", "TRIGGER"),
    ],
)
def test_a_header_that_is_not_known_leaves_a_definition_out(tmp_path, header, clause):
    sql = f"{MV.format('1')}; CREATE MATERIALIZED VIEW v {header} AS SELECT id FROM t"
    found = project.read(written(tmp_path / "p", a__sql=sql))
    assert list(found.views) == ["v1"]
    assert f"left out: its definition has the clause {clause}, of which nothing can be made" in found.left[0]


@pytest.mark.parametrize(
    "header",
    [
        "(constraint, mask, `b c` COMMENT 'x')",
        "(id BIGINT NOT NULL COMMENT 'MASK', s STRUCT<a: DECIMAL(3, 1), b: ARRAY<STRING>>)",
        "USING delta PARTITIONED BY (a) CLUSTER BY AUTO COMMENT 'as' OPTIONS (a 'b') LOCATION '/x'",
        "CLUSTERED BY (id) SORTED BY (id DESC) INTO 4 BUCKETS PARTITIONED BY (bucket(4, id), day)",
        'cluster by (a, b) comment "x"',
    ],
)
def test_a_header_that_is_known(header):
    (found,) = statements.read(f"CREATE MATERIALIZED VIEW v {header} AS SELECT 1 AS one", "f")
    assert (found.sql, found.reason) == ("SELECT 1 AS one", "")


PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

session = SparkSession.active()
assert session is SparkSession.builder.appName("x").getOrCreate() is spark
{module}

@dp.materialized_view(name="shop.v")
def v():
    return {returned}

@dp.materialized_view(spark_conf={{"spark.sql.ansi.enabled": "false"}})
def kept():
    return session.read.format("delta").load("/lake/orders")
"""


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (
            'spark.sql("SELECT a FROM t WHERE a = :x", args={"x": 1})',
            "it gives spark.sql arguments; the query of a view has none",
        ),
        ('spark.sql("SELECT 1 AS one; SELECT 2 AS two")', "A view is one SELECT"),
        ('spark.read.format("csv").load("/x")', "it reads files of the format csv; a source is a Delta table"),
        ('spark.read.option("a", 1)', "it calls spark.read.option, which gives no SQL"),
        ('spark.conf.get("no")', "it asks for the setting no, which the project's configuration lacks"),
        ('spark.conf.set("a", "b")', "it calls spark.conf.set"),
        ('spark.table("t")["a"]', "it takes a column of a DataFrame, which has no SQL"),
        ("3", "its function returns int, where spark.sql or spark.table was expected"),
        ("exit(3)", "its function can't be run without a session: it ends the process by sys.exit(3)"),
        ("1 / 0", "its function can't be run without a session: ZeroDivisionError: division by zero"),
    ],
)
def test_functions_without_sql_are_told(tmp_path, returned, said):
    found = project.read(written(tmp_path / "p", a__py=PYTHON.format(returned=returned, module="")))
    assert found.views == {"kept": "SELECT * FROM delta.`/lake/orders`"}
    assert found.left[0].startswith(f"shop.v (transformations/a.py:9) is left out: {said}")
    assert found.left[1] == "kept (transformations/a.py:13) is taken over without spark_conf"
    assert not list(tmp_path.rglob("__pycache__")), "nothing is written beside the definitions"


def test_flows_and_repeated_names_of_functions(tmp_path):
    code = """
from pyspark import pipelines as dp
@dp.materialized_view
def v(): return spark.sql("SELECT 1 AS one; ")
dp.create_streaming_table("s", table_properties={"ivm.primary_key": "id"})
@dp.append_flow(target="s")
def late(): return spark.readStream.table("x")
dp.create_auto_cdc_flow("s", source="x", keys=["id"], sequence_by="at")
"""
    pytest.importorskip("grpc", reason="the extra connect is not installed")
    found = project.read(written(tmp_path / "p", a__py=code))
    assert found.views == {"v": "SELECT 1 AS one"}
    assert [line.split(";")[0] for line in found.left] == [
        "s (transformations/a.py:5) is a streaming table",
        "late (transformations/a.py:6) is a flow",
        "s (transformations/a.py:8) is a flow",
    ]
    with pytest.raises(ConfigError, match=r"v \(.*\) is called as v"):
        views(tmp_path / "q", a__py=code + "@dp.materialized_view\ndef v(): return spark.table('t')")


def test_what_a_temporary_view_loses_is_told(tmp_path):
    python = """
from pyspark import pipelines as dp
@dp.temporary_view(spark_conf={"spark.sql.ansi.enabled": "false"})
def part(): return spark.table("t")
"""
    sql = """
        CREATE TEMPORARY VIEW named (a, b) COMMENT 'x' AS SELECT 1, 2;
        CREATE MATERIALIZED VIEW v AS SELECT * FROM part, named
    """
    assert project.read(written(tmp_path / "p", a__py=python, b__sql=sql)).left == (
        "part (transformations/a.py:3) is taken over without spark_conf",
        "named (transformations/b.sql:2) is taken over without COMMENT",
    )


def test_a_file_that_fails_is_refused(tmp_path):
    from pyspark.sql import SparkSession

    before = vars(SparkSession)["active"]
    for n, (module, said) in enumerate(
        [
            ('rows = spark.sql("SELECT 1").collect()', "without a session: it calls DataFrame.collect, and"),
            ("import nowhere_to_be_found", "ModuleNotFoundError"),
            ("import sys; sys.exit()", r"without a session: it ends the process by sys.exit\(None\)"),
        ]
    ):
        with pytest.raises(ConfigError, match=said):
            views(tmp_path / str(n), a__py=PYTHON.format(returned="None", module=module))
    assert vars(SparkSession)["active"] is before


def test_damaged_definitions_are_refused_by_a_sentence(tmp_path):
    text, random = (SHOP / "transformations" / "totals.sql").read_text(), Random(1)
    pieces = [
        "(",
        ")",
        ";",
        "'",
        "`",
        " AS ",
        "CREATE ",
        " VIEW ",
        "TBLPROPERTIES",
        ",",
        "=",
        ".",
        "--",
        "/*",
        "WITH ",
        "",
    ]
    file, read = written(tmp_path / "p"), 0
    for _ in range(60):
        damaged = text
        for _ in range(random.randint(1, 5)):
            at = random.randrange(len(damaged))
            damaged = damaged[:at] + random.choice(pieces) + damaged[at + random.choice([0, 1, 3, 20]) :]
        (file.parent / "transformations" / "a.sql").write_text(damaged)
        with contextlib.suppress(IvmError):  # anything else is a failure
            project.look(project.read(file), "", {})
            read += 1
    assert 10 < read < 50
