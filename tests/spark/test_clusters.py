"""Spark that shares no folder with the driver or client, sources and root on an S3 server."""

from __future__ import annotations

import os

import pytest

from tests.remote.cluster import connect, need_namespaces, standalone
from tests.remote.run import need_jars, program, shop
from tests.spark.test_s3 import EQUAL, FULL, INCREMENTAL

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NIGHTLY = os.environ.get("IVM_NIGHTLY") == "1"
PARTS = ["build", "refresh", "compact", "backfill", "slice", "verify", "blind"]


@pytest.fixture(autouse=True)
def possible():
    need_jars()
    need_namespaces()


@pytest.mark.parametrize("spark_elsewhere", [standalone, connect])
def test_a_pipeline_on_executors_that_see_no_folder_of_the_driver(spark_elsewhere, fast_s3, tmp_path, tmp_path_factory):
    with spark_elsewhere(tmp_path / "cluster", tmp_path_factory.getbasetemp()) as environment:
        found = shop(fast_s3, tmp_path / "shop", *PARTS, env=environment)
    assert found["build"] == FULL
    assert found["refresh"] == INCREMENTAL
    assert found["compact"] < 0
    assert found["backfill"] == {"named": "full"}
    assert found["slice"] == {"totals": "incremental"}
    assert found["verify"] == EQUAL
    said, *left = found["blind"]
    assert "Spark doesn't see the root" in said
    assert "a folder of this machine, and Spark runs elsewhere. Put the root on an object store" in said
    assert left == []


@pytest.mark.skipif(not NIGHTLY, reason="some ten minutes; IVM_NIGHTLY=1 runs it")
def test_the_whole_of_tpch_on_a_cluster_that_shares_nothing(fast_s3, tmp_path, tmp_path_factory):
    with standalone(tmp_path / "cluster", tmp_path_factory.getbasetemp(), memory="1500m") as environment:
        found = program("tests.remote.tpch", fast_s3, tmp_path / "tpch", "0.05", env=environment, seconds=3600)
    assert set(found["build"].values()) == {"full"}
    assert set(found["refresh"].values()) <= {"incremental", "full", "unchanged"}
    assert found["compact"] == []
    assert found["backfill"] == {"q05": "full", "q01": "incremental"}
    assert found["verify"] == {}
