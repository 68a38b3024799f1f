"""The pages: pipelines, a pipeline, a view. Plain HTML with headings, captioned tables and drawings; no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element

from ivm.errors import IvmError
from ivm.refresh.history import Passed, Refreshed
from ivm.ui.drawing import Box, graph, timeline
from ivm.ui.facts import Facts, ViewFacts
from ivm.ui.tags import Child, el, page, table

STYLE = """\
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 1200px; padding: 1rem; color: #1a1a1a;
  background: #fff; }
nav ol { list-style: none; padding: 0; display: flex; gap: .5rem; } nav li::after { content: " /"; color: #555; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
a { color: #0b57a4; } a:focus-visible, .scroll:focus-visible { outline: 3px solid #c25400; outline-offset: 2px; }
.skip { position: absolute; left: -9999px; } .skip:focus { position: static; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: .5rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid #ccc; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.error { border-left: 4px solid #b3261e; padding: .3rem .8rem; background: #fdecea; }
pre { overflow-x: auto; background: #f4f4f4; padding: .8rem; } dt { font-weight: 600; } dd { margin: 0 0 .5rem; }
svg text { font: 13px system-ui, sans-serif; fill: #1a1a1a; } svg .head { font-weight: 700; }
svg .epoch, svg .letter { text-anchor: middle; } svg .epoch { font-size: 11px; fill: #444; }
svg rect { stroke: #444; fill: #fff; } svg .edge { stroke: #666; fill: none; stroke-width: 1.5; }
svg .b-source { fill: #e8f0e4; } svg .b-view { fill: #e3edf8; } svg .b-unit { fill: #f6efe0; }
svg .c-I { fill: #cfe8d1; } svg .c-F { fill: #ffe2b3; } svg .c-same { fill: #f2f2f2; }
svg .c-H { fill: #f7c8ec; } svg .c-X { fill: #f4b9b4; } svg .c-A, svg .c-O { fill: #ddd; }
@media (prefers-color-scheme: dark) { body { background: #181a1b; color: #eee; } a { color: #8ec1ff; }
  pre { background: #242728; } .error { background: #4a1f1c; } svg { background: #fff; } }
"""


def overview(found: dict[str, Facts | IvmError], base: str) -> str:
    """The pipelines, each with what is behind in it."""
    rows: list[Sequence[Child]] = []
    for name, facts in found.items():
        if isinstance(facts, IvmError):
            rows.append([name, "", "", "", el("span", str(facts), class_="error")])
            continue
        views = facts.status["views"]
        behind = [f"{v}: {s['error']}" for v, s in views.items() if s["error"]]
        at = facts.epochs[0].at if facts.epochs else "never"
        link = el("a", name, href=f"{base}/p/{name}/")
        rows.append([link, facts.status["epoch"], at, len(views), "; ".join(behind) or "nothing"])
    return page(
        "Pipelines", base, [], table("Pipelines", ["pipeline", "epoch", "last planned", "views", "behind"], rows)
    )


def pipeline_page(facts: Facts, base: str) -> str:
    """Views, epochs on a time line, lineage by table, and what is held back with its failed checks."""
    status, here = facts.status, f"{base}/p/{facts.name}"
    views = status["views"]
    shown = {name.lower(): name for name in views}
    rows: list[Sequence[Child]] = [
        [
            el("a", name, href=f"{here}/v/{name}/"), v["mode"], v["strategy"], v["rows"], v["version"], v["epoch"],
            v["error"] or v["reason"],
        ]
        for name, v in views.items()
    ]  # fmt: skip
    boxes = {s.lower(): Box((s, "source", f"version {c['version']}"), "source") for s, c in status["sources"].items()}
    boxes |= {r: Box((r, "source"), "source") for r, _ in facts.reads if r not in boxes and r not in shown}
    boxes |= {
        key: Box((name, f"view, {views[name]['strategy'] or 'not built'}", f"{_count(views[name]['rows'])} rows"),
                 "view", f"{here}/v/{name}/")
        for key, name in shown.items()
    }  # fmt: skip
    checks = [
        [c["epoch"], c["view"], c["scope"], c["expectation"], str(c["arguments"]), c["message"]]
        for c in facts.failed_checks
    ]
    return page(
        facts.name,
        base,
        [("Pipelines", f"{base}/")],
        el("p", f"At {status['root']}, epoch {status['epoch']}."),
        [el("p", w, class_="error") for w in status["warnings"]],
        table("Views", ["view", "mode", "strategy", "rows", "version", "epoch", "reason"], rows),
        el("h2", "Epochs"),
        timeline(facts.epochs, list(views)),
        table(
            "Epochs, the newest first",
            ["epoch", "planned", "status", "views", "rows in", "rows out", "seconds", "behind"],
            [_epoch(e) for e in facts.epochs],
        ),
        el("h2", "Held back and failing"),
        table(
            "Views that are behind", ["view", "why"], [[n, v["error"]] for n, v in views.items() if v["error"]]
        ),
        table(
            "Checks that failed", ["epoch", "view", "on", "expectation", "arguments", "what was found"], checks
        ),
        el("h2", "Lineage"),
        graph("Which view reads which source or view", boxes, facts.reads),
        table("Reads", ["view", "reads"], [[shown[v], r] for r, v in facts.reads]),
        el("p", el("a", "The same as JSON", href=f"{here}/index.json")),
    )  # fmt: skip


def _epoch(e: Passed) -> Sequence[Child]:
    return [
        e.epoch, e.at, e.status, ", ".join(f"{n} {s}" for s, n in e.strategies.items()),
        sum(v.rows_in for v in e.views), sum(v.rows_out for v in e.views), round(sum(v.seconds for v in e.views), 3),
        "; ".join(f"{v.view} {v.result}: {v.error}" for v in e.views if v.error),
    ]  # fmt: skip


def view_page(pipeline: str, facts: ViewFacts, base: str) -> str:
    """A view: how it was refreshed, its program as a graph, of which columns its own are made, its SQL."""
    here = f"{base}/p/{pipeline}"
    status = facts.status
    details = [
        ("Mode", status["mode"]),
        ("Last strategy", status["strategy"] or "not refreshed yet"),
        ("Reason", status["reason"]),
        ("Rows", _count(status["rows"])),
        ("Version of its table", _count(status["version"])),
        ("Table", status["table"]),
    ]
    refreshed = [v for e in facts.epochs for v in e.views]
    saved = [v.saved for v in refreshed if v.saved is not None]
    return page(
        facts.view,
        base,
        [("Pipelines", f"{base}/"), (pipeline, f"{here}/")],
        el("p", status["error"], class_="error") if status["error"] else None,
        el("dl", [one for k, v in details for one in (el("dt", k), el("dd", v))]),
        el("h2", "Epochs"),
        timeline(facts.epochs, [facts.view]),
        el("p", f"{round(sum(saved), 3)} s saved in {len(saved)} of these epochs against its last full refresh.")
        if saved else None,
        table(
            "Epochs, the newest first",
            ["epoch", "at", "result", "strategy", "rows in", "rows read", "rows out", "seconds", "expected", "saved",
             "reason"],
            [_refreshed(v) for v in refreshed],
        ),
        el("h2", "Program"),
        el("p", f"It is not known here: {facts.unknown}", class_="error") if facts.unknown else None,
        _program(facts),
        table(
            "Columns, and of which columns of sources and views they are made",
            ["column", "made of"],
            [[c, ", ".join(made_of) or "no column"] for c, made_of in (facts.origins or {}).items()],
        ),
        el("h2", "SQL"),
        el("pre", facts.sql, tabindex="0"),
        [el("details", el("summary", "The statements of an incremental refresh"), el("pre", facts.explained))]
        if facts.explained else None,
        el("p", el("a", "The same as JSON", href=f"{here}/v/{facts.view}/index.json")),
    )  # fmt: skip


def _refreshed(v: Refreshed) -> Sequence[Child]:
    expected = v.estimate.seconds if v.estimate is not None else None
    return [
        v.epoch, v.at, v.result, v.strategy, v.rows_in, v.rows_read, v.rows_out, v.seconds, expected, v.saved,
        v.error or v.reason,
    ]  # fmt: skip


def _program(facts: ViewFacts) -> Iterable[Element]:
    """The units as boxes, each with its operators and the rows of its last refresh; what they read on the left."""
    if not facts.units:
        return []
    rows = facts.rows or {}
    read = dict.fromkeys(r for reads in facts.units.values() for r in reads if r not in facts.units)
    boxes = {r: Box((r,), "source") for r in read}
    for unit in facts.units:
        last = rows.get(unit)
        told = (
            f"epoch {last['epoch']}: {last['rows_in']:,} in, {last['rows_read']:,} read, {last['rows_out']:,} out"
            if last is not None
            else "rows not recorded"
        )
        operators = [f"{o['operator']} [{o['algebra']}]" for o in facts.operators or [] if o["unit"] == unit]
        boxes[unit] = Box((unit, *operators, told), "view" if unit == facts.view.lower() else "unit")
    edges = [(r, unit) for unit, reads in facts.units.items() for r in reads]
    listed = [[o["unit"], o["operator"], o["algebra"], o["rule"], "; ".join(o["reads"])] for o in facts.operators or []]
    return [
        graph("The incremental program: what each unit reads", boxes, edges),
        table("Operators", ["unit", "operator", "class", "rule of its delta", "reads"], listed),
    ]


def error_page(title: str, message: str, base: str) -> str:
    """One sentence in place of a page."""
    return page(title, base, [("Pipelines", f"{base}/")], el("p", message, class_="error"))


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
