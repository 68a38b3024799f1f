"""Spark's own functions, read through the compiler: which are maintained, and that they are right.

A sample in CI; with IVM_NIGHTLY=1 every documented example of every function.
"""

from __future__ import annotations

import os

import pytest
from pyspark.sql.functions import udf

from ivm.compile.passes import parse_view
from ivm.errors import ViewError
from ivm.plan.nodes import Column, Relation
from ivm.session import SparkAnalyzer
from ivm.testing.oracle import Lake
from tests.spark.functions import Constants, Example, Made, documented, examples, made, together

pytestmark = pytest.mark.spark

NIGHTLY = os.environ.get("IVM_NIGHTLY") == "1"
#: Examples whose views share one lake.
CHUNK = 60

#: Functions whose views are refreshed in full, by the code of the reason; docs/sql.md says the same in words.
FULL = {
    "nondeterministic": {
        "aes_encrypt", "curdate", "current_catalog", "current_database", "current_date", "current_path",
        "current_schema", "current_time", "current_timestamp", "current_timezone", "current_user",
        "input_file_block_length", "input_file_block_start", "input_file_name", "java_method", "kll_merge_agg_bigint",
        "kll_merge_agg_double", "kll_merge_agg_float", "kll_sketch_agg_bigint", "kll_sketch_agg_double",
        "kll_sketch_agg_float", "kll_sketch_get_n_bigint", "kll_sketch_get_n_double", "kll_sketch_get_n_float",
        "kll_sketch_get_quantile_bigint", "kll_sketch_get_quantile_double", "kll_sketch_get_quantile_float",
        "kll_sketch_get_rank_bigint", "kll_sketch_get_rank_double", "kll_sketch_get_rank_float",
        "kll_sketch_merge_bigint", "kll_sketch_merge_double", "kll_sketch_merge_float", "kll_sketch_to_string_bigint",
        "kll_sketch_to_string_double", "kll_sketch_to_string_float", "localtimestamp", "monotonically_increasing_id",
        "now", "rand", "randn", "random", "randstr", "reflect", "session_user", "shuffle", "spark_partition_id",
        "try_reflect", "uniform", "unix_timestamp", "user", "uuid", "version",
    },
    "clause": {"session_window"},
    "expression": {"window_time"},
}  # fmt: skip
#: Of these only some forms: with an initialization vector, with an argument.
SOME_FORMS = {"aes_encrypt", "unix_timestamp"}
#: Examples that fail on purpose, or on data that they bring along.
RAISES = {"raise_error", "assert_true"}
#: Examples whose result is 0 but for the rounding of doubles, which goes by the order of the rows, in Spark too.
ROUNDED = {"regr_intercept"}
#: Where Spark's own result goes by how the rows lie in partitions: bins of one value, merged or not.
BY_PARTITIONS = {"histogram_numeric"}


def chunks(items: list, size: int) -> list[list]:
    return [items[i : i + size] for i in range(0, len(items), size)]


def code(example: Example, sql: str, constants: Constants, analyzer: SparkAnalyzer) -> str:
    """Of an example's view "incremental", or the code of what it is refused for."""
    program = parse_view(example.name.lower(), sql, {"t": constants.relation}, analyzer)
    return "incremental" if program.incremental else program.refusals[0].code


def expected(function: str) -> set[str]:
    found = {c for c, names in FULL.items() if function in names}
    return found | {"incremental"} if function in SOME_FORMS else found or {"incremental"}


def accepted(views: list[Example], constants: Constants) -> list[Made]:
    """The examples that Spark itself accepts here (it has no Avro, no descriptor files, no TIME type)."""
    found = []
    for example in views:
        try:
            found.append(made(example, constants))
        except ViewError:
            continue
    return found


def test_examples_of_functions_equal_sparks_results(lake, spark, tmp_path):
    analyzer = SparkAnalyzer(spark)
    listed = list(documented(spark, 1 if NIGHTLY else 19))
    listed = [e for e in listed if e.number < 2 or NIGHTLY]
    assert len(listed) > (1000 if NIGHTLY else 40)
    strategies: dict[str, set[str]] = {}
    checked, wrong = 0, dict[str, str]()
    for number, chunk in enumerate(chunks(listed, CHUNK) if NIGHTLY else [listed]):
        constants = Constants(analyzer)
        views = accepted(chunk, constants)
        codes = {v.example.name: code(v.example, v.sql, constants, analyzer) for v in views}
        for v in views:
            strategies.setdefault(v.example.function, set()).add(codes[v.example.name])
        left_out = RAISES | ROUNDED | BY_PARTITIONS
        right = [v for v in views if codes[v.example.name] == "incremental" and v.example.function not in left_out]
        checked += len(right)
        wrong |= check(Lake(spark, tmp_path / str(number)), constants, right)
    assert wrong == {}
    assert {f: s for f, s in strategies.items() if not s <= expected(f)} == {}
    assert checked > (900 if NIGHTLY else 30)


def check(lake: Lake, constants: Constants, views: list[Made]) -> dict[str, str]:
    """Build the views over rows of the constants, then bring them up to date after inserts and deletes.

    Returns what is wrong, by view.
    """
    columns = constants.relation.columns
    lake.table("t", ", ".join(f"{c.name} {c.type}" for c in columns), rows=0)
    values = ", ".join(["id", *constants.columns])
    lake.spark.sql(f"INSERT INTO {lake.ref('t')} SELECT {values} FROM (SELECT explode(array(1, 2)) AS id)")
    rowwise = [v for v in views if v.outs]
    programs = {f"together_{i}": together(some) for i, some in enumerate(chunks(rowwise, 15))} if rowwise else {}
    programs |= {v.example.name: v.sql for v in views if not v.outs}
    pipe = lake.pipeline(programs, mode="incremental")
    wrong = lake.differences(pipe)
    lake.spark.sql(f"INSERT INTO {lake.ref('t')} SELECT {values} FROM (SELECT 3 AS id)")
    lake.spark.sql(f"DELETE FROM {lake.ref('t')} WHERE id = 1")
    wrong |= lake.differences(pipe)
    return wrong | {n: v.strategy for n, v in pipe.refresh().views.items() if v.strategy != "unchanged"}


def test_what_changes_by_itself_is_never_taken_for_deterministic(spark):
    """All examples of these functions, over a source that doesn't change."""
    analyzer, found = SparkAnalyzer(spark), {}
    for function in (
        sorted(FULL["nondeterministic"])
        if NIGHTLY
        else ("aes_encrypt", "current_path", "current_time", "java_method", "kll_sketch_get_n_bigint", "version")
    ):
        text = "\n".join(r[0] for r in spark.sql(f"DESCRIBE FUNCTION EXTENDED {function}").collect())
        constants = Constants(analyzer)
        for view in accepted([Example(function, i, sql) for i, sql in enumerate(examples(text))], constants):
            found.setdefault(function, set()).add(code(view.example, view.sql, constants, analyzer))
    assert found
    assert {f: s for f, s in found.items() if not s <= expected(f) or "nondeterministic" not in s} == {}


@pytest.mark.parametrize(
    "condition", ["ivm_of_chance(k) > 1", "EXISTS (SELECT 1 FROM t AS u WHERE u.k = t.k AND ivm_of_chance(u.k) > 1)"]
)
def test_a_users_function_of_chance_is_refreshed_in_full(spark, condition):
    spark.udf.register("ivm_of_chance", udf(lambda x: x, "int").asNondeterministic())
    relations = {"t": Relation("t", "source", (Column("k", "int"),))}
    program = parse_view("v", f"SELECT k FROM t WHERE {condition}", relations, SparkAnalyzer(spark))
    assert [r.code for r in program.refusals] == ["nondeterministic"]
    assert not program.deterministic


def test_a_defect_inside_spark_is_an_error_of_the_view(spark):
    relations = {"t": Relation("t", "source", (Column("s", "string"),))}
    with pytest.raises(ViewError, match=r"Spark (fails on|refuses) this SQL"):
        parse_view(
            "v", "SELECT from_json(s, 'a int', map('timestampFormat', s)) AS x FROM t", relations, SparkAnalyzer(spark)
        )


def test_a_sql_function_is_part_of_the_views_that_call_it(lake, spark):
    """Another body is another definition, also that of a function which it calls, and of one in a table function."""
    lake.table("t", "k int, v int", rows=4)

    def define(step: int) -> None:
        spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION ivm_inner(x INT) RETURNS INT RETURN x + {step}")
        spark.sql("CREATE OR REPLACE TEMPORARY FUNCTION ivm_outer(x INT) RETURNS INT RETURN ivm_inner(x) * 2")
        spark.sql(
            f"CREATE OR REPLACE TEMPORARY FUNCTION ivm_rows(x INT) RETURNS TABLE(y INT) RETURN SELECT x + {step} AS y"
        )

    define(1)
    views = {
        "outer": "SELECT k, ivm_outer(v) AS w FROM t",
        "summed": "SELECT k, sum(ivm_outer(v)) AS s FROM t GROUP BY k",
        "full": "SELECT DISTINCT k, y FROM t, LATERAL ivm_rows(v)",
        "plain": "SELECT k FROM t",
    }
    pipe = lake.pipeline(views)
    assert lake.differences(pipe) == {}
    lake.insert("t", 2)
    assert lake.differences(pipe) == {}
    assert pipe.refresh().views["summed"].strategy == "unchanged"
    define(2)
    report = pipe.refresh()
    assert {n: v.strategy for n, v in report.views.items()} == {
        "outer": "full",
        "summed": "full",
        "full": "full",
        "plain": "unchanged",
    }
    assert lake.differences(pipe) == {}


@pytest.mark.parametrize("body", ["(SELECT max(k) FROM ivm_elsewhere)", "year(current_date())", "ivm_of_chance(x)"])
def test_a_sql_function_that_changes_by_itself_is_refreshed_in_full(spark, body):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW ivm_elsewhere AS SELECT 1 AS k")
    spark.udf.register("ivm_of_chance", udf(lambda x: x, "int").asNondeterministic())
    spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION ivm_hidden(x INT) RETURNS INT RETURN {body}")
    relations = {"t": Relation("t", "source", (Column("k", "int"),))}
    program = parse_view("v", "SELECT k, ivm_hidden(k) AS h FROM t", relations, SparkAnalyzer(spark))
    assert [r.code for r in program.refusals] == ["nondeterministic"]
    assert not program.deterministic


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM t WHERE k > ivm_limit",
        "SELECT k, session.ivm_limit AS most FROM t",
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.k = t.k + ivm_limit)",
        "SELECT ivm_over_limit(1, k) AS k FROM t",
    ],
)
def test_a_view_that_reads_a_session_variable_is_refreshed_in_full(spark, sql):
    spark.sql("DECLARE OR REPLACE VARIABLE ivm_limit INT DEFAULT 1")
    spark.sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION ivm_over_limit(`x` INT COMMENT 'of: x', y INT DEFAULT 2) RETURNS INT "
        "RETURN CASE WHEN x > y THEN ivm_over_limit.x ELSE y - ivm_limit END"
    )
    relations = {"t": Relation("t", "source", (Column("k", "int"),))}
    program = parse_view("v", sql, relations, SparkAnalyzer(spark))
    assert not program.deterministic
    assert program.refusals[0].code == "nondeterministic"
    assert "ivm_limit" in program.refusals[0].reason


def test_a_sql_function_of_its_parameters_is_maintained(spark):
    spark.sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION ivm_of_two(x INT, y ARRAY<INT>) RETURNS INT "
        "RETURN x + (SELECT max(e) FROM explode(y) AS g(e)) + aggregate(y, 0, (a, b) -> a + b)"
    )
    relations = {"t": Relation("t", "source", (Column("k", "int"),))}
    program = parse_view("v", "SELECT ivm_of_two(k, array(k, 1)) AS k FROM t", relations, SparkAnalyzer(spark))
    assert "nondeterministic" not in {r.code for r in program.refusals}
