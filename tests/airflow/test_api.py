"""What the client of Airflow's API repeats, against a server of the test's own on loopback."""

from __future__ import annotations

import threading
import urllib.error
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ivm.orchestration import api


@pytest.fixture
def server(monkeypatch):
    """A server that answers with the codes it is given, one a call; and the environment that leads there."""
    monkeypatch.setattr(api, "WAITS", (0, 0))
    codes: list[int] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(codes.pop(0))
            self.end_headers()
            self.wfile.write(b'{"state": "queued"}')

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield codes, {"AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{http.server_port}", "IVM_TOKEN": "t"}
        http.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answers", "told"),
    [([200], {"state": "queued"}), ([500, 503, 200], {"state": "queued"}), ([500, 409], {})],
    ids=["at once", "after failures", "failed and was made"],
)
def test_what_the_server_fails_is_asked_again(server, answers, told):
    codes, env = server
    codes += answers
    assert api.call(env, "POST", "/dags/d/dagRuns", {"dag_run_id": "r"}) == told
    assert codes == []


@pytest.mark.parametrize("answers", [[409], [404], [500, 500, 500]], ids=["exists", "isn't there", "fails for good"])
def test_what_is_an_error_stays_one(server, answers):
    codes, env = server
    codes += answers
    with pytest.raises(urllib.error.HTTPError) as e:
        api.call(env, "POST", "/dags/d/dagRuns", {"dag_run_id": "r"})
    assert e.value.code == answers[-1]
    assert codes == []
