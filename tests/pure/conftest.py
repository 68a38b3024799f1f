"""The scene of the faults without a JVM: DuckDB in Spark's place."""

from __future__ import annotations

import pytest


@pytest.fixture
def without_a_jvm(monkeypatch):
    """Spark's functions are built in this process, as over Connect."""
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")


@pytest.fixture
def lake(without_a_jvm, tmp_path, request):
    """The scene as the action finds it that the module names in BEFORE."""
    from tests.pure.duck_session import WRITES, DuckSession
    from tests.scenes import saved

    return saved(DuckSession(), tmp_path, request.module.BEFORE, WRITES)
