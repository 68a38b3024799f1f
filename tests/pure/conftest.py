"""The scene of the faults without a JVM: DuckDB in Spark's place."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_spark_of_others(monkeypatch):
    """No Spark of another test's is seen in this process."""
    monkeypatch.setattr("ivm.session._elsewhere", lambda: False)


@pytest.fixture
def without_a_jvm(monkeypatch):
    """Spark's functions are built in this process, as over Connect."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """The scene as an action finds it, built once for all tests: a copy of it, in another folder."""
    from tests.pure.duck_session import WRITES, DuckSession
    from tests.scenes import saved

    made = {}

    def copied(action, folder):
        if action not in made:
            made[action] = saved(DuckSession(), tmp_path_factory.mktemp(action), action, WRITES)
        return made[action].moved(folder / "lake")

    return copied


@pytest.fixture
def lake(without_a_jvm, scenes, tmp_path, request):
    """The scene as the action finds it that the module names in BEFORE."""
    return scenes(request.module.BEFORE, tmp_path)
