"""The golden files of the compiler's passes, with Spark in DuckDB's place: its columns, and its rows on both sides."""

from __future__ import annotations

from collections import Counter

import pytest

from ivm.compile.passes import Stage
from ivm.session import SparkAnalyzer
from tests.pure import goldens
from tests.pure.test_golden import EXAMPLES, pairs

pytestmark = pytest.mark.spark


@pairs(EXAMPLES)
def test_a_pass_makes_of_it_with_spark_what_is_expected(spark, each, example):
    assert goldens.made(each, example, SparkAnalyzer(spark)) == example.expected


#: Spark has no recursion of sets; those are compared by DuckDB.
@pairs([(p, e) for p, e in EXAMPLES if "RECURSIVE" not in e.runnable])
def test_both_sides_have_the_same_rows(spark, each, example):
    analyzer = SparkAnalyzer(spark)
    program = goldens.program(each, example.sql, analyzer) if each.stage is Stage.PROGRAM else None
    expected = goldens.script(program) if program else example.expected
    for name, rows in goldens.tables(1).items():
        spark.sql(goldens.table_sql(name, rows)).createOrReplaceTempView(name)
    try:
        one, other = (Counter(map(repr, spark.sql(sql).collect())) for sql in (example.runnable, expected))
    finally:
        for name in goldens.RELATIONS:
            spark.catalog.dropTempView(name)
    assert one == other
    assert one
