"""The pairs of docs/from_dbt_incremental.md: the hand-written model goes wrong by the change, the view doesn't.

DuckDB runs the models, as dbt would, and stands in Spark's place for the views.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import jinja2
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.pipeline import Pipeline
from ivm.refresh.instants import as_instant
from ivm.sql.temporal import at_instant
from tests.pure.duck import duck
from tests.pure.duck_session import DuckSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from_dbt_incremental.md"
SECTIONS = re.findall(
    r"^## \d+\. (.*?)\n.*?^```jinja\n(.*?)^```$.*?^```change\n(.*?)^```$.*?^```sql\n(.*?)^```$",
    PAGE.read_text(), re.M | re.S,
)  # fmt: skip
BEFORE, AFTER = datetime(2026, 3, 10, 8, tzinfo=UTC), datetime(2026, 3, 12, 8, tzinfo=UTC)
#: The first column of each is its key.
TABLES = {
    "orders": """SELECT * FROM (VALUES
        (1::BIGINT, 'ann', 30::BIGINT, DATE '2026-03-01', DATE '2026-03-01'),
        (2, 'ann', 5, DATE '2026-03-03', DATE '2026-03-03'),
        (3, 'bob', 12, DATE '2026-03-04', DATE '2026-03-04'), (4, 'cid', 7, DATE '2026-03-10', DATE '2026-03-10'))
        AS t(id, customer, amount, placed_on, updated_on)""",
    "customers": "SELECT * FROM (VALUES ('ann', 'north'), ('bob', 'south'), ('cid', NULL)) AS t(customer, region)",
    "payments": "SELECT 1::BIGINT AS payment, 1::BIGINT AS order_id",
    "prices": """SELECT * FROM (VALUES
        (1::BIGINT, 'x', 10::BIGINT, DATE '2026-01-01'),
        (2, 'y', 20, DATE '2026-01-01'), (3, 'x', 11, DATE '2026-03-01'))
        AS t(change, sku, price, valid_from)""",
}  # fmt: skip


class Warehouse:
    """Tables, and a model's own table, as dbt leaves it."""

    def __init__(self):
        self.connection = duckdb.connect()
        for name, sql in TABLES.items():
            self.connection.execute(f"CREATE TABLE {name} AS {sql}")

    def rows(self, sql, now):
        return sorted(map(repr, self.connection.sql(duck(at_instant(sql, as_instant(now)))).fetchall()))

    def run(self, model, now):
        """`dbt run`: build the model, or bring the rows of its query into its table by its strategy."""
        built = bool(self.connection.sql("SELECT 1 FROM duckdb_tables() WHERE table_name = 'model'").fetchall())
        config = {}
        text = jinja2.Template(model).render(
            config=lambda **given: config.update(given) or "", ref=str, this="model", is_incremental=lambda: built
        )
        query = duck(at_instant(text, as_instant(now)))
        if not built:
            self.connection.execute(f"CREATE TABLE model AS {query}")
            return
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE fresh AS {query}")
        strategy = config["incremental_strategy"]
        assert strategy in ("append", "merge", "delete+insert", "insert_overwrite"), strategy
        if strategy != "append":
            key = config["partition_by" if strategy == "insert_overwrite" else "unique_key"]
            self.connection.execute(f"DELETE FROM model WHERE {key} IN (SELECT {key} FROM fresh)")
        self.connection.execute("INSERT INTO model SELECT * FROM fresh")


def write(warehouse, folder):
    for name in TABLES:
        data = warehouse.connection.sql(f"FROM {name}").to_arrow_table()
        write_deltalake(str(folder / name), data, configuration={"delta.enableChangeDataFeed": "true"})


def change(warehouse, folder, sql):
    """Change a table, in the warehouse and as a source."""
    if not sql.strip():
        return
    name = next(n for n in TABLES if re.search(rf"\b{n}\b", sql))
    connection = warehouse.connection
    connection.execute(f"CREATE OR REPLACE TEMP TABLE before AS FROM {name}")
    connection.execute(sql)
    key = connection.sql(f"FROM {name}").columns[0]
    gone = [v for (v,) in connection.sql(f"SELECT {key} FROM (FROM before EXCEPT ALL FROM {name})").fetchall()]
    if gone:
        DeltaTable(str(folder / name)).delete(f"{key} IN ({', '.join(map(repr, gone))})")
    come = connection.sql(f"FROM {name} EXCEPT ALL FROM before").to_arrow_table()
    if come.num_rows:
        write_deltalake(str(folder / name), come, mode="append")


def test_there_are_ten():
    assert len(SECTIONS) == 10


@pytest.mark.usefixtures("without_a_jvm")
@pytest.mark.parametrize(("title", "model", "changed", "view"), SECTIONS, ids=[s[0] for s in SECTIONS])
def test_the_model_goes_wrong_and_the_view_does_not(tmp_path, title, model, changed, view):
    warehouse, now = Warehouse(), [BEFORE]
    write(warehouse, tmp_path)
    pipe = Pipeline("from_dbt", DuckSession(), tmp_path / "root", clock=lambda: now[0])
    for name in TABLES:
        pipe.source(name, tmp_path / name)
    pipe.view("kept", view)
    warehouse.run(model, BEFORE)
    assert pipe.refresh().ok
    assert warehouse.rows("SELECT * FROM model", BEFORE) == warehouse.rows(view, BEFORE), "it was right before"
    change(warehouse, tmp_path, changed)
    now[0] = AFTER
    warehouse.run(model, AFTER)
    report = pipe.refresh()
    right = warehouse.rows(view, AFTER)
    assert warehouse.rows("SELECT * FROM model", AFTER) != right
    assert sorted(map(repr, pipe.read("kept").collect())) == right
    assert report.views["kept"].strategy == "incremental"
