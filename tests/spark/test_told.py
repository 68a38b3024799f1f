"""What is said of a refresh before and after it, with Spark: plan, history, why, advise."""

from __future__ import annotations

import pytest

from ivm.advise import advise

pytestmark = pytest.mark.spark

VIEWS = {
    "totals": "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k",
    "rich": "SELECT k, s FROM totals WHERE s > 3",
    "random": "SELECT k, rand() AS r FROM t",
}


def test_before_and_after(lake, spark):
    lake.table("t", "k bigint, v int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 1), (2, 2), (3, 9)")
    pipe = lake.pipeline(VIEWS)
    planned = pipe.plan()
    assert {t.strategy for t in planned.tasks.values()} == {"full"}
    assert "built for the first time" in planned.tasks["totals"].reason
    assert pipe.context.log.events() == [], "nothing is written"
    assert pipe.refresh().ok
    assert pipe.plan(["totals", "rich"]) is None

    spark.sql(f"UPDATE {lake.ref('t')} SET v = 5 WHERE k = 2")
    planned = pipe.plan()
    assert {n: t.strategy for n, t in planned.tasks.items()} == {
        "totals": "incremental",
        "rich": "incremental",
        "random": "full",
    }
    assert pipe.refresh().ok
    last = pipe.history()[0]
    assert last.epoch == planned.epoch
    told = {v.view: v for v in last.views}
    assert (told["totals"].strategy, told["totals"].rows_in, told["totals"].rows_out) == ("incremental", 2, 2)
    assert told["random"].strategy == "full"
    assert [p.epoch for p in pipe.history("rich")] == [2, 1]

    why = pipe.why("rich", "k = 2")
    assert why.rows == ({"k": 2, "s": 5},)
    (support,) = (s for s in why.support if s.relation == "t")
    assert [r["v"] for r in support.rows] == [5]
    assert [(c.epoch, c.weight) for c in why.changes] == [(2, 1)]
    assert any(a.about == "random" for a in advise(pipe))
