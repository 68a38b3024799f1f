"""The epoch protocol: follow, rerun after a stop at any step, gates, gaps, generations, concurrent refreshes."""

from __future__ import annotations

import fcntl
import re
import shutil

import pytest

import ivm
import ivm.refresh.incremental as incremental_module
import ivm.refresh.publish as publish_module
from ivm.errors import ConcurrentRefreshError, StateError
from ivm.lake import bags, native
from ivm.refresh.epochs import EpochLog
from tests.scenes import NIGHTLY, pinned

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
    monkeypatch.setattr(incremental_module, "execute", lambda *_: pytest.fail("a statement was run"))
    report = pipe.refresh()
    assert {v.strategy for v in report.views.values()} == {"unchanged"}
    assert not any(v.error for v in report.views.values())


class Stop(BaseException):
    """The process dies here."""


#: Where a refresh stops; tests/pure/test_faults.py stops it at every write, with DuckDB in Spark's place.
STOPS = [
    "between_batches",
    "between_merges",
    "after_plan",
    "after_apply",
    "after_check",
    "before_a_merge",
    "before_commit",
]


@pytest.mark.parametrize("step", STOPS if NIGHTLY else STOPS[:1])
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
            patch.setattr("ivm.refresh.run.step_apply", stop)
        elif step == "between_batches":
            patch.setattr(incremental_module, "append_batch", once_then_stop(incremental_module.append_batch, 2))
        elif step == "after_apply":
            patch.setattr("ivm.refresh.run.step_check", stop)
        elif step == "after_check":
            patch.setattr("ivm.refresh.run.step_publish", stop)
        elif step == "before_a_merge":
            patch.setattr(publish_module, "_publish_unit", stop)
        elif step == "between_merges":
            patch.setattr(publish_module, "_publish_unit", once_then_stop(publish_module._publish_unit))
        else:
            real = EpochLog.record
            patch.setattr(
                EpochLog,
                "record",
                lambda self, epoch, status, *a, **k: (
                    stop() if status == "committed" else real(self, epoch, status, *a, **k)
                ),
            )
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
        {
            "good": "SELECT k, sum(v) AS s FROM t GROUP BY k",
            "bad": "SELECT k, 10 / v AS x FROM t",
            "over_bad": "SELECT count(*) AS n FROM bad",
        }
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


def test_a_failed_expectation_holds_back_its_view_and_what_reads_it(lake, spark):
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
    report = pipe.refresh()
    assert not report.ok
    assert re.search(
        r"held back in epoch 2: view totals, state: .*max_value=100.*1 of 2 rows", report.views["totals"].error
    )
    assert report.views["rich"].error == "held back in epoch 2: totals is held back, which it reads"
    assert not report.views["highest"].error
    assert native.table(pipe.context.layout.table("totals", True)).version() == before
    assert [r["m"] for r in pipe.read("highest").where("k = 1").collect()] == [500]
    for view in VIEWS:
        assert pipe.verify(view), "each view is equal to a recompute at what it has read"
    assert set(pipe.context.log.manifest().held) == {"totals", "rich"}
    again = pipe.refresh()
    assert "held back in epoch 3" in again.views["totals"].error
    assert "was quarantined in epoch 2" in again.note
    spark.sql(f"UPDATE {lake.ref('t')} SET v = 5 WHERE v = 500")
    report = pipe.refresh()
    assert report.ok
    assert "was quarantined" in report.note
    assert not pipe.context.log.manifest().held
    lake.compare(pipe, "mended")
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (NULL, 5)")
    assert "totals, delta: expect_column_values_to_not_be_null" in pipe.refresh().views["totals"].error


def test_damage_by_others_is_named_and_mended(pipe, lake, spark):
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (77, 1)")
    pipe.refresh()
    native.table(pipe.context.layout.table("totals", True)).delete("k = 77")
    assert pipe.verify("totals").missing == 1, "what readers see is compared"
    report = pipe.refresh()
    assert report.views["totals"].strategy == "full"
    assert "DELETE at version" in report.views["totals"].reason
    assert report.views["rich"].reason == "'totals' was replaced as a whole"
    assert report.views["highest"].strategy == "unchanged"
    lake.compare(pipe, "mended")
    lake.change("t")
    lake.compare(pipe, "and followed")


def test_maintenance_by_others_is_accepted(pipe, lake, spark):
    for _ in range(3):
        lake.insert("t", 2)
        pipe.refresh()
    table = pipe.context.layout.table("totals", True)
    before = pipe.context.log.manifest().units["totals"].version
    spark.sql(f"OPTIMIZE delta.`{table}`")
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.logRetentionDuration' = 'interval 40 days')")
    native.table(table).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert pipe.read("totals").count() == pipe.context.log.manifest().units["totals"].rows, (
        "the old version's files are gone"
    )
    assert {v.strategy for v in pipe.refresh().views.values()} == {"unchanged"}
    assert pipe.context.log.manifest().units["totals"].version > before
    lake.change("t")
    lake.insert("t", 1)
    report = pipe.refresh()
    assert report.views["totals"].strategy == "incremental"
    lake.compare(pipe, "after maintenance")


#: What is lost; all of it at night.
LOST = ["_ivm/epochs", "_ivm/traces/totals", "_ivm", "totals", "_ivm/traces"]


@pytest.mark.parametrize("lost", LOST if NIGHTLY else LOST[:1])
def test_lost_folders_are_built_anew(pipe, lake, lost):
    lake.insert("t", 3)
    pipe.refresh(["totals"])  # so that its readers lag
    shutil.rmtree(f"{pipe.root}/{lost}")
    after = reopened(lake)
    lake.compare(after, f"without {lost}")
    lake.insert("t", 2)
    lake.change("t")
    lake.compare(after, "and followed")
    assert {v.strategy for v in after.refresh().views.values()} == {"unchanged"}


def test_one_failed_write_is_mended_by_itself(pipe, lake, monkeypatch):
    real, calls = native.append, []

    def failing(path, *args, **kwargs):
        if "traces/totals/output" in path and not calls:
            calls.append(path)
            raise OSError(28, "No space left on device")
        return real(path, *args, **kwargs)

    lake.insert("t", 3)
    lake.change("t")
    monkeypatch.setattr(native, "append", failing)
    report = pipe.refresh()
    assert calls
    assert "No space left" in report.views["totals"].reason
    assert report.ok
    assert pipe.context.log.outcomes(report.epoch)["totals"].code == "recovered"
    for view in VIEWS:
        assert pipe.verify(view)
    lake.change("t")
    lake.compare(pipe, "the accumulators of the failed try don't count")


def test_a_table_that_can_not_be_written_fails_alone(pipe, lake, monkeypatch):
    real, calls = bags.merge, []

    def failing(path, *args, **kwargs):
        if path.endswith("/totals") and not calls:
            calls.append(path)
            raise OSError(28, "No space left on device")
        return real(path, *args, **kwargs)

    lake.insert("t", 3)
    monkeypatch.setattr(bags, "merge", failing)
    report = pipe.refresh()
    assert "could not be published: [Errno 28] No space left" in report.views["totals"].error
    assert "totals could not be published, which it reads" in report.views["rich"].error
    assert not report.views["highest"].error
    for view in VIEWS:
        assert pipe.verify(view), "those that failed stay at what they had read"
    report = pipe.refresh()
    assert report.ok
    assert report.views["totals"].strategy == "full"
    assert "it failed in epoch" in report.views["totals"].reason
    lake.compare(pipe, "mended")
    lake.insert("t", 2)
    assert pipe.refresh().views["totals"].strategy == "incremental"


def test_a_missing_source_stops_only_the_views_that_read_it(lake, spark):
    lake.table("t", "k bigint, v int", rows=5)
    lake.table("u", "k bigint, w int", rows=5)
    views = {
        "of_t": "SELECT k, sum(v) AS s FROM t GROUP BY k",
        "of_u": "SELECT k, w FROM u",
        "over": "SELECT k FROM of_u",
    }
    pipe = lake.pipeline(views)
    lake.compare(pipe, "build")
    lake.insert("t", 2)
    shutil.move(lake.path("u"), lake.path("u") + "_away")
    report = pipe.refresh()
    assert not report.views["of_t"].error
    assert "there is nothing at" in report.views["of_u"].error
    assert "of_u can't be compiled, which it reads" in report.views["over"].error
    assert pipe.verify("of_t")
    shutil.move(lake.path("u") + "_away", lake.path("u"))
    lake.insert("u", 1)
    lake.compare(pipe, "it is back")


@pytest.mark.parametrize("kind", ["replaced", "restore", "feed_off_and_on"] if NIGHTLY else ["replaced"])
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
    epoch = pipe.context.log.manifest().epoch
    assert pipe.refresh().epoch == epoch, "nothing is to be done after it"
    for _ in range(3):
        pipe.compact(keep_epochs=1)
    assert {v.strategy for v in pipe.refresh().views.values()} == {"unchanged"}
    for view in VIEWS:
        assert pipe.verify(view)
    lake.change("t")
    lake.compare(pipe, "after compaction")


def test_outputs_carry_a_change_feed_of_what_changed_only(pipe, lake, spark):
    version = native.table(pipe.context.layout.table("totals", True)).version()
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1234, 1)")
    pipe.refresh()
    feed = (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", version + 1)
        .load(pipe.context.layout.table("totals", True))
    )
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
    pinned(pipe, "totals")
    assert not pipe.verify("totals")
    report = pipe.backfill("totals", where="k = 1")
    assert report.views["totals"].rows_out == 2
    lake.compare(pipe, "repaired")
    lake.insert("t", 8)
    lake.compare(pipe, "accumulators are right as well")


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


def test_a_view_follows_the_time_zone_of_its_session(lake, spark):
    lake.table("t", "id int, at timestamp", rows=0)
    spark.sql(
        f"INSERT INTO {lake.ref('t')} VALUES (1, TIMESTAMP'2026-03-01 23:30:00Z'), (2, TIMESTAMP'2026-03-01 12:00:00Z')"
    )
    pipe = lake.pipeline({"days": "SELECT CAST(at AS date) AS day, count(*) AS n FROM t GROUP BY CAST(at AS date)"})
    lake.compare(pipe, "build")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        assert "was UTC and is Europe/Berlin" in str(pipe.verify("days"))
        spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (3, TIMESTAMP'2026-03-02 12:00:00Z')")
        report = pipe.refresh()
        assert (
            report.views["days"].reason
            == "the session's settings changed: spark.sql.session.timeZone was UTC and is Europe/Berlin"
        )
        lake.compare(pipe, "in another time zone")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def test_no_unit_of_a_view_is_ahead_of_what_the_view_shows(lake, spark):
    """The inner counts could be published, but not what is made of them: a recompute would compare two states."""
    lake.table("orders", "cust int", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('orders')} VALUES (1), (1), (2)")
    sql = "SELECT n, max(100 DIV (n - 3)) AS m FROM (SELECT cust, count(*) AS n FROM orders GROUP BY cust) GROUP BY n"
    pipe = lake.pipeline({"v": sql})
    assert lake.differences(pipe) == {}
    spark.sql(f"INSERT INTO {lake.ref('orders')} VALUES (1), (3), (3)")
    assert "DIVIDE_BY_ZERO" in pipe.refresh().views["v"].error
    units = pipe.context.log.manifest().units
    assert len(units) == 2
    assert len({state.epoch for state in units.values()}) == 1
    assert pipe.verify("v").equal
    spark.sql(f"INSERT INTO {lake.ref('orders')} VALUES (1)")
    assert lake.differences(pipe) == {}


def test_times_of_any_year_outlive_an_optimize_by_others(lake, spark):
    """Spark's default writes them as INT96, and delta-rs would carry others over into what it merges."""
    lake.table("t", "id int, at timestamp", rows=0)
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (1, TIMESTAMP'9999-12-31'), (2, TIMESTAMP'2024-01-01')")
    pipe = lake.pipeline({"v": "SELECT id, at FROM t", "w": "SELECT id FROM t"})
    assert lake.differences(pipe) == {}
    spark.sql(f"INSERT INTO {lake.ref('t')} VALUES (3, TIMESTAMP'2024-01-02')")
    assert lake.differences(pipe) == {}
    for view in ("v", "w"):
        spark.sql(f"OPTIMIZE delta.`{pipe.context.layout.table(view, True)}`")
    spark.sql(f"UPDATE {lake.ref('t')} SET at = TIMESTAMP'2025-01-01' WHERE id = 2")
    tasks = pipe.plan().tasks
    assert "INT96" in tasks["v"].reason
    assert tasks["w"].code == "incremental", "a table without times is taken as it is"
    assert lake.differences(pipe) == {}
    assert pipe.refresh().views["v"].strategy == "unchanged"
