"""What a refresh did, and what a backfill would do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import typer

from ivm.cli import terminal
from ivm.cli.failures import ExitCode


def show_report(report: Any, as_json: bool) -> None:
    """Raises typer.Exit where a view failed."""
    rows = [[v.view, v.strategy, v.rows_in, v.rows_out, v.seconds, v.error or v.reason] for v in report.views.values()]

    def show() -> None:
        if report.note:
            terminal.out.print(report.note)
        terminal.table(
            f"epoch {report.epoch}, {report.seconds} s",
            ["view", "strategy", "rows in", "rows out", "seconds", "reason"],
            rows,
        )
        terminal.warn(f"view {v.view}: {v.warning}" for v in report.views.values() if v.warning)
        for v in report.views.values():
            why = v.engine.partition("spark: ")[2]
            if why:
                terminal.out.print(terminal.visible(f"view {v.view} ran by Spark: {why}"), soft_wrap=True, markup=False)

    terminal.shown(asdict(report), as_json, show)
    if not report.ok:
        raise typer.Exit(ExitCode.FAILED)


def show_estimate(found: Any, as_json: bool) -> None:
    """Nothing was done."""

    def show() -> None:
        terminal.out.print(f"nothing was done; {found.what}:", soft_wrap=True)
        work = [[w.view, w.strategy, w.rows, w.seconds, w.reason] for w in found.work]
        terminal.table("would be done", ["view", "strategy", "rows", "seconds the last time", "reason"], work)
        read = [[w.view, r.relation, r.version, r.rows, r.bytes] for w in found.work for r in w.reads]
        terminal.table("would be read", ["for", "relation", "version", "rows", "bytes"], read)
        if found.later:
            terminal.out.print(f"the next refresh brings along what reads it: {', '.join(found.later)}", soft_wrap=True)
        if found.note:
            terminal.out.print(found.note, soft_wrap=True)

    terminal.shown(asdict(found), as_json, show)
