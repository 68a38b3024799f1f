"""Spark that shares no folder with the driver or client, sources and root on an S3 server. Run at night."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ivm.session import s3_conf
from tests.remote.cluster import connect, need_namespaces, standalone
from tests.remote.run import REPOSITORY, need_jars, program, shop
from tests.spark.test_s3 import EQUAL, FULL, INCREMENTAL, NIGHTLY

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not NIGHTLY, reason="minutes for each cluster; IVM_NIGHTLY=1 runs them"),
]

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


def test_the_whole_of_tpch_on_a_cluster_that_shares_nothing(fast_s3, tmp_path, tmp_path_factory):
    with standalone(tmp_path / "cluster", tmp_path_factory.getbasetemp(), memory="1500m") as environment:
        found = program("tests.remote.tpch", fast_s3, tmp_path / "tpch", "0.05", env=environment, seconds=3600)
    assert set(found["build"].values()) == {"full"}
    assert set(found["refresh"].values()) <= {"incremental", "full", "unchanged"}
    assert found["compact"] == []
    assert found["backfill"] == {"q05": "full", "q01": "incremental"}
    assert found["verify"] == {}


def test_what_is_submitted_runs_on_the_cluster(fast_s3, tmp_path, tmp_path_factory):
    """By the script in infra/: master and jars are spark-submit's, not those of a local session."""
    with standalone(tmp_path / "cluster", tmp_path_factory.getbasetemp()) as environment:
        shop(fast_s3, tmp_path / "shop", "build", "change", env=environment)
        with (tmp_path / "cluster" / "spark-defaults.conf").open("a") as conf:
            conf.writelines(f"{key} {value}\n" for key, value in s3_conf().items())
        env = {**os.environ, **environment, "PYTHON": sys.executable, "PYTHONPATH": str(REPOSITORY)}
        command = [REPOSITORY / "infra" / "standalone" / "cluster.sh", "refresh", env.pop("IVM_SPARK_MASTER")]
        command.append(tmp_path / "shop" / "files")
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    views = json.loads(done.stdout)["views"]
    assert {name: view["strategy"] for name, view in views.items()} == INCREMENTAL
