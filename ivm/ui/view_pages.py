"""The pages of a view: how it was refreshed and by which program; and what is held back of it, with failing rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree.ElementTree import Element

from ivm.quality.quarantine import Failing, Quarantine
from ivm.refresh.history import Refreshed
from ivm.ui.drawing import Box, graph, timeline
from ivm.ui.facts import HeldFacts, ViewFacts
from ivm.ui.pages import arguments, count, paragraph, seconds
from ivm.ui.tags import Child, Seconds, el, moment, page, table


def view_page(pipeline: str, facts: ViewFacts, base: str) -> str:
    """A view: how it was refreshed, its program as a graph, of which columns its own are made, its SQL."""
    here = f"{base}/p/{pipeline}/v/{facts.view}"
    status = facts.status
    details = [
        ("Mode", status["mode"]),
        ("Last strategy", status["strategy"] or "not refreshed yet"),
        ("Reason", status["reason"]),
        ("Rows", count(status["rows"])),
        ("Version of its table", count(status["version"])),
        ("Table", status["table"]),
    ]
    refreshed = [v for e in facts.epochs for v in e.views]
    saved = [v.saved for v in refreshed if v.saved is not None]
    held = el("a", "What is held back", href=f"{here}/held/") if facts.held else None
    return page(
        facts.view,
        base,
        [("Pipelines", f"{base}/"), (pipeline, f"{base}/p/{pipeline}/")],
        paragraph(status["error"], ". " if held is not None else None, held),
        el("dl", [one for k, v in details for one in (el("dt", k), el("dd", v))]),
        el("h2", "Epochs"),
        timeline(facts.epochs, [facts.view]),
        el("p", _saved(saved)) if saved else None,
        table(
            "Epochs, the newest first",
            ["epoch", "at (UTC)", "result", "strategy", "rows in", "rows read", "rows out", "seconds", "expected",
             "saved", "reason"],
            [_refreshed(v) for v in refreshed],
        ),
        el("h2", "Program"),
        paragraph(facts.unknown and f"It is not known here: {facts.unknown}"),
        _program(facts, f"{base}/p/{pipeline}"),
        table(
            "Columns, and what they are made of",
            ["column", "made of"],
            [[c, _origins(made_of, facts, f"{base}/p/{pipeline}")] for c, made_of in (facts.origins or {}).items()],
        ),
        el("h2", "SQL"),
        el("pre", facts.sql, tabindex="0"),
        [el("details", el("summary", "The statements of an incremental refresh"),
            el("pre", facts.explained, tabindex="0"))]
        if facts.explained else None,
        el("p", el("a", "The same as JSON", href=f"{here}/index.json")),
    )  # fmt: skip


def _saved(saved: Sequence[float]) -> str:
    """What was spared in all; a small view can be dearer than its full refresh.

    >>> _saved([0.5, -0.75])
    '0.250 s lost in 2 of these epochs together, against its last full refresh.'
    """
    total = sum(saved)
    what = "saved" if total >= 0 else "lost"
    return f"{Seconds(abs(total))} s {what} in {len(saved)} of these epochs together, against its last full refresh."


def _refreshed(v: Refreshed) -> Sequence[Child]:
    expected = v.estimate.seconds if v.estimate is not None else None
    return [
        v.epoch, moment(v.at), v.result, v.strategy, v.rows_in, v.rows_read, v.rows_out, Seconds(v.seconds),
        seconds(expected), seconds(v.saved), v.error or v.reason,
    ]  # fmt: skip


def _origins(made_of: Sequence[str], facts: ViewFacts, pipeline: str) -> Element:
    """The columns that one is made of; those of views lead there, where their own origins are told."""
    listed: list[Child] = []
    for place in made_of:
        above = (facts.above or {}).get(place.partition(".")[0])
        link = el("a", place, href=f"{pipeline}/v/{above}/") if above is not None else place
        listed += [", ", link] if listed else [link]
    return el("span", *listed or ["no column"])


def _program(facts: ViewFacts, pipeline: str) -> Iterable[Element]:
    """The units as boxes, each with its operators and the rows of its last refresh; what they read on the left.

    Rows are those of a unit: its operators run as one statement, within which Spark tells no counts.
    """
    if not facts.units:
        return []
    rows = facts.rows or {}
    read = dict.fromkeys(r for reads in facts.units.values() for r in reads if r not in facts.units)
    above = facts.above or {}
    boxes = {
        r: Box((above[r],), "view", f"{pipeline}/v/{above[r]}/") if r in above else Box((r,), "source") for r in read
    }
    for unit in facts.units:
        last = rows.get(unit)
        told = (
            (*(f"{last[f'rows_{what}']:,} rows {what}" for what in ("in", "read", "out")), f"in epoch {last['epoch']}")
            if last is not None
            else ("rows not recorded",)
        )
        operators = [f"• {o['operator']} [{o['algebra']}]" for o in facts.operators or [] if o["unit"] == unit]
        boxes[unit] = Box((unit, *operators, *told), "view" if unit == facts.view.lower() else "unit")
    edges = [(r, unit) for unit, reads in facts.units.items() for r in reads]
    listed = [[o["unit"], o["operator"], o["algebra"], o["rule"], "; ".join(o["reads"])] for o in facts.operators or []]
    told_of = ("epoch", "strategy", "rows_in", "rows_read", "rows_out")
    return [
        graph("The incremental program: what each unit reads", boxes, edges),
        table(
            "Units, with the rows of their last refresh (the operators of a unit run as one statement)",
            ["unit", "reads", *(name.replace("_", " ") for name in told_of), "seconds"],
            [
                [u, ", ".join(reads), *(last.get(k) for k in told_of), seconds(last.get("seconds"))]
                for u, reads, last in ((u, reads, rows.get(u, {})) for u, reads in facts.units.items())
            ],
        ),
        table("Operators", ["unit", "operator", "class", "rule of its delta", "reads"], listed),
    ]


def held_page(pipeline: str, facts: HeldFacts, base: str) -> str:
    """What is held back of a view: the expectations that fail, each with rows for which it does; what can be done."""
    above = f"{base}/p/{pipeline}"
    trail = [("Pipelines", f"{base}/"), (pipeline, f"{above}/"), (facts.view, f"{above}/v/{facts.view}/")]
    title, found = f"Held back of {facts.view}", facts.held
    if found is None:
        return page(title, base, trail, el("p", "Nothing of this view is held back."))
    return page(
        title,
        base,
        trail,
        el("p", f"In epoch {found.epoch}: {found.reason}", class_="error"),
        el("p", f"The batch inserts {_rows(found.rows_in)} and deletes {_rows(found.rows_out)}."),
        el("p", *_done(found), " The next refresh plans it anew."),
        None if facts.shown or not found.failing else _hidden(found.view),
        [one for number, f in enumerate(found.failing, 1) for one in _failing(number, f)],
        el("p", el("a", "The same as JSON", href=f"{above}/v/{facts.view}/held/index.json")),
    )


def _done(found: Quarantine) -> Iterable[Child]:
    """What can be done about it."""
    if found.because:
        return [f"It waits for {found.because}, and is published with it."]
    if not found.releasable:
        return ["It can't be released by itself."]
    release, discard = (el("code", f"ivm {verb} {found.view}") for verb in ("release", "discard"))
    return [release, " publishes it as it is, ", discard, " drops it."]


def _hidden(view: str) -> Element:
    return el(
        "p",
        "Values are hidden: a row tells of each column whether it is NULL, and of what type it is. ",
        el("code", f"ivm quarantine {view} --values"),
        " shows them, and so does ",
        el("code", "checks: {values: shown}"),
        " in pipeline.yml.",
    )


def _failing(number: int, f: Failing) -> Iterable[Child]:
    """An expectation, what was found, and its failing rows."""
    details = [
        ("Judged on", f.scope),
        ("Severity", f.severity),
        ("Fails for", "rows can't be counted" if f.count is None else _rows(f.count)),
        ("Found", f.message),
        ("Note", f.note),
    ]
    names = list(f.rows[0]) if f.rows else []
    caption = f"Rows for which check {number} fails" + (f", {len(f.rows)} of {f.count:,}" if f.count else "")
    return [
        el("h2", f"{number}. {f.expectation}({arguments(f.arguments)})"),
        el("dl", [one for k, v in details if v for one in (el("dt", k), el("dd", v))]),
        table(caption, names, [[_cell(row[n]) for n in names] for row in f.rows]) if f.rows else None,
    ]


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _cell(value: Any) -> Child:
    if value is None:
        return "NULL"
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
