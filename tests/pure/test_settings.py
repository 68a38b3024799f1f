"""A view is never carried on in a session whose settings give other results than those it was built with.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import pytest

from ivm.errors import StateError
from ivm.refresh.run import step_plan
from ivm.refresh.settings import TIME_ZONE, settings
from ivm.testing.recovery import differences
from tests.pure.duck_session import DuckSession
from tests.scenes import VIEWS, change

#: What the scene is made ready for.
BEFORE = "backfill"


def test_what_matters_is_told_from_what_does_not():
    spark = DuckSession()
    spark.conf.getAll = {
        "spark.sql.shuffle.partitions": "7",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "FALSE",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
        "spark.sql.legacy.sizeOfNull": "false",
        "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED",
    }
    assert settings(spark) == {
        TIME_ZONE: "UTC",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.legacy.timeParserPolicy": "LEGACY",
    }


@pytest.mark.slow
def test_views_are_rebuilt_in_a_session_with_other_settings(lake, monkeypatch):
    monkeypatch.setattr(lake.spark.conf, "getAll", {"spark.sql.ansi.enabled": "false"})
    with pytest.raises(StateError, match=r"ansi.enabled was the default and is false"):
        lake.pipeline(lake.folder).backfill("totals", "cust = 1")
    change(lake)
    report = lake.pipeline(lake.folder).refresh()
    assert {v.strategy for v in report.views.values()} == {"full"}
    assert "spark.sql.ansi.enabled was the default and is false" in report.views["totals"].reason
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []
    assert {v.strategy for v in lake.pipeline(lake.folder).refresh().views.values()} == {"unchanged"}


@pytest.mark.slow
def test_a_slice_is_not_rebuilt_by_another_definition(lake):
    lake.views = {**VIEWS, "totals": "SELECT cust, sum(amount) + 1 AS s, count(*) AS n FROM orders GROUP BY cust"}
    with pytest.raises(StateError, match="another definition"):
        lake.pipeline(lake.folder).backfill("totals", "cust = 1")


@pytest.mark.slow
def test_an_epoch_is_not_gone_on_with_in_a_session_with_other_settings(lake, monkeypatch):
    """Its state says under which settings it was planned, and would go on saying so."""
    change(lake)
    pipe = lake.pipeline(lake.folder)
    planned = step_plan(pipe.context, None)
    assert {t.strategy: t.reason for t in planned.tasks.values()} == {"incremental": "only what changed is applied"}
    with monkeypatch.context() as other:
        other.setattr(lake.spark.conf, "getAll", {"spark.sql.ansi.enabled": "false"})
        report = lake.pipeline(lake.folder).refresh(["idle"])
    assert report.epoch > planned.epoch
    assert report.views["idle"].strategy == "full"
    assert "totals" not in report.views or report.views["totals"].strategy == "unchanged"
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []
