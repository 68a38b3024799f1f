"""Held batches released or discarded, and state that is lost or damaged brought back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ivm.errors import StateError
from ivm.lake import native

pytestmark = pytest.mark.spark

VIEWS = {
    "totals": "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k",
    "highest": "SELECT k, max(v) AS m FROM t GROUP BY k",
    "rich": "SELECT k, s FROM totals WHERE s > 3",
}
AT_MOST_100 = {"totals": {"state": [{"expect_column_values_to_be_between": {"column": "s", "max_value": 100}}]}}


@pytest.fixture
def pipe(lake, spark):
    lake.table("t", "k bigint, v int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 1), (2, 2), (3, 9)")
    pipe = lake.pipeline(VIEWS)
    lake.compare(pipe, "build")
    return pipe


def held(pipe, lake, spark):
    """The pipeline with `totals` and `rich` held back."""
    pipe.context.checks = AT_MOST_100
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 500)")
    assert not pipe.refresh().ok
    return pipe


def rows(pipe, view):
    return sorted(tuple(r) for r in pipe.read(view).collect())


def test_what_is_held_back_can_be_released(pipe, lake, spark):
    held(pipe, lake, spark)
    assert rows(pipe, "rich") == [(3, 9)]
    with pytest.raises(StateError, match=r"'rich' waits for 'totals'.*Release that one"):
        pipe.release("rich")
    with pytest.raises(StateError, match=r"Nothing of 'highest' is held back.*rich, totals"):
        pipe.release("highest")
    report = pipe.release("totals")
    assert report.ok
    assert set(report.views) == {"totals", "rich"}
    assert rows(pipe, "totals") == [(1, 501, 2), (2, 2, 1), (3, 9, 1)]
    assert rows(pipe, "rich") == [(1, 501), (3, 9)]
    for view in VIEWS:
        assert pipe.verify(view)
    assert pipe.refresh().epoch == report.epoch, "nothing is left to do"
    pipe.context.checks = {}
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 7)")
    assert pipe.refresh().views["totals"].strategy == "incremental"
    lake.compare(pipe, "the released batch counts once")


def test_what_is_held_back_can_be_discarded(pipe, lake, spark):
    held(pipe, lake, spark)
    pipe.discard("totals")
    assert not pipe.context.log.manifest().held
    assert rows(pipe, "totals") == [(1, 1, 1), (2, 2, 1), (3, 9, 1)]
    pipe.context.checks = {}
    report = pipe.refresh()
    assert report.views["totals"].strategy == "incremental"
    lake.compare(pipe, "planned anew")


def test_compaction_keeps_what_is_held_back(pipe, lake, spark):
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (2, 3)")
    pipe.refresh()
    held(pipe, lake, spark)
    pipe.compact(keep_epochs=0)
    assert pipe.release("totals").ok
    for view in VIEWS:
        assert pipe.verify(view)
    pipe.context.checks = {}
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 7)")
    lake.compare(pipe, "followed")


def test_repair_says_first_and_mends_what_it_found(pipe, lake, spark):
    assert pipe.repair(dry_run=True).findings == ()
    native.table(f"{pipe.root}/totals").delete("k = 1")
    shutil.rmtree(f"{pipe.root}/highest")
    found = pipe.repair(dry_run=True)
    assert {f.view for f in found.findings} == {"totals", "highest"}
    assert found.report is None
    assert not Path(f"{pipe.root}/highest").exists(), "nothing was done"
    done = pipe.repair()
    assert done.report.ok
    assert done.report.views["highest"].strategy == "full"
    for view in VIEWS:
        assert pipe.verify(view)
    assert pipe.repair(dry_run=True).findings == ()
    lake.change("t")
    lake.compare(pipe, "followed")


def test_a_view_by_name_is_built_anew(pipe):
    report = pipe.repair(["highest"]).report
    assert report.views["highest"].strategy == "full"
    assert set(report.views) == {"highest"}
    assert pipe.verify("highest")


@pytest.mark.parametrize("damage", ["deleted", "truncated"])
def test_a_lost_log_is_known_again_from_the_tables(pipe, lake, spark, damage):
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (2, 3), (4, 4)")
    pipe.refresh()
    versions = {v: native.table(f"{pipe.root}/{v}").version() for v in VIEWS}
    epochs = Path(pipe.context.layout.epochs)
    if damage == "deleted":
        shutil.rmtree(epochs)
    else:
        for file in epochs.rglob("*.json"):
            file.write_text(file.read_text()[:40])
        for file in epochs.rglob("*checkpoint*"):  # which may hold all commits, as it happens
            file.unlink()
    again = lake.pipeline(VIEWS)
    if damage == "truncated":
        with pytest.raises(StateError, match=r"epoch log .* can't be read .*ivm repair"):
            again.refresh()
    found = again.repair(dry_run=True).findings
    assert [f.view for f in found] == [""]
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 7), (4, 4)")
    done = again.repair()
    assert set(done.known_again) == set(VIEWS)
    assert {v.strategy for v in done.report.views.values()} == {"incremental"}
    assert {v: native.table(f"{again.root}/{v}").version() for v in VIEWS} == {v: n + 1 for v, n in versions.items()}
    for view in VIEWS:
        assert again.verify(view)
    lake.change("t")
    lake.compare(again, "followed")


def test_a_table_that_tells_too_little_is_built_anew(pipe, lake, spark):
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (2, 3), (4, 4)")
    pipe.refresh()
    native.table(f"{pipe.root}/totals").delete("k = 1")
    shutil.rmtree(pipe.context.layout.epochs)
    again = lake.pipeline(VIEWS)
    done = again.repair()
    assert set(done.known_again) == {"highest"}, "totals was changed by hand, and rich reads it"
    assert done.report.views["totals"].strategy == "full"
    for view in VIEWS:
        assert again.verify(view)
    lake.change("t")
    lake.compare(again, "followed")


def test_state_of_a_newer_ivm_is_refused(pipe, lake):
    manifest = pipe.context.log.manifest()
    text = json.dumps({"epoch": manifest.epoch + 1, "units": {}, "format": 99, "surprise": 1})
    pipe.context.log.record(manifest.epoch + 1, "committed", detail=text)
    with pytest.raises(StateError, match=r"written by a newer ivm \(format 99"):
        lake.pipeline(VIEWS).refresh()
