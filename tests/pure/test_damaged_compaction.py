"""What compaction does to units that it can't compact, and to views that are away meanwhile.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ivm.errors import OpenEpochError, may_pass
from ivm.lake import native
from ivm.refresh import compact
from ivm.refresh.run import step_plan
from ivm.refresh.views import View
from ivm.testing.recovery import differences
from tests.pure.duck_session import WRITES, DuckSession
from tests.scenes import change, saved

pytestmark = pytest.mark.slow


def test_a_lost_file_stops_the_compaction_of_its_unit_only(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    lake = saved(DuckSession(), tmp_path, "compact", WRITES)
    pipe = lake.pipeline(lake.folder)
    trace = pipe.context.layout.accumulator_trace("totals", pipe.context.log.manifest().units["totals"].generation)
    Path(native.table(trace).file_uris()[0].removeprefix("file://")).unlink()
    done = pipe.compact(keep_epochs=0)
    assert [Path(c.table).name for c in done if c.error] == ["totals"]
    assert any("idle" in c.table and c.files_after < c.files_before for c in done)
    assert "can't be compacted" in pipe.status()["views"]["totals"]["error"]
    report = lake.pipeline(lake.folder).refresh()
    assert "can't be compacted" in report.views["totals"].reason
    assert report.views["idle"].strategy == "unchanged"
    assert not [c for c in lake.pipeline(lake.folder).compact(keep_epochs=0) if c.error]
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_a_unit_that_could_not_be_written_is_compacted_another_time(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    lake = saved(DuckSession(), tmp_path, "compact", WRITES)

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(compact, "_accumulators", full)
        assert [c for c in lake.pipeline(lake.folder).compact(keep_epochs=0) if "No space left" in c.error]
    assert lake.pipeline(lake.folder).plan() is None
    assert not [c for c in lake.pipeline(lake.folder).compact(keep_epochs=0) if c.error]


def test_an_open_epoch_is_finished_first(monkeypatch, tmp_path):
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    lake = saved(DuckSession(), tmp_path, "compact", WRITES)
    change(lake)
    epoch = step_plan(lake.pipeline(lake.folder).context).epoch
    with pytest.raises(OpenEpochError, match=f"epoch {epoch} is open") as raised:
        lake.pipeline(lake.folder).compact(keep_epochs=0)
    assert may_pass(raised.value)
    assert lake.pipeline(lake.folder).refresh().ok
    assert lake.pipeline(lake.folder).compact(keep_epochs=0)


def test_a_view_that_returns_after_its_input_was_compacted_is_built_anew(monkeypatch, tmp_path):
    """What it has not read is gone: nobody waits for a view that is declared no more."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    lake = saved(DuckSession(), tmp_path, "compact", WRITES)
    declared = lake.views
    lake.views = {n: sql for n, sql in declared.items() if n != "rich"}
    change(lake)
    assert lake.pipeline(lake.folder).refresh().ok
    assert not [c for c in lake.pipeline(lake.folder).compact(keep_epochs=0) if c.error]
    lake.views = declared
    report = lake.pipeline(lake.folder).refresh()
    assert report.views["rich"].strategy == "full"
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


@pytest.mark.parametrize("name", ["spread", "spread__by_n"])
def test_a_view_that_can_not_be_compiled_finds_what_its_units_have_not_read(monkeypatch, tmp_path, name):
    """Whatever it is called: a view's own name may look like that of a unit inside another one."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    lake = saved(DuckSession(), tmp_path, "compact", WRITES)
    nested = "SELECT k, count(*) AS m FROM (SELECT n, count(*) AS k FROM totals GROUP BY n) GROUP BY k"
    lake.views = {**lake.views, name: nested}
    assert lake.pipeline(lake.folder).refresh().ok
    assert f"{name}__1" in lake.pipeline(lake.folder).context.log.manifest().units
    change(lake)
    pipe = lake.pipeline(lake.folder)
    pipe.context.views[name] = View(name, "SELECT nothere FROM totals")
    assert {v for v, r in pipe.refresh().views.items() if r.error} == {name}
    assert not [c for c in compact.compact(pipe.context, 0) if c.error]  # as a refresh does by itself
    report = lake.pipeline(lake.folder).refresh()
    assert report.views[name].strategy == "incremental"
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []
