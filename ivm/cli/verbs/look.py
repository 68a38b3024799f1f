"""Verbs that show what is, what was and why."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ivm import parameters
from ivm.cli import terminal
from ivm.cli.options import HERE, AsJson, Folder, load
from ivm.durations import written


def status(pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Show epochs and views as they are now."""
    data = load(pipeline).status()

    def show() -> None:
        terminal.out.print(
            f"pipeline {data['pipeline']} at {data['root']}, epoch {data['epoch']}"
            + (f", open epoch {data['open_epoch']}" if data["open_epoch"] else "")
        )
        rows = [
            [n, v["rows"], v["version"], v["epoch"], v["strategy"], _behind(v["freshness"]), v["error"] or v["reason"]]
            for n, v in data["views"].items()
        ]
        terminal.table("views", ["view", "rows", "version", "epoch", "strategy", "behind", "reason"], rows)
        if data["arrangements"]:
            arranged = [
                [a["relation"], ", ".join(a["keys"]), _asked_by(a), a["rows"], a["since"], a["upto"]]
                for a in data["arrangements"]
            ]
            terminal.table("arrangements", ["relation", "by", "asked for by", "rows", "since", "up to"], arranged)
            terminal.warn(
                f"the arrangement of {a['relation']} by {', '.join(a['keys'])}: {a['error']}"
                for a in data["arrangements"]
                if a["error"]
            )
        terminal.table(
            "epochs",
            ["epoch", "status", "at", "reason"],
            [[e["epoch"], e["status"], e["at"], e["reason"]] for e in data["epochs"]],
        )
        terminal.warn(data["warnings"])

    terminal.shown(data, as_json, show)


def _asked_by(arrangement: dict[str, Any]) -> str:
    """The views that ask for an arrangement, or what speaks for one that none asks for.

    >>> _asked_by({"views": [], "balance": 3.21, "price": 4.5})
    'nobody; it pays: 3.2 of 4.5 s are left'
    """
    left = f"nobody; it pays: {arrangement['balance']:.1f} of {arrangement['price']:.1f} s are left"
    return ", ".join(arrangement["views"]) or left


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


def history(
    view: Annotated[str | None, typer.Argument(help="A view; the whole pipeline if none is named.")] = None,
    limit: Annotated[int, typer.Option(help="Epochs to show, the newest first.", min=1, max=100_000)] = 20,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show what each epoch did: strategy and reason, rows, seconds as expected and as they were."""
    from ivm.cli import passed

    epochs = load(pipeline).history(view, limit)
    rows = passed.view_rows(epochs) if view else passed.rows(epochs)
    columns = passed.VIEW_COLUMNS if view else passed.COLUMNS
    terminal.shown(
        passed.data(epochs), as_json, lambda: terminal.table(f"epochs of {view}" if view else "epochs", columns, rows)
    )


def why(
    view: str,
    where: Annotated[str, typer.Option(help="Which rows: a condition over the view's columns.")],
    limit: Annotated[int, typer.Option(help="Rows to show of each kind.", min=1, max=10_000)] = 20,
    pipeline: Folder = HERE,
    as_json: AsJson = False,
) -> None:
    """Show the source rows that support rows of a view now, and the epochs that changed them."""
    from ivm.cli import reasons

    found = load(pipeline).why(view, where, limit)

    def show() -> None:
        for title, columns, rows in reasons.tables(found):
            terminal.out.print(Text(terminal.visible(title if rows else f"{title}: none")), soft_wrap=True)
            if rows:
                terminal.table("", columns, rows)
        for line in reasons.notes(found):
            terminal.out.print(Text(terminal.visible(line)), soft_wrap=True)

    terminal.shown(asdict(found), as_json, show)


def advise(pipeline: Folder = HERE, as_json: AsJson = False) -> None:
    """Say what would make refreshes cheaper, by the records of the last epochs, sizes and counted keys."""
    from ivm.advise import advise as advice

    found = advice(load(pipeline))
    rows = [[a.about, a.kind, a.do, a.because, a.saves] for a in found]

    def show() -> None:
        if rows:
            terminal.table("advice", ["about", "kind", "what to do", "because", "saves (s a refresh)"], rows)
        else:
            terminal.out.print("nothing in the records, sizes or keys asks for a change")

    terminal.shown([asdict(a) for a in found], as_json, show)


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
    terminal.out.print(f"open {address} (Ctrl-C ends it)", soft_wrap=True)
    with made:
        made.serve_forever()
