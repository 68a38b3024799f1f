"""The `ivm` command: one verb a function, a table for people, `--json` for machines, non-zero exit on failure.

A verb takes the pipeline's folder (`-p`, default: here). Errors are one message, never a traceback; docs/cli.md lists
the exit codes.
"""

from __future__ import annotations

import json
import math
import os
import select
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ivm import parameters
from ivm.cli.failures import ExitCode, Failure, UsageError, failure
from ivm.storage.location import Location

app = typer.Typer(
    help="SQL views over Delta tables, kept exactly up to date by applying only what changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """main() ends quietly then, with a code of its own."""
        raise BrokenPipeError


_out = _Console(markup=False, highlight=False)
_err = _Console(stderr=True, markup=False, highlight=False)

Folder = Annotated[Path, typer.Option("--pipeline", "-p", help="The pipeline's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Views = Annotated[list[str] | None, typer.Argument(help="Views; all if none is named.")]
HERE = Path()
DEMO = Path(os.environ.get("IVM_DEMO_FOLDER", "demo"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line (`sys.argv` by default).

    Any exception becomes its sentence and exit code (see `ivm.cli.failures`).
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the terminal can't show is shown as its code
    try:
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
        _err.print(Text(context.get_help()))
        return ExitCode.USAGE
    verb = context.command_path if context is not None else "ivm"
    said: str = error.format_message()  # type: ignore[attr-defined]
    return _fail(Failure("UsageError", f"{said.rstrip('.')}. See `{verb} --help`.", ExitCode.USAGE), arguments)


def _fail(what: Failure, arguments: Sequence[str]) -> int:
    if "--json" in arguments:
        print(json.dumps({"error": what.kind, "message": what.message}))
    _err.print(Text.assemble(("error:", "bold red"), " ", _visible(what.message)), soft_wrap=True)
    return what.code


def _visible(text: str) -> str:
    """Text of files and arguments with control characters shown, so that they can't steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def _load(folder: Path) -> Any:
    from ivm.pipeline import Pipeline

    return Pipeline.load(folder)


def _print(data: Any, as_json: bool, show: Callable[[], None]) -> None:
    if as_json:
        print(json.dumps(_plain(data), default=str, indent=2, allow_nan=False))
    else:
        show()


def _plain(data: Any) -> Any:
    """Data that JSON has: NaN and infinities, which it has not, become texts, and so do keys."""
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, dict):
        return {str(k): _plain(v) for k, v in data.items()}
    return [_plain(v) for v in data] if isinstance(data, list | tuple) else data


@contextmanager
def _progress(as_json: bool) -> Iterator[Any]:
    """A progress bar on a terminal, nothing elsewhere."""
    if as_json or not _err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=_err,
        transient=True,
    ) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report


def _table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    table = Table(title=Text(title), title_justify="left")
    for column in columns:
        numeric = rows and all(isinstance(r[columns.index(column)], int | float | type(None)) for r in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if v is None else f"{v:,}" if isinstance(v, int) else _visible(str(v))) for v in row))
    _out.print(table)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        _out.print(Text.assemble(("warning:", "bold yellow"), " ", _visible(warning)), soft_wrap=True)


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="A new folder.")], as_json: AsJson = False) -> None:
    """Make a new pipeline folder with an example to fill in."""
    from ivm.cli.template import write_template

    files = write_template(folder)
    _print(
        {"files": files},
        as_json,
        lambda: _out.print(
            "\n".join(["made:", *(f"  {f}" for f in files), f"next: edit them, then `ivm plan -p {folder}`"])
        ),
    )


@app.command()
def plan(views: Views = None, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show what a refresh would do now; nothing is written."""
    epoch = _load(pipeline).plan(views or None)
    data = asdict(epoch) if epoch else {"epoch": None, "tasks": {}}

    def show() -> None:
        if epoch is None:
            _out.print("nothing changed: a refresh would do nothing")
            return
        _table(
            f"epoch {epoch.epoch} would do",
            ["view", "strategy", "reason"],
            [[n, t.strategy, t.reason] for n, t in epoch.tasks.items()],
        )
        _warn(epoch.warnings)

    _print(data, as_json, show)


@app.command()
def explain(view: str, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show a view's incremental program, or why it is refreshed in full."""
    explanation = _load(pipeline).explain(view)
    _print(explanation.to_dict(), as_json, lambda: _out.print(str(explanation), soft_wrap=True))


@app.command()
def refresh(views: Views = None, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Bring views to the newest versions of their sources."""
    with _progress(as_json) as progress:
        report = _load(pipeline).refresh(views or None, progress=progress)
    _show_report(report, as_json)


@app.command()
def backfill(
    view: str,
    where: Annotated[str | None, typer.Option(help="Only this slice: a condition over the view's columns.")] = None,
    day: Annotated[
        str | None,
        typer.Option(help="Take in a past day as a new revision, and check what is kept of it (2026-03-31)."),
    ] = None,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Rebuild a view from its sources, or a slice of it, or take in a past day."""
    with _progress(as_json) as progress:
        report = _load(pipeline).backfill(view, where, progress=progress, day=day)
    _show_report(report, as_json)


def _show_report(report: Any, as_json: bool) -> None:
    rows = [[v.view, v.strategy, v.rows_in, v.rows_out, v.seconds, v.error or v.reason] for v in report.views.values()]

    def show() -> None:
        if report.note:
            _out.print(report.note)
        _table(
            f"epoch {report.epoch}, {report.seconds} s",
            ["view", "strategy", "rows in", "rows out", "seconds", "reason"],
            rows,
        )

    _print(asdict(report), as_json, show)
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def check(
    pipeline: Folder = HERE,
    last: Annotated[int, typer.Option(help="Epochs to show.", min=1)] = 1,
    html: Annotated[
        Path | None, typer.Option(help="Write all kept results as a page (Data Docs) to this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the results of the checks of the last epochs; exit 1 if one failed."""
    from ivm.quality.results import load

    pipe = _load(pipeline)
    results = load(pipe.context.layout.checks, last)
    if html is not None:
        from ivm.quality.docs import build_docs

        folder = Location.of(parameters.local_folder(html, "--html"))
        index = build_docs(load(pipe.context.layout.checks), pipe.context.layout.checks, folder, pipe.name)
        _err.print(f"written: {index}")
    rows = [
        [
            r.epoch,
            r.view,
            r.scope,
            r.expectation,
            json.dumps(r.arguments),
            "passed" if r.success else "FAILED",
            r.message,
        ]
        for r in results
    ]
    _print(
        [asdict(r) for r in results],
        as_json,
        lambda: _table("checks", ["epoch", "view", "on", "expectation", "arguments", "result", "message"], rows),
    )
    if any(not r.success for r in results):
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def verify(views: Views = None, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Compare views with a full recompute, row for row; exit 1 if one differs."""
    pipe = _load(pipeline)
    results = []
    with _progress(as_json) as progress:
        names = views or [v.name for v in pipe.context.views.values()]
        for i, name in enumerate(names):
            results.append(pipe.verify(name))
            if progress:
                progress("verify", i + 1, len(names))
    rows = [[r.view, "equal" if r.equal else "DIFFERS", r.rows, r.missing, r.unexpected] for r in results]
    _print(
        [asdict(r) for r in results],
        as_json,
        lambda: _table("compared with a full recompute", ["view", "result", "rows", "missing", "unexpected"], rows),
    )
    if not all(results):
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def compact(
    pipeline: Folder = HERE,
    keep_epochs: Annotated[int, typer.Option(help="Epochs that stay apart in the traces.", min=0)] = 10,
    as_json: AsJson = False,
) -> None:
    """Compact traces and rewrite small files."""
    done = _load(pipeline).compact(keep_epochs)
    rows = [
        ["/".join(c.table.split("/")[-2:]), c.rows_before, c.rows_after, c.files_before, c.files_after]
        for c in done
        if not c.error
    ]
    left_out = [
        f"{c.table} was left out: {c.error}; the next refresh builds its view anew if it can't be read"
        for c in done
        if c.error
    ]

    def show() -> None:
        _table("compacted", ["table", "rows before", "rows after", "files before", "files after"], rows)
        _warn(left_out)

    _print([asdict(c) for c in done], as_json, show)
    if left_out:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def status(pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show epochs and views as they are now."""
    data = _load(pipeline).status()

    def show() -> None:
        _out.print(
            f"pipeline {data['pipeline']} at {data['root']}, epoch {data['epoch']}"
            + (f", open epoch {data['open_epoch']}" if data["open_epoch"] else "")
        )
        rows = [
            [n, v["rows"], v["version"], v["epoch"], v["strategy"], v["error"] or v["reason"]]
            for n, v in data["views"].items()
        ]
        _table("views", ["view", "rows", "version", "epoch", "strategy", "reason"], rows)
        if data["arrangements"]:
            arranged = [
                [a["relation"], ", ".join(a["keys"]), ", ".join(a["views"]), a["rows"], a["since"], a["upto"]]
                for a in data["arrangements"]
            ]
            _table("arrangements", ["relation", "by", "asked for by", "rows", "since", "up to"], arranged)
            _warn(
                f"the arrangement of {a['relation']} by {', '.join(a['keys'])}: {a['error']}"
                for a in data["arrangements"]
                if a["error"]
            )
        _table(
            "epochs",
            ["epoch", "status", "at", "reason"],
            [[e["epoch"], e["status"], e["at"], e["reason"]] for e in data["epochs"]],
        )
        _warn(data["warnings"])

    _print(data, as_json, show)


@app.command()
def repair(
    views: Views = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without, only say what is wrong and what would be done.")
    ] = False,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with the state under the root, and mend it; views that are named are built anew."""
    with _progress(as_json) as progress:
        done = _load(pipeline).repair(views or None, dry_run=not yes, progress=progress)

    def show() -> None:
        rows = [[f.view or "(epoch log)", f.what, f.mend] for f in done.findings]
        if rows:
            _table("found", ["view", "what", "what mends it"], rows)
        else:
            _out.print("nothing is wrong")
        if done.known_again:
            _out.print(Text(f"known again from their tables: {', '.join(done.known_again)}"))
        if not yes and (rows or views):
            _out.print("nothing was done: repeat it with --yes")

    _print({**asdict(done)}, as_json, show)
    if done.report is not None and not as_json:
        _show_report(done.report, as_json)
    if (done.findings and not yes) or (done.report is not None and not done.report.ok):
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def release(view: str, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Publish the batches of a view that a failed expectation holds back, and of the views that wait for it."""
    _show_report(_load(pipeline).release(view), as_json)


@app.command()
def discard(view: str, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Drop the batches of a view that a failed expectation holds back; the next refresh plans it anew."""
    _show_report(_load(pipeline).discard(view), as_json)


def _scale(value: float) -> float:
    """A scale factor that TPC-H has; typer's `min` lets NaN pass."""
    if not 0 < value <= 100_000:
        raise typer.BadParameter("expected a number above 0, at most 100000.")
    return value


def _share(value: float) -> float:
    if not 0 < value <= 1:
        raise typer.BadParameter("expected a number above 0, at most 1.")
    return value


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="tpch")] = "tpch",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.", callback=_scale)] = 1.0,
    fraction: Annotated[float, typer.Option(help="Share of rows that change.", callback=_share)] = 0.001,
    rounds: Annotated[int, typer.Option(help="Measured rounds.", min=1, max=1000)] = 3,
    folder: Annotated[Path, typer.Option(help="Where data and lake are made.")] = Path("demo/bench"),
    as_json: AsJson = False,
) -> None:
    """Measure refreshes against full recomputes on this machine."""
    from ivm.demo.bench import run_bench

    raise typer.Exit(
        run_bench(name, scale, fraction, rounds, Path(parameters.local_folder(folder, "--folder")), as_json, _out)
    )


@app.command()
def demo(
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.", callback=_scale)] = 0.1,
    batches: Annotated[int, typer.Option(help="Change batches.", min=1, max=1000)] = 5,
    keep: Annotated[bool, typer.Option("--keep", help="Leave Airflow running.")] = False,
    folder: Annotated[Path, typer.Option(help="Where data, lake and Airflow's home are made.")] = DEMO,
) -> None:
    """Run the main job on TPC-H through Airflow, and compare every view with a recompute after every batch."""
    from ivm.demo.main import run_demo

    raise typer.Exit(run_demo(scale, batches, keep, Path(parameters.local_folder(folder, "--folder")).absolute(), _out))


if __name__ == "__main__":
    main()
