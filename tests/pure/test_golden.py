"""Each pass of the compiler makes of its examples what its golden file says, and both sides have the same rows."""

from __future__ import annotations

from collections import Counter

import duckdb
import pytest

from ivm.compile.passes import PASSES, Stage
from ivm.sql.dialect import IvmSpark
from ivm.sql.text import query_tree
from tests.pure import goldens
from tests.pure.duck import duck

#: Passes that only look: they give back what they take, or refuse it.
CHECKS = {"session_windows", "round_trip", "resolved", "hidden_columns", "variants"}
EXAMPLES = [(p, e) for p in PASSES if p.name not in CHECKS for e in goldens.examples(p.name)]


def pairs(values):
    return pytest.mark.parametrize(("each", "example"), values, ids=[f"{p.name}: {e.title}" for p, e in values])


def test_each_pass_has_its_file():
    assert {f.stem for f in goldens.FOLDER.glob("*.sql")} == {p.name for p in PASSES} - CHECKS


@pairs(EXAMPLES)
def test_a_pass_makes_what_is_expected(each, example):
    made = goldens.made(each, example)
    if each.stage in (Stage.TEXT, Stage.TREE):
        assert query_tree(made).sql(IvmSpark) == query_tree(example.expected).sql(IvmSpark)
    else:
        assert made == example.expected


@pairs([(p, e) for p, e in EXAMPLES if not e.on_spark])
def test_both_sides_have_the_same_rows(each, example):
    expected = goldens.script(goldens.program(each, example.sql)) if each.stage is Stage.PROGRAM else example.expected
    found = Counter()
    for seed in range(6):
        connection = duckdb.connect()
        for name, rows in goldens.tables(seed).items():
            connection.execute(f"CREATE TABLE {name} AS {duck(goldens.table_sql(name, rows))}")
        one, other = (Counter(map(repr, connection.sql(duck(sql)).fetchall())) for sql in (example.runnable, expected))
        assert one == other, f"seed {seed}"
        found += one
    assert found, "no rows were compared"
