"""The `ivm` command: one verb a function, a table for people, `--json` for machines, non-zero exit on failure.

A verb takes the pipeline's folder (`-p`, default: here). Errors are one message, never a traceback; docs/cli.md lists
the exit codes.
"""

from __future__ import annotations

import gc
import json
import os
import select
import sys
import traceback
from collections.abc import Sequence
from io import TextIOWrapper

import typer
from rich.text import Text

from ivm.cli import signals, terminal
from ivm.cli.failures import ExitCode, Failure, UsageError, failure
from ivm.cli.verbs import advance, judge, look, make, measure

#: In the order of the help.
VERBS = (
    make.init, make.adopt, advance.plan, advance.explain, advance.refresh, advance.backfill, judge.check, judge.checks,
    judge.quarantine, judge.audit, judge.verify, advance.compact, look.status, look.history, look.why, look.advise,
    look.ui, advance.repair, advance.release, advance.discard, measure.bench, measure.demo,
)  # fmt: skip
app = typer.Typer(
    help="SQL views over Delta tables, kept exactly up to date by applying only what changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for verb in VERBS:
    app.command()(verb)
#: How many objects are made between two looks for garbage: nearly all that a command makes stays until it ends.
_GARBAGE = 50_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line (`sys.argv` by default).

    Any exception becomes its sentence and exit code (see `ivm.cli.failures`).
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    gc.set_threshold(_GARBAGE)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the terminal can't show is shown as its code
    try:
        with signals.raised():
            code = _ended(arguments)
        sys.stdout.flush()
    except BrokenPipeError as error:
        unread = [fd for fd in (1, 2) if _unread(fd)]
        for fd in unread:  # what is left in the buffer must not fail a second time when the interpreter ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        # Another pipe that broke, say to Spark, is a failure as any.
        code = ExitCode.NO_READER if unread else _fail(failure(error), arguments)
    sys.exit(code)


def _unread(fd: int) -> bool:
    """Whether the program that read a pipe has ended."""
    poll = select.poll()
    poll.register(fd, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _ended(arguments: Sequence[str]) -> int:
    """Run, and tell what went wrong; the exit code."""
    try:
        return _run(list(arguments))
    except UsageError as error:
        return _usage(error, arguments)
    except (BrokenPipeError, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        if os.environ.get("IVM_DEBUG") == "1":
            traceback.print_exc()
        return _fail(failure(error), arguments)


def _run(arguments: list[str]) -> int:
    """The exit code; exceptions pass as they are, which click's own main would not let them."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("ivm", arguments) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as end:
        return int(end.exit_code)


def _usage(error: Exception, arguments: Sequence[str]) -> int:
    context = getattr(error, "ctx", None)
    if not arguments and context is not None:
        terminal.err.print(Text(context.get_help()))
        return ExitCode.USAGE
    verb = context.command_path if context is not None else "ivm"
    said: str = error.format_message()  # type: ignore[attr-defined]
    return _fail(Failure("UsageError", f"{said.rstrip('.')}. See `{verb} --help`.", ExitCode.USAGE), arguments)


def _fail(what: Failure, arguments: Sequence[str]) -> int:
    if "--json" in arguments:
        print(json.dumps({"error": what.kind, "message": what.message}))
    terminal.err.print(Text.assemble(("error:", "bold red"), " ", terminal.visible(what.message)), soft_wrap=True)
    return what.code


if __name__ == "__main__":
    main()
