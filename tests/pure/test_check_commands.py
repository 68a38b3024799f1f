"""The verbs `checks`, `quarantine`, `release`, `discard` and `audit`, for people and for machines.

DuckDB stands in Spark's place.
"""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from ivm.cli import main as cli
from ivm.cli.failures import ExitCode
from ivm.refresh.views import View
from tests.pure.test_quality import SMALL, Shop

pytestmark = pytest.mark.slow


@pytest.fixture
def ivm_command(monkeypatch, tmp_path, capsys, without_a_jvm):
    """A shop whose batch is held back, and the command: returns its exit code and what it printed."""
    shop = Shop(tmp_path, [SMALL])
    assert shop.pipe().refresh().ok
    shop.refreshed((4, "c", 101))
    monkeypatch.setattr("ivm.pipeline.Pipeline.load", lambda folder: shop.pipe())

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            cli.main(arguments)
        return end.value.code, capsys.readouterr().out

    return shop, run


def test_what_is_held_back_is_looked_at_released_and_audited(ivm_command):
    shop, run = ivm_command
    code, out = run("checks", "rows_", "--last", "1", "--json")
    found = [r for r in json.loads(out) if r["scope"] == "state"]
    assert (code, [(r["result"], r["severity"], r["unexpected"]) for r in found]) == (0, [("FAILED", "quarantine", 1)])
    assert "FAILED" in run("checks")[1]

    code, out = run("quarantine", "rows_")
    assert code == 0
    assert "<string>" in out
    assert "101" not in out.replace("100", "")
    assert "ivm release publishes it" in out
    code, out = run("quarantine", "rows_", "--values", "--json")
    assert json.loads(out)["failing"][0]["rows"] == [{"id": 4, "name": "c", "amount": 101}]

    assert run("release", "rows_")[0] == ExitCode.DONE
    assert run("quarantine", "rows_")[0] == ExitCode.FAILED
    assert run("audit", "--json")[0] == ExitCode.DONE
    assert run("audit", "rows_", "--sample", "0.5")[0] == ExitCode.DONE
    for arguments, read in ((), 4), ((), 0), (("--rescan",), 4):
        code, out = run("audit", "rows_", "--checksum", *arguments, "--json")
        assert (code, json.loads(out)[0]["rows_read"]) == (ExitCode.DONE, read)
    DeltaTable(str(shop.folder / "root" / "rows_")).delete("id = 4")
    code, out = run("audit", "rows_", "--checksum", "--json")
    assert (code, json.loads(out)[0]["equal"], json.loads(out)[0]["rows"]) == (ExitCode.FAILED, False, 3)
    for wrong in (("--sample", "0"), ("--sample", "nan"), ("--sample", "0.1", "--checksum"), ("--rescan",)):
        assert run("audit", *wrong)[0] == ExitCode.USAGE


@pytest.mark.parametrize("verb", ["verify", "audit"])
def test_a_view_that_can_not_be_compared_stops_no_other(ivm_command, monkeypatch, verb):
    shop, run = ivm_command
    assert run("release", "rows_")[0] == ExitCode.DONE

    def with_broken(folder):
        pipe = shop.pipe()
        good = pipe.context.views["rows_"]
        pipe.context.views = {"bad": View("bad", good.sql.replace("amount", "nothere")), "rows_": good}
        return pipe

    monkeypatch.setattr("ivm.pipeline.Pipeline.load", with_broken)
    code, out = run(verb, "--json")
    bad, good = json.loads(out)
    assert (code, bad["view"], bad["equal"], good["view"], good["equal"]) == (1, "bad", False, "rows_", True)
    assert "View 'bad'" in bad["error"]
    assert good["error"] == ""
    code, out = run(verb)
    assert code == ExitCode.FAILED
    assert "NOT COMPARED" in out
    assert run(verb, "rows_")[0] == ExitCode.DONE
    code, out = run(verb, "nothing", "--json")
    assert (code, "has no view 'nothing'" in out) == (ExitCode.FAILED, True)
