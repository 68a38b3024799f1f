"""Backfill conditions: what is one expression comes back balanced, anything else is refused."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ivm.errors import ConfigError
from ivm.sql.condition import MAX_LENGTH, parse_condition
from ivm.sql.dialect import IvmSpark


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("k=1", "k = 1"),
        ("k = 1 OR (v = 2 AND NOT w)", "k = 1 OR (v = 2 AND NOT w)"),
        ("`a b` = 1 AND `x``y` = 2", "`a b` = 1 AND `x``y` = 2"),
        ("é = 1", "`é` = 1"),
        ("d >= DATE '2026-03-01'", "d >= CAST('2026-03-01' AS DATE)"),
        ("d > d - INTERVAL 1 DAY", "d > d - INTERVAL '1' DAY"),
        ("k IN ('it''s', 'a;b', '--', '/*')", "k IN ('it\\'s', 'a;b', '--', '/*')"),
        ("k LIKE 'a' ESCAPE ''' OR 1=1 --'", "k LIKE 'a' ESCAPE '\\' OR 1=1 --'"),
        ("k = 'a\\' OR 1=1 --'", "k = 'a\\' OR 1=1 --'"),
        ('k = "it\'s"', "k = 'it\\'s'"),
        ("k <=> NULL", "k IS NOT DISTINCT FROM NULL"),
        ("k NOT BETWEEN 1 AND 2", "k NOT BETWEEN 1 AND 2"),
        ("upper(k) RLIKE '^A\\\\d'", "UPPER(k) RLIKE '^A\\\\d'"),
        ("m['a'][0].x = 1", "m['a'][0].x = 1"),
        ("(a, b) IN ((1, 2), (3, 4))", "(a, b) IN ((1, 2), (3, 4))"),
        ("CASE WHEN k > 1 THEN TRUE ELSE v END", "CASE WHEN k > 1 THEN TRUE ELSE v END"),
        ("EXTRACT(YEAR FROM d) = 2026", "EXTRACT(YEAR FROM d) = 2026"),
        ("dateadd(DAY, 1, d) = d", "DATEADD(DAY, 1, d) = d"),
        ("CAST(k AS STRUCT<a: INT>) IS NULL", "CAST(k AS STRUCT<a: INT>) IS NULL"),
    ],
)
def test_conditions_are_rendered_from_the_tree(text, sql):
    assert parse_condition(text) == sql


REFUSED = {
    "can't be parsed": [
        "k = 1) OR (1=1",
        "k = 1 OR",
        "(k = 1",
        "k = 1 ORDER BY k",
        "k, v",
        "k = 1 LIMIT 1",
        "k xor v",
        "k = x'zz'",
        "k = 'a",
    ],
    "semicolon": ["k = 1; DROP TABLE t", "k = 1;", ";"],
    "comment": [
        "k = 1 --",
        "k = 1 -- OR",
        "k = 1 /* x */",
        "/*+ BROADCAST(t) */ k = 1",
        "k = 1 -- \\\nOR TRUE",
        "/* */ k",
    ],
    "subquery": [
        "SELECT 1",
        "(SELECT TRUE)",
        "FROM t",
        "k = 1 UNION SELECT 1",
        "k = (SELECT max(k) FROM t)",
        "WITH a AS (SELECT 1) SELECT 1",
    ],
    "list of values": ["k IN (SELECT 1)"],
    "aggregate": ["sum(k) > 1", "count(*) > 1", "max_by(k, v) = 1", "any(k)", "first(k)"],
    "window function": ["sum(k) OVER () > 1", "rank() OVER (ORDER BY k) = 1"],
    "makes rows": ["explode(k)", "stack(2, 1, 2) = 1"],
    "another answer": ["rand() > 0.5", "d = current_date", "now() > d", "uuid() = k"],
    "no place": [
        "*",
        "t.* = 1",
        "struct(*) IS NULL",
        "k = ?",
        "k = :x",
        "k = $1",
        "@x = 1",
        "f(a => 1)",
        "k AS z",
        "k v",
        "exists(a, x -> x = 1)",
        "VALUES (1)",
    ],
    "setting": ["k = '${env:HOME}'", "k = ${x}"],
    "what its text names": [
        "reflect('java.lang.System', 'exit', 0) = 1",
        "java_method('a', 'b') = 1",
        "identifier('k') = 1",
    ],
    "no plain word": ["`x) OR (1=1`(k)", "EXTRACT('year FROM d) OR (1=1' FROM k)", "EXTRACT('year) x' FROM k) = 1"],
    "hexadecimal": ["k = x'a'"],
    "an interval lacks": ["INTERVAL k", "k > INTERVAL '1-2'"],
    "belongs to a grouping": ["grouping(k) = 1"],
    "nests too deeply": ["(" * 400 + "k" + ")" * 400, "NOT " * 400 + "k", "k = " + "1+" * 900 + "1"],
    "is empty": ["", "  \n"],
    "NUL": ["k = 'a\0'"],
    "surrogate": ["k = '\ud800'"],
    "characters": ["k = '" + "a" * MAX_LENGTH + "'"],
}


@pytest.mark.parametrize(("why", "text"), [(why, text) for why, texts in REFUSED.items() for text in texts])
def test_all_else_is_refused_with_a_reason(why, text):
    with pytest.raises(ConfigError, match=why):
        parse_condition(text)


@pytest.mark.parametrize("text", [None, 5, True, b"k = 1", ["k = 1"]])
def test_other_types_are_refused(text):
    with pytest.raises(ConfigError, match="must be a text"):
        parse_condition(text)


PIECES = [
    "k", "v", "=", "<", "1", "'a'", "\"b\"", "`c`", "(", ")", " ", "AND", "OR", "NOT", "IN", "IS NULL", "--", "/*",
    "*/", ";", ",", "\\", "'", '"', "`", "\n", "SELECT", "UNION", "LIMIT", "OVER ()", "sum(k)", "f(", "x ->", "?", ":p",
    "$", "{", "}", "[", "]", "r'", "x'", "INTERVAL", "DAY", "CASE WHEN", "THEN", "END", "EXTRACT(", "FROM", "CAST(",
    "AS INT)", "::", ".", "*", "=>", "⟦t⟧", "\u2028", "e", "1e", "BETWEEN", "LIKE", "ESCAPE", "TRIM(",
    "DATE '2026-01-01'",
]  # fmt: skip


@settings(max_examples=400)
@given(
    st.one_of(
        st.lists(st.sampled_from(PIECES), max_size=14).map(" ".join),
        st.lists(st.sampled_from(PIECES), max_size=10).map("".join),
        st.text(max_size=30),
    )
)
@example("EXTRACT('year) x' FROM k)")
def test_what_is_accepted_stands_in_any_statement(text):
    """In parentheses after WHERE it is all of the condition, and nothing but it."""
    try:
        sql = parse_condition(text)
    except ConfigError:
        return
    assert parse_condition(sql) == sql
    tree = sqlglot.parse_one(f"SELECT 1 AS one FROM t WHERE ({sql}) AND marked", read=IvmSpark)
    conjunction = tree.args["where"].this
    assert set(tree.args) - {k for k, v in tree.args.items() if not v} == {"expressions", "from_", "where"}
    assert conjunction.expression.name == "marked"
    assert conjunction.this.this.sql(IvmSpark) == sql


def test_the_slice_is_the_one_that_was_written():
    """DuckDB picks the same rows by the text and by what was made of it."""
    rows = duckdb.connect().sql("SELECT range AS k, range % 3 AS v FROM range(10)")
    for text in (
        "k = 1 OR v = 2 AND k > 3",
        "NOT k > 3 AND v <> 1",
        "NOT (k > 3 AND v <> 1)",
        "k BETWEEN 2 AND 5 OR k IN (7, 8)",
        "-k < -2 AND k % 2 = 1",
    ):
        assert rows.filter(parse_condition(text)).fetchall() == rows.filter(text).fetchall()
