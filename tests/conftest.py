"""One Spark session for the whole suite; tests without the `spark` mark start no JVM."""

from __future__ import annotations

import os

import pytest

# One session for all tests fills 2 GB: broadcasts up to Spark's share of it, and what Delta keeps of the tables.
os.environ.setdefault("IVM_DRIVER_MEMORY", "3g")


@pytest.fixture(scope="session")
def spark():
    from ivm.session import get_session

    session = get_session()
    yield session
    session.stop()


@pytest.fixture
def lake(spark, tmp_path, request):
    """An empty random lake, seeded by the test's name."""
    from ivm.testing.oracle import Lake

    return Lake(spark, tmp_path, seed=sum(map(ord, request.node.name)))
