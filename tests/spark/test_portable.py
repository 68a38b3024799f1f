"""What is on the list of portable expressions gives Spark's values and Spark's types: a sample of the cases.

`IVM_PORTABLE_ROWS` sets how many rows; nightly, all cases run over many (`tests/nightly/portable.py`).
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from decimal import Decimal, localcontext

import pyarrow as pa
import pytest

from ivm.lake.shapes import plain
from ivm.plan.nodes import Column
from ivm.portable.statement import Relation, written
from ivm.portable.types import Type
from ivm.session import statements
from tests.portable import Engine, cases, columns, comparable, compare, rows, sample

pytestmark = pytest.mark.spark

ROWS = int(os.environ.get("IVM_PORTABLE_ROWS", "150"))
#: Of each entry.
CASES = 4


def test_each_entry_gives_what_spark_gives(spark, tmp_path):
    with statements(spark, small=True):
        assert compare(spark, rows(ROWS), sample(cases(), CASES), tmp_path) == []


#: What a statement is made of, around the expressions: rows with NULL, NaN and -0.0 among the keys, and no rows at all.
STATEMENTS = [
    "SELECT a.k, b.k AS other FROM cases a JOIN cases b ON a.{c} = b.{c}",
    "SELECT a.k, b.k AS other FROM cases a, cases b WHERE a.{c} <=> b.{c} AND a.k < b.k",
    "SELECT a.k, b.k AS other FROM cases a LEFT JOIN none b ON a.{c} = b.{c}",
    "SELECT a.k, b.k AS other FROM none a RIGHT JOIN cases b ON a.{c} = b.{c}",
    "SELECT a.k, b.k AS other FROM cases a FULL JOIN (SELECT * FROM cases WHERE k % 3 = 0) b "
    "ON a.{c} < b.{c} AND a.g = b.g",
    "SELECT a.k FROM cases a LEFT SEMI JOIN cases b ON a.{c} = b.{c} AND a.k <> b.k",
    "SELECT a.k FROM cases a LEFT ANTI JOIN cases b ON a.{c} = b.{c} AND a.k <> b.k",
    "SELECT k FROM cases WHERE {c} IN (SELECT {c} FROM cases WHERE g = 1)",
    "SELECT k FROM cases WHERE {c} NOT IN (SELECT {c} FROM cases WHERE g = 1)",
    "SELECT k FROM cases WHERE {c} NOT IN (SELECT {c} FROM none)",
    "SELECT k FROM cases WHERE g > 7 OR ({c} NOT IN (SELECT {c} FROM cases WHERE g = 1) AND k > 3)",
    "SELECT k FROM cases WHERE g > 7 OR ({c} IN (SELECT {c} FROM cases WHERE g = 1))",
    "SELECT k FROM cases a WHERE EXISTS (SELECT 1 AS one FROM cases b WHERE b.{c} = a.{c} AND b.k > a.k)",
    "SELECT k FROM cases a WHERE NOT EXISTS (SELECT 1 AS one FROM cases b WHERE b.{c} < a.{c})",
    "SELECT k, (SELECT max(b.k) FROM cases b WHERE b.{c} = a.{c}) AS m FROM cases a",
    "SELECT k, (SELECT count(*) FROM cases b WHERE b.{c} = a.{c}) AS n FROM cases a",
]
#: Of those types that rows are told apart by.
KEYED = [
    "SELECT {c}, count(*) AS n, min(k) AS m FROM cases GROUP BY {c}",
    "SELECT DISTINCT {c} FROM cases",
    "SELECT {c} FROM cases WHERE g < 9 UNION SELECT {c} FROM cases WHERE g > 5",
    "SELECT {c} FROM cases WHERE g < 9 UNION ALL SELECT {c} FROM none",
    "SELECT {c} FROM cases WHERE g < 9 EXCEPT SELECT {c} FROM cases WHERE g > 5",
    "SELECT {c} FROM cases EXCEPT ALL (SELECT {c} FROM cases WHERE g > 5 INTERSECT ALL SELECT {c} FROM cases)",
    "(SELECT {c} FROM cases INTERSECT SELECT {c} FROM cases WHERE g > 5) EXCEPT SELECT {c} FROM none",
    "SELECT {c}, k FROM cases ORDER BY {c} DESC, k LIMIT 7",
    "SELECT {c}, k FROM cases ORDER BY {c}, k LIMIT 7 OFFSET 3",
    "WITH w AS (SELECT {c}, g FROM cases) SELECT a.g, count(DISTINCT a.{c}) AS n FROM w a "
    "GROUP BY a.g HAVING count(*) > 1",
]
GLOBAL = [
    "SELECT count(*) AS n, sum(int_0) AS s, avg(decimal_15_2_0) AS a, max(string_0) AS m FROM none",
    "SELECT sum(smallint_0) FILTER (WHERE boolean_0) AS s, count(*) FILTER (WHERE k > 3) AS n FROM cases",
    "SELECT g, sum(avg_g) OVER (ORDER BY g ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s "
    "FROM (SELECT g, count(k) AS avg_g FROM cases GROUP BY g) AS x",
    "SELECT k, EXPLODE(SEQUENCE(CAST(1 AS bigint), k)) AS i FROM (SELECT k FROM cases WHERE k BETWEEN 1 AND 4) AS x",
    "SELECT tinyint_0 AS x FROM cases UNION ALL SELECT decimal_5_2_0 FROM cases",
    "SELECT CAST(t AS double) AS d, n FROM (SELECT CAST(double_0 AS string) AS t, count(*) AS n FROM cases "
    "GROUP BY CAST(double_0 AS string)) AS x",
    "SELECT CASE int_0 WHEN 1 THEN 'one' WHEN 2 THEN 'two' END AS c, nvl(int_0, 7) AS n, "
    "if(boolean_0, 1, 2.5) AS i FROM cases",
    "SELECT k FROM cases WHERE string_0 NOT LIKE '%a%' OR NOT (int_0 NOT BETWEEN 0 AND 100) "
    "OR string_1 NOT IN ('a', 'b')",
]
TYPES = ("int", "bigint", "decimal_15_2", "string", "date", "timestamp", "boolean", "double")


def test_each_form_of_statement_gives_what_spark_gives(spark):
    table = rows(60)
    engine = Engine(table)
    engine.database.load("none", lambda: table.slice(0, 0), columns())
    spark.createDataFrame(table).createOrReplaceTempView("cases")
    spark.createDataFrame(table).limit(0).createOrReplaceTempView("none")
    texts = [s.format(c=f"{t}_0") for t in TYPES for s in (*STATEMENTS, *(KEYED if t != "double" else ()))] + GLOBAL
    wrong = []
    with statements(spark, small=True):
        for sql in texts:
            made = written(sql, lambda node: Relation(node.name, columns()))
            frame = spark.sql(sql)
            types = [Column(f.name, f.dataType.simpleString()) for f in frame.schema.fields]
            got, told = (
                Counter(zip(*(comparable(c).to_pylist() for c in t.columns), strict=True))
                for t in (engine.database.run(made), plain(frame.toArrow()))
            )
            if got != told or [c.type for c in made.columns] != [c.type for c in types]:
                wrong.append((sql, list((got - told).items())[:2], list((told - got).items())[:2]))
    spark.catalog.dropTempView("cases")
    spark.catalog.dropTempView("none")
    assert wrong == []


def test_decimals_are_compared_as_spark_rounds_them(spark):
    """Those of more than 38 digits together lose the last of them, and are equal where the rest is."""
    near = [
        Decimal(n) for n in ("0", "1", "-1", "0.99995", "0.99994", "0.999949999", "1.00005", "1.0000000004", "-9.5")
    ]
    types = [Type("decimal", *t) for t in ((36, 2), (38, 6), (38, 18), (38, 37), (20, 0), (38, 0))]
    columns = [Column(f"{side}_{i}", str(t)) for side in "ab" for i, t in enumerate(types)]
    with localcontext(prec=60):
        ends = {t: Decimal(10**t.digits - 1).scaleb(-t.scale) for t in types}
        values = {t: [*(n.quantize(Decimal(1).scaleb(-t.scale)) for n in near), ends[t], -ends[t], None] for t in types}
    pairs = list(itertools.product(range(len(near) + 3), repeat=2))
    table = pa.table(
        {
            f"{side}_{i}": pa.array([values[t][p[place]] for p in pairs], pa.decimal128(t.digits, t.scale))
            for place, side in enumerate("ab")
            for i, t in enumerate(types)
        }
    )
    engine = Engine(rows(1))
    engine.database.load("near", lambda: table, columns)
    spark.createDataFrame(table).createOrReplaceTempView("near")
    listed = [
        f"a_{i} {sign} b_{j} AS c_{n}"
        for n, (i, j, sign) in enumerate(
            itertools.product(range(len(types)), range(len(types)), ("=", "<", ">=", "<=>"))
        )
    ]
    sql = f"SELECT {', '.join(listed)} FROM near"
    made = engine.database.run(written(sql, lambda node: Relation(node.name, columns)))
    assert made.to_pylist() == plain(spark.sql(sql).toArrow()).to_pylist()
    spark.catalog.dropTempView("near")
