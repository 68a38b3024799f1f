"""The `ivm` command on a pipeline folder: every verb, JSON, exit codes, and errors without a traceback."""

from __future__ import annotations

import json
import sys

import pytest

from ivm.cli import main as cli
from ivm.errors import ConfigError

pytestmark = pytest.mark.spark


@pytest.fixture
def folder(lake):
    lake.table("orders", "id bigint, customer string, amount decimal(10,2)", rows=12)
    folder = lake.folder / "shop"
    run("init", str(folder))
    text = (folder / "pipeline.yml").read_text().replace("./sources/orders", lake.path("orders"))
    (folder / "pipeline.yml").write_text(text)
    (folder / "checks.yml").write_text(
        "customer_totals:\n  state:\n    - expect_column_values_to_be_between: {column: orders, min_value: 1}\n"
    )
    return folder


def run(*arguments: str) -> int:
    """The exit code of a command line."""
    return int(cli.app(list(arguments), standalone_mode=False) or 0)


def told(capsys, *arguments: str):
    capsys.readouterr()
    run(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


def test_every_verb(folder, lake, capsys):
    at = ("-p", str(folder))
    assert told(capsys, "plan", *at)["tasks"]["customer_totals"]["strategy"] == "full"
    assert told(capsys, "refresh", *at)["views"]["customer_totals"]["strategy"] == "full"
    lake.insert("orders", 2)
    report = told(capsys, "refresh", "customer_totals", *at)
    assert report["views"]["customer_totals"]["strategy"] == "incremental"
    assert told(capsys, "explain", "customer_totals", *at)["strategy"] == "incremental"
    assert told(capsys, "verify", *at)[0]["equal"] is True
    assert told(capsys, "status", *at)["epoch"] == report["epoch"] == 2
    html = folder / "docs"
    results = told(capsys, "check", *at, "--html", str(html))
    assert {r["expectation"] for r in results} >= {"expect_column_values_to_be_between"}
    pages = sorted(p.name for p in html.glob("*.html"))
    assert "index.html" in pages
    assert any("state" in p for p in pages)
    assert (
        "Data documentation compiled by Great Expectations"
        in (html / next(p for p in pages if "state" in p)).read_text()
    )
    assert (
        told(capsys, "backfill", "customer_totals", "--where", "customer = 'a'", *at)["views"]["customer_totals"][
            "rows_out"
        ]
        == 0
    )
    assert told(capsys, "compact", *at)
    assert told(capsys, "plan", *at)["tasks"] == {}
    for verb in (
        ("plan",),
        ("refresh",),
        ("explain", "customer_totals"),
        ("verify",),
        ("check",),
        ("compact",),
        ("status",),
    ):
        assert run(*verb, *at) == 0


def test_a_failing_check_fails_the_command_and_can_be_read(folder, lake, spark, capsys):
    at = ("-p", str(folder))
    run("refresh", *at)
    (folder / "checks.yml").write_text(
        "customer_totals:\n  delta:\n    - expect_column_values_to_be_between: {column: orders, max_value: 0}\n"
    )
    spark.sql(f"INSERT INTO {lake.ref('orders')} VALUES (1000, 'zz', 1)")
    assert run("refresh", *at) == 1
    assert run("check", *at) == 1
    results = told(capsys, "check", *at)
    assert [r["success"] for r in results if r["scope"] == "delta"] == [False]
    assert "held back in epoch 2" in told(capsys, "status", *at)["views"]["customer_totals"]["error"]


def test_errors_are_one_message(folder, capsys, monkeypatch):
    with pytest.raises(ConfigError, match="no view 'nothing'"):
        run("explain", "nothing", "-p", str(folder))
    monkeypatch.setattr(sys, "argv", ["ivm", "explain", "nothing", "-p", str(folder), "--json"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    shown = capsys.readouterr()
    assert end.value.code == 1
    assert json.loads(shown.out)["error"] == "ConfigError"
    assert "Traceback" not in shown.err
    assert "There are: customer_totals" in shown.err
