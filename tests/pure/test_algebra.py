"""Every delta rule against its slow form: the statement's delta is new result minus old result, as bags."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ivm.plan.nodes import Column, Relation
from ivm.rewrite.delta_join import delta_terms
from ivm.rewrite.slices import Facts, Requests, walk_groups, walk_term
from ivm.rewrite.statements import accumulate, accumulated_delta, final_rows, group_delta, linear_delta
from ivm.sql.parse import parse_view
from ivm.sql.render import core_sql, post_sql, reduce_sql
from tests.pure.duck import DuckAnalyzer, DuckLake

R = Relation("r", "source", (Column("a", "int"), Column("b", "int")))
S = Relation("s", "source", (Column("b", "int"), Column("c", "int")))
T = Relation("t", "source", (Column("c", "int"), Column("d", "int")))
RELATIONS = {r.name: r for r in (R, S, T)}

VIEWS = {
    "filter_project": "SELECT a + 1 AS x, b FROM r WHERE a > 1",
    "join": "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b",
    "three_way": "SELECT r.a, t.d FROM r, s, t WHERE r.b = s.b AND s.c = t.c",
    "self_join": "SELECT x.a AS xa, y.a AS ya FROM r x JOIN r y ON x.b = y.a",
    "triple_self_join": "SELECT x.a FROM r x, r y, r z WHERE x.b = y.a AND y.b = z.a",
    "inequality": "SELECT r.a, s.c FROM r JOIN s ON r.b < s.b",
    "cross": "SELECT r.a, s.c FROM r CROSS JOIN s",
    "union_all": "SELECT a AS x FROM r UNION ALL SELECT c FROM s UNION ALL SELECT a + b FROM r",
    "union_below_join": "SELECT u.x, t.d FROM (SELECT a AS x FROM r UNION ALL SELECT b FROM s) u JOIN t ON u.x = t.c",
    "count_sum": "SELECT b, count(*) AS n, count(a) AS m, sum(a) AS s FROM r GROUP BY b",
    "join_sum": "SELECT r.a, sum(s.c) AS s, count(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "global": "SELECT count(*) AS n, sum(a) AS s FROM r",
    "having": "SELECT b, sum(a) AS s FROM r GROUP BY b HAVING count(*) > 1",
    "filter_clause": "SELECT b, count(*) FILTER (WHERE a > 1) AS n FROM r GROUP BY b",
    "min_max": "SELECT b, min(a) AS lo, max(a) AS hi FROM r GROUP BY b",
    "join_max": "SELECT r.a, max(s.c) AS hi FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "count_distinct": "SELECT b, count(DISTINCT a) AS n FROM r GROUP BY b",
    "distinct": "SELECT DISTINCT b FROM r",
    "expression_key": "SELECT a % 2 AS p, count(*) AS n FROM r GROUP BY a % 2",
    "cte": "WITH x AS (SELECT a, b FROM r WHERE a < 4) SELECT x.a, s.c FROM x JOIN s ON x.b = s.b",
}

value = st.one_of(st.none(), st.integers(0, 4))
rows = st.lists(st.tuples(value, value), max_size=7)
few = st.lists(st.tuples(value, value), max_size=2)
# Old and new state share most rows, so that there are groups and partners that no change touches.
states = st.tuples(*(st.tuples(rows, few, few) for _ in RELATIONS))


@pytest.fixture(scope="module")
def analyzer():
    return DuckAnalyzer()


@pytest.fixture(scope="module")
def lakes():
    return [DuckLake(dict(RELATIONS), telescoping) for telescoping in (False, True)]


def full_sql(unit, state: str) -> str:
    core = core_sql(unit.core, lambda leaf: f"{leaf.relation}_{state}")
    return post_sql(unit.post, reduce_sql(unit.reduce, core)) if unit.reduce else core


def delta_of(unit, lake) -> Counter:
    facts = {n: Facts(r, None) for n, r in RELATIONS.items()} | {unit.name: Facts(Relation(unit.name, "unit", unit.columns), None)}
    requests = Requests()
    walked = [(t, walk_term(t, facts, requests)) for b in unit.core.branches for t in delta_terms(b, frozenset(lake.moved))]
    if not walked:
        return Counter()
    delta: Counter = Counter()
    if unit.reduce is None:
        for *row, weight in lake.run(linear_delta(unit, walked, lake)):
            delta[tuple(row)] += weight
    elif unit.reduce.linear:
        lake.connection.execute("CREATE OR REPLACE TABLE trace AS " + _duck(accumulate(unit, core_sql(unit.core, lambda leaf: f"{leaf.relation}_old"), False)))
        result = lake.connection.execute(_duck(accumulated_delta(unit, walked, lake, "trace"))).fetchall()
        names = [d[0] for d in lake.connection.description]
        for values in result:
            row = dict(zip(names, values, strict=True))
            for side, weight in (("__ivm_old", -1), ("__ivm_new", 1)):
                if row[side] and not row["__ivm_same"]:
                    delta[tuple(row[f"{side}_{i}"] for i in range(len(unit.columns)))] += weight
    else:
        levels, _ = walk_groups(unit, walked, facts, requests)
        lake.connection.execute("CREATE OR REPLACE TABLE stored AS " + _duck(full_sql(unit, "old")))
        for *row, weight in lake.run(group_delta(unit, walked, levels, lake, "stored")):
            delta[tuple(row)] += weight
    return Counter({k: v for k, v in delta.items() if v})


def _duck(sql: str) -> str:
    from tests.pure.duck import duck

    return duck(sql)


@pytest.mark.parametrize("view", VIEWS)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=states)
def test_delta_is_new_minus_old(view, data, analyzer, lakes):
    program = parse_view("v", VIEWS[view], dict(RELATIONS), analyzer)
    assert program.incremental, program.refusals
    (unit,) = program.units
    for lake in lakes:
        for name, (kept, deleted, inserted) in zip(RELATIONS, data, strict=True):
            lake.load(name, kept + deleted, kept + inserted)
        expected = Counter(lake.run(full_sql(unit, "new")))
        expected.subtract(Counter(lake.run(full_sql(unit, "old"))))
        assert delta_of(unit, lake) == Counter({k: v for k, v in expected.items() if v})


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=rows)
def test_accumulators_give_the_engines_own_result(data, analyzer, lakes):
    program = parse_view("v", VIEWS["count_sum"], dict(RELATIONS), analyzer)
    (unit,) = program.units
    lake = lakes[0]
    lake.load("r", data, data)
    groups = accumulate(unit, core_sql(unit.core, lambda leaf: f"{leaf.relation}_new"), False)
    assert Counter(lake.run(final_rows(unit, groups))) == Counter(lake.run(full_sql(unit, "new")))
