"""The DAGs of audits and of the quarantine: their shape, and what their tasks do to a small pipeline.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pure.test_quality import SMALL, Shop

pytestmark = [pytest.mark.airflow]
REPO = Path(__file__).resolve().parents[2]
PIPELINE = """
name: shop
root: ./lake
sources: {t: ./t}
audit: {schedule: "@weekly", how: sample, sample: 0.5, views: [rows_]}
"""
STRUCTURE = """
import json, sys
sys.path.insert(0, "dags")
import ivm_check_dags
from airflow.sdk import DAG
found = {}
for name, dag in vars(ivm_check_dags).items():
    if isinstance(dag, DAG):
        found[name] = {
            "tasks": {t.task_id: sorted(t.downstream_task_ids) for t in dag.tasks},
            "schedule": str(dag.schedule),
            "assets": {t.task_id: sorted(a.name for a in t.outlets) for t in dag.tasks if t.outlets},
            "action": dag.params.get_param("action").schema["enum"] if "action" in dag.params else [],
        }
heavy = sorted({"pyspark", "deltalake", "sqlglot", "great_expectations", "pandas"} & set(sys.modules))
print("RESULT" + json.dumps({"dags": found, "heavy": heavy}))
"""


def test_a_folder_has_a_quarantine_and_where_it_says_so_an_audit(tmp_path):
    for name, text in {"shop": PIPELINE, "plain": PIPELINE.replace("audit", "#").replace("shop", "plain")}.items():
        (tmp_path / name / "views").mkdir(parents=True)
        (tmp_path / name / "pipeline.yml").write_text(text)
        (tmp_path / name / "views" / "rows_.sql").write_text("SELECT id FROM t")
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path / "home"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    env |= {"IVM_PIPELINES": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", STRUCTURE], cwd=REPO, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.split("RESULT")[1])
    assert found["heavy"] == []
    assert set(found["dags"]) == {"ivm_shop_quarantine", "ivm_plain_quarantine", "ivm_shop_audit"}
    assert found["dags"]["ivm_shop_audit"]["tasks"] == {"rows_": []}
    assert found["dags"]["ivm_shop_audit"]["schedule"] == "@weekly"
    assert found["dags"]["ivm_shop_quarantine"]["tasks"] == {"look": ["act"], "act": []}
    assert found["dags"]["ivm_shop_quarantine"]["assets"] == {"act": ["shop.rows_"]}
    assert found["dags"]["ivm_shop_quarantine"]["action"] == ["look", "release", "discard"]


def test_the_tasks_look_release_discard_and_audit(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

    from ivm.orchestration import check_tasks

    (tmp_path / "lake").mkdir()
    shop = Shop(tmp_path / "lake", [SMALL])
    monkeypatch.setattr(check_tasks, "_pipeline", lambda folder, passing=True: shop.pipe())
    assert shop.pipe().refresh().ok
    with pytest.raises(AirflowFailException, match="Nothing of 'rows_' is held back"):
        check_tasks.look_task("folder", "rows_")
    shop.refreshed((4, "c", 101))
    assert check_tasks.look_task("folder", "rows_")["failing"] == 1
    assert '{"id": "<int64>", "name": "<string>", "amount": "<int64>"}' in capsys.readouterr().out
    with pytest.raises(AirflowSkipException):
        check_tasks.act_task("folder", "rows_", "look")
    released = check_tasks.act_task("folder", "rows_", "release")["views"]
    assert {v: (of["strategy"], of["rows"]) for v, of in released.items()} == {
        "rows_": ("incremental", 4),
        "names": ("incremental", 3),
    }
    assert shop.published() == 4
    shop.refreshed((5, "c", 102))
    discarded = check_tasks.act_task("folder", "rows_", "discard")
    assert "discarded: rows_" in discarded["note"]
    assert discarded["views"] == {}
    assert shop.published() == 4
    assert check_tasks.audit_task("folder", "rows_", "full", 1.0)["equal"]
    assert [check_tasks.audit_task("folder", "rows_", "checksum", 1.0)["rows_read"] for _ in range(2)] == [4, 0]
    assert "4 rows, 0 of what is published read" in capsys.readouterr().out
