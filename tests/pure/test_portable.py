"""Statements for DuckDB: what is written, what is refused by name, and that whatever isn't known is refused."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from ivm.engine.duck import Database
from ivm.plan.nodes import Column
from ivm.portable.grammar import PARTS, foreign
from ivm.portable.statement import NotPortableError, Relation, written
from ivm.sql.dialect import IvmSpark

COLUMNS = [
    Column("a", "int"), Column("b", "bigint"), Column("p", "decimal(15,2)"), Column("s", "string"), Column("d", "date"),
    Column("x", "double"), Column("m", "map<string,int>"), Column("t", "timestamp"), Column("f", "float"),
    Column("w", "decimal(38,10)"), Column("o", "boolean"),
]  # fmt: skip


def known(node: exp.Table) -> Relation | None:
    return None if node.name == "elsewhere" else Relation(node.name, COLUMNS)


_AS_VALUE = "as a value Spark's IN of a subquery, or its NOT IN, is false where SQL says NULL"
REFUSED = {
    "SELECT a IN (SELECT a FROM u) AS i FROM t": _AS_VALUE,
    "SELECT a NOT IN (SELECT a FROM u) AS i FROM t": _AS_VALUE,
    "SELECT b FROM t WHERE (a IN (SELECT a FROM u)) IS NULL": _AS_VALUE,
    "SELECT b FROM t WHERE NOT (o AND (a IN (SELECT a FROM u)))": _AS_VALUE,
    "SELECT b FROM t WHERE NOT (NOT (a IN (SELECT a FROM u)))": _AS_VALUE,
    "SELECT b FROM t WHERE CASE WHEN a IN (SELECT a FROM u) THEN o END": _AS_VALUE,
    "SELECT b FROM t WHERE (a IN (SELECT a FROM u)) = o": _AS_VALUE,
    "SELECT hash(a) AS h FROM t": "hash of (int) isn't on the list",
    "SELECT a + s AS x FROM t": "+ of (int, string)",
    "SELECT m FROM t": "type map<string,int>",
    "SELECT f FROM t": "type float",
    "SELECT * FROM t": "type map<string,int>",
    "SELECT sum(x) AS s FROM t": "sum of (double)",
    "SELECT avg(b) AS s FROM t": "avg of (bigint)",
    "SELECT CAST(x AS string) AS s FROM t": "a column that is double's text",
    "SELECT x, count(*) AS n FROM t GROUP BY x": "rows are told apart by x, which is double",
    "SELECT DISTINCT x FROM t": "rows are told apart by x",
    "SELECT CAST(s AS int) AS i FROM t": "CAST(string AS int)",
    "SELECT CAST(p AS int) AS i FROM t": "CAST(decimal(15,2) AS int)",
    "SELECT TRY_CAST(b AS int) AS i FROM t": "safe isn't on the list",
    "SELECT CAST(x AS decimal(5,2)) AS i FROM t": "CAST(double AS decimal(5,2))",
    "SELECT s LIKE 'a\\\\%' AS l FROM t": "a text with a backslash",
    "SELECT s LIKE s AS l FROM t": "a pattern that isn't a plain text",
    "SELECT -w AS n FROM t": "negative of (decimal(38,10))",
    "SELECT CAST(w AS decimal(38,20)) * CAST(w AS decimal(38,20)) AS n FROM t": "* of (decimal(38,20), decimal(38,20))",
    "SELECT substring(s, a, 1) AS l FROM t": "isn't a plain number",
    "SELECT substring(s, 0, 1) AS l FROM t": "isn't a positive number",
    "SELECT d + INTERVAL '1' HOUR AS l FROM t": "an interval in this form",
    "SELECT a FROM t ORDER BY a LIMIT b": "LIMIT",
    "SELECT a FROM t LIMIT 3": "LIMIT without ORDER BY",
    "SELECT a FROM t TABLESAMPLE (3 ROWS)": "sample",
    "SELECT a FROM t GROUP BY 1": "a group key that is a literal",
    "SELECT a FROM t GROUP BY ROLLUP (a)": "rollup",
    "SELECT x FROM t EXCEPT SELECT x FROM t": "rows are told apart by x",
    "SELECT a FROM t OFFSET 3": "LIMIT without ORDER BY",
    "SELECT a FROM t LATERAL VIEW explode(array(1)) AS e": "lateral",
    "SELECT explode(array(1)) AS e FROM t": "array",
    "SELECT explode(sequence(b, b)) AS e FROM t": "a sequence in this form",
    "SELECT explode(sequence(CAST(-1 AS bigint), b)) AS e FROM t": "a sequence in this form",
    "SELECT explode(sequence(CAST(10 AS bigint), b)) AS e FROM t": "a sequence in this form",
    "SELECT explode(sequence(c1, b)) AS e FROM (SELECT b AS c1, b FROM t) AS t": "a sequence in this form",
    "SELECT a FROM t JOIN u USING (a)": "using",
    "SELECT a FROM t, u": "it means several columns",
    "SELECT t.a FROM t JOIN t ON t.a = t.a": "two FROM items have one name",
    "SELECT nope FROM t": "isn't a column of what is read",
    "SELECT a FROM elsewhere": "can't be read in this process",
    "SELECT rand() AS r FROM t": "rand of () isn't on the list",
    "SELECT lag(a) OVER (ORDER BY x) AS l, sum(a) OVER (ORDER BY a RANGE 1 PRECEDING) AS r FROM t": "a window frame",
    "SELECT first_value(a) OVER (ORDER BY b) AS l FROM t": "first_value of (int)",
    "SELECT count(DISTINCT a, b) AS n FROM t": "",
    "SELECT sum(DISTINCT a) AS n FROM t": "",
    "SELECT coalesce(b, x) AS c FROM t": "coalesce of (bigint, double)",
    "SELECT a FROM t UNION ALL SELECT s FROM t": "its sides have a as int and string",
    "SELECT 1e3 AS x FROM t": "a number in this form",
    "SELECT a FROM t WHERE s": "it isn't a condition",
    "SELECT collect_list(a) AS l FROM t": "collect_list of (int)",
    "WITH RECURSIVE r AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM r) SELECT i FROM r": "recursive",
    "SELECT current_date() AS c FROM t": "",
    "SELECT a FROM t WHERE b < 99999999999999999999": "< of (bigint, decimal(20,0))",
    "SELECT a FROM t WHERE CAST(w AS decimal(38,30)) > 0": "> of (decimal(38,30), int)",
    "SELECT avg(CAST(p AS decimal(11,2))) AS m FROM t": "avg of (decimal(11,2))",
    "SELECT TIMESTAMP'2024-01-01 24:00:00' AS m FROM t": "",
    "SELECT a FROM t WHERE extract(SECOND FROM t) > 30": "seconds with their fractions",
    "not a statement (": "can't be parsed",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_on_the_list_is_refused_by_name(sql):
    with pytest.raises(NotPortableError) as refused:
        written(sql, known)
    assert REFUSED[sql] in str(refused.value)


TYPED = {
    "SELECT a + 1 AS x FROM t": "int",
    "SELECT a + b AS x FROM t": "bigint",
    "SELECT a / 2 AS x FROM t": "double",
    "SELECT p * (1 - p) AS x FROM t": "decimal(32,4)",
    "SELECT p / 7.0 AS x FROM t": "decimal(20,6)",
    "SELECT sum(p) / sum(p) AS x FROM t": "decimal(38,13)",
    "SELECT avg(p) AS x FROM t": "decimal(19,6)",
    "SELECT CASE WHEN a = 1 THEN p ELSE 0 END AS x FROM t": "decimal(15,2)",
    "SELECT coalesce(p, b) AS x FROM t": "decimal(22,2)",
    "SELECT round(p, 1) AS x FROM t": "decimal(15,1)",
    "SELECT p * -1 AS x FROM t": "decimal(17,2)",
    "SELECT p * CAST(1 AS bigint) AS x FROM t": "decimal(36,2)",
    "SELECT year(d) AS x FROM t": "int",
    "SELECT d + INTERVAL '3' MONTH AS x FROM t": "date",
    "SELECT count(*) FILTER (WHERE o) AS x FROM t": "bigint",
    "SELECT CAST(t AS date) AS x FROM t": "date",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY b DESC) AS x FROM t": "int",
}


@pytest.mark.parametrize("sql", TYPED)
def test_types_are_sparks(sql):
    """The types as Spark 4.2 tells them, written here once; tests/spark/test_portable.py asks it."""
    assert [c.type for c in written(sql, known).columns] == [TYPED[sql]]


def test_a_minus_before_a_pattern_is_not_lost():
    """`NOT LIKE` is a LIKE with a part of its own: a part that isn't known must refuse, never be left out."""
    assert "NOT" in written("SELECT a FROM t WHERE s NOT LIKE 'a%'", known).sql
    tree = sqlglot.parse_one("SELECT a FROM t WHERE s LIKE 'a%'", read=IvmSpark)
    tree.find(exp.Like).args["new_in_the_next_version"] = True
    assert foreign(tree)[1] == "new_in_the_next_version"


def test_every_node_that_is_written_has_its_parts_named():
    assert all(isinstance(parts, frozenset) for parts in PARTS.values())
    assert foreign(sqlglot.parse_one("SELECT a[1] FROM t", read=IvmSpark))[1] == "bracket"


@pytest.fixture
def database():
    made = Database()
    rows = pa.table(
        {"k": pa.array(range(10), pa.int64()), "s": ["a", "é", None, "", "b"] * 2, "z": pa.array([0, 1] * 5)}
    )
    made.load("t", lambda: rows, [Column("k", "bigint"), Column("s", "string"), Column("z", "bigint")])
    made.load("none", lambda: rows.slice(0, 0), [Column("k", "bigint")])
    yield made
    made.close()


def run(database, sql):
    tables = {
        "t": [Column("k", "bigint"), Column("s", "string"), Column("z", "bigint")],
        "none": [Column("k", "bigint")],
    }
    return database.run(written(sql, lambda node: Relation(node.name, tables[node.name])))


def test_what_spark_raises_raises(database):
    for sql in (
        "SELECT 1 / z AS x FROM t",
        "SELECT 1 % z AS x FROM t",
        "SELECT k DIV z AS x FROM t",
        "SELECT 1.5 / CAST(z AS decimal(5,2)) AS x FROM t",
        "SELECT k + 9223372036854775807 AS x FROM t",
        "SELECT CAST(k * 100 AS tinyint) AS x FROM t",
        "SELECT upper(s) AS x FROM t",
        "SELECT sum(k + 9223372036854775000) AS x FROM t",
        "SELECT (SELECT a.k FROM t a) AS x FROM t",
        "SELECT EXPLODE(SEQUENCE(CAST(1 AS bigint), k)) AS x FROM t",
    ):
        with pytest.raises(duckdb.Error):
            run(database, sql)


#: What Spark computes before it looks at it, and DuckDB's optimizer would rather not.
ASKED = [
    "SELECT {x} = 5 AS r FROM t",
    "SELECT {x} <=> 5 AS r FROM t",
    "SELECT {x} BETWEEN 3 AND 5 AS r FROM t",
    "SELECT k FROM t WHERE {x} > 5",
    "SELECT k FROM t WHERE 5 >= {x}",
    "SELECT k FROM t WHERE NOT ({x} = 5)",
    "SELECT k FROM t WHERE {x} + 1 > 5",
    "SELECT {x} * 0 AS r FROM t",
    "SELECT {x} IS NULL AS r FROM t",
    "SELECT count({x}) AS r FROM t",
    "SELECT count(*) FILTER (WHERE {x} = 5) AS r FROM t",
    "SELECT sum({x}) AS r FROM t",
    "SELECT sum(CASE WHEN {x} = 5 THEN 1 ELSE 0 END) AS r FROM t",
]


CASTS = [f"CAST({{c}} AS {t})" for t in ("tinyint", "smallint", "int", "decimal(3,0)", "decimal(18,0)")]


@pytest.mark.parametrize("call", ["({c} + 1)", "(1 + {c})", "({c} - -1)", "({c} * 2)", "(-{least})", "abs({least})"])
@pytest.mark.parametrize(("type_", "bits"), [("tinyint", 8), ("smallint", 16), ("int", 32), ("bigint", 64)])
def test_what_overflows_raises_whatever_is_asked_of_it(call, type_, bits):
    # A literal is an int: beside smaller ones nothing would overflow.
    call = call.replace("1", f"CAST(1 AS {type_})").replace("2", f"CAST(2 AS {type_})")
    _raises(call, type_, bits)


@pytest.mark.parametrize("call", CASTS)
def test_what_a_cast_cannot_hold_raises_whatever_is_asked_of_it(call):
    _raises(call, "bigint", 64)


def _raises(call, type_, bits):
    """Whatever is asked of a call over the largest and the least value of a type, DuckDB raises."""
    made = Database()
    top = 2 ** (bits - 1) - 1
    named = pa.schema([("k", pa.int32()), *((n, getattr(pa, f"int{bits}")()) for n in ("c", "least"))])
    rows = pa.Table.from_pylist([{"k": 0, "c": 1, "least": 1}, {"k": 1, "c": top, "least": -top - 1}], named)
    columns = [Column("k", "int"), Column("c", type_), Column("least", type_)]
    made.load("t", lambda: rows, columns)
    for asked in ASKED:
        with pytest.raises(duckdb.Error):
            made.run(written(asked.format(x=call.format(c="c", least="least")), lambda _: Relation("t", columns)))
    made.close()


def test_rows_that_an_outer_join_pads_are_there(database):
    """DuckDB 2.0's statistics lose them; the engine switches these off."""
    found = run(database, "SELECT a.k, b.k AS other FROM t a LEFT JOIN none b ON a.k = b.k WHERE b.k IS NULL")
    assert found.num_rows == 10


def test_dates_that_would_be_infinite_are_not_taken(database):
    for day in (2**31 - 1, 1 - 2**31):
        rows = pa.table({"d": pa.array([day, 0, None], pa.int32()).cast(pa.date32())})
        with pytest.raises(ValueError, match="end of its type"):
            database.load(f"d{day}", lambda rows=rows: rows, [Column("d", "date")])


def test_unions_of_queries_with_tables_of_their_own(database):
    sql = (
        "SELECT k FROM t UNION ALL (WITH w AS (SELECT k FROM t) SELECT k FROM w) "
        "UNION ALL (SELECT k FROM t ORDER BY k LIMIT 2)"
    )
    assert run(database, sql).num_rows == 22


def test_nothing_outside_is_read(database, tmp_path):
    (tmp_path / "x.csv").write_text("a\n1\n")
    with pytest.raises(duckdb.PermissionException):
        database.cursor().execute(f"SELECT * FROM '{tmp_path}/x.csv'")
    with pytest.raises(duckdb.Error):
        database.cursor().execute("SET enable_external_access = true")
