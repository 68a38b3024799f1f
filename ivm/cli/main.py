"""The `ivm` command: one verb a function, a table for people, `--json` for machines, non-zero exit on failure.

A verb takes the pipeline's folder (`-p`, default: here). Errors are one message, never a traceback.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ivm.errors import IvmError

app = typer.Typer(
    help="SQL views over Delta tables, kept exactly up to date by applying only what changed.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_out = Console()
_err = Console(stderr=True)

Folder = Annotated[Path, typer.Option("--pipeline", "-p", help="The pipeline's folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Views = Annotated[list[str] | None, typer.Argument(help="Views; all if none is named.")]
HERE = Path()
DEMO = Path(os.environ.get("IVM_DEMO_FOLDER", "demo"))


def main() -> None:
    """Run the command line; an error of ours or of Spark's becomes its message and exit code 1."""
    try:
        app()
    except IvmError as error:
        _fail(type(error).__name__, str(error))
    except ModuleNotFoundError as error:
        extra = {"pyspark": "spark", "delta": "spark", "airflow": "airflow", "great_expectations": "quality"}.get(str(error.name).split(".")[0])
        if extra is None:
            raise
        _fail("MissingPackage", f"{error.name} is not installed. Install it with: pip install 'ivm[{extra}]'")
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j", "grpc")):
            raise
        from ivm.session import error_text

        _fail(type(error).__name__, f"Spark says: {error_text(error)}")


def _fail(kind: str, message: str) -> None:
    if "--json" in sys.argv:
        print(json.dumps({"error": kind, "message": message}))
    _err.print(f"[bold red]error:[/] {escape(message)}", highlight=False, soft_wrap=True)
    sys.exit(1)


def _load(folder: Path) -> Any:
    from ivm.pipeline import Pipeline

    return Pipeline.load(folder)


def _print(data: Any, as_json: bool, show: Callable[[], None]) -> None:
    if as_json:
        print(json.dumps(data, default=str, indent=2))
    else:
        show()


@contextmanager
def _progress(as_json: bool) -> Iterator[Any]:
    """A progress bar on a terminal, nothing elsewhere."""
    if as_json or not _err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=_err, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report


def _table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        numeric = rows and all(isinstance(r[columns.index(column)], int | float | type(None)) for r in rows)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*("" if v is None else f"{v:,}" if isinstance(v, int) else str(v) for v in row))
    _out.print(table)


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        _out.print(f"[bold yellow]warning:[/] {escape(warning)}", highlight=False, soft_wrap=True)


@app.command()
def init(folder: Annotated[Path, typer.Argument(help="A new folder.")], as_json: AsJson = False) -> None:
    """Make a new pipeline folder with an example to fill in."""
    from ivm.cli.template import write_template

    files = write_template(folder)
    _print({"files": files}, as_json, lambda: _out.print("\n".join(["made:", *(f"  {f}" for f in files), f"next: edit them, then `ivm plan -p {folder}`"])))


@app.command()
def plan(views: Views = None, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show what a refresh would do now; nothing is written."""
    epoch = _load(pipeline).plan(views or None)
    data = asdict(epoch) if epoch else {"epoch": None, "tasks": {}}

    def show() -> None:
        if epoch is None:
            _out.print("nothing changed: a refresh would do nothing")
            return
        _table(f"epoch {epoch.epoch} would do", ["view", "strategy", "reason"], [[n, t.strategy, t.reason] for n, t in epoch.tasks.items()])
        _warn(epoch.warnings)

    _print(data, as_json, show)


@app.command()
def explain(view: str, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show a view's incremental program, or why it is refreshed in full."""
    explanation = _load(pipeline).explain(view)
    _print(explanation.to_dict(), as_json, lambda: _out.print(str(explanation), markup=False, highlight=False, soft_wrap=True))


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
    day: Annotated[str | None, typer.Option(help="Take in a past day as a new revision, and check what is kept of it (2026-03-31).")] = None,
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
        _table(f"epoch {report.epoch}, {report.seconds} s", ["view", "strategy", "rows in", "rows out", "seconds", "reason"], rows)

    _print(asdict(report), as_json, show)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def check(
    pipeline: Folder = HERE,
    last: Annotated[int, typer.Option(help="Epochs to show.")] = 1,
    html: Annotated[Path | None, typer.Option(help="Write all kept results as a page (Data Docs) to this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the results of the checks of the last epochs; exit 1 if one failed."""
    from ivm.quality.results import load

    pipe = _load(pipeline)
    results = load(pipe.context.layout.checks, last)
    if html is not None:
        from ivm.quality.docs import build_docs

        index = build_docs(load(pipe.context.layout.checks), Path(pipe.context.layout.checks), html, pipe.name)
        _err.print(f"written: {index}")
    rows = [[r.epoch, r.view, r.scope, r.expectation, json.dumps(r.arguments), "passed" if r.success else "FAILED", r.message] for r in results]
    _print([asdict(r) for r in results], as_json, lambda: _table("checks", ["epoch", "view", "on", "expectation", "arguments", "result", "message"], rows))
    if any(not r.success for r in results):
        raise typer.Exit(1)


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
    _print([asdict(r) for r in results], as_json, lambda: _table("compared with a full recompute", ["view", "result", "rows", "missing", "unexpected"], rows))
    if not all(results):
        raise typer.Exit(1)


@app.command()
def compact(
    pipeline: Folder = HERE, keep_epochs: Annotated[int, typer.Option(help="Epochs that stay apart in the traces.", min=0)] = 10, as_json: AsJson = False
) -> None:
    """Compact traces and rewrite small files."""
    done = _load(pipeline).compact(keep_epochs)
    rows = [[Path(c.table).parent.name + "/" + Path(c.table).name, c.rows_before, c.rows_after, c.files_before, c.files_after] for c in done]
    _print([asdict(c) for c in done], as_json, lambda: _table("compacted", ["table", "rows before", "rows after", "files before", "files after"], rows))


@app.command()
def status(pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show epochs and views as they are now."""
    data = _load(pipeline).status()

    def show() -> None:
        _out.print(
            f"pipeline {data['pipeline']} at {data['root']}, epoch {data['epoch']}" + (f", open epoch {data['open_epoch']}" if data["open_epoch"] else "")
        )
        rows = [[n, v["rows"], v["version"], v["epoch"], v["strategy"], v["reason"]] for n, v in data["views"].items()]
        _table("views", ["view", "rows", "version", "epoch", "strategy", "reason"], rows)
        if data["arrangements"]:
            arranged = [[a["relation"], ", ".join(a["keys"]), ", ".join(a["views"]), a["rows"], a["since"], a["upto"]] for a in data["arrangements"]]
            _table("arrangements", ["relation", "by", "asked for by", "rows", "since", "up to"], arranged)
        _table("epochs", ["epoch", "status", "at", "reason"], [[e["epoch"], e["status"], e["at"], e["reason"]] for e in data["epochs"]])
        _warn(data["warnings"])

    _print(data, as_json, show)


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="tpch")] = "tpch",
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.")] = 1.0,
    fraction: Annotated[float, typer.Option(help="Share of rows that change.")] = 0.001,
    rounds: Annotated[int, typer.Option(help="Measured rounds.", min=1)] = 3,
    folder: Annotated[Path, typer.Option(help="Where data and lake are made.")] = Path("demo/bench"),
    as_json: AsJson = False,
) -> None:
    """Measure refreshes against full recomputes on this machine."""
    from ivm.demo.bench import run_bench

    raise typer.Exit(run_bench(name, scale, fraction, rounds, folder, as_json, _out))


@app.command()
def demo(
    scale: Annotated[float, typer.Option(help="TPC-H scale factor.")] = 0.1,
    batches: Annotated[int, typer.Option(help="Change batches.", min=1)] = 5,
    keep: Annotated[bool, typer.Option("--keep", help="Leave Airflow running.")] = False,
    folder: Annotated[Path, typer.Option(help="Where data, lake and Airflow's home are made.")] = DEMO,
) -> None:
    """Run the main job on TPC-H through Airflow, and compare every view with a recompute after every batch."""
    from ivm.demo.main import run_demo

    raise typer.Exit(run_demo(scale, batches, keep, folder.absolute(), _out))


if __name__ == "__main__":
    main()
