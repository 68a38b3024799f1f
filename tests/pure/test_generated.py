"""Random views over random changes.

Each unit's delta is its new rows less its old ones, and the units make up the query.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, example, given, settings, target
from hypothesis import strategies as st

from ivm.compile.passes import parse_view
from ivm.plan.nodes import Relation
from tests.pure.duck import DuckAnalyzer, DuckLake
from tests.pure.test_algebra import RELATIONS, delta_of, full_sql, states
from tests.pure.views import views

#: Views tried; the nightly run sets more.
CASES = int(os.environ.get("IVM_GENERATED", "70"))
ANALYZER = DuckAnalyzer()


@settings(
    max_examples=CASES,
    derandomize="IVM_GENERATED" not in os.environ,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
@given(sql=views(), data=states, telescoping=st.booleans())
@example(
    sql="SELECT l.x, r.y FROM (SELECT a AS x, b AS y FROM r) l FULL JOIN (SELECT b AS x, c AS y FROM s) r ON l.y = r.x",
    data=(([], [], []),) * 3,
    telescoping=False,
)
def test_any_view_is_maintained(sql, data, telescoping):
    units = check_maintained(sql, data, telescoping)
    target(float(len(units)))


@pytest.mark.parametrize("deleted", [[(1, 2), (1, 3)], []], ids=["the last row goes", "there was none"])
def test_the_empty_grouping_set_has_its_row_even_of_no_rows(deleted):
    sql = "SELECT count(*) AS n, sum(a) AS s, 1 AS one FROM r GROUP BY GROUPING SETS (()) HAVING count(*) < 3"
    (unit,) = check_maintained(sql, (([], deleted, []), ([], [], []), ([], [], [])))
    assert unit.reduce.keys == ()


def check_maintained(sql, data, telescoping=False):
    """Check a view over r, s and t, of each the rows (kept, deleted, inserted); returns its units."""
    program = parse_view("v", sql, dict(RELATIONS), ANALYZER)
    assert program.incremental, (sql, program.refusals)
    lake = DuckLake(dict(RELATIONS), telescoping)
    for name, (kept, deleted, inserted) in zip(RELATIONS, data, strict=True):
        lake.load(name, kept + deleted, kept + inserted)
    for state in ("old", "new"):
        for name in RELATIONS:
            lake.connection.execute(f"CREATE OR REPLACE VIEW {name} AS SELECT * FROM {name}_{state}")
        wanted = Counter(lake.run(sql))
        for unit in program.units:
            lake.connection.execute(f"DROP TABLE IF EXISTS {unit.name}_{state}")
        rows = Counter()
        for unit in program.units:
            rows = Counter(lake.run(full_sql(unit, state)))
            lake.connection.execute(f"CREATE TABLE {unit.name}_{state} AS {_duck(full_sql(unit, state))}")
        assert rows == wanted, f"{state}: the units don't make up {sql}"
    for unit in program.units:
        expected = Counter(lake.run(full_sql(unit, "new")))
        expected.subtract(Counter(lake.run(full_sql(unit, "old"))))
        assert delta_of(unit, lake) == Counter({k: v for k, v in expected.items() if v}), f"{unit.name} of {sql}"
        lake.load_unit(Relation(unit.name, "unit", unit.columns), full_sql(unit, "old"), full_sql(unit, "new"))
    return program.units


def _duck(sql):
    from tests.pure.duck import duck

    return duck(sql)
