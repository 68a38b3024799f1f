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
from datetime import timedelta
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ivm import parameters
from ivm.cli import signals
from ivm.cli.failures import ExitCode, Failure, UsageError, failure
from ivm.durations import written
from ivm.errors import ConfigError
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
    table = Table(title=Text(title) if title else None, title_justify="left")
    for column in columns:
        numeric = rows and all(isinstance(r[columns.index(column)], int | float | type(None)) for r in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text("" if v is None else f"{v:,}" if isinstance(v, int) else _visible(str(v))) for v in row))
    _out.print(table)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        _out.print(Text.assemble(("warning:", "bold yellow"), " ", _visible(warning)), soft_wrap=True)


def _some_share(value: float | None) -> float | None:
    return None if value is None else _share(value)


def _share(value: float) -> float:
    if not 0 < value <= 1:
        raise typer.BadParameter("expected a number above 0, at most 1.")
    return value


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
def adopt(
    query: Annotated[str, typer.Argument(help="A SELECT, a file of one, or a folder of .sql files.")],
    to: Annotated[Path, typer.Option(help="The new pipeline's folder.")],
    name: Annotated[str, typer.Option(help="The view's name, where the query is given as text.")] = "adopted",
    tables: Annotated[str, typer.Option(help="A folder or URL where the tables lie under their names.")] = "",
    table: Annotated[
        list[str] | None, typer.Option(help="NAME=PLACE: where a table lies, as the query calls it.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Switch change feeds on without asking.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a pipeline folder of queries: find their tables, count keys, switch feeds on, show the plan."""
    from ivm import adopt as adopting
    from ivm.cli import adopted

    target = Path(parameters.local_folder(to, "--to"))
    found = adopting.look(adopting.queries(query, name), tables, adopted.places(table or []))
    if not as_json:
        _table("tables", adopted.COLUMNS, adopted.rows(found))
    if found.without_feed and not yes and not (not as_json and adopted.agreed(found)):
        raise ConfigError(
            f"These tables have no change feed: {', '.join(t.written for t in found.without_feed)}.",
            "Nothing was done. Repeat it with --yes to switch their feeds on: their writers then keep change files.",
        )
    files = adopting.write(found, target, adopted.name_of(target))
    adopting.switch_on(found.without_feed)
    _print(
        {**asdict(found), "files": files},
        as_json,
        lambda: _out.print("\n".join(["made:", *(f"  {f}" for f in files)]), soft_wrap=True),
    )
    if not as_json:
        plan(None, target, as_json)


@app.command()
def plan(views: Views = None, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show what a refresh would do now, and what it is expected to cost; nothing is written.

    Exit 1 if a view could not be refreshed.
    """
    from ivm.cli import planned

    pipe = _load(pipeline)
    epoch = pipe.plan(views or None)
    broken = dict(epoch.broken if epoch else pipe.context.broken)
    mends = planned.mends(pipe.context, epoch)
    data = (asdict(epoch) if epoch else {"epoch": None, "tasks": {}, "broken": broken}) | {"mends": mends}

    def show() -> None:
        if epoch is None and not broken:
            _out.print("nothing changed: a refresh would do nothing")
            return
        title = f"epoch {epoch.epoch} would do" if epoch else "a refresh would do nothing"
        _table(title, planned.COLUMNS, [*planned.rows(epoch), *planned.broken_rows(broken)])
        for line in planned.readings(epoch) + [f"{view}: to mend it, {mend}" for view, mend in mends.items()]:
            _out.print(Text(_visible(line)), soft_wrap=True)
        _warn(epoch.warnings if epoch else ())

    _print(data, as_json, show)
    if broken or planned.failing(epoch):
        raise typer.Exit(ExitCode.FAILED)


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
    until: Annotated[str | None, typer.Option(help="With --day: the last one of a range of days.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be read, written and spent.")] = False,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Rebuild a view from its sources, or a slice of it, or take in past days."""
    if dry_run:
        _show_estimate(_load(pipeline).estimate(view, where, day, until), as_json)
        return
    with _progress(as_json) as progress:
        report = _load(pipeline).backfill(view, where, progress, day, until)
    _show_report(report, as_json)


def _show_estimate(found: Any, as_json: bool) -> None:
    def show() -> None:
        _out.print(f"nothing was done; {found.what}:", soft_wrap=True)
        work = [[w.view, w.strategy, w.rows, w.seconds, w.reason] for w in found.work]
        _table("would be done", ["view", "strategy", "rows", "seconds the last time", "reason"], work)
        read = [[w.view, r.relation, r.version, r.rows, r.bytes] for w in found.work for r in w.reads]
        _table("would be read", ["for", "relation", "version", "rows", "bytes"], read)
        if found.later:
            _out.print(f"the next refresh brings along what reads it: {', '.join(found.later)}", soft_wrap=True)
        if found.note:
            _out.print(found.note, soft_wrap=True)

    _print(asdict(found), as_json, show)


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
        _warn(f"view {v.view}: {v.warning}" for v in report.views.values() if v.warning)
        for v in report.views.values():
            why = v.engine.partition("spark: ")[2]
            if why:
                _out.print(_visible(f"view {v.view} ran by Spark: {why}"), soft_wrap=True, markup=False)

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
    results = load(pipe.context.layout, last)
    if html is not None:
        from ivm.quality.docs import build_docs

        folder = Location.of(parameters.local_folder(html, "--html"))
        layout, show = pipe.context.layout, pipe.context.checking.show
        index = build_docs(load(layout), layout.checks, folder, pipe.name, show)
        _err.print(f"written: {index}")
    rows = [
        [
            r.epoch,
            r.view,
            r.scope,
            r.expectation,
            json.dumps(r.arguments),
            r.verdict,
            r.message,
        ]
        for r in results
    ]
    _print(
        [asdict(r) for r in results],
        as_json,
        lambda: _table("checks", ["epoch", "view", "on", "expectation", "arguments", "result", "message"], rows),
    )
    if any(r.holds for r in results):
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def checks(
    view: Annotated[str | None, typer.Argument(help="A view; all if none is named.")] = None,
    pipeline: Folder = HERE,
    last: Annotated[int | None, typer.Option(help="Epochs to show; all that are kept by default.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the history of the checks: of each expectation and epoch what was observed, and what followed."""
    found = _load(pipeline).checks(view, last)
    columns = ["epoch", "view", "on", "expectation", "severity", "result", "unexpected", "seconds", "judged by"]
    rows = [
        [r.epoch, r.view, r.scope, _brief(r), r.severity, r.verdict, _unexpected(r), r.seconds, r.judged] for r in found
    ]
    _print([{**asdict(r), "result": r.verdict} for r in found], as_json, lambda: _table("checks", columns, rows))


def _unexpected(result: Any) -> str:
    """How many of the rows that were judged; "" where an expectation is about the view as a whole."""
    return "" if result.elements is None else f"{result.unexpected or 0:,} of {result.elements:,}"


def _brief(result: Any) -> str:
    """An expectation with its arguments."""
    return f"{result.expectation}({', '.join(f'{k}={v}' for k, v in result.arguments.items())})"


@app.command()
def quarantine(
    view: str,
    limit: Annotated[int, typer.Option(help="Failing rows to show of each expectation.", min=1, max=1000)] = 20,
    values: Annotated[
        bool, typer.Option("--values", help="Show the rows' values, which are hidden otherwise.")
    ] = False,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show what is held back of a view: the expectations that fail, and the rows for which they do."""
    found = _load(pipeline).quarantine(view, limit, values)

    def show() -> None:
        _out.print(Text(_visible(f"{found.view} is held back in epoch {found.epoch}: {found.reason}")), soft_wrap=True)
        _out.print(f"its batch inserts {found.rows_in:,} rows and deletes {found.rows_out:,}")
        for f in found.failing:
            count = "" if f.count is None else f", {f.count:,} rows"
            _out.print(Text(_visible(f"{f.scope}, {_brief(f)} ({f.severity}){count}: {f.message}")), soft_wrap=True)
            if f.note:
                _out.print(Text(_visible(f"  {f.note}")), soft_wrap=True)
            if f.rows:
                names = list(f.rows[0])
                _table("rows", names, [["NULL" if r[n] is None else r[n] for n in names] for r in f.rows])
        done = (
            "ivm release publishes it, ivm discard drops it" if found.releasable else "it can't be released by itself"
        )
        _out.print(f"{done}; the next refresh plans it anew")

    _print(asdict(found), as_json, show)


@app.command()
def audit(
    views: Views = None,
    sample: Annotated[
        float | None, typer.Option(help="Only this share of the groups, others each epoch.", callback=_some_share)
    ] = None,
    checksum: Annotated[bool, typer.Option("--checksum", help="Compare checksums instead of rows.")] = False,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Compare views with a recompute: in full, by sampled groups or by checksums; exit 1 if one differs."""
    if sample is not None and checksum:
        raise typer.BadParameter("give either --sample or --checksum.")
    pipe = _load(pipeline)
    how = "sample" if sample is not None else "checksum" if checksum else "full"
    names = views or [v.name for v in pipe.context.views.values()]
    found = []
    with _progress(as_json) as progress:
        for i, name in enumerate(names):
            found.append(pipe.audit(name, how, sample if sample is not None else 1.0))
            if progress:
                progress("audit", i + 1, len(names))
    rows = [[a.view, a.how, "equal" if a.equal else "DIFFERS", a.rows, a.difference] for a in found]
    _print([asdict(a) for a in found], as_json, lambda: _table("audit", ["view", "by", "result", "rows", "what"], rows))
    if not all(found):
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
            [n, v["rows"], v["version"], v["epoch"], v["strategy"], _behind(v["freshness"]), v["error"] or v["reason"]]
            for n, v in data["views"].items()
        ]
        _table("views", ["view", "rows", "version", "epoch", "strategy", "behind", "reason"], rows)
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


def _behind(freshness: dict[str, Any] | None) -> str:
    """How far a view is behind its sources, of how far it may be; empty without a target.

    >>> _behind({"behind_seconds": 5400.0, "target_seconds": 3600.0, "late": True})
    '1h30m of 1h, late'
    """
    if freshness is None:
        return ""
    behind, target = (freshness[key] for key in ("behind_seconds", "target_seconds"))
    told = "not known" if behind is None else written(timedelta(seconds=behind))
    return f"{told} of {written(timedelta(seconds=target))}" + (", late" if freshness["late"] else "")


@app.command()
def history(
    view: Annotated[str | None, typer.Argument(help="A view; the whole pipeline if none is named.")] = None,
    limit: Annotated[int, typer.Option(help="Epochs to show, the newest first.", min=1, max=100_000)] = 20,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show what each epoch did: strategy and reason, rows, seconds as expected and as they were."""
    from ivm.cli import passed

    epochs = _load(pipeline).history(view, limit)
    rows = passed.view_rows(epochs) if view else passed.rows(epochs)
    columns = passed.VIEW_COLUMNS if view else passed.COLUMNS
    _print(passed.data(epochs), as_json, lambda: _table(f"epochs of {view}" if view else "epochs", columns, rows))


@app.command()
def why(
    view: str,
    where: Annotated[str, typer.Option(help="Which rows: a condition over the view's columns.")],
    limit: Annotated[int, typer.Option(help="Rows to show of each kind.", min=1, max=10_000)] = 20,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the source rows that support rows of a view now, and the epochs that changed them."""
    from ivm.cli import reasons

    found = _load(pipeline).why(view, where, limit)

    def show() -> None:
        for title, columns, rows in reasons.tables(found):
            _out.print(Text(_visible(title if rows else f"{title}: none")), soft_wrap=True)
            if rows:
                _table("", columns, rows)
        for line in reasons.notes(found):
            _out.print(Text(_visible(line)), soft_wrap=True)

    _print(asdict(found), as_json, show)


@app.command()
def advise(pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Say what would make refreshes cheaper, by the records of the last epochs, sizes and counted keys."""
    from ivm.advise import advise as advice

    found = advice(_load(pipeline))
    rows = [[a.about, a.kind, a.do, a.because, a.saves] for a in found]

    def show() -> None:
        if rows:
            _table("advice", ["about", "kind", "what to do", "because", "saves (s a refresh)"], rows)
        else:
            _out.print("nothing in the records, sizes or keys asks for a change")

    _print([asdict(a) for a in found], as_json, show)


@app.command()
def ui(
    pipeline: Annotated[Path, typer.Option("--pipeline", "-p", help="A pipeline's folder, or one of several.")] = HERE,
    host: Annotated[
        str, typer.Option(help="Where to listen; on another than the loopback interface the address has a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65_535)] = 8550,
) -> None:
    """Show pipelines, epochs, programs and lineage on a local page, until it is interrupted."""
    from ivm.ui.server import server

    made, address = server(Path(parameters.local_folder(pipeline, "--pipeline")), host, port)
    _out.print(f"open {address} (Ctrl-C ends it)", soft_wrap=True)
    with made:
        made.serve_forever()


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
