"""Verbs that bring tables on, or say what that would do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from ivm.cli import reports, terminal
from ivm.cli.failures import ExitCode
from ivm.cli.options import HERE, AsJson, Folder, Views, load


def plan(views: Views = None, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show what a refresh would do now, and what it is expected to cost; nothing is written.

    Exit 1 if a view could not be refreshed.
    """
    from ivm.cli import planned

    pipe = load(pipeline, passing=True)
    epoch = pipe.plan(views or None)
    broken = epoch.broken if epoch else pipe.context.broken_among(views or None)
    mends = planned.mends(pipe.context, epoch)
    data = (asdict(epoch) if epoch else {"epoch": None, "tasks": {}, "broken": broken}) | {"mends": mends}

    def show() -> None:
        if epoch is None and not broken:
            terminal.out.print("nothing changed: a refresh would do nothing")
            return
        title = f"epoch {epoch.epoch} would do" if epoch else "a refresh would do nothing"
        terminal.table(title, planned.COLUMNS, [*planned.rows(epoch), *planned.broken_rows(broken)])
        for line in planned.readings(epoch) + [f"{view}: to mend it, {mend}" for view, mend in mends.items()]:
            terminal.out.print(Text(terminal.visible(line)), soft_wrap=True)
        terminal.warn(epoch.warnings if epoch else ())

    terminal.shown(data, as_json, show)
    if broken or planned.failing(epoch):
        raise typer.Exit(ExitCode.FAILED)


def explain(view: str, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show a view's incremental program, or why it is refreshed in full."""
    explanation = load(pipeline, passing=True).explain(view)
    terminal.shown(explanation.to_dict(), as_json, lambda: terminal.out.print(str(explanation), soft_wrap=True))


def refresh(views: Views = None, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Bring views to the newest versions of their sources."""
    with terminal.progress(as_json) as progress:
        report = load(pipeline, passing=True).refresh(views or None, progress=progress)
    reports.show_report(report, as_json)


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
        reports.show_estimate(load(pipeline).estimate(view, where, day, until), as_json)
        return
    with terminal.progress(as_json) as progress:
        report = load(pipeline).backfill(view, where, progress, day, until)
    reports.show_report(report, as_json)


def compact(
    pipeline: Folder = HERE,
    keep_epochs: Annotated[int, typer.Option(help="Epochs that stay apart in the traces.", min=0)] = 10,
    as_json: AsJson = False,
) -> None:
    """Compact traces and rewrite small files."""
    done = load(pipeline).compact(keep_epochs)
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
        terminal.table("compacted", ["table", "rows before", "rows after", "files before", "files after"], rows)
        terminal.warn(left_out)

    terminal.shown([asdict(c) for c in done], as_json, show)
    if left_out:
        raise typer.Exit(ExitCode.FAILED)


def repair(
    views: Views = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; without, only say what is wrong and what would be done.")
    ] = False,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Say what is wrong with the state under the root, and mend it; views that are named are built anew."""
    with terminal.progress(as_json) as progress:
        done = load(pipeline).repair(views or None, dry_run=not yes, progress=progress)

    def show() -> None:
        rows = [[f.view or "(epoch log)", f.what, f.mend] for f in done.findings]
        if rows:
            terminal.table("found", ["view", "what", "what mends it"], rows)
        else:
            terminal.out.print("nothing is wrong")
        if done.known_again:
            terminal.out.print(Text(f"known again from their tables: {', '.join(done.known_again)}"))
        if not yes and (rows or views):
            terminal.out.print("nothing was done: repeat it with --yes")

    terminal.shown({**asdict(done)}, as_json, show)
    if done.report is not None and not as_json:
        reports.show_report(done.report, as_json)
    if (done.findings and not yes) or (done.report is not None and not done.report.ok):
        raise typer.Exit(ExitCode.FAILED)


def release(view: str, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Publish the batches of a view that a failed expectation holds back, and of the views that wait for it."""
    reports.show_report(load(pipeline).release(view), as_json)


def discard(view: str, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Drop the batches of a view that a failed expectation holds back; the next refresh plans it anew."""
    reports.show_report(load(pipeline).discard(view), as_json)
