"""What would be read otherwise than Spark reads it is refused in words, and is no defect of the compiler."""

from __future__ import annotations

import re

import pytest
import sqlglot
from sqlglot import exp

from ivm.compile.checks import without_hidden_columns
from ivm.compile.passes import parse_view
from ivm.errors import ViewError
from ivm.plan.nodes import Column, Relation
from ivm.sql.clauses import with_windows
from ivm.sql.dialect import IvmSpark
from ivm.sql.refusals import UnsupportedError
from ivm.sql.text import query_tree, relation_tables
from tests.pure.duck import DuckAnalyzer

RELATIONS = {
    "a": Relation("a", "source", (Column("k", "int"), Column("x", "int"))),
    "b": Relation("b", "source", (Column("k", "int"), Column("y", "int"))),
}


class Lenient(DuckAnalyzer):
    """An engine that takes anything, gives it the columns `k` and `n`, and finds no two meanings."""

    def schema(self, sql):
        return (Column("k", "int"), Column("n", "int"))

    def same(self, one, other):
        return True

    def chance(self, sql):
        return None


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT a.k, count(*, a.x) AS n FROM a GROUP BY a.k", r"a \* in a function"),
        ("SELECT a.k, count(DISTINCT *) AS n FROM a GROUP BY a.k", r"a \* in a function"),
        ("SELECT a.k, count(a.*) AS n FROM a GROUP BY a.k", r"a \* in a function"),
        ("SELECT a.k, struct(*) AS n FROM a", r"a \* in a function"),
        ("SELECT a.k FROM a WHERE IDENTIFIER('k') = 1", "names a column by a text"),
        ("SELECT transform(s.arr, a -> a.k + s.x) AS r FROM s, a", "parameter a is called as a table"),
    ],
)
def test_columns_that_are_read_without_their_names_are_refused(sql, message):
    with pytest.raises(UnsupportedError) as refused:
        without_hidden_columns(query_tree(sql))
    assert re.search(message, refused.value.refusal.reason)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.k, count(*) AS n, count(*) FILTER (WHERE a.x > 1) AS m, count(*) OVER () AS w FROM a",
        "SELECT * FROM a WHERE EXISTS (SELECT b.* FROM b)",
        "SELECT transform(array(a.k), e -> e + a.x) AS r FROM a",
        "SELECT transform(array(a.k), a -> a + 1) AS r FROM a",
    ],
)
def test_stars_that_stand_for_rows_and_lambdas_of_their_own_are_taken(sql):
    tree = query_tree(sql)
    assert without_hidden_columns(tree) is tree


@pytest.mark.parametrize(
    ("windows", "over", "message"),
    [
        ("w AS (PARTITION BY k), v AS w", "v", "OVER v, which names no definition"),
        ("w AS (PARTITION BY k)", "u", "OVER u, which names no definition"),
        ("w AS (PARTITION BY k), W AS (ORDER BY k)", "w", "two definitions of one name"),
    ],
)
def test_a_window_has_one_definition_in_parentheses(windows, over, message):
    with pytest.raises(UnsupportedError) as refused:
        with_windows(query_tree(f"SELECT sum(x) OVER {over} AS r FROM a WINDOW {windows}"))
    assert message in refused.value.refusal.reason


def test_the_windows_of_a_query_inside_are_its_own():
    inner = "SELECT k, rank() OVER w AS r FROM a WINDOW w AS (ORDER BY x)"
    tree = with_windows(query_tree(f"SELECT max(r) OVER `w` AS m FROM ({inner}) AS t WINDOW w AS (PARTITION BY k)"))
    assert inner.upper() in tree.sql().upper()
    assert "OVER (PARTITION BY K)" in tree.sql().upper()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM IDENTIFIER('a')",
        "SELECT k FROM a WHERE k IN (SELECT k FROM identifier('b') AS q)",
        "WITH t AS (SELECT * FROM IDENTIFIER('a')) SELECT k FROM t",
    ],
)
def test_a_table_that_only_spark_can_name_is_refused(sql):
    with pytest.raises(ViewError, match=r"a table that only Spark can name.*Name a source or a view"):
        relation_tables(sql)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT k, x, k AS z FROM a EXCEPT ALL SELECT k, y FROM b", r"2 for 3 \(k, x, z\)"),
        ("SELECT k, count() AS n FROM a GROUP BY k", r"count\(\) of nothing"),
        ("SELECT k FROM a", r"1 for 2 \(k, n\)"),
    ],
)
def test_what_has_other_columns_than_the_engine_says_is_no_defect(sql, message):
    (refused,) = parse_view("v", sql, dict(RELATIONS), Lenient()).refusals
    assert refused.code != "defect"
    assert re.search(message, refused.reason)


def _without_parentheses(sql: str) -> exp.Expression:
    tree = sqlglot.parse_one(f"SELECT {sql}", read=IvmSpark)
    for parentheses in list(tree.find_all(exp.Paren)):
        parentheses.replace(parentheses.this)
    return tree


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a | b & c", "a | (b & c)"),
        ("a | b ^ c & d", "a | (b ^ (c & d))"),
        ("a & b << c + d", "a & (b << (c + d))"),
        ("a << b >> c >>> d", "((a << b) >> c) >>> d"),
        ("a || b + c - d", "((a || b) + c) - d"),
        ("a + b || c", "(a + b) || c"),
        ("a || b COLLATE UTF8_LCASE = c", "(a || (b COLLATE UTF8_LCASE)) = c"),
        ("a = b < c", "(a = b) < c"),
        ("a = b IN (c, d)", "(a = b) IN (c, d)"),
        ("a < b IS NOT NULL", "(a < b) IS NOT NULL"),
        ("a = b LIKE c = d", "(a = b) LIKE (c = d)"),
        ("NOT a = b BETWEEN c AND d = e AND f", "(NOT ((a = b) BETWEEN c AND (d = e))) AND f"),
        ("a | b = c OR -a ^ b > c AND d", "((a | b) = c) OR ((((-a) ^ b) > c) AND d)"),
    ],
)
def test_operators_bind_as_in_spark(written, meant):
    """Subtrees are matched by their texts: what is no operand of Spark's must not be one of ours."""
    assert _without_parentheses(written) == _without_parentheses(meant)
    printed = [sqlglot.parse_one(text, read=IvmSpark).sql(IvmSpark) for text in (written, meant)]
    assert _without_parentheses(printed[0]) == _without_parentheses(printed[1])
