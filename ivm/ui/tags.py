"""HTML as a tree of elements.

Invariant: text becomes a text node or an attribute of the tree, never markup: names, SQL and reasons come from outside,
and the serializer escapes them all. Control characters are shown by their codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree.ElementTree import Element, tostring

#: A child of an element: another one, a text, or nothing.
Child = Element | str | int | float | None
#: Longer texts may be broken into lines.
_SHORT = 24


class Seconds(float):
    """A number of seconds, told to the millisecond."""

    def __str__(self) -> str:
        return f"{self:,.3f}"


def el(tag: str, *children: Child | Iterable[Child], **attributes: Any) -> Element:
    """An element; an attribute's trailing underscore is dropped and other underscores are dashes, None leaves it out.

    >>> html(el("p", "a < b ", el("b", "<i>"), class_="x", title='"'))
    '<p class="x" title="&quot;">a &lt; b <b>&lt;i&gt;</b></p>'
    """
    made = Element(tag, {_name(k): _shown(v) for k, v in attributes.items() if v is not None})
    for child in children:
        for one in [child] if isinstance(child, Element | str | int | float) or child is None else child:
            _append(made, one)
    return made


def _name(attribute: str) -> str:
    return attribute.removesuffix("_").replace("_", "-")


def _append(parent: Element, child: Child) -> None:
    if isinstance(child, Element):
        parent.append(child)
    elif child is not None:
        text = _shown(child)
        if len(parent):
            parent[-1].tail = (parent[-1].tail or "") + text
        else:
            parent.text = (parent.text or "") + text


def _shown(value: Any) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def html(element: Element) -> str:
    """The element as HTML text."""
    return tostring(element, encoding="unicode", method="html")


def page(title: str, base: str, trail: Sequence[tuple[str, str]], *body: Child | Iterable[Child]) -> str:
    """A whole document; `trail` are the pages above it: (text, address)."""
    links = [el("li", el("a", text, href=address)) for text, address in trail]
    return "<!DOCTYPE html>\n" + html(
        el(
            "html",
            el(
                "head",
                el("meta", charset="utf-8"),
                el("meta", name="viewport", content="width=device-width, initial-scale=1"),
                el("title", f"{title} - ivm"),
                el("link", rel="stylesheet", href=f"{base}/style.css"),
            ),
            el(
                "body",
                el("a", "Skip to the content", href="#content", class_="skip"),
                el("nav", el("ol", links), aria_label="Pages above this one") if links else None,
                el("main", el("h1", title), *body, id="content"),
            ),
            lang="en",
        )
    )


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Child]]) -> Element:
    """A table with a caption and column heads; the first cell of a row is its head."""
    listed = list(rows)
    if not listed:
        return el("p", f"{caption}: none.")
    body = [el("tr", el("th", row[0], scope="row"), [el("td", c, class_=_kind(c)) for c in row[1:]]) for row in listed]
    numbers = {i for row in listed for i, c in enumerate(row) if i and _kind(c) == "number"}
    heads = [el("th", c, scope="col", class_="number" if i in numbers else None) for i, c in enumerate(columns)]
    return scrolling(caption, el("table", el("caption", caption), el("thead", el("tr", heads)), el("tbody", body)))


def moment(at: str) -> Child:
    """A time of UTC as ISO 8601 has it, to be read: without its T and its zone, which the column's head says."""
    return el("time", at[:19].replace("T", " "), datetime=at) if at else ""


def scrolling(label: str, content: Element) -> Element:
    """What may be wider than the page: the arrow keys scroll it. A group, not a landmark: a page has many."""
    return el("div", content, class_="scroll", role="group", tabindex="0", aria_label=label)


def _kind(cell: Child) -> str | None:
    """How a cell is set: numbers to the right, and neither they nor short texts are broken."""
    if isinstance(cell, int | float):
        return "number"
    return "short" if isinstance(cell, str) and len(cell) < _SHORT else None
