"""The epoch protocol: follow, rerun after a stop at any step, gates, gaps, generations, concurrent refreshes."""

from __future__ import annotations

import fcntl

import pytest

import ivm
import ivm.refresh.apply as apply_module
import ivm.refresh.publish as publish_module
from ivm.errors import ConcurrentRefreshError, GateError, StateError
from ivm.lake import native
from ivm.refresh.epochs import EpochLog

pytestmark = pytest.mark.spark

VIEWS = {
    "totals": "SELECT k, sum(v) AS s, count(*) AS n FROM t GROUP BY k",
    "highest": "SELECT k, max(v) AS m FROM t GROUP BY k",
    "rich": "SELECT k, s FROM totals WHERE s > 3",
}


@pytest.fixture
def pipe(lake):
    lake.table("t", "k bigint, v int", rows=20)
    pipe = lake.pipeline(VIEWS)
    lake.compare(pipe, "build")
    return pipe


def reopened(lake, views=VIEWS, **options):
    """The same pipeline in a new object, as another process would have it."""
    return lake.pipeline(views, **options)


def test_first_build_then_follow_then_nothing(pipe, lake):
    lake.insert("t", 3)
    report = pipe.refresh()
    assert {v.strategy for v in report.views.values()} <= {"incremental", "unchanged"}
    assert report.views["totals"].rows_in == 3
    again = pipe.refresh()
    assert {v.strategy for v in again.views.values()} == {"unchanged"}
    assert again.epoch == report.epoch


def test_empty_deltas_run_no_spark_job(pipe, lake, spark, monkeypatch):
    spark.sql(f"UPDATE {lake.ref('t')} SET v = v")
    monkeypatch.setattr(apply_module.Apply, "_collect", lambda *_: pytest.fail("a statement was run"))
    report = pipe.refresh()
    assert {v.strategy for v in report.views.values()} == {"unchanged"}
    assert not any(v.error for v in report.views.values())


class Stop(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("step", ["after_plan", "between_batches", "after_apply", "after_check", "before_a_merge", "between_merges", "before_commit"])
def test_rerun_after_a_stop_gives_the_same_tables(pipe, lake, monkeypatch, step):
    lake.insert("t", 4)
    lake.change("t")

    def stop(*_args, **_kwargs):
        raise Stop

    def once_then_stop(function, times=1):
        calls = []

        def wrapped(*args, **kwargs):
            if len(calls) >= times:
                raise Stop
            calls.append(1)
            return function(*args, **kwargs)

        return wrapped

    with monkeypatch.context() as patch:
        if step == "after_plan":
            patch.setattr("ivm.pipeline.step_apply", stop)
        elif step == "between_batches":
            patch.setattr(apply_module, "append_batch", once_then_stop(apply_module.append_batch, 2))
        elif step == "after_apply":
            patch.setattr("ivm.pipeline.step_check", stop)
        elif step == "after_check":
            patch.setattr("ivm.pipeline.step_publish", stop)
        elif step == "before_a_merge":
            patch.setattr(publish_module, "_publish_unit", stop)
        elif step == "between_merges":
            patch.setattr(publish_module, "_publish_unit", once_then_stop(publish_module._publish_unit))
        else:
            real = EpochLog.record
            patch.setattr(EpochLog, "record", lambda self, epoch, status, *a, **k: stop() if status == "committed" else real(self, epoch, status, *a, **k))
        with pytest.raises(Stop):
            pipe.refresh()
    versions = dict(pipe.context.log.manifest().sources)
    lake.insert("t", 2)  # the source moves on; the open epoch keeps its range
    after = reopened(lake)
    lake.compare(after, f"rerun {step}")
    assert after.context.log.manifest().sources != versions
    lake.change("t")
    lake.compare(after, f"next after {step}")


def test_a_view_added_later_and_a_changed_definition(pipe, lake):
    lake.insert("t", 3)
    pipe.refresh()
    more = reopened(lake, VIEWS | {"late": "SELECT v, count(*) AS n FROM t GROUP BY v"})
    report = more.refresh()
    assert report.views["late"].strategy == "full"
    assert report.views["totals"].strategy == "unchanged"
    changed = reopened(lake, VIEWS | {"totals": "SELECT k, sum(v) + 1 AS s, count(*) AS n FROM t GROUP BY k"})
    report = changed.refresh()
    assert report.views["totals"].reason == "the view's definition, or the columns it reads, changed"
    lake.compare(changed, "changed definition")
    wider = reopened(lake, VIEWS | {"totals": "SELECT k, sum(v) AS s, count(*) AS n, avg(v) AS a FROM t GROUP BY k"})
    lake.compare(wider, "new column")
    lake.insert("t", 3)
    lake.compare(wider, "follow the new generation")
    assert wider.read("totals").columns == ["k", "s", "n", "a"]


def test_named_views_advance_alone(pipe, lake):
    lake.insert("t", 2)
    report = pipe.refresh(["rich"])
    assert set(report.views) == {"totals", "rich"}
    lake.insert("t", 2)
    lake.compare(pipe, "the others catch up from their own cursors")


def test_a_failing_view_does_not_stop_the_others(lake, spark):
    lake.table("t", "k bigint, v int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 1), (2, 2)")
    pipe = lake.pipeline(
        {"good": "SELECT k, sum(v) AS s FROM t GROUP BY k", "bad": "SELECT k, 10 / v AS x FROM t", "over_bad": "SELECT count(*) AS n FROM bad"}
    )
    lake.compare(pipe, "build")
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (3, 0)")
    report = pipe.refresh()
    assert not report.ok
    assert "DIVIDE_BY_ZERO" in report.views["bad"].error
    assert report.views["over_bad"].error == "bad failed, which it reads"
    assert not report.views["good"].error
    assert pipe.verify("good")
    assert pipe.verify("bad"), "the failed view stays at what it had read"
    spark.sql(f"DELETE FROM {lake.ref('t')} WHERE v = 0")
    lake.compare(pipe, "mended")


def test_a_failing_gate_publishes_nothing_and_says_why(lake, spark):
    lake.table("t", "k bigint, v int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 1), (2, 2)")
    pipe = lake.pipeline(VIEWS)
    pipe.context.checks = {
        "totals": {
            "state": [{"expect_column_values_to_be_between": {"column": "s", "max_value": 100}}],
            "delta": [{"expect_column_values_to_not_be_null": {"column": "k"}}],
        }
    }
    pipe.refresh()
    before = native.table(pipe.context.layout.table("totals", True)).version()
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 500)")
    with pytest.raises(GateError, match=r"max_value=100.*1 of 2 rows"):
        pipe.refresh()
    assert native.table(pipe.context.layout.table("totals", True)).version() == before
    with pytest.raises(GateError, match="quarantined"):
        pipe.refresh()
    spark.sql(f"UPDATE {lake.ref('t')} SET v = 5 WHERE v = 500")
    report = pipe.refresh()
    assert "was quarantined" in report.note
    lake.compare(pipe, "mended")
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (NULL, 5)")
    with pytest.raises(GateError, match=r"totals, delta: expect_column_values_to_not_be_null"):
        pipe.refresh()


def test_a_lost_row_in_the_output_is_caught_before_publishing(pipe, lake, spark):
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (77, 1)")
    pipe.refresh()
    native.table(pipe.context.layout.table("totals", True)).delete("k = 77")
    state = pipe.context.log.manifest().units["totals"]
    assert native.rows(native.table(pipe.context.layout.table("totals", True))) == state.rows - 1
    # The manifest pins the published version, so what somebody else did to the table shows in the merge's target only.
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (77, 2)")
    pipe.refresh()
    assert pipe.verify("totals")


@pytest.mark.parametrize("kind", ["restore", "feed_off_and_on", "replaced"])
def test_gaps_in_the_feed_are_answered_with_a_full_refresh(pipe, lake, spark, kind):
    ref = lake.ref("t")
    spark.sql(f"INSERT INTO {ref} VALUES (5, 5)")
    if kind == "restore":
        spark.sql(f"RESTORE TABLE {ref} TO VERSION AS OF 1")
    elif kind == "feed_off_and_on":
        spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
        spark.sql(f"INSERT INTO {ref} VALUES (6, 6)")
        spark.sql(f"ALTER TABLE {ref} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    else:
        import shutil

        shutil.rmtree(lake.path("t"))
        lake.table("t", "k bigint, v int", rows=5)
    report = pipe.refresh()
    assert report.views["totals"].strategy == "full"
    assert "gap" in report.views["totals"].reason
    for view in VIEWS:
        assert pipe.verify(view)
    spark.sql(f"INSERT INTO {ref} VALUES (9, 9)")
    lake.compare(pipe, "follow after the gap")


def test_another_refresh_wins(pipe, lake):
    lake.insert("t", 1)
    with open(f"{pipe.context.layout.internal}/lock", "a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ConcurrentRefreshError, match="Another refresh of pipeline 'oracle' is running"):
            pipe.refresh()
    lake.compare(pipe, "after the other ended")


def test_earlier_epochs_can_be_read(pipe, lake):
    first = pipe.refresh().epoch
    before = sorted(map(tuple, pipe.read("totals").collect()), key=str)
    lake.insert("t", 5)
    pipe.refresh()
    assert sorted(map(tuple, pipe.read("totals", epoch=first).collect()), key=str) == before
    assert sorted(map(tuple, pipe.read("totals").collect()), key=str) != before
    with pytest.raises(StateError, match="Epoch 999 was not committed"):
        pipe.read("totals", epoch=999)


def test_compaction_changes_nothing_that_readers_see(pipe, lake):
    for _ in range(4):
        lake.insert("t", 2)
        pipe.refresh()
    done = pipe.compact(keep_epochs=1)
    accumulators = next(c for c in done if "accumulators" in c.table)
    assert accumulators.files_before > accumulators.files_after == 1
    assert accumulators.rows_after < accumulators.rows_before
    for view in VIEWS:
        assert pipe.verify(view)
    lake.change("t")
    lake.compare(pipe, "after compaction")


def test_outputs_carry_a_change_feed_of_what_changed_only(pipe, lake, spark):
    version = native.table(pipe.context.layout.table("totals", True)).version()
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1234, 1)")
    pipe.refresh()
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version + 1).load(pipe.context.layout.table("totals", True))
    assert [(r["k"], r["_change_type"]) for r in feed.collect()] == [(1234, "insert")]


def test_backfill_repairs_a_view_and_a_slice(lake):
    lake.table("t", "k bigint, v int", rows=20)
    pipe = lake.pipeline({"totals": VIEWS["totals"]})
    lake.compare(pipe, "build")
    table = pipe.context.layout.table("totals", True)
    with pytest.raises(ivm.errors.ConfigError, match=r"not a condition over the group keys.*There are: k"):
        pipe.backfill("totals", where="s > 1")
    with pytest.raises(ivm.errors.ConfigError, match="its type is int"):
        pipe.backfill("totals", where="1")
    report = pipe.backfill("totals")
    assert report.views["totals"].strategy == "full"
    assert pipe.verify("totals")
    report = pipe.backfill("totals", where="k = 1")
    assert report.views["totals"].rows_out == 0, "nothing to repair"
    # Damage the published table and its accumulators behind the pipeline's back, and let the manifest take it for true.
    native.table(table).update(updates={"s": "s + 1000"}, predicate="k = 1")
    state = pipe.context.log.manifest().units["totals"]
    trace = pipe.context.layout.accumulator_trace("totals", state.generation)
    native.table(trace).update(updates={"s_arg_1": "s_arg_1 + 1000"}, predicate="k = 1")
    _pin(pipe, "totals", native.table(table).version())
    assert not pipe.verify("totals")
    report = pipe.backfill("totals", where="k = 1")
    assert report.views["totals"].rows_out == 2
    lake.compare(pipe, "repaired")
    lake.insert("t", 8)
    lake.compare(pipe, "accumulators are right as well")


def _pin(pipe, unit, version):
    from dataclasses import replace

    from ivm.refresh.records import to_json

    log = pipe.context.log
    manifest = log.manifest()
    epoch = log.next_epoch()
    units = manifest.units | {unit: replace(manifest.units[unit], version=version)}
    log.record(epoch, "committed", detail=to_json(replace(manifest, epoch=epoch, units=units)))


def test_a_full_refresh_ripples_no_further_than_what_changed(lake, spark):
    lake.table("t", "k bigint, v int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, 1), (2, 2), (3, 3)")
    pipe = lake.pipeline({})
    pipe.view("numbered", "SELECT k, v, row_number() OVER (ORDER BY k) AS n FROM t", mode="full")
    pipe.view("over", "SELECT n, sum(v) AS s FROM numbered GROUP BY n")
    lake.compare(pipe, "build")
    spark.sql(f"UPDATE {lake.ref('t')} SET v = 9 WHERE k = 2")
    report = pipe.refresh()
    assert report.views["numbered"].strategy == "full"
    assert report.views["numbered"].rows_out == 2
    assert report.views["over"].strategy == "incremental"
    assert pipe.verify("over")
