"""`ivm adopt`: from queries to a pipeline folder that runs; DuckDB stands in Spark's place."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from ivm.adopt import look, queries, write
from ivm.cli.main import main
from ivm.config import load_folder
from ivm.errors import ConfigError, SourceError, ViewError
from ivm.feed.history import FEED
from ivm.pipeline import Pipeline
from tests.pure.duck_session import DuckSession

ORDERS = {"id": [1, 2, 3], "cust_id": [7, 7, 8], "day": [1, 1, 1]}
LINES = {"order_id": [1, 1, 2], "number": [1, 2, 1], "price": [5, 6, 7]}
CUSTOMERS = {"id": [7, 8], "region": ["n", None]}
SQL = "SELECT o.cust_id, sum(l.price) AS total FROM sales.Orders o JOIN lines l ON l.order_id = o.id GROUP BY o.cust_id"


@pytest.fixture
def lake(tmp_path):
    for name, data, feed in (("Orders", ORDERS, "true"), ("lines", LINES, "false"), ("customers", CUSTOMERS, "true")):
        write_deltalake(str(tmp_path / "lake" / name), pa.table(data), configuration={FEED: feed})
    return tmp_path / "lake"


def test_tables_are_found_and_their_keys_counted(lake):
    found = look(queries(SQL), str(lake))
    orders, lines = found.tables
    assert (orders.name, orders.written, orders.feed, orders.rows) == ("Orders", "sales.Orders", True, 3)
    assert orders.primary_key == ("id",)
    assert lines.primary_key == ("order_id", "number"), "no column alone is a key"
    assert lines.foreign_keys == {"order_id": "Orders"}
    assert found.without_feed == (lines,)
    assert found.views == {"adopted": SQL.replace("sales.Orders", "Orders")}


def test_what_counting_does_not_confirm_is_not_proposed(lake):
    more = pa.table({"order_id": [99, 1], "number": [1, 1], "price": [1, 1]})
    write_deltalake(str(lake / "lines"), more, mode="append")
    unknown = pa.table({"id": pa.array([None], pa.int64()), "region": ["x"]})
    write_deltalake(str(lake / "customers"), unknown, mode="append")
    views = {"a": SQL, "b": "SELECT c.region FROM Orders o JOIN customers c ON o.cust_id = c.id"}
    found = {t.name: t for t in look(views, str(lake)).tables}
    assert found["lines"].primary_key == ()
    assert found["lines"].foreign_keys == {}, "order 99 isn't there"
    assert found["customers"].primary_key == (), "a key has no NULL"


def test_where_a_table_lies(lake, tmp_path):
    by_path = look({"v": f"SELECT id FROM delta.`{lake}/Orders`"})
    assert [(t.name, t.location) for t in by_path.tables] == [("Orders", f"{lake}/Orders")]
    assert by_path.views == {"v": "SELECT id FROM Orders"}
    said = look({"v": "SELECT orders.id FROM a.orders, b.orders x"}, places={"A.orders": f"{lake}/Orders"})
    assert [(t.name, t.location, t.feed) for t in said.tables] == [
        ("orders", f"{lake}/Orders", True),
        ("b_orders", "b.orders", None),
    ]
    assert said.views == {"v": "SELECT orders.id FROM orders, b_orders x"}
    with pytest.raises(SourceError, match="not a Delta table"):
        look({"v": "SELECT 1 AS one FROM t"}, places={"t": str(tmp_path)})
    with pytest.raises(ConfigError, match="No query reads other"):
        look({"v": "SELECT 1 AS one FROM t"}, places={"other": str(tmp_path)})
    with pytest.raises(ViewError, match="one SELECT"):
        look(queries("DROP TABLE t"))


@pytest.mark.parametrize(
    ("sql", "given"), [("SELECT id FROM Orders", {"orders": "lake/Orders"}), ("SELECT id FROM delta.`lake/Orders`", {})]
)
def test_a_relative_path_means_the_current_folder(lake, tmp_path, monkeypatch, sql, given):
    monkeypatch.chdir(tmp_path)
    found = look({"v": sql}, places=given)
    write(found, tmp_path / "pipelines" / "shop", "shop")
    assert [s.location for s in load_folder(tmp_path / "pipelines" / "shop").sources] == [f"{lake}/Orders"]


def test_two_tables_of_one_name_do_not_lie_in_one_folder(lake):
    both = {"v": "SELECT id FROM sales.Orders UNION ALL SELECT id FROM web.Orders"}
    with pytest.raises(ConfigError, match=r"sales.Orders and web.Orders would both be the table at") as error:
        look(both, str(lake))
    assert "--table sales.Orders=PLACE" in error.value.hint
    found = look(both, str(lake), {"web.orders": "web.Orders"})
    assert [(t.name, t.location) for t in found.tables] == [("Orders", f"{lake}/Orders"), ("web_Orders", "web.Orders")]


def test_a_table_is_not_taken_for_an_entry_of_with():
    hidden = "WITH orders AS (SELECT id FROM web.orders) SELECT o.id FROM orders o JOIN web.orders w ON w.id = o.id"
    called = hidden.replace("web.orders)", "web_orders AS `orders`)").replace("web.orders w", "web_orders w")
    assert look({"v": hidden}).views == {"v": called}
    twice = (
        "WITH orders AS (SELECT id FROM web.orders), web_orders AS (SELECT id FROM orders WHERE id > 1) "
        "SELECT o.id FROM web.orders o LEFT ANTI JOIN web_orders USING (id)"
    )
    called = twice.replace("web.orders)", "web_orders_1 AS `orders`)").replace("web.orders o", "web_orders_1 o")
    assert look({"v": twice}).views == {"v": called}, "the second name is another entry's"
    own = "WITH orders AS (SELECT id FROM web.orders) SELECT id FROM orders"
    assert look({"v": own}).views == {"v": own.replace("web.orders", "orders")}, "there it means the table"


def test_a_folder_of_queries_becomes_a_pipeline_that_runs(lake, tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    folder = tmp_path / "queries"
    folder.mkdir()
    (folder / "totals.sql").write_text(SQL + ";\n")
    (folder / ".hidden.sql").write_text("nothing")
    (folder / "rich.SQL").write_text("SELECT cust_id FROM totals WHERE total > 7")
    found = look(queries(str(folder)), str(lake))
    assert {t.name for t in found.tables} == {"Orders", "lines"}, "a view is no table"
    files = write(found, tmp_path / "shop", "shop")
    assert len(files) == 3
    with pytest.raises(ConfigError, match="already holds"):
        write(found, tmp_path / "shop", "shop")
    written = yaml.safe_load((tmp_path / "shop" / "pipeline.yml").read_text())
    assert written["sources"]["lines"] == {
        "path": f"{lake}/lines",
        "primary_key": ["order_id", "number"],
        "foreign_keys": {"order_id": "Orders"},
    }
    DeltaTable(str(lake / "lines")).alter.set_table_properties({FEED: "true"})
    pipe = Pipeline.load(tmp_path / "shop", DuckSession())
    assert pipe.refresh().ok
    assert sorted(pipe.read("totals").collect()) == [(7, 18)]
    assert pipe.read("rich").collect() == [(7,)]


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["adopt", *arguments])
    return end.value.code


def test_a_feed_is_switched_on_only_where_that_is_said(lake, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    monkeypatch.setattr("ivm.declarations.get_session", lambda **_: DuckSession())
    monkeypatch.setattr("ivm.cli.terminal.out.size", (250, 50))
    shop = ("--to", str(tmp_path / "shop"), "--tables", str(lake))
    before = DeltaTable(str(lake / "lines")).version()
    assert run(SQL, *shop) == 1
    assert "no change feed: lines" in capsys.readouterr().err.replace("\n", " ")
    assert run(SQL, *shop, "--json") == 1
    assert not (tmp_path / "shop").exists()
    assert DeltaTable(str(lake / "lines")).version() == before
    capsys.readouterr()
    assert run(SQL, "--to", str(tmp_path / "without"), "--tables", str(lake), "--no") == 0
    assert DeltaTable(str(lake / "lines")).version() == before, "it is followed by its files"
    assert "first time" in capsys.readouterr().out.replace("\n", " ")
    assert run(SQL, *shop, "--yes", "--name", "totals") == 0
    shown = capsys.readouterr().out
    assert "first time" in shown.replace("\n", " ")
    assert DeltaTable(str(lake / "lines")).metadata().configuration[FEED] == "true"
    assert DeltaTable(str(lake / "lines")).version() == before + 1
    assert run(SQL, "--to", str(tmp_path / "two"), "--tables", str(lake), "--json") == 0, "they are on now"
    assert [t["name"] for t in json.loads(capsys.readouterr().out)["tables"]] == ["Orders", "lines"]
