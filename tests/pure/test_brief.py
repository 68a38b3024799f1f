"""A process that ends with a small refresh starts a JVM that warms up sooner. DuckDB stands in Spark's place."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from ivm import jvm, session
from ivm.cli.verbs import advance
from ivm.errors import ConfigError
from ivm.refresh.brief import is_brief
from ivm.refresh.run import step_plan

#: The pure tests' own conftest puts another in its place.
ELSEWHERE = session._elsewhere
#: What the scene is made ready for.
BEFORE = "refresh"


@pytest.mark.slow
def test_changes_of_small_sources_are_brief(lake):
    context = lake.pipeline(lake.folder).context
    assert is_brief(context)
    context.limits = replace(context.limits, brief_rows=5)  # of seven orders
    assert not is_brief(context)


@pytest.mark.slow
def test_many_changes_are_not(lake):
    context = lake.pipeline(lake.folder).context
    assert is_brief(context)
    context.limits = replace(context.limits, brief_changed=0)
    assert not is_brief(context)
    assert lake.pipeline(lake.folder).refresh().ok
    context = lake.pipeline(lake.folder).context
    context.limits = replace(context.limits, brief_changed=0)
    assert is_brief(context)  # nothing changed since


@pytest.mark.slow
def test_what_a_dropped_view_has_not_read_counts_no_more(lake):
    lake.views = {n: sql for n, sql in lake.views.items() if n not in ("named", "idle")}  # the readers of customers
    assert lake.pipeline(lake.folder).refresh().ok
    context = lake.pipeline(lake.folder).context
    context.limits = replace(context.limits, brief_changed=0)
    assert is_brief(context)


@pytest.mark.slow
def test_changes_of_a_source_with_capitals_in_its_name_count(lake):
    context = lake.pipeline(lake.folder).context
    context.limits = replace(context.limits, brief_changed=0)
    context.sources = {n: replace(s, name=n.title()) for n, s in context.sources.items()}
    assert not is_brief(context)


@pytest.mark.slow
def test_a_build_is_not(lake):
    views = lake.views
    lake.views = {**views, "more": "SELECT id FROM orders"}
    assert not is_brief(lake.pipeline(lake.folder).context)
    lake.views = views
    context = lake.pipeline(lake.folder).context
    assert step_plan(context, ["totals"], frozenset({"totals"})) is not None
    assert not is_brief(context)


@pytest.mark.slow
def test_the_session_that_a_refresh_asks_for_is_brief(lake, monkeypatch):
    pipe, asked = lake.pipeline(lake.folder), []

    def get_session(schemes, brief):
        asked.append(brief)
        return lake.spark

    monkeypatch.setattr("ivm.declarations.get_session", get_session)
    pipe._spark, pipe.passing = None, True
    assert pipe.refresh().ok
    assert asked == [True]


@pytest.fixture
def started(monkeypatch):
    """The settings of the sessions that are started, none of which is."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    found: list[dict[str, str]] = []
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(session, "_with", lambda conf: found.append(dict(conf)))
    for name in (session.SUBMITTED, *session._OTHERS, "IVM_SPARK_MASTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(jvm.SHARING, "off")
    return found


@pytest.mark.parametrize(
    ("brief", "others", "options"),
    [
        (True, {}, f"{jvm.COLLECTOR} {jvm.BRIEF}"),
        (False, {}, jvm.COLLECTOR),
        (True, {"SPARK_CONF_DIR": "/etc/spark"}, None),  # where somebody may have set other options
        (True, {"IVM_SPARK_MASTER": "spark://127.0.0.1:7077"}, None),
    ],
)
def test_only_a_local_jvm_of_ours_is_started_so(started, monkeypatch, brief, others, options):
    for name, value in others.items():
        monkeypatch.setenv(name, value)
    session.get_session(brief=brief)
    assert [conf.get("spark.driver.extraJavaOptions") for conf in started] == [options]


def test_a_session_of_another_thread_has_settings_of_its_own(started, monkeypatch):
    from pyspark import SparkContext

    monkeypatch.setattr(session, "_elsewhere", ELSEWHERE)
    assert session.starts_plain()
    monkeypatch.setattr(SparkContext, "_active_spark_context", object())
    assert not session.starts_plain()


@pytest.mark.parametrize("command", ["refresh", "plan", "explain"])
def test_the_command_ends_with_what_it_is_asked_for(monkeypatch, tmp_path, command):
    seen = []

    def load(_, passing):
        seen.append(passing)
        raise StoppedError

    monkeypatch.setattr(advance, "load", load)
    with pytest.raises(StoppedError):
        getattr(advance, command)(**({"view": "v"} if command == "explain" else {}), pipeline=tmp_path)
    assert seen == [True]


class StoppedError(Exception):
    """What a command is ended by here."""


@pytest.mark.airflow
@pytest.mark.parametrize(
    ("task", "arguments", "passing"),
    [
        ("apply_task", {}, True),
        ("check_task", {}, True),
        ("publish_task", {}, True),
        ("backfill_task", {"params": {"view": "totals"}}, False),
        ("verify_task", {"view": "totals"}, False),
    ],
)
def test_a_task_of_airflow_ends_with_its_step(monkeypatch, task, arguments, passing):
    from ivm.orchestration import tasks
    from ivm.pipeline import Pipeline

    loaded = []

    class Found:
        def __getattr__(self, name):
            raise StoppedError

    def load(_):
        loaded.append(Found())
        return loaded[-1]

    monkeypatch.setattr(Pipeline, "load", load)
    monkeypatch.setattr("ivm.orchestration.execution.use_connection", lambda _: None)
    with pytest.raises(StoppedError):
        getattr(tasks, task)("folder", **arguments)
    assert [pipe.passing for pipe in loaded] == [passing]


@pytest.fixture
def counted(lake, started, monkeypatch):
    """A pipeline whose process may start a session; the threads in which one was started."""
    pipe, threads = lake.pipeline(lake.folder), []

    def get_session(schemes, brief):
        threads.append(threading.current_thread())
        return lake.spark

    monkeypatch.setattr("ivm.declarations.get_session", get_session)
    pipe._spark = None
    return pipe, threads


@pytest.mark.slow
def test_the_session_is_begun_beside_what_is_read(counted):
    pipe, threads = counted
    pipe.passing = True
    assert pipe.refresh().ok
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


@pytest.mark.slow
def test_in_a_process_that_lives_on_the_caller_starts_it(counted):
    pipe, threads = counted
    assert pipe.refresh().ok
    assert threads == [threading.main_thread()]


@pytest.mark.slow
def test_planning_starts_none(counted):
    pipe, threads = counted
    pipe.passing = True
    assert step_plan(pipe.context) is not None
    assert threads == []
    assert not pipe.context.has_session()


@pytest.mark.slow
def test_no_view_is_to_blame_where_none_can_be_started(lake, counted, monkeypatch, caplog):
    pipe, _ = counted
    pipe.passing = True

    def get_session(schemes, brief):
        raise ConfigError("The Delta jars could not be fetched.", "Check the network.")

    monkeypatch.setattr("ivm.declarations.get_session", get_session)
    with pytest.raises(ConfigError, match="The Delta jars could not be fetched"):
        pipe.refresh()
    assert "failed" not in caplog.text
    again = lake.pipeline(lake.folder).refresh()
    assert again.ok
    assert "full" not in {v.strategy for v in again.views.values()}
