"""Large statements compile in a bounded number of steps, and to what they mean.

The measure is what the engine is asked: how many statements, of how many characters. It is the same on every machine,
and all that the compiler makes of a view is asked.
"""

from __future__ import annotations

import random

import pytest

from ivm.compile.passes import compile_sql
from ivm.compile.queries import compiler
from ivm.plan.nodes import Column, Relation
from ivm.sql.blocks import Extent
from tests.pure.duck import DuckAnalyzer
from tests.pure.test_algebra import RELATIONS
from tests.pure.test_generated import check_maintained

TABLES = {f"t{i}": Relation(f"t{i}", "source", (Column("k", "int"), Column("v", "int"))) for i in range(101)}
WIDE = {"w": Relation("w", "source", tuple(Column(f"c{i}", "int") for i in range(1000)))}


class Counting(DuckAnalyzer):
    """Counts what it is asked; the statements here need no translation but of their quotes."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []

    def schema(self, sql):
        self.asked.append(len(sql))
        result = self.connection.sql(sql.replace("`", '"'))
        return tuple(
            Column(n, {"INTEGER": "int", "HUGEINT": "bigint"}.get(str(t), str(t).lower()))
            for n, t in zip(result.columns, result.types, strict=True)
        )

    def scalar(self, expressions, from_sql):
        self.asked.append(sum(map(len, expressions)) + len(from_sql))


def joined(kind: str, joins: int) -> str:
    names = ", ".join(f"t{i}.v AS v{i}" for i in range(joins + 1))
    on = " ".join(f"{kind} JOIN t{i} ON t{i - 1}.k = t{i}.k" for i in range(1, joins + 1))
    return f"SELECT t0.k AS k, {names} FROM t0 {on}"


def ctes(number: int, each: str) -> str:
    """A chain of entries of WITH: `each` is made of the one `before` and of a table."""
    parts = [f"c{i} AS ({each.format(before=f'c{i - 1}', i=i)})" for i in range(1, number + 1)]
    return f"WITH c0 AS (SELECT k, v FROM t0), {', '.join(parts)} SELECT k, v FROM c{number}"


def nested(depth: int) -> str:
    query = "SELECT k, v FROM t0"
    for i in range(depth):
        query = f"SELECT k, v FROM ({query}) AS q{i} WHERE v > {i}"
    return query


def member(depth: int, of: str) -> str:
    """Each table's rows restricted by a query of the next one."""
    query = of.format(table=f"t{depth}", rest="")
    for i in range(depth - 1, 0, -1):
        query = of.format(table=f"t{i}", rest=f" WHERE v IN ({query})")
    return f"SELECT k, v FROM t0 WHERE v IN ({query})"


def correlated(depth: int) -> str:
    query = f"SELECT 1 FROM t{depth} WHERE t{depth}.k = t{depth - 1}.k"
    for i in range(depth - 1, 0, -1):
        query = f"SELECT 1 FROM t{i} WHERE t{i}.k = t{i - 1}.k AND EXISTS ({query})"
    return f"SELECT k, v FROM t0 WHERE EXISTS ({query})"


#: By name: the statement, how many statements the engine may be asked, and how many characters they may have together.
STATEMENTS = {
    "100 inner joins": (joined("", 100), 10, 100_000),
    "100 left joins": (joined("LEFT", 100), 10, 100_000),
    "100 full joins": (joined("FULL", 100), 300, 1_000_000),
    "50 full joins, each in an entry of WITH": (
        ctes(50, "SELECT coalesce(a.k, b.k) AS k, a.v + b.v AS v FROM {before} a FULL JOIN t{i} b ON a.k = b.k"),
        300,
        500_000,
    ),
    "50 right joins": (joined("RIGHT", 50), 50, 300_000),
    "100 UNION ALL": (" UNION ALL ".join(f"SELECT k, v FROM t{i}" for i in range(101)), 10, 100_000),
    "100 UNION": (" UNION ".join(f"SELECT k, v FROM t{i}" for i in range(101)), 500, 200_000),
    "100 entries of WITH": (ctes(100, "SELECT k, v + 1 AS v FROM {before} WHERE v > {i}"), 50, 200_000),
    "50 entries of WITH that name a column twice": (ctes(50, "SELECT k, v + v AS v FROM {before}"), 50, 500_000),
    "20 entries of WITH that join themselves": (
        ctes(20, "SELECT a.k, b.v FROM {before} a JOIN {before} b ON a.k = b.k"),
        50,
        500_000,
    ),
    "100 groupings": (ctes(100, "SELECT k, CAST(sum(v) AS int) AS v FROM {before} GROUP BY k"), 500, 200_000),
    "30 derived tables": (nested(30), 10, 50_000),
    "30 subqueries": (member(30, "SELECT v FROM {table}{rest}"), 200, 100_000),
    "30 correlated subqueries": (correlated(30), 10, 50_000),
    "500 arms": (
        f"SELECT k, CASE {' '.join(f'WHEN v = {i} THEN {2 * i}' for i in range(500))} ELSE 0 END AS c FROM t0",
        10,
        100_000,
    ),
    "5,000 listed": (f"SELECT k, v FROM t0 WHERE v IN ({', '.join(map(str, range(5000)))})", 10, 300_000),
    "1,000 columns": (f"SELECT {', '.join(f'c{i} + 1 AS d{i}' for i in range(1000))} FROM w", 10, 500_000),
    "1,000 sums": (
        f"SELECT c0, {', '.join(f'count(c{i}) AS d{i}' for i in range(1, 1000))} FROM w GROUP BY c0",
        10,
        500_000,
    ),
}


@pytest.mark.parametrize(("sql", "statements", "characters"), STATEMENTS.values(), ids=STATEMENTS)
def test_a_large_statement_compiles_in_bounded_steps(sql, statements, characters):
    analyzer = Counting()
    program = compile_sql("v", sql, dict(WIDE if " FROM w" in sql else TABLES), analyzer)
    assert program.incremental, program.refusals
    assert len(analyzer.asked) <= statements
    assert sum(analyzer.asked) <= characters


def asked(joins: int) -> int:
    analyzer = Counting()
    compile_sql("v", joined("FULL", joins), dict(TABLES), analyzer)
    return len(analyzer.asked)


def test_twice_as_many_full_joins_ask_twice_as_much():
    assert asked(24) - asked(12) <= 1.5 * (asked(12) - asked(0))


def test_few_full_joins_stay_one_unit():
    """As they were before chains were cut: what was stored of such views is carried on."""
    program = compile_sql("v", joined("FULL", 3), dict(TABLES), Counting())
    assert [u.name for u in program.units] == ["v"]
    program = compile_sql("v", joined("FULL", 4), dict(TABLES), Counting())
    assert [u.name for u in program.units] == ["v__1", "v"]


def chain(joins: int, seed: int, kind: str = "FULL") -> str:
    """Outer joins of r, s and t in turn; conditions name the table before, or whatever of two there is."""
    names = list(RELATIONS)
    aliases = [f"j{i}" for i in range(joins + 1)]
    column = {a: RELATIONS[names[i % 3]].columns[seed % 2].name for i, a in enumerate(aliases)}
    sql = f"FROM {names[0]} j0"
    for i in range(1, joins + 1):
        before = f"j{i - 1}.{column[f'j{i - 1}']}"
        if i % 3 == 2:
            before = f"coalesce({before}, j{i - 2}.{column[f'j{i - 2}']})"
        sql += f" {kind} JOIN {names[i % 3]} j{i} ON {before} = j{i}.{column[f'j{i}']}"
    return f"SELECT {', '.join(f'{a}.{c} AS {a}' for a, c in column.items())} {sql}"


@pytest.mark.parametrize("joins", [4, 6, 8, 10])
def test_a_chain_of_full_joins_is_maintained(joins):
    """Each unit's delta is its new rows less its old ones, and the units make up what DuckDB says of the statement."""
    chosen = random.Random(joins)

    def rows(number: int) -> list[tuple[int | None, int | None]]:
        return [tuple(chosen.choice((None, 0, 1, 2, 3, 4, 5, 6)) for _ in range(2)) for _ in range(number)]  # type: ignore[misc]

    check_maintained(chain(joins, joins), [(rows(2), rows(2), rows(2)) for _ in RELATIONS], telescoping=False)


@pytest.mark.parametrize(
    "sql",
    [
        ctes(4, "SELECT a.k, b.v FROM {before} a JOIN {before} b ON a.k = b.k AND a.v = b.v"),
        ctes(5, "SELECT k, v + v AS v FROM {before} WHERE v IS NOT NULL OR k > {i}"),
        chain(6, 1, "RIGHT"),
    ],
    ids=["joined", "added", "right"],
)
def test_what_grows_by_substitution_is_maintained(sql, monkeypatch):
    """Beyond the statement's own size it becomes a unit."""
    monkeypatch.setattr(compiler, "LARGEST", Extent(0, 0))
    sql = sql.replace("FROM t0", "FROM (SELECT a AS k, b AS v FROM r) AS t0")
    rows = [([(1, 2), (3, None), (6, 2)], [(4, 5)], [(6, 7), (None, 1), (2, 1)])] * 3
    assert len(check_maintained(sql, rows)) > 1
