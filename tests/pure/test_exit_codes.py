"""Every exception ends a command with its sentence and a documented code."""

from __future__ import annotations

import ast
import contextlib
import errno
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from ivm.cli import main as cli
from ivm.cli import terminal
from ivm.cli.failures import ExitCode, failure
from ivm.errors import ConcurrentRefreshError, ConfigError

DOCS = Path(__file__).resolve().parents[2] / "docs"


def command(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
        cli.main(list(arguments))
    return end.value.code, out.getvalue(), err.getvalue()


def test_the_page_names_all_codes_and_verbs():
    page = (DOCS / "cli.md").read_text()
    assert dict(re.findall(r"^\| (\d+) \| `(\w+)` \|", page, re.MULTILINE)) == {str(c.value): c.name for c in ExitCode}
    verbs = {c.callback.__name__ for c in cli.app.registered_commands}
    assert {v for v in verbs if re.search(rf"\bivm {v}\b", page)} == verbs


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("Found a.", "Do b."), 1, "Found a. Do b."),
        (ConcurrentRefreshError("Another runs.", "Wait."), 75, "Another runs. Wait."),
        (OSError(errno.ENOSPC, "No space left on device", "/lake/x"), 1, "no space left on device: /lake/x. Make room"),
        (
            PermissionError(errno.EACCES, "Permission denied", "/lake"),
            1,
            "permission denied: /lake. Check the permissions",
        ),
        (OSError(errno.ENAMETOOLONG, "File name too long", "/a"), 1, "file name too long: /a. Choose a shorter path"),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory", "/a/b"), 1, "A part of the path is a file"),
        (OSError(errno.ELOOP, "Too many levels of symbolic links", "/a"), 1, "A link leads to itself"),
        (OSError("odd"), 1, "odd. Check the path"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), 1, "Use UTF-8"),
        (RecursionError(), 1, "nests too deeply"),
        (MemoryError(), 1, "memory is used up"),
        (ValueError("embedded null byte"), 1, "NUL"),
        (yaml.YAMLError("odd"), 1, "not valid YAML: odd"),
        (ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql"), 1, "pip install 'ivm[spark]'"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (KeyError("x"), 70, "defect of ivm (KeyError: 'x'). Please report"),
        (ModuleNotFoundError("No module named 'nothing'", name="nothing"), 70, "defect"),
    ],
)
def test_every_exception_has_its_sentence(monkeypatch, error, code, message):
    def fail(*_):
        raise error

    monkeypatch.setattr("ivm.pipeline.Pipeline.load", fail)
    monkeypatch.delenv("IVM_DEBUG", raising=False)
    assert failure(error).code == code
    ended, out, err = command("status", "--json")
    assert (ended, json.loads(out)["message"]) == (code, failure(error).message)
    assert message in failure(error).message
    assert err.replace("\n", "") == f"error: {failure(error).message}"
    assert "Traceback" not in err


def test_libraries_speak_for_themselves():
    from deltalake.exceptions import DeltaError
    from pyarrow import ArrowInvalid
    from pyspark.errors import AnalysisException

    assert failure(DeltaError("gone")).message == "delta-rs says: gone."
    assert failure(ArrowInvalid("bad schema\nat x")).message == "Arrow says: bad schema."
    assert failure(AnalysisException("[X] no\n\nJVM stacktrace: y")).message == "Spark says: [X] no"


def test_a_traceback_only_where_it_is_asked_for(monkeypatch):
    def fail(*_):
        raise KeyError("x")

    monkeypatch.setattr("ivm.pipeline.Pipeline.load", fail)
    monkeypatch.setenv("IVM_DEBUG", "1")
    code, _, err = command("status")
    assert code == ExitCode.DEFECT
    assert "Traceback" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing",),
        ("plan", "--nothing"),
        ("explain",),
        ("check", "--last", "0"),
        ("compact", "--keep-epochs", "x"),
        ("bench", "--scale", "nan"),
    ],
)
def test_mistakes_in_the_arguments(arguments):
    code, out, err = command(*arguments, "--json")
    assert code == ExitCode.USAGE
    assert json.loads(out)["error"] == "UsageError"
    assert "--help" in err


def test_what_is_shown_can_neither_steer_the_terminal_nor_be_markup(tmp_path):
    code, _, err = command("explain", "\x1b[2J[/red]", "-p", f"{tmp_path}/[bold]x\x1b")
    assert code == ExitCode.FAILED
    assert "\x1b" not in err
    assert "[bold]x\\x1b" in err
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        terminal.table("t [/x]", ["a"], [["[nondeterministic] [/b]"], ["\x1b[2J"]])
    assert "[nondeterministic] [/b]" in out.getvalue()
    assert "\x1b" not in out.getvalue()


def test_what_is_printed_as_json_is_json(capsys):
    data = {"a": math.nan, ("b", 1): [math.inf, {"c": -math.inf}], "d": b"x", "e": "\udcff"}
    terminal.shown(data, True, lambda: None)
    printed = json.loads(capsys.readouterr().out, parse_constant=lambda c: pytest.fail(c))
    assert printed == {"a": "nan", "('b', 1)": ["inf", {"c": "-inf"}], "d": "b'x'", "e": "\udcff"}


def test_a_reader_that_ends_early():
    """As in `ivm ... | true`: the process ends without a word."""
    arguments = ("plan", "-p", "absent", "--json")
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "ivm.cli.main", *arguments],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(write)
    assert done.returncode == ExitCode.NO_READER
    assert "Traceback" not in done.stderr


def test_a_pipe_that_breaks_elsewhere_is_a_failure(monkeypatch):
    def fail(*_):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("ivm.pipeline.Pipeline.load", fail)
    code, _, err = command("status")
    assert code == ExitCode.FAILED
    assert "broken pipe" in err


def test_init_writes_all_or_says_why(tmp_path):
    (tmp_path / "file").write_text("")
    for target in (
        "/dev/null/x",
        "/proc/ivm_x",
        str(tmp_path / "file"),
        str(tmp_path / "file" / "x"),
        f"{tmp_path}/{'a' * 100}/" * 50,
        "s3://bucket/x",
        str(tmp_path / ("a" * 300)),
    ):
        code, out, _ = command("init", target, "--json")
        assert code == ExitCode.FAILED, target
        assert json.loads(out)["error"] == "ConfigError"
    (tmp_path / "shop" / "views").mkdir(parents=True)
    (tmp_path / "shop" / "checks.yml").write_text("mine")
    code, _, err = command("init", str(tmp_path / "shop"))
    assert "already holds checks.yml" in err.replace("\n", " ")
    assert (tmp_path / "shop" / "checks.yml").read_text() == "mine"
    assert not (tmp_path / "shop" / "pipeline.yml").exists()


def test_the_demo_removes_only_what_a_demo_made(tmp_path, monkeypatch):
    from ivm.demo import main as demo

    for name in ("IVM_TPCH_ROOT", "IVM_TPCH_SOURCES", "IVM_PIPELINES"):
        monkeypatch.setenv(name, "")  # the demo sets them for its whole process
    monkeypatch.setenv("IVM_ENGINE", "spark")
    monkeypatch.setattr(demo.tpch, "generate", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "mine").write_text("")
    with pytest.raises(ConfigError, match="would remove it"):
        demo.run_demo(0.1, 1, False, tmp_path, Console())
    assert (tmp_path / "lake" / "mine").exists()
    (tmp_path / "data").mkdir()
    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(0.1, 1, False, tmp_path, Console())
    assert not (tmp_path / "lake").exists()


def test_every_error_says_what_to_do():
    """Each place that raises one of our errors gives a sentence and a hint, neither of them empty."""
    import ivm.errors

    ours = {
        n for n, kind in vars(ivm.errors).items() if isinstance(kind, type) and issubclass(kind, ivm.errors.IvmError)
    }
    calls = [
        (file.name, call)
        for file in Path(ivm.errors.__file__).parent.rglob("*.py")
        for call in ast.walk(ast.parse(file.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in ours
    ]
    assert len(calls) > 100
    for file, call in calls:
        assert len(call.args) == 2, f"{file}:{call.lineno}"
        assert not any(isinstance(a, ast.Constant) and not str(a.value).strip() for a in call.args), (
            f"{file}:{call.lineno}"
        )


COMMAND = """
import signal, sys, time
from pathlib import Path
from ivm.cli import main as cli
from ivm.orchestration.services import _start

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it is ignored

@cli.app.command()
def wait() -> None:
    service = _start("a service", ["sleep", "60"], {}, Path(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background has it ignored
    try:
        print(service.process.pid, flush=True)
        time.sleep(60)
    finally:
        service.stop()

cli.main(["wait"])
"""


@pytest.mark.parametrize(("sent", "code"), [("SIGTERM", 143), ("SIGHUP", 143), ("SIGINT", 130)])
def test_a_signal_ends_what_a_command_has_started(tmp_path, sent, code):
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        service = int(process.stdout.readline())
        process.send_signal(signal.Signals[sent])
        _, told = process.communicate(timeout=30)
    assert process.returncode == code
    assert "a refresh goes on where it was" in " ".join(told.split())
    assert not Path(f"/proc/{service}").exists()
