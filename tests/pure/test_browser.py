"""`ivm ui` in a real browser: read and walked through by the keyboard alone, in light and dark, wide and narrow."""

from __future__ import annotations

import pytest

from tests.browser import browser, installed
from tests.pages import served
from tests.shop import delivered

pytestmark = pytest.mark.skipif(installed() is None, reason="no Chromium is installed")

#: What Tab must stop at: all that leads somewhere, opens, or scrolls.
STOPS = "[...document.querySelectorAll('a[href], summary, [tabindex]')].filter(e => e.checkVisibility())"
#: Texts whose contrast with what is behind them is less than WCAG's 4.5 to 1; in drawings, with their box.
PALE = """
(() => {
  const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = colour => {
    const [r, g, b] = numbers(colour).map(v => linear(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ratio = (a, b) => {
    const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
    return (x + .05) / (y + .05);
  };
  const behind = e => {
    while (numbers(getComputedStyle(e).backgroundColor)[3] === 0) e = e.parentElement;
    return getComputedStyle(e).backgroundColor;
  };
  const pale = [];
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; n = words.nextNode();) {
    const e = n.parentElement;
    if (!n.data.trim() || e.tagName === 'title') continue;
    const drawn = e.closest('svg'), box = drawn && e.parentElement.querySelector(':scope > rect');
    const ink = drawn ? getComputedStyle(e).fill : getComputedStyle(e).color;
    const paper = box ? getComputedStyle(box).fill : behind(drawn ? drawn.parentElement : e);
    if (ratio(ink, paper) < 4.5) pale.push([n.data.trim().slice(0, 40), ink, paper]);
  }
  return pale;
})()
"""
#: Lines that are longer than their box.
SPILT = """[...document.querySelectorAll('svg rect')].flatMap(r => [...r.parentElement.querySelectorAll('text')]
  .filter(t => t.getBBox().x + t.getBBox().width > r.getBBox().x + r.getBBox().width + 1).map(t => t.textContent))"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Where a shop is shown whose last delivery is held back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        shop = delivered(tmp_path_factory.mktemp("shop"))
    with served(shop.folder) as found:
        yield found


@pytest.fixture(scope="module")
def chromium():
    with browser() as found:
        yield found


def walked(chromium):
    """What Tab stops at until it leaves the page, by place among the elements; each stop is seen."""
    found = []
    while True:
        chromium.press("Tab")
        at = chromium.ask("[...document.querySelectorAll('*')].indexOf(document.activeElement)")
        if not chromium.ask("document.activeElement !== document.body") or at in found:
            return found
        seen = "(s => s.outlineStyle !== 'none' && s.outlineWidth !== '0px')(getComputedStyle(document.activeElement))"
        assert chromium.ask(seen), chromium.ask("document.activeElement.outerHTML")[:200]
        found.append(at)


def to(chromium, link):
    """Tab to a link and open it with Enter."""
    for _ in range(200):
        chromium.press("Tab")
        if chromium.ask("document.activeElement.getAttribute('href')") == link:
            chromium.press("Enter")
            chromium.until(f"location.pathname === '{link}' && document.readyState === 'complete'")
            return
    pytest.fail(f"Tab never came to {link}")


def test_all_is_reached_by_the_keyboard_alone(address, chromium):
    chromium.size(1280, 900)
    chromium.open(address)
    told = {}
    for step in ("/p/shop/", "/p/shop/v/order_lines/", "/p/shop/v/order_lines/held/", ""):
        here = chromium.ask("location.pathname")
        stops = walked(chromium)
        assert stops == sorted(stops), "in the order of the page"
        assert len(stops) == chromium.ask(f"{STOPS}.length"), here
        told[here] = chromium.ask("document.body.innerText")
        if step:
            chromium.open(address.rstrip("/") + here)
            to(chromium, step)
    assert "order_lines: held back in epoch 2" in told["/"]
    assert "rows of order_lines" in told["/p/shop/"]
    assert "Units, with the rows of their last refresh" in told["/p/shop/v/order_lines/"]
    held = told["/p/shop/v/order_lines/held/"]
    assert "max_value=500" in held
    assert "12 rows" in held
    assert "<int64>" in held, "values are hidden"


def test_the_first_stop_skips_what_stands_above(address, chromium):
    chromium.open(f"{address}p/shop/")
    chromium.press("Tab")
    assert chromium.ask("document.activeElement.textContent") == "Skip to the content"
    chromium.press("Enter")
    chromium.press("Tab")
    assert chromium.ask("document.querySelector('main').contains(document.activeElement)")


def test_a_wide_table_is_scrolled_by_the_keyboard(address, chromium):
    chromium.size(500, 900)
    chromium.open(f"{address}p/shop/")
    for _ in range(20):
        chromium.press("Tab")
        if chromium.ask("document.activeElement.matches('.scroll') && document.activeElement.scrollWidth > 500"):
            break
    chromium.press("ArrowRight")
    chromium.until("document.activeElement.scrollLeft > 0")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (400, False)])
def test_it_can_be_read(address, chromium, width, dark):
    chromium.size(width, 900, dark)
    for page in ("", "p/shop/", "p/shop/v/revenue/", "p/shop/v/order_lines/held/", "p/nobody/"):
        chromium.open(address + page)
        assert chromium.ask(PALE) == [], page
        assert chromium.ask(SPILT) == [], page
        assert chromium.ask("document.documentElement.scrollWidth <= innerWidth"), f"{page} is as wide as the window"
        assert chromium.ask("matchMedia('(prefers-color-scheme: dark)').matches") is dark


def test_everything_has_a_name_for_who_cannot_see_it(address, chromium):
    chromium.open(f"{address}p/shop/")
    nodes = chromium.call("Accessibility.getFullAXTree")["nodes"]
    found = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n.get("ignored")]
    assert not [role for role, name in found if role in ("link", "image", "table", "navigation") and not name]
    assert [name for role, name in found if role == "link" and "loyalty" in name and "rows" in name], "a box"
    assert [role for role, _ in found].count("main") == 1
