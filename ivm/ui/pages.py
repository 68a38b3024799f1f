"""The pages of all pipelines and of one. Plain HTML with headings, captioned tables and drawings; no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from xml.etree.ElementTree import Element

from ivm.durations import written
from ivm.errors import IvmError
from ivm.refresh.history import Passed
from ivm.ui.drawing import Box, graph, timeline
from ivm.ui.facts import Facts
from ivm.ui.tags import Child, Seconds, el, moment, page, table


def overview(found: dict[str, Facts | IvmError], base: str) -> str:
    """The pipelines, each with what is behind in it."""
    rows = [_pipeline(name, facts, base) for name, facts in found.items()]
    return page(
        "Pipelines",
        base,
        [],
        table("All pipelines", ["pipeline", "views", "epoch", "last planned (UTC)", "behind"], rows),
    )


def _pipeline(name: str, facts: Facts | IvmError, base: str) -> Sequence[Child]:
    if isinstance(facts, IvmError):
        return [name, "", "", "", el("p", str(facts), class_="error")]
    views = facts.status["views"]
    behind = [el("li", f"{v}: {s['error']}") for v, s in views.items() if s["error"]]
    return [
        el("a", name, href=f"{base}/p/{name}/"),
        len(views),
        facts.status["epoch"],
        moment(facts.epochs[0].at) if facts.epochs else "never",
        el("ul", behind, class_="plain") if behind else "nothing",
    ]


def pipeline_page(facts: Facts, base: str) -> str:
    """Views, epochs on a time line, lineage by table, and what is held back with its failed checks."""
    status, here = facts.status, f"{base}/p/{facts.name}"
    views = status["views"]
    shown = {name.lower(): name for name in views}
    targets = any(v["freshness"] for v in views.values())
    fresh = ["behind its sources"] if targets else []
    boxes = {s.lower(): Box((s, "source", f"version {c['version']}"), "source") for s, c in status["sources"].items()}
    boxes |= {r: Box((r, "source"), "source") for r, _ in facts.reads if r not in boxes and r not in shown}
    boxes |= {
        key: Box((name, f"view, {views[name]['strategy'] or 'not built'}", f"{count(views[name]['rows'])} rows"),
                 "view", f"{here}/v/{name}/")
        for key, name in shown.items()
    }  # fmt: skip
    checks = [
        [c["epoch"], c["view"], c["scope"], c["expectation"], arguments(c["arguments"]), c["message"]]
        for c in facts.failed_checks
    ]
    return page(
        facts.name,
        base,
        [("Pipelines", f"{base}/")],
        el("p", f"At {status['root']}, epoch {status['epoch']}."),
        [el("p", w, class_="error") for w in status["warnings"]],
        table(
            "Views",
            ["view", "mode", "strategy", "rows", "version", "epoch", *fresh, "reason"],
            [_view(name, v, here, targets) for name, v in views.items()],
        ),
        el("h2", "Epochs"),
        timeline(facts.epochs, list(views)),
        table(
            "Epochs, the newest first",
            ["epoch", "planned (UTC)", "status", "views", "rows in", "rows out", "seconds", "saved", "behind"],
            [_epoch(e) for e in facts.epochs],
        ),
        el("h2", "Held back and failing"),
        table(
            "Views that are behind",
            ["view", "why", "rows that are held back"],
            [
                [name, v["error"], el("a", f"rows of {name}", href=f"{here}/v/{name}/held/")
                 if name in facts.held else None]
                for name, v in views.items() if v["error"]
            ],
        ),
        table(
            "Checks that failed", ["epoch", "view", "on", "expectation", "arguments", "what was found"], checks
        ),
        el("h2", "Lineage"),
        graph("Which view reads which source or view", boxes, facts.reads),
        table("Reads", ["view", "reads"], [[shown[v], r] for r, v in facts.reads]),
        el("p", el("a", "The same as JSON", href=f"{here}/index.json")),
    )  # fmt: skip


def _view(name: str, v: Mapping[str, Any], here: str, targets: bool) -> Sequence[Child]:
    return [
        el("a", name, href=f"{here}/v/{name}/"), v["mode"], v["strategy"], v["rows"], v["version"], v["epoch"],
        *([_fresh(v["freshness"])] if targets else []), v["error"] or v["reason"],
    ]  # fmt: skip


def _fresh(freshness: Mapping[str, Any] | None) -> str:
    """How far a view is behind, of how far it may be."""
    if freshness is None:
        return "no target"
    behind, target = (freshness[f"{k}_seconds"] for k in ("behind", "target"))
    told = "not known" if behind is None else written(timedelta(seconds=behind))
    return f"{told} of {written(timedelta(seconds=target))}{', late' if freshness['late'] else ''}"


def _epoch(e: Passed) -> Sequence[Child]:
    saved = [v.saved for v in e.views if v.saved is not None]
    return [
        e.epoch, moment(e.at), e.status, ", ".join(f"{n} {s}" for s, n in e.strategies.items()),
        sum(v.rows_in for v in e.views), sum(v.rows_out for v in e.views), Seconds(sum(v.seconds for v in e.views)),
        Seconds(sum(saved)) if saved else None,
        "; ".join(f"{v.view} {v.result}: {v.error}" for v in e.views if v.error),
    ]  # fmt: skip


def error_page(title: str, message: str, base: str) -> str:
    """One sentence in place of a page."""
    return page(title, base, [("Pipelines", f"{base}/")], el("p", message, class_="error"))


def seconds(value: float | None) -> Seconds | None:
    return None if value is None else Seconds(value)


def count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def arguments(given: Mapping[str, Any]) -> str:
    """The arguments of an expectation, but for what Great Expectations adds."""
    return ", ".join(f"{k}={v}" for k, v in given.items() if k != "batch_id")


def paragraph(text: str, *more: Child) -> Element | None:
    """A sentence about what is wrong; None where nothing is."""
    return el("p", text, *more, class_="error") if text else None
