"""`ivm adopt --dbt`: a project as real dbt compiled it becomes a pipeline whose views equal the compiled SQL.

DuckDB stands in Spark's place, and runs what dbt would have run.
"""

from __future__ import annotations

import json
import re

import duckdb
import jinja2
import pytest
import yaml
from deltalake import DeltaTable

from ivm.cli.main import main
from ivm.dbt import project as projects
from ivm.dbt.manifest import read
from ivm.errors import ConfigError, ViewError
from ivm.pipeline import Pipeline
from tests.dbt_project import MANIFEST, PACKAGE, TABLES, put, write_tables
from tests.pure.duck import duck
from tests.pure.duck_session import DuckSession

VIEWS = ["best", "daily", "revenue", "stg_orders"]
ORPHANS = "relationships_stg_orders_region__region__ref_regions_"
RELATIONS = {"orders": "shop_raw.orders", "order_lines": "shop_raw.order_lines", "regions": "shop.regions"}
PLACES = {"raw.orders": "orders", "shop_raw.order_lines": "order_lines", "regions": "regions"}


@pytest.fixture
def lake(tmp_path):
    return write_tables(tmp_path / "lake", *TABLES)


def places(lake):
    return {name: str(lake / table) for name, table in PLACES.items()}


def changed(tmp_path, change, results=True):
    """The manifest, changed by a function; with the results of its own run, or without."""
    folder = tmp_path / "target"
    folder.mkdir(exist_ok=True)
    data = json.loads(MANIFEST.read_text())
    change(data)
    (folder / "manifest.json").write_text(json.dumps(data))
    (folder / "run_results.json").unlink(missing_ok=True)
    if results:
        (folder / "run_results.json").write_text(MANIFEST.with_name("run_results.json").read_text())
    return folder / "manifest.json"


def set_in(model, **values):
    return lambda data: data["nodes"][f"model.shop.{model}"].update(values)


def configured(model, **values):
    return lambda data: data["nodes"][f"model.shop.{model}"]["config"].update(values)


def expected(lake, manifest=MANIFEST):
    """The rows of each model, by its compiled SQL over the tables as dbt calls them."""
    nodes = json.loads(manifest.read_text())["nodes"]
    connection = duckdb.connect()
    connection.execute("CREATE SCHEMA shop_raw; CREATE SCHEMA shop")
    for name, relation in RELATIONS.items():
        connection.register("t", DeltaTable(str(lake / name)).to_pyarrow_table())
        connection.execute(f"CREATE TABLE {relation} AS FROM t")
    for view in ("stg_orders", "revenue", "daily", "best"):
        connection.execute(f"CREATE VIEW shop.{view} AS {duck(nodes[f'model.shop.{view}']['compiled_code'])}")
    return {v: sorted(map(repr, connection.sql(f"FROM shop.{v}").fetchall())) for v in VIEWS}


def rows(pipe):
    return {v: sorted(map(repr, pipe.read(v).collect())) for v in VIEWS}


def test_models_become_views_and_the_rest_is_named(lake):
    taken = projects.take(MANIFEST, places=places(lake))
    found = taken.adoption
    assert sorted(found.views) == sorted([*VIEWS, ORPHANS])
    assert {t.name: t.location for t in found.tables} == {n: str(lake / n) for n in TABLES}
    assert {t.name: t.primary_key for t in found.tables}["orders"] == ("id",)
    assert "from stg_orders o" in found.views["revenue"], "a ref is the view's name"
    assert "from order_lines" in found.views["revenue"], "an ephemeral model is in its WITH"
    assert "max(placed_on)" not in found.views["daily"]
    assert {one.what: one.why.split(":")[0] for one in taken.left} == {
        "forecast": "it is written in Python",
        "regions": "a seed",
        "orders_history": "a snapshot",
        "old_revenue": "it is disabled",
        "no_negative_revenue": "a query of its own",
        "revenue_of_big": "its where has no counterpart in an expectation",
        "source_unique_raw_orders_id": "it tests what is no view of the pipeline",
    }


def test_tests_become_checks(lake):
    checks = projects.take(MANIFEST, places=places(lake)).adoption.checks
    of = {v: {next(iter(r)): r[next(iter(r))] for r in c["state"]} for v, c in checks.items()}
    assert of["stg_orders"] == {
        "expect_column_values_to_be_unique": {"column": "order_id"},
        "expect_column_values_to_not_be_null": {"column": "order_id"},
        "expect_column_values_to_be_in_set": {"column": "status", "value_set": ["open", "paid", "returned"]},
    }
    assert of["revenue"]["expect_column_values_to_not_be_null"] == {"column": "revenue", "severity": "warn"}
    assert of["revenue"]["expect_column_values_to_be_in_set"]["value_set"] == [1, 2, 3, 4]
    assert of[ORPHANS] == {"expect_table_row_count_to_equal": {"value": 0}}


@pytest.mark.usefixtures("without_a_jvm")
def test_the_pipeline_equals_what_dbt_compiled(lake, tmp_path):
    taken = projects.take(MANIFEST, places=places(lake))
    projects.write(taken, tmp_path / "shop", "shop", "./out")
    assert not (tmp_path / "shop" / "dbt_vars.json").exists(), "no model is materialized as 'ivm'"
    pipe = Pipeline.load(tmp_path / "shop", DuckSession())
    assert pipe.refresh().ok
    assert rows(pipe) == expected(lake)
    put(lake, "orders", "id IN (2, 3)", (2, "ann", "north", "d1", "paid"), (5, "bob", None, "d0", "paid"))
    put(lake, "order_lines", "order_id = 2", (2, 1, 3, 1))
    report = pipe.refresh()
    assert report.ok
    assert {v: (one.strategy, one.reason) for v, one in report.views.items() if one.strategy == "full"} == {}
    assert rows(pipe) == expected(lake)
    assert len(rows(pipe)["daily"]) == 2, "an order that came late counts"


@pytest.mark.usefixtures("without_a_jvm")
def test_a_failing_test_holds_back(lake, tmp_path):
    projects.write(projects.take(MANIFEST, places=places(lake)), tmp_path / "shop", "shop", "./out")
    pipe = Pipeline.load(tmp_path / "shop", DuckSession())
    assert pipe.refresh().ok
    before = rows(pipe)
    put(lake, "orders", "id = 1", (1, "ann", "north", "d1", "lost"))
    assert not pipe.refresh().ok
    assert rows(pipe) == before, "status has another value than the test accepts"
    put(lake, "orders", "id = 1", (1, "ann", "east", "d1", "open"))
    report = pipe.refresh()
    assert [v for v, one in report.views.items() if one.error] == [ORPHANS], "no region is called east"
    assert rows(pipe) == expected(lake), "the model itself is published, as by dbt"


def test_models_can_be_chosen(lake, tmp_path):
    some = projects.take(MANIFEST, ["best"], places={"shop.revenue": str(lake / "regions")})
    assert (list(some.adoption.views), [t.name for t in some.adoption.tables]) == (["best"], ["revenue"])
    assert ("daily", "it was not asked for") in {(one.what, one.why.split(":")[0]) for one in some.left}
    with_views = projects.take(MANIFEST, ["revenue"], places=places(lake))
    assert sorted(with_views.adoption.views) == [ORPHANS, "revenue", "stg_orders"], "a view has no table to read"
    with pytest.raises(ConfigError, match="forecast is no model in SQL"):
        projects.take(MANIFEST, ["forecast"])
    declared = projects.take(changed(tmp_path, configured("revenue", materialized="ivm")), places=places(lake))
    assert sorted(declared.adoption.views) == [ORPHANS, "revenue", "stg_orders"]
    assert list(declared.declared) == ["model.shop.revenue"]


def test_a_model_reads_the_table_of_one_in_python(tmp_path):
    read_it = changed(tmp_path, set_in("best", compiled_code="select placed_on from shop.forecast"))
    tables = projects.take(read_it, ["best"]).adoption.tables
    assert [(t.name, t.location) for t in tables] == [("forecast", "shop.forecast")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["metadata"].update(dbt_schema_version="v11.json"), "version 12 is read"),
        (lambda d: d["metadata"].update(adapter_type="duckdb"), "adapter 'duckdb'"),
        (lambda d: d.pop("metadata"), "no manifest of dbt's"),
        (lambda d: d.pop("nodes"), "not as dbt writes it: KeyError at 'nodes'"),
        (lambda d: d["nodes"]["model.shop.best"].pop("compiled_code"), "best is not compiled"),
        (lambda d: d["metadata"].update(invocation_id="another"), "Model daily is incremental, and nothing proves"),
        (configured("daily", full_refresh=False), "Model daily is incremental, and nothing proves"),
        (configured("daily", incremental_strategy="microbatch", begin="2026-01-01"), "daily is incremental by microb"),
        (set_in("best", compiled_code="select 1 as one from shop.best"), "reads its own table shop.best"),
        (set_in("best", name=ORPHANS), "is called as another test or a model"),
        (set_in("best", name="Revenue"), "Several models are called revenue"),
        (
            set_in("best", compiled_code="with revenue as (select 1) select * from shop.revenue"),
            "entry revenue in its WITH",
        ),
    ],
)
def test_what_is_refused(tmp_path, change, message):
    with pytest.raises(ConfigError, match=message):
        projects.take(changed(tmp_path, change))


def test_a_table_without_a_schema_is_not_the_model_of_that_name(tmp_path):
    models = {"Orders": "select id from raw.orders", "c": "select id from orders"}
    with pytest.raises(ConfigError, match="Model c reads orders, a table without a schema"):
        projects.take(of_orders(tmp_path, **models))
    file = of_orders(tmp_path, **models)
    file.write_text(file.read_text().replace('"shop.Orders"', '"orders"'))
    assert projects.take(file).adoption.views["c"].endswith("select id from Orders"), "the model itself is called so"


def test_sql_that_is_no_query_is_refused_by_name(tmp_path):
    with pytest.raises(ViewError, match="Model best: A view is one SELECT"):
        projects.take(changed(tmp_path, set_in("best", compiled_code="drop table t")))
    with pytest.raises(ViewError, match=r"Model best: Its SQL holds \$\{region\}"):
        projects.take(changed(tmp_path, set_in("best", compiled_code="select '${region}' as r")))


def test_the_proof_that_an_incremental_model_is_whole(tmp_path):
    assert read(changed(tmp_path, lambda d: None)).partial == frozenset()
    assert read(changed(tmp_path, lambda d: None, results=False)).partial == {"model.shop.daily"}
    own = changed(tmp_path, configured("daily", full_refresh=True), results=False)
    assert read(own).partial == frozenset(), "the model says so itself"
    through = set_in("daily", raw_code="{{ late() }}")
    assert read(changed(tmp_path, through, results=False)).partial == {"model.shop.daily"}, "a macro calls it"

    def unaware(data):
        data["nodes"]["model.shop.daily"].update(raw_code="select 1", depends_on={"macros": [], "nodes": []})

    assert read(changed(tmp_path, unaware, results=False)).partial == frozenset()


WAYS = {
    "flags": ("not flags.FULL_REFRESH", []),
    "arguments": ("not invocation_args_dict['full_refresh']", []),
    "should_full_refresh": ("not should_full_refresh()", ["macro.dbt.should_full_refresh"]),
    "a macro": ("late()", ["macro.shop.late"]),
}


def cut(condition, macros):
    """Daily adds what another condition than is_incremental() says."""
    raw = f"select placed_on from {{{{ ref('stg_orders') }}}} {{% if {condition} %}} where placed_on > 1 {{% endif %}}"

    def change(data):
        data["nodes"]["model.shop.daily"].update(
            raw_code=raw, depends_on={"macros": macros, "nodes": ["model.shop.stg_orders"]}
        )
        data["macros"]["macro.shop.late"] = {
            "depends_on": {"macros": []},
            "macro_sql": "{% if not flags.FULL_REFRESH %}1{% endif %}",
        }

    return change


@pytest.mark.parametrize(("condition", "macros"), WAYS.values(), ids=WAYS)
def test_a_model_that_adds_by_another_condition_needs_the_proof(tmp_path, condition, macros):
    change = cut(condition, macros)
    assert read(changed(tmp_path, change)).partial == frozenset()
    with pytest.raises(ConfigError, match="Model daily is incremental, and nothing proves"):
        projects.take(changed(tmp_path, change, results=False))


def test_a_models_own_word_is_not_the_commands(tmp_path):
    def change(data):
        cut("not flags.FULL_REFRESH", [])(data)
        configured("daily", full_refresh=True)(data)

    assert read(changed(tmp_path, change, results=False)).partial == {"model.shop.daily"}


def test_what_only_names_tables_needs_no_proof(tmp_path):
    raw = "{{ config(materialized='incremental') }} {# {% if x %} #} select {{ var('n') }} as n from {{ ref('a') }}"

    def of(text):
        change = set_in("daily", raw_code=text, depends_on={"macros": [], "nodes": []})
        return read(changed(tmp_path, change, results=False)).partial

    assert of(raw) == frozenset()
    assert of(raw.replace("'a'", "'a' if flags.FULL_REFRESH else 'b'")) == {"model.shop.daily"}
    assert of(raw.replace("'a'", "'b', 'a', v=2")) == frozenset()


@pytest.mark.parametrize(
    ("condition", "macros", "text"),
    [
        ("load_relation(this) is not none", ["macro.dbt.load_relation"], ""),
        ("adapter.get_relation(this.database, this.schema, this.name)", [], ""),
        ("adapter.get_columns_in_relation(this)", [], ""),
        ("built()", ["macro.shop.built"], "{% set r = adapter.get_relation(this.database, this.schema, this.name) %}"),
    ],
)
def test_a_model_that_asks_for_its_table_is_refused(tmp_path, condition, macros, text):
    def change(data):
        cut(condition, macros)(data)
        data["macros"]["macro.shop.built"] = {"depends_on": {"macros": []}, "macro_sql": text}

    with pytest.raises(ConfigError, match="Model daily is incremental and asks by Jinja which tables"):
        projects.take(changed(tmp_path, change))


def test_is_incremental_itself_may_ask(tmp_path):
    def change(data):
        own = data["macros"]["macro.dbt.is_incremental"]
        own["macro_sql"] = "{% set relation = adapter.get_relation(this.database, this.schema, this.table) %}"

    project = read(changed(tmp_path, change))
    assert (project.partial, project.asking) == (frozenset(), frozenset())
    assert not any(m.momentary for m in project.models.values())


def test_what_is_of_the_moment_is_named(tmp_path):
    def change(data):
        data["nodes"]["model.shop.best"]["raw_code"] = "select '{{ run_started_at }}' as at"
        data["nodes"]["model.shop.revenue"]["config"]["post-hook"] = [{"sql": "analyze"}]
        data["nodes"]["model.shop.daily"]["depends_on"]["macros"].append("macro.dbt.run_query")

    found = {(one.what, one.why) for one in projects.take(changed(tmp_path, change)).left}
    assert ("best", "its SQL holds run_started_at as of the compilation") in found
    assert ("daily", "its SQL holds an answer of the warehouse as of the compilation") in found
    assert ("revenue", "its hooks are not run") in found


def test_what_is_of_the_moment_in_what_a_model_contains(tmp_path):
    def change(data):
        data["macros"]["macro.shop.is_test"]["macro_sql"] = "{{ modules.datetime.datetime.now() }}"
        lines = data["nodes"]["model.shop.stg_lines"]
        lines["raw_code"] = "select '{{ invocation_id }}' as at"
        lines["depends_on"]["macros"] = ["macro.dbt.run_query"]

    found = {(one.what, one.why) for one in projects.take(changed(tmp_path, change)).left}
    assert ("stg_orders", "its SQL holds modules.datetime as of the compilation") in found
    assert ("revenue", "its SQL holds invocation_id, an answer of the warehouse as of the compilation") in found


def test_a_header_is_named(tmp_path):
    found = projects.take(changed(tmp_path, configured("best", sql_header="set x = 1;"))).left
    assert "its sql_header is not run" in next(one.why for one in found if one.what == "best")


@pytest.mark.parametrize("cut", [{"empty": True}, {"sample": "3 days"}])
def test_a_compilation_that_leaves_rows_out_is_refused(tmp_path, cut):
    file = changed(tmp_path, lambda d: None)
    results = json.loads(file.with_name("run_results.json").read_text())
    results["args"] |= {"empty": False, "sample": None} | cut
    file.with_name("run_results.json").write_text(json.dumps(results))
    with pytest.raises(ConfigError, match=f"compiled with --{next(iter(cut))}, which leaves rows out"):
        read(file)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"config": {"error_if": ">10"}}, "its error_if has no counterpart"),
        ({"column_name": "lower(status)"}, "is no column's name"),
        ({"test_metadata": {"name": "accepted_values", "kwargs": {"values": ["'a'"], "quote": False}}}, "expressions"),
        ({"test_metadata": {"name": "accepted_values", "kwargs": {"values": ["{{ var('x') }}"]}}}, "when dbt runs"),
        ({"test_metadata": {"namespace": "dbt_utils", "name": "not_constant", "kwargs": {}}}, "dbt_utils.not_constant"),
        ({"attached_node": "model.shop.forecast"}, "no view of the pipeline"),
        (
            {"depends_on": {"macros": ["macro.shop.test_accepted_values"], "nodes": []}},
            "shop.accepted_values has no expectation in its place",
        ),
    ],
)
def test_tests_that_stay_with_dbt(tmp_path, change, why):
    name = "accepted_values_stg_orders_status__open__paid__returned"

    def altered(data):
        node = next(n for n in data["nodes"].values() if n["alias"] == name)
        config = node["config"] | change.get("config", {})
        node.update({**change, "config": config})

    taken = projects.take(changed(tmp_path, altered))
    assert why in next(one.why for one in taken.left if one.what == name)
    assert len(taken.adoption.checks["stg_orders"]["state"]) == 2


def test_a_test_that_reads_a_view_of_dbt_stays_with_dbt(lake, tmp_path):
    def change(data):
        test = next(n for n in data["nodes"].values() if n["alias"] == ORPHANS)
        test["compiled_code"] = test["compiled_code"].replace("shop.regions", "shop.best")
        test["depends_on"]["nodes"] = ["model.shop.stg_orders", "model.shop.best"]

    file = changed(tmp_path, change)
    assert ORPHANS in projects.take(file, ["stg_orders"]).adoption.views, "best is a table"

    def viewed(data):
        change(data)
        configured("best", materialized="view")(data)

    taken = projects.take(changed(tmp_path, viewed), ["stg_orders"])
    assert list(taken.adoption.views) == ["stg_orders"]
    assert "reads the model best, which has no table" in next(o.why for o in taken.left if o.what == ORPHANS)
    assert ORPHANS in projects.take(changed(tmp_path, viewed), places=places(lake)).adoption.views, "best is a view"


def test_a_test_whose_sql_hides_a_model_stays_with_dbt(tmp_path):
    """dbt's own SQL of `relationships` has entries `child` and `parent`, and a model may be called so."""

    def change(data):
        test = next(n for n in data["nodes"].values() if n["alias"] == ORPHANS)
        test["compiled_code"] = test["compiled_code"].replace("shop.regions", "shop.child")
        set_in("best", name="child", relation_name="shop.child")(data)

    taken = projects.take(changed(tmp_path, change))
    assert ORPHANS not in taken.adoption.views
    assert ORPHANS not in taken.adoption.checks
    assert "reads the model child where that entry hides it" in next(o.why for o in taken.left if o.what == ORPHANS)


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["adopt", *arguments])
    return end.value.code


@pytest.mark.usefixtures("without_a_jvm")
def test_again(lake, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("ivm.declarations.get_session", lambda **_: DuckSession())
    shop = tmp_path / "shop"
    given = [p for name, place in places(lake).items() for p in ("--table", f"{name}={place}")]
    first = changed(tmp_path, configured("revenue", materialized="ivm"))
    assert run("--dbt", str(first), "--to", str(shop), "--root", str(tmp_path / "out"), *given) == 0
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    assert "no_negative_revenue" in shown
    known = json.loads((shop / "dbt_vars.json").read_text())["ivm_views"]
    assert known["model.shop.revenue"]["table"] == f"delta.`{tmp_path}/out/revenue`"
    owned = (shop / "pipeline.yml").read_text() + "# mine\n"
    (shop / "pipeline.yml").write_text(owned)
    (shop / "views" / "mine.sql").write_text("SELECT customer FROM revenue")

    def change(data):
        configured("revenue", materialized="ivm")(data)
        compiled = data["nodes"]["model.shop.revenue"]["compiled_code"].replace("left join", "join")
        set_in("revenue", compiled_code=compiled)(data)
        data["nodes"] = {i: n for i, n in data["nodes"].items() if "relationships" not in i}

    assert run("--dbt", str(changed(tmp_path, change)), "--to", str(shop), *given) == 1, "it is there"
    assert run("--dbt", str(changed(tmp_path, change)), "--to", str(shop), "--again", "--json", *given) == 0
    assert (shop / "pipeline.yml").read_text() == owned
    assert sorted(f.stem for f in (shop / "views").iterdir()) == ["mine", "revenue", "stg_orders"]
    assert "left join" not in (shop / "views" / "revenue.sql").read_text()
    again = json.loads((shop / "dbt_vars.json").read_text())["ivm_views"]
    assert again["model.shop.revenue"]["md5"] != known["model.shop.revenue"]["md5"]
    (shop / "views" / "best.sql").write_text("SELECT 1 AS mine")
    capsys.readouterr()
    assert run("--dbt", str(MANIFEST), "--to", str(shop), "--again", *given) == 1
    assert "best.sql didn't come from dbt" in capsys.readouterr().err
    known_sources = {"orders": {"path": str(lake / "orders")}}
    (shop / "pipeline.yml").write_text(yaml.safe_dump({"name": "shop", "root": "./out", "sources": known_sources}))
    assert run("--dbt", str(changed(tmp_path, change)), "--to", str(shop), "--again", *given) == 1
    assert "has no source order_lines, regions" in capsys.readouterr().err


def of_orders(tmp_path, **models):
    """The manifest with these models of one select alone."""

    def change(data):
        best = data["nodes"]["model.shop.best"]
        made = {
            f"model.shop.{name}": {
                **best,
                "unique_id": f"model.shop.{name}",
                "name": name,
                "relation_name": f"shop.{name}",
                "compiled_code": sql,
                "depends_on": {"macros": [], "nodes": []},
            }
            for name, sql in models.items()
        }
        data["nodes"] = made

    return changed(tmp_path, change)


@pytest.mark.usefixtures("without_a_jvm")
def test_again_sources_keep_their_names(lake, tmp_path):
    shop = tmp_path / "shop"
    first = of_orders(tmp_path, b="select id from sales.orders")
    projects.write(projects.take(first), shop, "shop", "./out")
    assert yaml.safe_load((shop / "pipeline.yml").read_text())["sources"] == {"orders": {"table": "sales.orders"}}
    both = {"a": "select id from web.orders", "b": "select id from sales.orders"}
    again = projects.take(of_orders(tmp_path, **both), pipeline=shop)
    with pytest.raises(ConfigError, match=r"has no source web_orders, .* none lies at web.orders") as error:
        projects.write(again, shop, "shop", "", again=True)
    assert "`web_orders: {table: web.orders}`" in error.value.hint
    with pytest.raises(ConfigError, match="has no source orders, sales_orders"):
        projects.write(projects.take(of_orders(tmp_path, **both)), shop, "shop", "", again=True)
    (shop / "pipeline.yml").write_text((shop / "pipeline.yml").read_text() + "  web_orders: {table: web.orders}\n")
    projects.write(projects.take(of_orders(tmp_path, **both), pipeline=shop), shop, "shop", "", again=True)
    read = {v: (shop / "views" / f"{v}.sql").read_text().splitlines()[1] for v in both}
    assert read == {"a": "select id from web_orders AS `orders`", "b": "select id from orders"}


@pytest.mark.usefixtures("without_a_jvm")
def test_again_another_table_is_no_source_that_is_there(lake, tmp_path):
    shop = tmp_path / "shop"
    projects.write(projects.take(of_orders(tmp_path, b="select id from sales.orders")), shop, "shop", "./out")
    kept = (shop / "views" / "b.sql").read_text()
    moved = of_orders(tmp_path, b="select id from prod.orders")
    with pytest.raises(ConfigError, match="has no source prod_orders"):
        projects.write(projects.take(moved, pipeline=shop), shop, "shop", "", again=True)
    placed = projects.take(moved, places={"prod.orders": str(lake / "orders")}, pipeline=shop)
    with pytest.raises(ConfigError, match=f"none lies at {lake}/orders, as prod.orders does"):
        projects.write(placed, shop, "shop", "", again=True)
    assert (shop / "views" / "b.sql").read_text() == kept
    made = (shop / "pipeline.yml").read_text()
    (shop / "pipeline.yml").write_text(made.replace("table: sales.orders", "path: ../lake/orders"))
    placed = projects.take(moved, places={"prod.orders": str(lake / "orders")}, pipeline=shop)
    projects.write(placed, shop, "shop", "", again=True)
    assert (shop / "views" / "b.sql").read_text() == kept.replace("sales.orders", "orders")


@pytest.mark.usefixtures("without_a_jvm")
def test_again_a_model_is_called_as_a_source(tmp_path):
    shop = tmp_path / "shop"
    projects.write(projects.take(of_orders(tmp_path, b="select id from sales.orders")), shop, "shop", "./out")
    both = of_orders(tmp_path, b="select id from sales.orders", orders="select 1 as id")
    with pytest.raises(ConfigError, match="has a source orders, and the project a model"):
        projects.write(projects.take(both, pipeline=shop), shop, "shop", "", again=True)
    (shop / "pipeline.yml").write_text((shop / "pipeline.yml").read_text().replace("  orders:", "  sold:"))
    projects.write(projects.take(both, pipeline=shop), shop, "shop", "", again=True)
    assert "from sold AS `orders`" in (shop / "views" / "b.sql").read_text()


def adopted(known, model, sql, nodes):
    """What the package's macro `adopted` returns or raises, with stand-ins for what dbt gives it."""

    def refuse(message):
        raise ConfigError(message)

    returned = []
    macro = re.search(r"\{% macro adopted.*?endmacro %\}", (PACKAGE / "macros" / "ivm.sql").read_text(), re.S)[0]
    context = {
        "var": lambda name, default: known,
        "local_md5": projects.fingerprint,
        "graph": {"nodes": nodes},
        "exceptions": {"raise_compiler_error": refuse},
        "return": returned.append,
    }
    jinja2.Template(macro + "{{ adopted(model, sql) }}").render(context, model=model, sql=sql)
    return returned[0]


@pytest.mark.usefixtures("without_a_jvm")
def test_the_macro_takes_what_was_adopted_and_nothing_older(lake, tmp_path):
    file = changed(tmp_path, configured("revenue", materialized="ivm"))
    projects.write(projects.take(file, places=places(lake)), tmp_path / "shop", "shop", "./out")
    known = json.loads((tmp_path / "shop" / "dbt_vars.json").read_text())["ivm_views"]
    revenue = "model.shop.revenue"
    assert sorted(known[revenue]["under"]) == ["model.shop.stg_lines", "model.shop.stg_orders"]
    nodes = json.loads(file.read_text())["nodes"]
    sql = nodes[revenue]["compiled_code"]
    assert adopted(known, revenue, sql, nodes)["table"].endswith("/out/revenue`")
    for known_, model, text, said in (
        (None, revenue, sql, "needs to know what ivm adopted"),
        (known, "model.shop.best", sql, "has not adopted model.shop.best"),
        (known, revenue, sql + " limit 1", "keeps an older query of model.shop.revenue"),
    ):
        with pytest.raises(ConfigError, match=said):
            adopted(known_, model, text, nodes)
    nodes["model.shop.stg_orders"]["raw_code"] += " and status = 'paid'"
    with pytest.raises(ConfigError, match=r"over an older model.shop.stg_orders: .*--again"):
        adopted(known, revenue, sql, nodes)
    del nodes["model.shop.stg_orders"]
    with pytest.raises(ConfigError, match=r"over an older model.shop.stg_orders"):
        adopted(known, revenue, sql, nodes)


@pytest.mark.usefixtures("without_a_jvm")
def test_where_a_model_with_capitals_is_published(lake, tmp_path):
    def change(data):
        set_in("stg_orders", name="Stg_Orders")(data)
        configured("stg_orders", materialized="ivm")(data)
        data["nodes"] = {i: n for i, n in data["nodes"].items() if not i.startswith("test.")}

    taken = projects.take(changed(tmp_path, change), places={"raw.orders": str(lake / "orders")})
    projects.write(taken, tmp_path / "shop", "shop", "./out")
    pipe = Pipeline.load(tmp_path / "shop", DuckSession())
    assert pipe.refresh().ok
    (known,) = json.loads((tmp_path / "shop" / "dbt_vars.json").read_text())["ivm_views"].values()
    assert DeltaTable(known["table"].removeprefix("delta.").strip("`")).version() >= 0


def test_a_query_or_a_project(tmp_path, capsys):
    assert run("--to", str(tmp_path / "x")) == 1
    assert run("SELECT 1 AS one", "--to", str(tmp_path / "x"), "--again") == 1
    assert "--again go with --dbt" in capsys.readouterr().err
