"""Spark with sources and a root on an S3 server: from the first build to compaction, backfills and verify."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.remote.run import REPOSITORY, need_jars, shop
from tests.s3 import bucket
from tests.versity import wanted

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NIGHTLY = os.environ.get("IVM_NIGHTLY") == "1"
FULL = {"totals": "full", "named": "full", "rich": "full"}
INCREMENTAL = dict.fromkeys(FULL, "incremental")
EQUAL = dict.fromkeys(FULL, True)


@pytest.fixture
def store(fast_s3):
    """A bucket, on the server that Spark is tried on."""
    need_jars()
    return fast_s3


def test_a_pipeline_from_its_first_build_to_its_backfills(store, tmp_path):
    parts = ["build", "refresh", "slice", "verify", "locked"]
    if NIGHTLY:
        parts[2:2] = ["unchanged", "compact", "backfill", "rows", "status"]
    if wanted():  # moto checks no signatures
        parts.append("refused")
    found = shop(store, tmp_path / "shop", *parts, env={"SHOP_OTHER_BUCKET": bucket()})
    assert found["build"] == FULL
    assert found["refresh"] == INCREMENTAL
    assert found["slice"] == {"totals": "incremental"}
    assert found["verify"] == EQUAL
    code, message = found["locked"]
    assert code == 75
    assert "Another refresh of pipeline 'shop' is running" in message
    if NIGHTLY:
        assert set(found["unchanged"].values()) == {"unchanged"}
        assert found["compact"] < 0
        assert found["backfill"] == {"named": "full"}
        # 200 orders of customers 0 to 6, of which a tenth was deleted, and two new ones
        assert found["rows"] == [182, 182]
        assert found["status"] == [0, f"{store}/root", []]
    if wanted():
        said, left = found["refused"]
        assert said.startswith("UnseenError: Spark can't read the root s3://")
        assert said.endswith("Spark takes endpoint and credentials from its own settings; see docs/clusters.md.")
        assert left == []


@pytest.mark.skipif(not NIGHTLY, reason="IVM_NIGHTLY=1 runs it")
def test_the_tasks_of_airflow(store, tmp_path):
    pytest.importorskip("airflow")
    found = shop(store, tmp_path / "shop", "build", "tasks", "verify", env={"AIRFLOW_HOME": str(tmp_path / "airflow")})
    assert found["tasks"] == {"applied": INCREMENTAL, "held": {}}
    assert found["verify"] == EQUAL


@pytest.mark.skipif(not NIGHTLY, reason="IVM_NIGHTLY=1 runs it")
def test_both_lanes_do_every_verb_there(store, tmp_path):
    """The suite of tests/spark/test_table_conformance.py, in a process whose Spark reads and writes there."""
    suite = [REPOSITORY / "tests/spark/test_table_conformance.py", "-q", "-p", "no:cacheprovider", "-m", "spark"]
    environment = {**os.environ, "IVM_TABLES_AT": f"{store}/tables"}
    command = [sys.executable, "-m", "pytest", *suite, f"--basetemp={tmp_path / 'inner'}"]
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=3000)
    assert done.returncode == 0, done.stdout[-4000:]
    print(done.stdout.strip().splitlines()[-1])
