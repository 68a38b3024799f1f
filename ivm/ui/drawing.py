"""Drawings as SVG, made here: epochs on a time line, and graphs in layers. Each has a title and a text beside it.

Colours are never alone: a cell of the time line carries a letter, a box its words. What leads somewhere is a link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from xml.etree.ElementTree import Element

from ivm.plan.kinds import StrategyKind
from ivm.refresh.history import ABANDONED, ERROR, HELD, OPEN, Passed, Refreshed
from ivm.ui.tags import Child, el, scrolling

_CELL, _ROW, _LABEL = 26, 24, 190
#: Rows above those of the views: days, and epochs.
_HEADS = 2
#: Cells that the name of a day takes.
_DAY = 3
_BOX, _LINE, _GAP_X, _GAP_Y, _PAD = 280, 17, 70, 18, 8
#: Characters of a line in a box, of its head, and of a name beside the time line, in the widest usual font.
_WIDTH, _HEAD, _NAME = 36, 31, 26
#: Lines that one text of a box takes at most; all of it is in the box's title, and in the table below.
_MOST = 4

_STRATEGIES: dict[str, str] = {StrategyKind.INCREMENTAL: "I", StrategyKind.FULL: "F", StrategyKind.UNCHANGED: "="}
_RESULTS: dict[str, str] = {HELD: "H", ERROR: "X", ABANDONED: "A", OPEN: "O"}
_WORDS = ", ".join(f"{letter} {word}" for word, letter in {**_STRATEGIES, **_RESULTS}.items())


def timeline(epochs: Sequence[Passed], views: Sequence[str]) -> list[Element]:
    """A row a view, a column an epoch (the oldest first); the letter says what became of the view there."""
    if not epochs:
        return [el("p", "There was no epoch yet.")]
    ordered = sorted(epochs, key=lambda e: e.epoch)
    width, height = _LABEL + _CELL * (len(ordered) + _DAY), _ROW * (len(views) + _HEADS) + 8
    parts = [
        el("g", el("title", view), el("text", _cut(view, _NAME), x="0", y=str(_ROW * y + 17)))
        for y, view in enumerate(views, _HEADS)
    ]
    parts += _days(ordered)
    for x, epoch in enumerate(ordered):
        left = _LABEL + _CELL * x
        number = el("text", str(epoch.epoch), x=str(left + _CELL // 2), y=str(_ROW + 16), class_="epoch")
        parts.append(el("g", el("title", f"epoch {epoch.epoch}, {epoch.at}, {epoch.status}"), number))
        done = {v.view: v for v in epoch.views}
        parts += [_cell(done[view], left, _ROW * y) for y, view in enumerate(views, _HEADS) if view in done]
    return [_svg(f"Epochs by view: {_WORDS}", width, height, parts, "img"), _legend()]


def _days(ordered: Sequence[Passed]) -> list[Element]:
    """The day above its first epoch, as far as there is room."""
    made: list[Element] = []
    day, free = "", 0
    for x, epoch in enumerate(ordered):
        if epoch.at[:10] != day and x >= free:
            day, free = epoch.at[:10], x + _DAY
            made.append(el("text", day, x=str(_LABEL + _CELL * x), y="16", class_="day"))
    return made


def _legend() -> Element:
    """What the letters mean, for those who see them."""
    words = {**_STRATEGIES, **_RESULTS}.items()
    return el(
        "ul", [el("li", el("span", c, class_=f"key {_class(c)}"), f" {word}") for word, c in words], class_="legend"
    )


def _class(letter: str) -> str:
    return f"c-{'same' if letter == '=' else letter}"


def _cell(v: Refreshed, left: int, top: int) -> Element:
    letter = _RESULTS.get(v.result) or _STRATEGIES.get(v.strategy, "?")
    return el(
        "g",
        el("title", f"{v.view}, epoch {v.epoch}: {v.strategy}, {v.result}, {v.seconds} s. {v.error or v.reason}"),
        el("rect", x=str(left + 2), y=str(top + 2), width=str(_CELL - 4), height=str(_ROW - 4), rx="3",
           class_=_class(letter)),
        el("text", letter, x=str(left + _CELL // 2), y=str(top + 17), class_="letter"),
    )  # fmt: skip


@dataclass(frozen=True)
class Box:
    """A node of a graph: its lines of text, its kind (source, view, unit), where it leads."""

    lines: tuple[str, ...]
    kind: str
    href: str = ""

    @property
    def rows(self) -> list[tuple[str, bool]]:
        """The lines as they are drawn, the long ones in several; and whether each is of the head."""
        return [(row, i == 0) for i, line in enumerate(self.lines) for row in _wrapped(line, _WIDTH if i else _HEAD)]

    @property
    def height(self) -> int:
        return _LINE * len(self.rows) + 2 * _PAD


def _wrapped(line: str, width: int) -> list[str]:
    return wrap(line, width, max_lines=_MOST, placeholder=" …")


@dataclass(frozen=True)
class _Place:
    x: int
    y: int
    height: int

    @property
    def middle(self) -> int:
        return self.y + self.height // 2


def graph(title: str, boxes: Mapping[str, Box], edges: Sequence[tuple[str, str]]) -> Element:
    """Boxes in layers from left to right, each right of all that lead to it; edges that lead nowhere are left out."""
    known = [(a, b) for a, b in edges if a in boxes and b in boxes and a != b]
    places = _places(boxes, known)
    width = max((p.x for p in places.values()), default=0) + _BOX + _PAD
    height = max((p.y + p.height for p in places.values()), default=0) + _PAD
    tip = el("marker", el("polygon", points="0 0, 8 4, 0 8", class_="tip"), id="tip", markerWidth="8", markerHeight="8",
             refX="8", refY="4", orient="auto", markerUnits="userSpaceOnUse")  # fmt: skip
    parts = [
        el("defs", tip),
        *(_edge(places[a], places[b]) for a, b in known),
        *(_box(boxes[name], places[name]) for name in sorted(boxes, key=lambda n: (places[n].x, places[n].y))),
    ]
    return _svg(title, width, height, parts, "group" if any(b.href for b in boxes.values()) else "img")


def _places(boxes: Mapping[str, Box], edges: Sequence[tuple[str, str]]) -> dict[str, _Place]:
    """Layer by layer: beside what leads there, so that fewer edges cross; each layer in the middle of the highest."""
    depth = _depths(boxes, edges)
    layers = [[n for n in boxes if depth[n] == layer] for layer in range(max(depth.values(), default=-1) + 1)]
    heights = [sum(boxes[n].height + _GAP_Y for n in names) - _GAP_Y for names in layers]
    places: dict[str, _Place] = {}
    for layer, names in enumerate(layers):
        top = _PAD + (max(heights) - heights[layer]) // 2
        before = {n: [places[a].middle for a, b in edges if b == n and a in places] for n in names}
        for name in sorted(names, key=lambda n: sum(before[n]) / len(before[n]) if before[n] else 0):
            places[name] = _Place(_PAD + layer * (_BOX + _GAP_X), top, boxes[name].height)
            top += boxes[name].height + _GAP_Y
    return places


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


def _edge(a: _Place, b: _Place) -> Element:
    start, end = a.x + _BOX, b.x
    half = (start + end) // 2
    path = f"M{start} {a.middle} C{half} {a.middle} {half} {b.middle} {end} {b.middle}"
    return el("path", d=path, class_="edge", marker_end="url(#tip)")


def _box(box: Box, place: _Place) -> Element:
    rows = [
        el("text", row, x=str(place.x + _PAD), y=str(place.y + _PAD + 13 + i * _LINE), class_="head" if head else None)
        for i, (row, head) in enumerate(box.rows)
    ]  # fmt: skip
    drawn = el(
        "g",
        el("title", "\n".join(box.lines)),
        el("rect", x=str(place.x), y=str(place.y), width=str(_BOX), height=str(place.height), rx="5",
           class_=f"b-{box.kind}"),
        rows,
    )  # fmt: skip
    return el("a", drawn, href=box.href) if box.href else drawn


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _svg(title: str, width: int, height: int, parts: Sequence[Child], role: str) -> Element:
    """`role` is img, of which a screen reader reads the title, or group, in which it finds the links."""
    drawn = el(
        "svg", el("title", title), parts,
        viewBox=f"0 0 {width} {height}", width=str(width), height=str(height), role=role, aria_label=title,
    )  # fmt: skip
    return scrolling(title, drawn)
