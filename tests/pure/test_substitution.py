"""No text is kept as a view in which Spark would replace `${...}` before it reads it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from ivm.adopt import look
from ivm.compile.passes import compile_sql
from ivm.config import check_checks
from ivm.errors import ConfigError, ViewError
from ivm.pipeline import Pipeline
from ivm.plan.nodes import Column, Relation
from ivm.sql.analyzer import Function
from ivm.sql.substitution import written_out
from tests.pure.duck import DuckAnalyzer
from tests.pure.duck_session import DuckSession

BEFORE = "refresh"
HELD = {
    "in a string": "SELECT id, '${env:HOME}' AS home FROM t",
    "in a comment": "SELECT id FROM t -- of ${region}",
    "in a name": "SELECT id AS `${region}` FROM t",
    "as it is": "SELECT id, ${spark:least} AS least FROM t",
    "cut off": "SELECT id, '${' AS s, '}' AS e FROM t",
}


@pytest.fixture
def pipe(without_a_jvm, tmp_path):
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1, 2], "$s": ["a", "b"]}))
    found = Pipeline("x", DuckSession(), tmp_path / "root")
    found.source("t", tmp_path / "t")
    return found


@pytest.mark.parametrize("sql", HELD.values(), ids=HELD)
def test_a_view_whose_text_spark_would_replace_is_refused(pipe, sql):
    with pytest.raises(ViewError, match=r"View 'v': Its SQL holds \$\{.*Write the value itself"):
        pipe.view("v", sql)
    with pytest.raises(ViewError, match=r"The SQL of v holds \$\{"):
        look({"v": sql})


def test_one_from_a_file_stops_no_other(lake):
    pipe = lake.pipeline(lake.folder)
    pipe.view("home", "SELECT id, '${env:HOME}' AS home FROM orders", file="views/home.sql")
    report = pipe.refresh()
    assert {n for n, v in report.views.items() if v.error} == {"home"}
    assert "View 'home' (views/home.sql): Its SQL holds ${env:HOME}" in report.views["home"].error


def test_a_dollar_alone_is_one(pipe, tmp_path):
    sql = "SELECT id, `$s`, '$5 {id}' AS one, concat('$', '{id}') AS two, '$\\{id}' AS three FROM t WHERE `$s` = 'a'"
    pipe.view("v", sql)
    assert pipe.refresh().ok
    assert DeltaTable(str(tmp_path / "root" / "v")).to_pyarrow_table().to_pylist() == [
        {"id": 1, "$s": "a", "one": "$5 {id}", "two": "${id}", "three": "${id}"}
    ]


def test_a_function_whose_body_spark_would_replace_is_refused():
    class Own(DuckAnalyzer):
        def functions(self, names):
            return (Function("home", "", "'${env:HOME}'", ()),)

    relation, own = Relation("t", "source", (Column("id", "bigint"),)), Own()
    own.connection.execute("CREATE MACRO home(id) AS 'it'")
    with pytest.raises(ViewError, match=r"The body of the function home holds \$\{env:HOME\}"):
        compile_sql("v", "SELECT home(id) AS h FROM t", {"t": relation}, own)


def test_a_check_that_spark_would_replace_is_refused():
    rule = {"expect_column_values_to_not_be_null": {"column": "s", "row_condition": "s <> '${region}'"}}
    with pytest.raises(ConfigError, match=r"of view 'v' holds \$\{region\}"):
        check_checks({"v": {"state": [rule]}}, ["v"])
    pattern = {"expect_column_values_to_match_regex": {"column": "s", "regex": "^${a}"}}
    check_checks({"v": {"state": [pattern]}}, ["v"])


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("${other}", {"region": "EU"}, r"\$\{other\}, which is none of the settings"),
        ("${env:region}", {"region": "EU"}, r"\$\{env:region\}"),
        ("${a}", {"a": "${b}", "b": "${spark:a}"}, "setting a holds .*itself"),
    ],
)
def test_what_cannot_be_written_out(text, settings, message):
    with pytest.raises(ViewError, match=message):
        written_out(text, settings)
