"""A view of which Spark fails on the compiled statement, and not on its own text, is built all the same."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.spark

#: Spark 4.2's optimizer leaves an outer reference in an aggregate over a correlated subquery, itself in a correlated
#: subquery: [INTERNAL_ERROR] Cannot evaluate expression: outer(y). Written with a derived table it doesn't.
NESTED = (
    "SELECT l.k, l.y, (SELECT avg(r.s) FROM (SELECT m.k, (SELECT sum(c.p) FROM c WHERE c.y = m.y) AS s FROM b m) r "
    "WHERE r.k = l.k) AS mean FROM b l"
)
BROKEN = "SELECT k, raise_error(concat('no ', y)) AS e FROM b"


def test_what_fails_compiled_is_run_as_it_is_written(lake):
    lake.table("b", "k int, y int", rows=10)
    lake.table("c", "y int, p int", rows=6)
    pipe = lake.pipeline({"nested": NESTED, "over": "SELECT count(*) AS n, sum(mean) AS s FROM nested"})
    report = pipe.refresh()
    assert report.ok, str(report)
    for name in ("b", "c", "b"):
        lake.change(name)
        assert lake.differences(pipe) == {}


def test_an_error_of_its_own_stays_its_own(lake):
    lake.table("b", "k int, y int", rows=3)
    view = lake.pipeline({"broken": BROKEN}).refresh().views["broken"]
    assert "no " in view.error
    assert "USER_RAISED_EXCEPTION" in view.error
    assert view.warning == ""
