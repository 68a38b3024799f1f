"""The pages inside Airflow's web server: for whom Airflow knows, and of each pipeline for who may read its DAG."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.filterwarnings("ignore:Using `httpx` with")]

#: What a plugin brings into each of Airflow's processes.
IMPORTED = """
import sys
from ivm.orchestration.plugin import IvmPlugin
print(sorted({"fastapi", "deltalake", "sqlglot", "pyspark", "pandas"} & set(sys.modules)))
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    """A client of a web server with the plugin; Airflow's database is not there."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(
        "AIRFLOW__API_AUTH__JWT_SECRET", "a secret of the tests, of sixty-four bytes and a little more than that"
    )
    monkeypatch.setenv("IVM_PIPELINES", str(tmp_path))
    from airflow.api_fastapi import app as airflow_app
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.models.dag import DagModel
    from airflow.models.revoked_token import RevokedToken
    from fastapi import FastAPI
    from fastapi.testclient import TestClient

    from ivm.orchestration.plugin import IvmPlugin

    monkeypatch.setattr(airflow_app._AuthManagerState, "instance", SimpleAuthManager())
    monkeypatch.setattr(RevokedToken, "is_revoked", lambda jti: False)
    monkeypatch.setattr(DagModel, "get_dag_id_to_team_name_mapping", lambda dags: {"ivm_theirs": "others"})
    for name in ("shop", "theirs"):
        (tmp_path / name / "views").mkdir(parents=True)
        (tmp_path / name / "pipeline.yml").write_text(
            f"name: {name}\nroot: {tmp_path}/root_{name}\nsources: {{t: {tmp_path}/t}}\n"
        )
    made = FastAPI()
    for mounted in IvmPlugin.fastapi_apps:
        made.mount(mounted["url_prefix"], mounted["app"])
    return TestClient(made, raise_server_exceptions=False)


def as_user(role, teams=None):
    """The headers of a user who is logged in."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    token = get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="somebody", role=role, teams=teams))
    return {"Authorization": f"Bearer {token}"}


ADDRESSES = (
    "/ivm/",
    "/ivm/index.json",
    "/ivm/p/shop/",
    "/ivm/p/shop/index.json",
    "/ivm/style.css",
    "/ivm/nothing",
    "/ivm/docs",
)


def test_who_is_not_logged_in_gets_nothing(client):
    for address in ADDRESSES:
        assert client.get(address).status_code == 401
        assert client.get(address, headers={"Authorization": "Bearer nonsense"}).status_code == 403
        assert client.get(address, cookies={"_token": "nonsense"}).status_code == 403
        client.cookies.clear()
        assert client.get(address, headers=as_user(None)).status_code == 403, "a user without a role"
        assert "shop" not in client.get(address).text


def test_who_is_logged_in_sees_the_pages(client):
    viewer = as_user("viewer")
    answer = client.get("/ivm/", headers=viewer)
    assert answer.status_code == 200
    assert "/ivm/style.css" in answer.text
    assert "frame-ancestors 'self'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert client.get("/ivm/style.css", headers=viewer).headers["Content-Type"] == "text/css; charset=utf-8"
    assert client.head("/ivm/", headers=viewer).content == b""
    token = viewer["Authorization"].removeprefix("Bearer ")
    assert client.get("/ivm/", cookies={"_token": token}).status_code == 200, "as a browser asks"


def test_a_pipeline_is_there_for_who_may_read_its_dag(client):
    viewer = as_user("viewer")
    assert set(json.loads(client.get("/ivm/index.json", headers=viewer).text)) == {"shop"}
    assert client.get("/ivm/p/theirs/", headers=viewer).status_code == 404
    ours = as_user("viewer", ["others"])
    assert set(json.loads(client.get("/ivm/index.json", headers=ours).text)) == {"shop", "theirs"}


def test_nothing_can_be_changed(client):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert client.request(method, "/ivm/p/shop/", headers=as_user("admin")).status_code == 405


def test_behind_a_proxy_links_keep_its_path(client):
    from fastapi.testclient import TestClient

    behind = TestClient(client.app, root_path="/data", raise_server_exceptions=False)
    assert '"/data/ivm/style.css"' in behind.get("/data/ivm/", headers=as_user("viewer")).text


def test_where_the_package_is_installed_the_plugin_is_there():
    """As an entry point, which Airflow looks for; and it is light, since tasks import it too."""
    found = [e.value for e in entry_points(group="airflow.plugins") if e.name == "ivm"]
    assert found == ["ivm.orchestration.plugin:IvmPlugin"]


def test_the_plugin_is_light(tmp_path):
    env = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__API__BASE_URL": "https://host/data"}
    done = subprocess.run([sys.executable, "-c", IMPORTED], env=env, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
