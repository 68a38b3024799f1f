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
    return el(
        "div",
        el(
            "table",
            el("caption", caption),
            el("thead", el("tr", [el("th", c, scope="col") for c in columns])),
            el("tbody", body),
        ),
        class_="scroll",
        role="region",
        tabindex="0",
        aria_label=caption,
    )


def _kind(cell: Child) -> str | None:
    return "number" if isinstance(cell, int | float) else None
