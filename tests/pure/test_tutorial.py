"""Every block of docs/tutorial.md is run, in order (DuckDB in Spark's place), and prints what the page says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from ivm.cli import main as cli
from tests.pure.duck_session import DuckSession

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.mark.usefixtures("without_a_jvm")
def test_the_tutorial(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ivm.declarations.get_session", lambda **_: DuckSession())
    names: dict[str, object] = {}
    printed, ran = "", []
    for language, text in BLOCKS:
        if language == "text":
            assert printed == text
        elif language == "python":
            exec(compile(text, str(PAGE), "exec"), names)
            printed = capsys.readouterr().out
        elif language == "sh":
            for line in text.splitlines():
                assert cli._run(shlex.split(line)[1:]) == 0, line
                ran.append((line, capsys.readouterr().out))
        elif language == "sql":
            assert (tmp_path / "shop/views/customer_totals.sql").read_text().endswith(text)
    by_line = dict(ran)  # of a line that is repeated, the last time
    assert re.search(r"customer_totals\W+equal\W+2\W", by_line["ivm verify -p shop"])
    assert [("incremental" in out) for line, out in ran if line == "ivm refresh -p shop"][:2] == [False, True]
    assert {language for language, _ in BLOCKS} == {"console", "sh", "sql", "python", "text"}
