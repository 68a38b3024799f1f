"""What is held back, on the pages of `ivm ui`: the failing rows, their values hidden unless they may be shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from ivm.errors import StateError
from ivm.ui.facts import folders, held_facts, opened
from ivm.ui.site import Site
from tests.shop import delivered

HELD = "/p/shop/v/order_lines/held/"


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        return delivered(tmp_path_factory.mktemp("shop"))


@pytest.fixture
def site(shop):
    return Site(lambda: folders(shop.folder))


def test_failing_rows_are_shown_without_their_values(site):
    told = json.loads(site.answer(f"{HELD}index.json")[2])
    assert told["shown"] is False
    (failing,) = told["held"]["failing"]
    assert failing["count"] == 12
    assert failing["rows"][0] | {"amount": ""} == {
        "id": "<int64>", "day": "<string>", "customer": "<string>", "region": "<string>", "product": "<string>",
        "amount": "",
    }  # fmt: skip
    status, _, text = site.answer(HELD)
    assert status == 200
    assert text.count("<tr>") == 1 + 12
    assert "1999" not in text
    assert "ivm release order_lines" in text
    assert "Values are hidden" in text


def test_values_are_shown_where_the_pipeline_says_so(shop, site):
    file = shop.folder / "pipeline.yml"
    before = file.read_text()
    file.write_text(before.replace('"hidden"', '"shown"'))
    try:
        told = json.loads(site.answer(f"{HELD}index.json")[2])
        shown = sorted(r["amount"] for r in told["held"]["failing"][0]["rows"])
        assert shown == [1999 * n for n in range(1, 13)]
        text = site.answer(HELD)[2]
        assert ">23,988<" in text
        assert "Values are hidden" not in text
    finally:
        file.write_text(before)


def test_pages_lead_there_and_say_where_there_is_nothing(site):
    assert f'href="{HELD}"' in site.answer("/p/shop/")[2]
    assert f'href="{HELD}"' in site.answer("/p/shop/v/order_lines/")[2]
    assert "/held/" not in site.answer("/p/shop/v/loyalty/")[2]
    assert "Nothing of this view is held back." in site.answer("/p/shop/v/loyalty/held/")[2]
    assert site.answer("/p/shop/v/nobody/held/")[0] == 404


def test_views_that_wait_for_it_say_so(site):
    text = site.answer("/p/shop/v/revenue/held/")[2]
    assert "It waits for order_lines, and is published with it." in text


def test_a_batch_that_is_too_large_is_not_read(shop):
    pipe = opened(shop.folder)
    pipe.context.limits = replace(pipe.context.limits, judged_rows=11)
    with pytest.raises(StateError, match="too large to be looked at here"):
        held_facts(pipe, "order_lines")


def test_freshness_is_shown_where_a_view_has_a_target(site):
    text = re.sub("<[^>]+>", "|", site.answer("/p/shop/")[2])
    assert "behind its sources" in text
    assert re.search(r"\|[\w ]+ of 1h(, late)?\|", text)
    assert text.count("no target") == 2


def test_a_folder_that_is_not_right_hides_no_other(shop, site, tmp_path):
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "pipeline.yml").write_text("name: 7 of nine\n")
    (tmp_path / "shop").symlink_to(shop.folder)
    both = Site(lambda: folders(tmp_path))
    status, _, text = both.answer("/")
    assert status == 200
    assert "/p/shop/" in text
    assert "has no" in text
    assert both.answer("/p/broken/")[0] == 500
