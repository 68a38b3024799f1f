"""Drawings as SVG, made here: epochs on a time line, and graphs in layers. Each has a title and a text beside it.

Colours are never alone: a cell of the time line carries a letter, a box its words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from xml.etree.ElementTree import Element

from ivm.refresh.history import ABANDONED, ERROR, HELD, OPEN, Passed, Refreshed
from ivm.ui.tags import el

_CELL, _ROW, _LABEL = 26, 24, 190
_BOX, _LINE, _GAP_X, _GAP_Y, _PAD = 250, 17, 60, 18, 8
#: Characters of a line in a box.
_WIDTH = 36


def timeline(epochs: Sequence[Passed], views: Sequence[str]) -> Element:
    """A row a view, a column an epoch (the oldest first); the letter says what became of the view there."""
    ordered = sorted(epochs, key=lambda e: e.epoch)
    width, height = _LABEL + _CELL * max(1, len(ordered)), _ROW * (len(views) + 1) + 8
    parts: list[Element] = []
    for y, view in enumerate(views, 1):
        parts.append(el("text", _cut(view, 26), x="0", y=str(_ROW * y + 17)))
    for x, epoch in enumerate(ordered):
        left = _LABEL + _CELL * x
        parts.append(el("text", str(epoch.epoch), x=str(left + _CELL // 2), y="16", class_="epoch"))
        done = {v.view: v for v in epoch.views}
        for y, view in enumerate(views, 1):
            if view in done:
                parts.append(_cell(done[view], left, _ROW * y))
    return _svg(
        "Epochs by view: I incremental, F full, = unchanged, H held back, X failed, A abandoned, O open",
        width, height, parts, "timeline",
    )  # fmt: skip


_LETTERS = {HELD: "H", ERROR: "X", ABANDONED: "A", OPEN: "O"}
_STRATEGIES = {"incremental": "I", "full": "F", "unchanged": "="}


def _cell(v: Refreshed, left: int, top: int) -> Element:
    letter = _LETTERS.get(v.result) or _STRATEGIES.get(v.strategy, "?")
    return el(
        "g",
        el("title", f"{v.view}, epoch {v.epoch}: {v.strategy}, {v.result}, {v.seconds} s. {v.error or v.reason}"),
        el("rect", x=str(left + 2), y=str(top + 2), width=str(_CELL - 4), height=str(_ROW - 4), rx="3",
           class_=f"c-{'same' if letter == '=' else letter}"),
        el("text", letter, x=str(left + _CELL // 2), y=str(top + 17), class_="letter"),
    )  # fmt: skip


@dataclass(frozen=True)
class Box:
    """A node of a graph: its lines of text, its kind (source, view, unit), where it leads."""

    lines: tuple[str, ...]
    kind: str
    href: str = ""


def graph(title: str, boxes: Mapping[str, Box], edges: Sequence[tuple[str, str]]) -> Element:
    """Boxes in layers from left to right, each right of all that lead to it; edges that lead nowhere are left out."""
    known = [(a, b) for a, b in edges if a in boxes and b in boxes and a != b]
    depth = _depths(boxes, known)
    columns: dict[int, list[str]] = {}
    for name in boxes:
        columns.setdefault(depth[name], []).append(name)
    places: dict[str, tuple[int, int, int]] = {}
    for layer, names in columns.items():
        top = _PAD
        for name in names:
            height = _LINE * len(boxes[name].lines) + 2 * _PAD
            places[name] = (_PAD + layer * (_BOX + _GAP_X), top, height)
            top += height + _GAP_Y
    width = max((x for x, _, _ in places.values()), default=0) + _BOX + _PAD
    height = max((y + h for _, y, h in places.values()), default=0) + _PAD
    parts = [_edge(places[a], places[b]) for a, b in known] + [_box(boxes[n], places[n]) for n in boxes]
    return _svg(title, width, height, parts, "graph")


def _depths(boxes: Mapping[str, Box], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """The longest way to each box; a cycle (a recursion through views that are broken) ends after as many steps."""
    depth = dict.fromkeys(boxes, 0)
    for _ in boxes:
        before = dict(depth)
        for a, b in edges:
            depth[b] = min(max(depth[b], depth[a] + 1), len(boxes))
        if depth == before:
            break
    return depth


def _edge(a: tuple[int, int, int], b: tuple[int, int, int]) -> Element:
    x1, y1, x2, y2 = a[0] + _BOX, a[1] + a[2] // 2, b[0], b[1] + b[2] // 2
    middle = (x1 + x2) // 2
    return el("path", d=f"M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}", class_="edge")


def _box(box: Box, place: tuple[int, int, int]) -> Element:
    x, y, height = place
    rows = [
        el("text", _cut(line, _WIDTH), x=str(x + _PAD), y=str(y + _PAD + 13 + i * _LINE),
           class_="head" if i == 0 else None)
        for i, line in enumerate(box.lines)
    ]  # fmt: skip
    drawn = el(
        "g",
        el("title", "\n".join(box.lines)),
        el("rect", x=str(x), y=str(y), width=str(_BOX), height=str(height), rx="5", class_=f"b-{box.kind}"),
        rows,
    )
    return el("a", drawn, href=box.href) if box.href else drawn


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _svg(title: str, width: int, height: int, parts: Sequence[Element], kind: str) -> Element:
    return el(
        "div",
        el(
            "svg", el("title", title), parts,
            viewBox=f"0 0 {width} {height}", width=str(width), height=str(height), class_=kind, role="img",
            aria_label=title,
        ),
        class_="scroll", role="region", tabindex="0", aria_label=title,
    )  # fmt: skip
