"""Where Spark fails on the compiled statement of a full refresh, the view's own text is run (DuckDB in its place)."""

from __future__ import annotations

import pytest

from ivm.refresh.full import FullBuild
from ivm.testing.recovery import differences
from tests.pure.test_held import add, scene

pytestmark = pytest.mark.slow

VIEWS = {
    "large": "SELECT id, cust, amount FROM orders WHERE amount > 1",
    "most": "SELECT cust, max(amount) AS m FROM orders GROUP BY cust",
    "counted": "SELECT count(*) AS n FROM large",
}
#: What is in these texts as they are written, and in no statement that is compiled.
WRITTEN = ("amount > 1", "max(amount)")
#: As Spark says it of a plan that it can't run.
DEFECT = "[INTERNAL_ERROR] Cannot evaluate expression: outer(y#1) SQLSTATE: XX000"


@pytest.fixture
def lake(monkeypatch, tmp_path):
    return scene(monkeypatch, tmp_path, VIEWS)


@pytest.fixture
def staged(monkeypatch):
    """Statements over orders that are not as written fail with `error`; what else is staged is counted."""
    told = {"error": DEFECT, "written": 0}
    inner = FullBuild._stage

    def stage(self, view, sql, columns, staging):
        if not (written := any(text in sql for text in WRITTEN)) and view != "counted":
            raise RuntimeError(told["error"])
        told["written"] += written
        return inner(self, view, sql, columns, staging)

    monkeypatch.setattr(FullBuild, "_stage", stage)
    return told


def test_the_text_is_run_as_it_is_written(lake, staged):
    report = lake.pipeline(lake.folder).refresh()
    assert {n: v.error for n, v in report.views.items()} == {"large": "", "most": "", "counted": ""}
    for name in ("large", "most"):
        assert "its compiled statement fails in Spark, so it was run as it is written" in report.views[name].warning
        assert "Cannot evaluate expression" in report.views[name].warning
    assert report.views["counted"].warning == ""
    assert staged["written"] == 2
    add(lake, "orders", (90, 1, 7))
    assert lake.pipeline(lake.folder).refresh().ok
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_an_error_of_the_statement_is_its_own(lake, staged):
    staged["error"] = "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"
    report = lake.pipeline(lake.folder).refresh()
    assert "Division by zero" in report.views["large"].error
    assert report.views["large"].warning == ""


def test_where_both_fail_the_first_error_is_told(lake, monkeypatch):
    def stage(self, view, sql, columns, staging):
        raise RuntimeError("the second one" if any(text in sql for text in WRITTEN) else DEFECT)

    monkeypatch.setattr(FullBuild, "_stage", stage)
    report = lake.pipeline(lake.folder).refresh()
    assert "Cannot evaluate expression" in report.views["large"].error
