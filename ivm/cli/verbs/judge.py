"""Verbs that say whether tables are right."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.text import Text

from ivm import parameters
from ivm.cli import terminal
from ivm.cli.failures import ExitCode
from ivm.cli.options import HERE, AsJson, Folder, Views, load, share
from ivm.errors import IvmError
from ivm.storage.location import Location

if TYPE_CHECKING:
    from ivm.pipeline import Pipeline
    from ivm.refresh.audit import Audit
    from ivm.refresh.verify import Verification

R = TypeVar("R")


def check(
    pipeline: Folder = HERE,
    last: Annotated[int, typer.Option(help="Epochs to show.", min=1)] = 1,
    html: Annotated[
        Path | None, typer.Option(help="Write all kept results as a page (Data Docs) to this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the results of the checks of the last epochs; exit 1 if one failed."""
    from ivm.quality import results as kept

    pipe = load(pipeline)
    results = kept.load(pipe.context.layout, last)
    if html is not None:
        from ivm.quality.docs import build_docs

        folder = Location.of(parameters.local_folder(html, "--html"))
        layout, show = pipe.context.layout, pipe.context.checking.show
        index = build_docs(kept.load(layout), layout.checks, folder, pipe.name, show)
        terminal.err.print(f"written: {index}")
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
    terminal.shown(
        [asdict(r) for r in results],
        as_json,
        lambda: terminal.table(
            "checks", ["epoch", "view", "on", "expectation", "arguments", "result", "message"], rows
        ),
    )
    if any(r.holds for r in results):
        raise typer.Exit(ExitCode.FAILED)


def checks(
    view: Annotated[str | None, typer.Argument(help="A view; all if none is named.")] = None,
    pipeline: Folder = HERE,
    last: Annotated[int | None, typer.Option(help="Epochs to show; all that are kept by default.", min=1)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the history of the checks: of each expectation and epoch what was observed, and what followed."""
    found = load(pipeline).checks(view, last)
    columns = ["epoch", "view", "on", "expectation", "severity", "result", "unexpected", "seconds", "judged by"]
    rows = [
        [r.epoch, r.view, r.scope, _brief(r), r.severity, r.verdict, _unexpected(r), r.seconds, r.judged] for r in found
    ]
    terminal.shown(
        [{**asdict(r), "result": r.verdict} for r in found], as_json, lambda: terminal.table("checks", columns, rows)
    )


def _unexpected(result: Any) -> str:
    """How many of the rows that were judged; "" where an expectation is about the view as a whole."""
    return "" if result.elements is None else f"{result.unexpected or 0:,} of {result.elements:,}"


def _brief(result: Any) -> str:
    """An expectation with its arguments."""
    return f"{result.expectation}({', '.join(f'{k}={v}' for k, v in result.arguments.items())})"


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
    found = load(pipeline).quarantine(view, limit, values)

    def show() -> None:
        terminal.out.print(
            Text(terminal.visible(f"{found.view} is held back in epoch {found.epoch}: {found.reason}")), soft_wrap=True
        )
        terminal.out.print(f"its batch inserts {found.rows_in:,} rows and deletes {found.rows_out:,}")
        for f in found.failing:
            count = "" if f.count is None else f", {f.count:,} rows"
            terminal.out.print(
                Text(terminal.visible(f"{f.scope}, {_brief(f)} ({f.severity}){count}: {f.message}")), soft_wrap=True
            )
            if f.note:
                terminal.out.print(Text(terminal.visible(f"  {f.note}")), soft_wrap=True)
            if f.rows:
                names = list(f.rows[0])
                terminal.table("rows", names, [["NULL" if r[n] is None else r[n] for n in names] for r in f.rows])
        done = (
            "ivm release publishes it, ivm discard drops it" if found.releasable else "it can't be released by itself"
        )
        terminal.out.print(f"{done}; the next refresh plans it anew")

    terminal.shown(asdict(found), as_json, show)


def audit(
    views: Views = None,
    sample: Annotated[
        float | None, typer.Option(help="Only this share of the groups, others each epoch.", callback=_some_share)
    ] = None,
    checksum: Annotated[bool, typer.Option("--checksum", help="Compare checksums instead of rows.")] = False,
    rescan: Annotated[
        bool, typer.Option("--rescan", help="With --checksum: read the published rows, whatever is kept of them.")
    ] = False,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Compare views with a recompute: in full, by sampled groups or by checksums; exit 1 if one differs.

    One that can't be compared counts likewise, and the others are compared.
    """
    from ivm.refresh.audit import Audit

    if sample is not None and checksum:
        raise typer.BadParameter("give either --sample or --checksum.")
    if rescan and not checksum:
        raise typer.BadParameter("--rescan goes with --checksum: the other audits read all published rows.")
    pipe = load(pipeline)
    how = "sample" if sample is not None else "checksum" if checksum else "full"
    found = _each(
        pipe,
        "audit",
        views,
        as_json,
        lambda name: pipe.audit(name, how, sample if sample is not None else 1.0, rescan),
        lambda name, error: Audit(name, how, 0, False, 0, error=error),
    )
    rows = [[a.view, a.how, _result(a), a.rows, a.rows_read, a.error or a.difference or a.scanned] for a in found]
    terminal.shown(
        [asdict(a) for a in found],
        as_json,
        lambda: terminal.table("audit", ["view", "by", "result", "rows", "rows read", "what"], rows),
    )
    if not all(found):
        raise typer.Exit(ExitCode.FAILED)


def _some_share(value: float | None) -> float | None:
    return None if value is None else share(value)


def verify(views: Views = None, pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Compare views with a full recompute, row for row; exit 1 if one differs.

    One that can't be compared counts likewise, and the others are compared.
    """
    from ivm.refresh.verify import Verification

    pipe = load(pipeline)
    results = _each(
        pipe,
        "verify",
        views,
        as_json,
        pipe.verify,
        lambda name, error: Verification(name, False, 0, 0, 0, error=error),
    )
    rows = [[r.view, _result(r), r.rows, r.missing, r.unexpected] for r in results]

    def show() -> None:
        terminal.table("compared with a full recompute", ["view", "result", "rows", "missing", "unexpected"], rows)
        terminal.warn([f"{r.view}: {r.error}" for r in results if r.error])

    terminal.shown([asdict(r) for r in results], as_json, show)
    if not all(results):
        raise typer.Exit(ExitCode.FAILED)


def _each(
    pipe: Pipeline,
    what: str,
    views: Sequence[str] | None,
    as_json: bool,
    compare: Callable[[str], R],
    failed: Callable[[str, str], R],
) -> list[R]:
    """The result of each view; where one can't be compared, what `failed` makes of its name and its error."""
    for view in views or ():
        pipe.known(view)  # a name that is none is refused before anything is compared
    names, results = views or [v.name for v in pipe.context.views.values()], list[R]()
    with terminal.progress(as_json) as progress:
        for i, name in enumerate(names):
            try:
                results.append(compare(name))
            except IvmError as error:
                results.append(failed(name, str(error)))
            if progress:
                progress(what, i + 1, len(names))
    return results


def _result(found: Audit | Verification) -> str:
    return "NOT COMPARED" if found.error else "equal" if found.equal else "DIFFERS"
