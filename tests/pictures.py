"""Take the pictures of docs/ui.md: the pages of a small shop in a real browser.

python -m tests.pictures docs/images
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from PIL import Image

from tests.browser import Browser, browser
from tests.pages import served
from tests.shop import Shop

#: What is taken: name, address, height of the window, and the heading that stands at its top.
PICTURES = (
    ("ui_pipelines", "", 330, ""),
    ("ui_pipeline", "p/shop/", 1000, ""),
    ("ui_lineage", "p/shop/", 420, "Lineage"),
    ("ui_view", "p/shop/v/order_lines/", 960, ""),
    ("ui_program", "p/shop/v/loyalty/", 760, "Program"),
    ("ui_held", "p/shop/v/order_lines/held/", 760, ""),
)
WIDTH = 1280
#: Where the shop lies meanwhile: pages show it.
PLACE = Path("/tmp/lake")


def weeks(place: Path) -> Shop:
    """A shop with some days of orders and returns, an epoch without changes, and a bad delivery at the end."""
    shop = Shop(place, 150_000)
    shop.refresh()
    for day in range(2, 12):
        shop.order(f"2026-11-{day:02}", 40)
        if day == 5:
            shop.take_back(10, 30)
        shop.refresh()
    shop.bad_delivery()
    shop.refresh()
    return shop


def smaller(file: Path) -> None:
    """With a palette: pages have few colours."""
    with Image.open(file) as picture:
        few = picture.convert("RGB").quantize(200, dither=Image.Dither.NONE)
    few.save(file, optimize=True)


def take(page: Browser, address: str, into: Path) -> None:
    for name, path, height, heading in PICTURES:
        page.size(WIDTH, height)
        page.open(address + path)
        if heading:
            page.ask(f"[...document.querySelectorAll('h2')].find(h => h.textContent === '{heading}').scrollIntoView()")
        page.picture(into / f"{name}.png")
        smaller(into / f"{name}.png")


def main(into: Path) -> None:
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # no class of Spark's asks for a JVM
    into.mkdir(parents=True, exist_ok=True)
    PLACE.mkdir()
    try:
        with served(weeks(PLACE).folder.parent) as address, browser() as page:
            take(page, address, into)
    finally:
        shutil.rmtree(PLACE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
