"""Where a task's Spark runs: the URL of a connection, and the job that spark-submit runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ivm.errors import ConcurrentRefreshError, ConfigError
from ivm.orchestration import job
from ivm.orchestration.execution import connect_url
from ivm.plan.kinds import StrategyKind
from ivm.refresh.estimate import Estimate, Reading, Work


def connection(**given: Any) -> Any:
    return SimpleNamespace(
        **{"conn_id": "c", "host": "spark", "port": None, "login": None, "password": None, "extra_dejson": {}, **given}
    )


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, "sc://spark:15002"),
        ({"host": "sc://spark", "port": 443}, "sc://spark:443"),
        ({"login": "me", "password": "a;b=c/d"}, "sc://spark:15002/;user_id=me;token=a%3Bb%3Dc%2Fd"),
        ({"extra_dejson": {"use_ssl": True}}, "sc://spark:15002/;use_ssl=true"),
    ],
)
def test_a_connection_is_a_url(given, url):
    assert connect_url(connection(**given)) == url


@pytest.mark.parametrize("host", [None, "", "a;token=b", "a/b", "a b"])
def test_a_connection_without_a_server_is_refused(host):
    with pytest.raises(ConfigError, match="'c' names no Spark Connect server"):
        connect_url(connection(host=host))


class Pipe:
    """A pipeline that reports what it is given."""

    def __init__(self, epochs: tuple[int, int], errors: dict[str, str]) -> None:
        manifest = SimpleNamespace(epoch=epochs[0])
        self.context = SimpleNamespace(log=SimpleNamespace(manifest=lambda: manifest))
        views = {v: SimpleNamespace(view=v, error=e) for v, e in errors.items()}
        self.report = SimpleNamespace(epoch=epochs[1], views=views, ok=not any(errors.values()))
        self.asked: tuple[Any, ...] = ()
        self.estimated: tuple[Any, ...] = ()

    def refresh(self) -> Any:
        return self.report

    def backfill(self, *given: Any, **more: Any) -> Any:
        self.asked = (given, more)
        return self.report

    def estimate(self, *given: Any) -> Estimate:
        self.estimated = given
        work = Work("v", StrategyKind.FULL, "it was asked for", (Reading("orders", 3, 7, 900),), 5, None)
        return Estimate("view v is built anew", (work,))

    def verify(self, view: str) -> bool:
        return True


@pytest.mark.parametrize(
    ("epochs", "errors", "code"),
    [
        ((3, 3), {"v": ""}, 0),  # nothing changed
        ((3, 4), {"v": "", "w": "it failed"}, 0),  # the tasks of views tell it
        ((3, 3), {"v": "", "w": "it can't be compiled"}, 1),  # nobody else would
    ],
)
def test_a_job_fails_where_no_epoch_tells_what_failed(monkeypatch, capsys, epochs, errors, code):
    monkeypatch.setattr(job.Pipeline, "load", lambda folder: Pipe(epochs, errors))
    assert job.main(["folder", "refresh"]) == code
    assert ("it can't be compiled" in capsys.readouterr().err) is bool(code)


def test_parameters_of_a_job_come_as_one_argument(monkeypatch):
    pipe = Pipe((3, 4), {"v": ""})
    monkeypatch.setattr(job.Pipeline, "load", lambda folder: pipe)
    assert job.main(["folder", "backfill", '{"view": "v", "where": "a = \'; $(x)\'", "day": null}']) == 0
    assert pipe.asked == (("v", "a = '; $(x)'"), {"day": None, "until": None})


def test_a_dry_run_of_a_job_only_says_what_would_be_done(monkeypatch, capsys):
    pipe = Pipe((3, 4), {"v": ""})
    monkeypatch.setattr(job.Pipeline, "load", lambda folder: pipe)
    given = '{"view": "v", "where": "a = 1", "day": null, "until": null, "dry_run": true}'
    assert job.main(["folder", "backfill", given]) == 0
    assert (pipe.estimated, pipe.asked) == (("v", "a = 1", None, None), ())
    assert "reads orders: 7 rows, 900 bytes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "tries"), [(ConcurrentRefreshError("busy"), job.TRIES), (ConfigError("no such column"), 1)]
)
def test_a_job_tries_again_what_may_pass_only(monkeypatch, error, tries):
    tried = []

    def load(folder):
        tried.append(folder)
        raise error

    monkeypatch.setattr(job.Pipeline, "load", load)
    monkeypatch.setattr(job, "BETWEEN", 0.0)
    assert job.main(["folder", "backfill", '{"view": "v"}']) == 1
    assert len(tried) == tries
