"""Great Expectations' actions on the results of a refresh's checks: one's own, and Slack's to a server of this machine.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Literal

import pytest

from ivm.checking import Checking, checking_of
from ivm.errors import ConfigError
from ivm.quality.actions import actions_of
from tests.pure.test_quality import SMALL, Shop

pytestmark = pytest.mark.slow
SECRET = "a-name-nobody-may-read"
NAMES = {"expect_column_values_to_be_in_set": {"column": "name", "value_set": ["a", "b"], "severity": "warn"}}


@pytest.fixture
def webhook():
    """The address of a server, and the bodies that were posted to it."""
    bodies: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", bodies
    server.shutdown()
    thread.join()
    server.server_close()


def own_action():
    """An action as Great Expectations' users write theirs, and what it was given."""
    from great_expectations.checkpoint import ValidationAction

    seen: list[Any] = []

    class Remember(ValidationAction):
        type: Literal["remember"] = "remember"

        def run(self, checkpoint_result: Any, action_context: Any = None) -> dict[str, Any]:
            seen.append(checkpoint_result)
            return {}

    return Remember(name="remember"), seen


def test_actions_are_told_of_failures_without_values(tmp_path, without_a_jvm, webhook, monkeypatch):
    url, bodies = webhook
    monkeypatch.setenv("TEAM_WEBHOOK", url)
    action, seen = own_action()
    slack = {"type": "slack", "name": "team", "slack_webhook": "${TEAM_WEBHOOK}", "notify_on": "failure"}
    broken = {**slack, "name": "nobody", "slack_webhook": "http://127.0.0.1:9/none"}
    shop = Shop(tmp_path, [SMALL, NAMES], checking=Checking(actions=(broken, slack, action)))
    assert shop.pipe().refresh().ok
    assert bodies == []
    assert [r.success for r in seen] == [True]
    assert shop.refreshed((4, SECRET, 5)).ok
    assert len(bodies) == 1
    assert "expect_column_values_to_be_in_set" in str(seen[1].run_results.values())
    assert SECRET not in bodies[0] + str(seen[1].run_results.values())


def test_an_action_that_great_expectations_does_not_know_is_said(tmp_path, without_a_jvm):
    shop = Shop(tmp_path, [SMALL], checking=Checking(actions=({"type": "pigeon", "name": "p"},)))
    with pytest.raises(ConfigError, match="The action pigeon"):
        actions_of(shop.pipe().context)
    assert shop.pipe().refresh().ok


@pytest.mark.parametrize(
    "data", [[], {"value": "shown"}, {"values": "all"}, {"actions": "slack"}, {"actions": [{"type": "slack"}]}]
)
def test_a_block_that_means_nothing_is_refused(data):
    with pytest.raises(ConfigError, match=r"checks|action"):
        checking_of(data)
