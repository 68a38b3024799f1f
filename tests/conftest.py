"""One Spark session for the whole suite; tests without the `spark` mark start no JVM."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# No test fails for its time: the machine may be busy with others.
settings.register_profile("ivm", deadline=None)
settings.load_profile("ivm")

#: Definitions that only `spark-pipelines`, or what reads them in its place, can run; what only runs in Airflow.
collect_ignore = ["sdp_shop", "airflow/dags", "airflow/again.py"]

# A JVM of the tests runs thousands of statements over a few rows each, and compiling was most of it: five tests of
# test_dml took 153 processor seconds, 93 so. What is LARGE is compiled all the same; at night everything is.
if os.environ.get("IVM_NIGHTLY") != "1":
    os.environ.setdefault(
        "SPARK_SUBMIT_OPTS",
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
        " -Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN",
    )

# One session for all tests fills 2 GB: broadcasts up to Spark's share of it, and what Delta keeps of the tables.
os.environ.setdefault("IVM_DRIVER_MEMORY", "3g")


@pytest.fixture(scope="session")
def spark():
    from ivm.session import get_session

    # Tests of a process whose tables lie in a store (see tests/spark/test_s3.py).
    session = get_session(schemes=["s3"] if "IVM_TABLES_AT" in os.environ else [])
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server():
    """The settings of an S3 server of this machine."""
    from tests.s3 import served

    with served() as settings:
        yield settings


@pytest.fixture
def s3(s3_server, monkeypatch):
    """A new bucket there, as `s3://NAME`; the environment leads to it."""
    return _bucket(s3_server, monkeypatch)


@pytest.fixture(scope="session")
def fast_server(request, tmp_path_factory):
    """The settings of a server for many requests: versitygw where it is built, or may take its time; else moto."""
    from tests.versity import served, wanted

    if not wanted():
        yield request.getfixturevalue("s3_server")
        return
    with served(tmp_path_factory.mktemp("versity")) as settings:
        yield settings


@pytest.fixture
def fast_s3(fast_server, monkeypatch):
    """A new bucket there likewise."""
    return _bucket(fast_server, monkeypatch)


def _bucket(server, monkeypatch):
    from tests.s3 import bucket

    for name, value in server.items():
        monkeypatch.setenv(name, value)
    return bucket()


@pytest.fixture(autouse=True)
def no_store_outside(monkeypatch):
    """No test asks a store of the world by mistake: this one refuses connections."""
    if "IVM_TABLES_AT" in os.environ:
        return
    for name, value in {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    for name in ("AZURE_STORAGE_ACCOUNT_KEY", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def lake(spark, tmp_path, request):
    """An empty random lake, seeded by the test's name."""
    from ivm.testing.oracle import Lake

    return Lake(spark, tmp_path, seed=sum(map(ord, request.node.name)))
