"""What the settings make of the DAGs: shape, schedule, pool, execution, freshness; and what the tasks of views tell."""

from __future__ import annotations

import asyncio
import datetime
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ivm.errors import ConcurrentRefreshError, IvmError, OpenEpochError, StateError, StorageError
from ivm.refresh.run import step_apply, step_check, step_plan, step_publish
from ivm.testing.recovery import differences
from tests.airflow.test_dags import _structure
from tests.pure.conftest import lake, scenes, without_a_jvm  # noqa: F401 - fixtures
from tests.scenes import CUSTOMERS, change, path

pytestmark = [pytest.mark.airflow]

#: What the scene of `lake` is made ready for.
BEFORE = "refresh"
SQL = {
    "totals": "SELECT cust, count(*) AS n FROM orders GROUP BY cust",
    "large": "SELECT * FROM totals WHERE n > 9",
    "both": "SELECT l.cust FROM large l JOIN totals t ON l.cust = t.cust",
    "alone": "SELECT 'totals' AS word FROM orders",
}
SETTINGS = {
    "by_step": "airflow: {pool: shop}\nschedule: {on: commits, poll: 30s}\nviews: {totals: {freshness: 1h}}\n",
    "by_view": "airflow: {shape: views, pool: shop}\nschedule: {on: assets, of: [other.totals, 's3://b/t']}\n",
    "by_connect": "airflow: {execution: connect, connection: c}\nschedule: {on: assets}\n",
    "by_submit": "airflow: {execution: submit, connection: c, shape: views}\nschedule: '@daily'\n",
}


@pytest.fixture(autouse=True)
def airflow_home(tmp_path, monkeypatch):
    """Where Airflow is imported in this process first, it writes its settings there."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow_home"))


@pytest.fixture(scope="module")
def dags(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shapes")
    for name, settings in SETTINGS.items():
        _written(folder / name, name, settings, SQL)
    _written(
        folder / "turning", "turning", "airflow: {shape: views}\n", {"a": "SELECT * FROM b", "b": "SELECT * FROM a"}
    )
    found = _structure(folder / "home", IVM_PIPELINES=str(folder))
    assert not {"pyspark", "deltalake"} & set(found["heavy"])
    return found["dags"]


def _written(folder, name, settings, views):
    (folder / "views").mkdir(parents=True)
    source = "sources: {orders: {path: /lake/orders}}\n"
    (folder / "pipeline.yml").write_text(f"name: {name}\nroot: /lake/{name}\n{source}{settings}")
    for view, sql in views.items():
        (folder / "views" / f"{view}.sql").write_text(sql)


def test_by_default_there_is_a_task_a_step(dags):
    dag = dags["ivm_by_step"]
    assert list(dag["tasks"]) == ["plan", "apply", "check", "publish", "compact"]
    assert dag["assets"]["publish"] == ["by_step.alone", "by_step.both", "by_step.large", "by_step.totals"]


def test_views_have_tasks_after_those_that_they_read(dags):
    dag = dags["ivm_by_view"]
    assert dag["tasks"] == {
        "plan": ["apply"],
        "apply": ["check"],
        "check": ["publish"],
        "publish": ["compact", "views.alone", "views.both", "views.large", "views.totals"],
        "compact": [],
        "views.totals": ["views.both", "views.large"],
        "views.large": ["views.both"],
        "views.both": [],
        "views.alone": [],
    }
    assert {t: a for t, a in dag["assets"].items() if a} == {f"views.{v}": [f"by_view.{v}"] for v in SQL}
    # A view that is as it was (skipped) holds back nobody; one that failed does; where all is skipped, so are these.
    assert {r for t, r in dag["rules"].items() if t.startswith("views.")} == {"none_failed_min_one_success"}


def test_what_writes_takes_a_slot_of_the_pool(dags):
    assert set(dags["ivm_by_step"]["pools"].values()) == {"shop"}
    assert set(dags["ivm_by_step_backfill"]["pools"].values()) == {"shop"}
    assert set(dags["ivm_by_step_maintenance"]["pools"].values()) == {"shop"}
    assert {p for t, p in dags["ivm_by_view"]["pools"].items() if t.startswith("views.")} == {"default_pool"}
    assert set(dags["ivm_by_connect"]["pools"].values()) == {"default_pool"}
    assert dags["ivm_by_step_maintenance"]["retries"] == [15], "an epoch may be open, between two tasks of a refresh"
    assert {d["max_active_runs"] for d in dags.values()} == {1}


def test_schedules(dags):
    assert dags["ivm_by_step"]["schedule"].startswith("AssetTriggeredTimetable")
    assert "by_step.commits" in dags["ivm_by_step"]["schedule"]
    for named in ("other.totals", "s3://b/t"):
        assert named in dags["ivm_by_view"]["schedule"]
    assert "file:///lake/orders" in dags["ivm_by_connect"]["schedule"]
    assert "AssetAny" in dags["ivm_by_view"]["schedule"]


@pytest.mark.parametrize(
    ("place", "uri"),
    [
        ("/lake/shop/", "file:///lake/shop"),
        ("/lake//my shop", "file:///lake/my shop"),
        ("/lake/a#b?c/100%", "file:///lake/a%23b%3Fc/100%25"),
        ("s3://lake/a#b", "s3://lake/a%23b"),
    ],
)
def test_a_place_has_one_uri_of_which_airflow_cuts_nothing(place, uri):
    from airflow.sdk import Asset

    from ivm.orchestration.assets import uri_of

    assert uri_of(place) == Asset("name", uri=uri).uri == uri


def test_a_freshness_target_has_a_dag_of_its_own(dags):
    assert [d for d in dags if d.endswith("_freshness")] == ["ivm_by_step_freshness"]
    dag = dags["ivm_by_step_freshness"]
    assert (dag["tasks"], dag["retries"]) == ({"totals": []}, [0])
    assert "0:15:00" in dag["schedule"]


def test_submit_without_its_provider_is_refused_in_words(dags):
    assert "apache-airflow-providers-apache-spark" in dags["ivm_by_submit_refused"]["doc"]


@pytest.mark.parametrize("shape", ["steps", "views"])
def test_submit_is_one_job_and_what_tells_of_it(tmp_path, monkeypatch, shape):
    """With the provider's operator in a stand-in's place, since we don't install it."""
    from airflow.sdk import BaseOperator

    from ivm.config import load_folder
    from ivm.orchestration import execution, factory

    class Submit(BaseOperator):
        def __init__(self, conn_id, name, application, application_args, **more):
            super().__init__(**more)
            self.given = (conn_id, application.rpartition("/")[2], application_args[1:])

    monkeypatch.setattr(execution, "submit_operator", lambda: Submit)
    settings = f"airflow: {{execution: submit, connection: cluster, shape: {shape}}}\n"
    _written(tmp_path / "sent", "sent", settings, {"totals": SQL["totals"]})
    config = load_folder(tmp_path / "sent")
    dag = factory.refresh_dag(config)
    judges = {"steps": "publish", "views": "views.totals"}[shape]
    assert {t.task_id: sorted(t.downstream_task_ids) for t in dag.tasks} == {
        "look": ["refresh"],
        "refresh": [judges],
        judges: [],
    }
    assert dag.get_task("refresh").given == ("cluster", "job.py", ["refresh"])
    backfill = factory.backfill_dag(config)
    assert [(t.task_id, sorted(t.downstream_task_ids), [a.name for a in t.outlets]) for t in backfill.tasks] == [
        ("backfill", ["publish"], []),  # a dry run updates nothing
        ("look", ["backfill"], []),
        ("publish", [], ["sent.totals"]),
    ]
    job = backfill.get_task("backfill")
    assert job.given == ("cluster", "job.py", ["backfill", "{{ params | tojson }}"])
    assert job.retries == 0
    compact = factory.maintenance_dag(config).get_task("compact")
    assert (compact.given[2], compact.retries) == (["compact"], factory.PATIENT["retries"]), (
        "it waits for an open epoch"
    )


def test_a_cycle_of_views_is_refused_in_words(dags):
    assert "in a cycle" in dags["ivm_turning_refused"]["doc"]


def test_a_folder_whose_dags_are_another_ones_is_refused(tmp_path):
    from ivm.config import load_folder
    from ivm.orchestration.folders import check_dags, dag_ids, refresh_dags

    more = "views: {totals: {freshness: 1h}}\naudit: {schedule: '@weekly'}\n"
    for folder, name in {"one": "sales", "other": "sales", "third": "sales_quarantine"}.items():
        _written(tmp_path / folder, name, more, SQL)
    made, checks = refresh_dags(tmp_path), check_dags(tmp_path)
    assert sorted(made | checks) == sorted(
        [*dag_ids(load_folder(tmp_path / "one")), "ivm_other_refused", "ivm_third_refused"]
    )
    assert str(tmp_path / "one") in made["ivm_other_refused"].doc_md
    assert "'ivm_sales_quarantine'" in made["ivm_third_refused"].doc_md


def test_a_folder_is_read_once_for_its_dags(tmp_path, monkeypatch):
    from ivm import config
    from ivm.orchestration.folders import check_dags, refresh_dags

    for folder in ("one", "other"):
        _written(tmp_path / folder, folder, "", SQL)
    _written(tmp_path / "wrong", "wrong", "sorces: {}\n", SQL)
    read, inner = [], config.read_yaml
    monkeypatch.setattr(config, "read_yaml", lambda file: read.append(str(file.relative_to(tmp_path))) or inner(file))
    expected = [f"{folder}/pipeline.yml" for folder in ("one", "other", "wrong")]
    assert [d for d in refresh_dags(tmp_path) if "wrong" in d] == ["ivm_wrong_refused"]
    assert [file for file in read if file.endswith("pipeline.yml")] == expected
    read.clear()
    assert list(check_dags(tmp_path)) == ["ivm_one_quarantine", "ivm_other_quarantine"]
    assert [file for file in read if file.endswith("pipeline.yml")] == expected


def test_a_backfill_asks_for_days_and_a_dry_run(dags):
    params = dags["ivm_by_step_backfill"]["params"]
    assert list(params) == ["view", "where", "day", "until", "dry_run"]
    assert params["dry_run"]["type"] == "boolean"


# -- the wait for commits ---------------------------------------------------------------------------


def test_the_wait_tells_each_state_once(monkeypatch):
    from ivm.orchestration import triggers

    one, two = {"epoch": 1, "versions": {"orders": 3}}, {"epoch": 2, "versions": {"orders": 4}}
    looks = iter([None, one, one, None, one, two, two])
    monkeypatch.setattr(triggers, "look", lambda folder: next(looks, None))

    async def told():
        run = triggers.CommitTrigger("folder", 0).run()
        return [(await anext(run)).payload for _ in range(2)]

    assert asyncio.run(asyncio.wait_for(told(), 30)) == [one, two]
    path, kwargs = triggers.CommitTrigger("folder", 30.0).serialize()
    assert path == "ivm.orchestration.triggers.CommitTrigger"
    assert triggers.CommitTrigger(**kwargs).poll == 30.0


def test_a_folder_that_can_not_be_looked_at_does_not_end_the_wait(tmp_path):
    from ivm.orchestration.triggers import look

    assert look(str(tmp_path)) is None


# -- tasks ------------------------------------------------------------------------------------------


@pytest.fixture
def tasks(lake, monkeypatch):  # noqa: F811 - the fixture
    """The tasks, over the scene: a process each, with DuckDB in Spark's place."""
    from ivm.orchestration import tasks as made

    folder = lake.folder / "pipeline"
    (folder / "views").mkdir(parents=True)
    sources = "".join(f"  {s}: {{path: {lake.folder}/sources/{s}}}\n" for s in lake.sources)
    (folder / "pipeline.yml").write_text(f"name: faults\nroot: {lake.folder}/root\nsources:\n{sources}")
    for view, sql in lake.views.items():
        (folder / "views" / f"{view}.sql").write_text(sql)
    monkeypatch.setattr(made, "_pipeline", lambda _: lake.pipeline(lake.folder))
    return made, str(folder)


def test_a_failing_view_is_red_until_it_is_published(tasks, lake):  # noqa: F811 - the fixture
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    made, folder = tasks
    context = lake.pipeline(lake.folder).context
    plan = step_plan(context)
    outcomes = step_apply(context, plan)
    step_check(context, plan, outcomes, lambda *_: {"totals": ["it shall fail"]})
    step_publish(context, plan, outcomes)
    for attempt in range(2):  # a cleared task tells the same again, it doesn't turn green
        with pytest.raises(AirflowFailException, match=r"Published, but not these views: .*totals"):
            made.publish_task(folder, plan.epoch)
        for view in ("totals", "rich"):
            with pytest.raises(AirflowFailException, match=f"View '{view}' was not published: held back"):
                made.view_task(folder, view, plan.epoch)
        assert made.view_task(folder, "best", plan.epoch)["strategy"] == "incremental", attempt
    assert set(made.publish_task(folder, plan.epoch, judged=False)["errors"]) == {"totals", "rich"}
    with pytest.raises(AirflowFailException, match="totals"):
        made.report_task(folder, plan.epoch)
    assert lake.pipeline(lake.folder).refresh().ok
    assert made.view_task(folder, "totals", plan.epoch)["rows"] is not None
    assert made.publish_task(folder, plan.epoch)["errors"] == {}
    with pytest.raises(AirflowSkipException):
        made.view_task(folder, "best", plan.epoch + 1)  # of the second epoch, in which it was as it was


def test_steps_of_a_run_whose_epoch_was_committed_by_another_process_tell_of_it(tasks, lake):  # noqa: F811
    made, folder = tasks
    from airflow.sdk.exceptions import AirflowFailException

    planned = made.plan_task(folder)["epoch"]
    assert lake.pipeline(lake.folder).refresh().ok
    log = lake.pipeline(lake.folder).context.log
    events = len(log.events())
    for step in ("apply", "publish"):
        assert made.TASKS[step](folder, planned)["epoch"] == planned
    assert len(log.events()) == events, "an epoch that is committed is not written to again"
    with pytest.raises(AirflowFailException, match="Epoch 99 was dropped by another refresh"):
        made.apply_task(folder, 99)


def test_an_epoch_of_some_views_that_was_left_is_finished_and_all_are_planned(tasks, lake):  # noqa: F811 - the fixture
    made, folder = tasks
    left = step_plan(lake.pipeline(lake.folder).context, ["idle"])
    assert "totals" not in left.tasks
    told = made.plan_task(folder)
    planned = told["epoch"]
    assert planned > left.epoch == told["first"]
    log = lake.pipeline(lake.folder).context.log
    assert log.has(left.epoch, "committed")
    assert "totals" in log.plan(planned).tasks
    assert made.plan_task(folder)["epoch"] == planned, "tried again it is this run's own"


def test_a_run_tells_of_the_views_of_an_epoch_that_was_left(tasks, lake):  # noqa: F811 - the fixture
    from airflow.sdk.exceptions import AirflowSkipException

    made, folder = tasks
    step_plan(lake.pipeline(lake.folder).context)
    row = {"cust": 30, "name": "x", "region": "east"}
    write_deltalake(path(lake, "customers"), pa.Table.from_pylist([row], CUSTOMERS), mode="append")
    told = made.plan_task(folder)
    made.apply_task(folder, told["epoch"])
    made.check_task(folder, told["epoch"])
    done = made.publish_task(folder, told["epoch"], first=told["first"])
    assert (done["views"]["totals"]["strategy"], done["views"]["idle"]["strategy"]) == ("incremental", "incremental")
    assert made.view_task(folder, "totals", told["first"])["strategy"] == "incremental"
    with pytest.raises(AirflowSkipException):
        made.view_task(folder, "totals", told["epoch"])


@pytest.mark.parametrize("changed", [True, False])
def test_a_second_try_tells_of_the_epoch_that_the_first_one_finished(tasks, lake, monkeypatch, changed):  # noqa: F811
    made, folder = tasks
    left, began = step_plan(lake.pipeline(lake.folder).context).epoch, datetime.datetime.now(datetime.UTC)
    change(lake)
    planned, inner = [], made.protocol.plan

    def plan(run):
        planned.append(run)
        if len(planned) == 2:
            raise StorageError("gone")
        inner(run)

    with monkeypatch.context() as patch:
        patch.setattr(made.protocol, "plan", plan)
        with pytest.raises(StorageError):
            made.plan_task(folder, began=began)
    assert lake.pipeline(lake.folder).context.log.has(left, "committed")
    if not changed:
        assert lake.pipeline(lake.folder).refresh().ok
    told = made.plan_task(folder, began=began)
    assert told["first"] == left
    assert (told["epoch"] > left) is changed
    later = datetime.datetime.now(datetime.UTC)
    if changed:
        assert made.plan_task(folder, began=later)["first"] == told["epoch"], "another run's is its own"


def test_a_third_try_tells_of_what_the_first_one_planned_and_the_second_one_finished(tasks, lake):  # noqa: F811
    made, folder = tasks
    began = datetime.datetime.now(datetime.UTC)
    planned = made.plan_task(folder, began=began)["epoch"]
    for _ in range(2):
        told = made.plan_task(folder, began=began)
        assert (told["epoch"], told["first"]) == (planned, planned)
        assert lake.pipeline(lake.folder).context.log.has(planned, "committed")


@pytest.mark.parametrize("tried", [1, 2])
def test_a_run_plans_from_when_it_began(monkeypatch, tmp_path, tried):
    from ivm.config import load_folder
    from ivm.orchestration import factory, tasks

    _written(tmp_path / "one", "one", "", SQL)
    started = datetime.datetime(2026, 3, 1, tzinfo=datetime.UTC)
    context = {"ti": SimpleNamespace(try_number=tried), "dag_run": SimpleNamespace(start_date=started)}
    monkeypatch.setattr(factory, "get_current_context", lambda: context)
    monkeypatch.setitem(tasks.TASKS, "plan", lambda folder, epoch, began: {"began": began})
    plan = factory.refresh_dag(load_folder(tmp_path / "one")).get_task("plan")
    assert (plan.python_callable()["began"] == started) is (tried == 2)


@pytest.mark.parametrize(
    ("told", "epoch", "first"), [({"epoch": 3, "first": 2}, 3, 2), ({"epoch": 3}, 3, 3), (None, None, None)]
)
def test_the_tasks_of_views_begin_with_the_epoch_that_was_left(monkeypatch, told, epoch, first):
    from ivm.orchestration import factory

    context = {"ti": SimpleNamespace(xcom_pull=lambda task_ids: told)}
    monkeypatch.setattr(factory, "get_current_context", lambda: context)
    assert (factory._epoch("plan"), factory._first("plan")) == (epoch, first)


def test_events_are_of_the_views_that_were_published(monkeypatch):
    from airflow.sdk import Asset

    from ivm.orchestration import assets

    outlets = {v: assets.Outlets(Asset(f"p.{v}"), Asset(f"p.{v}.days")) for v in ("built", "same", "other")}
    running = SimpleNamespace(task=SimpleNamespace(outlets=assets.assets_of(outlets)))
    monkeypatch.setattr(assets, "get_current_context", lambda: {"ti": running})
    done = {"built": {"strategy": "full"}, "same": {"strategy": "unchanged"}}
    assert assets.published(outlets, done) == {"built": outlets["built"]}
    assert [a.name for a in running.task.outlets] == ["p.built", "p.built.days"]


def test_an_epoch_of_older_versions_that_was_left_is_finished_and_the_newest_planned(tasks, lake):  # noqa: F811
    made, folder = tasks
    left = step_plan(lake.pipeline(lake.folder).context)
    change(lake)
    planned = made.plan_task(folder)["epoch"]
    assert planned > left.epoch
    assert lake.pipeline(lake.folder).context.log.has(left.epoch, "committed")
    made.apply_task(folder, planned)
    made.check_task(folder, planned)
    assert made.publish_task(folder, planned)["errors"] == {}
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def _checked(lake):  # noqa: F811
    """An epoch that was left after its check, which is published as it was checked."""
    context = lake.pipeline(lake.folder).context
    plan = step_plan(context)
    step_check(context, plan, step_apply(context, plan), lambda *_: {})
    return plan.epoch


def test_a_view_that_was_edited_since_an_epoch_was_left_is_planned_anew(tasks, lake):  # noqa: F811 - the fixture
    made, folder = tasks
    left = _checked(lake)
    lake.views = {**lake.views, "big": lake.views["big"].replace("* 2", "* 3")}
    told = made.plan_task(folder)
    assert (told["first"], told["epoch"]) == (left, left + 1)
    made.apply_task(folder, told["epoch"])
    made.check_task(folder, told["epoch"])
    assert made.publish_task(folder, told["epoch"], first=told["first"])["errors"] == {}
    assert differences(lake.pipeline(lake.folder), lake.recomputed(lake.folder)) == []


def test_what_cannot_be_planned_after_an_epoch_that_was_left_fails_the_run(tasks, lake, monkeypatch):  # noqa: F811
    from airflow.sdk.exceptions import AirflowFailException

    made, folder = tasks
    left, customers = _checked(lake), lake.folder / "sources" / "customers"
    pipe = lake.pipeline(lake.folder)
    monkeypatch.setattr(made, "_pipeline", lambda _: pipe)
    customers.rename(customers.with_name("away"))
    with pytest.raises(AirflowFailException, match=r"These views can't be planned: named: .*there is nothing at"):
        made.plan_task(folder)
    assert pipe.context.log.has(left, "committed")


def test_a_dropped_epoch_fails_what_is_left_of_its_run(tasks, lake):  # noqa: F811 - the fixture
    from airflow.sdk.exceptions import AirflowFailException

    made, folder = tasks
    planned = made.plan_task(folder)["epoch"]
    assert lake.pipeline(lake.folder).backfill("totals").ok  # plans anew, since that epoch doesn't build it
    for step in ("apply", "check", "publish"):
        with pytest.raises(AirflowFailException, match=f"Epoch {planned} was dropped"):
            made.TASKS[step](folder, planned)


def test_a_compaction_after_a_refresh_is_skipped_while_an_epoch_is_open(tasks, lake):  # noqa: F811 - the fixture
    """The views of its run are published; the maintenance, which nobody else does, fails and is tried again."""
    from airflow.sdk.exceptions import AirflowSkipException

    made, folder = tasks
    done = lake.pipeline(lake.folder).refresh().epoch
    change(lake)
    other = step_plan(lake.pipeline(lake.folder).context).epoch
    with pytest.raises(AirflowSkipException, match=f"epoch {other} is open"):
        made.compact_task(folder, done)
    for epoch in (None, other):
        with pytest.raises(OpenEpochError):
            made.compact_task(folder, epoch)


def test_what_a_job_backfilled_is_told_but_not_of_a_dry_run(tasks, lake):  # noqa: F811 - the fixture
    from airflow.sdk.exceptions import AirflowSkipException

    made, folder = tasks
    first = made.look_task(folder)["epoch"]
    with pytest.raises(AirflowSkipException, match="a dry run"):
        made.report_backfill_task(folder, {"view": "totals", "dry_run": True}, first)
    assert lake.pipeline(lake.folder).backfill("totals").ok
    done = made.report_backfill_task(folder, {"view": "totals", "dry_run": False}, first)
    assert done["views"]["totals"]["strategy"] == "full"


@pytest.mark.parametrize(("error", "again"), [(StorageError("gone"), True), (StateError("other"), False)])
def test_only_what_may_pass_is_tried_again(tasks, monkeypatch, error, again):
    from airflow.sdk.exceptions import AirflowFailException

    made, folder = tasks

    def fail(_):
        raise error

    monkeypatch.setattr(made, "_pipeline", fail)
    with pytest.raises(IvmError if again else AirflowFailException):
        made.plan_task(folder)


def test_a_task_waits_for_another_refresh(tasks, lake, monkeypatch, capsys):  # noqa: F811 - the fixture
    made, folder = tasks
    other = lake.pipeline(lake.folder).context.exclusive()
    other.__enter__()
    looked, now = [], [0.0]
    monkeypatch.setattr(made, "WAITS", 60.0)

    def slept(seconds):
        looked.append(seconds)
        now[0] += 20.0
        if len(looked) == 3:
            other.__exit__(None, None, None)

    # A clock of the module's own: other threads of the process sleep and look at the time too.
    clock = SimpleNamespace(perf_counter=lambda: now[0], monotonic=lambda: now[0], sleep=slept)
    monkeypatch.setattr(made, "time", clock)
    done = made.plan_task(folder)
    assert done["epoch"]
    assert done["seconds"] == 0, "what it waited is not the step's own time"
    assert looked == [made.BETWEEN] * 3
    assert "Another refresh of pipeline 'faults' is running" in capsys.readouterr().out


def test_a_task_waits_for_a_while_only(tasks, lake, monkeypatch):  # noqa: F811 - the fixture
    made, folder = tasks
    monkeypatch.setattr(made, "WAITS", 0.0)
    with lake.pipeline(lake.folder).context.exclusive(), pytest.raises(ConcurrentRefreshError):
        made.plan_task(folder)
