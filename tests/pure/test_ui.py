"""`ivm ui`: pages that any browser and screen reader can read, whatever texts come from outside; DuckDB for Spark."""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from ivm.errors import ConfigError
from ivm.pipeline import Pipeline
from ivm.quality.results import Result, store
from ivm.refresh.history import Passed
from ivm.ui import server as serving
from ivm.ui.drawing import Box, graph, timeline
from ivm.ui.facts import folders
from ivm.ui.site import HTML, JSON, Site
from ivm.ui.tags import el, html
from tests.pages import served
from tests.pure.duck_session import DuckSession
from tests.pure.hostile import TEXTS, Rng
from tests.pure.test_hostile import seeds
from tests.scenes import ORDERS, path, scene

HOSTILE = "<script>alert('x')</script>"
VIEWS = {
    "totals": f"-- {HOSTILE}\nSELECT cust, sum(amount) AS `<script>` FROM orders GROUP BY cust",
    "nested": "SELECT n, count(*) AS customers FROM (SELECT cust, count(*) AS n FROM orders GROUP BY cust) GROUP BY n",
    "named": "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.cust = c.cust",
    "upon": "SELECT count(*) AS rows FROM named",
}
#: What the pages may be made of.
TAGS = {
    *("html", "head", "meta", "title", "link", "body", "nav", "main", "a", "span", "div", "h1", "h2", "p", "pre"),
    *("ul", "ol", "li", "dl", "dt", "dd", "table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("details", "summary", "code", "time"),
    *("svg", "g", "rect", "text", "path", "defs", "marker", "polygon"),
}


class Page(HTMLParser):
    """A page's elements, links and text."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.links, self.words = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "a":
            self.links.append(dict(attrs)["href"])

    def handle_data(self, data):
        self.words.append(data)

    @property
    def said(self):
        return "".join(self.words)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder of a pipeline that was refreshed twice, a view of it held back with a failed check."""
    tmp_path = tmp_path_factory.mktemp("ui")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        return _built(tmp_path)


@pytest.fixture
def place(built, tmp_path):
    """The same, in a copy of the folder that a test may change; the root is shared."""
    return shutil.copytree(built, tmp_path / "all")


def _built(tmp_path):
    made = scene(DuckSession(), tmp_path)
    folder = tmp_path / "all" / "shop"
    (folder / "views").mkdir(parents=True)
    (folder / "pipeline.yml").write_text(
        json.dumps(
            {
                "name": "shop",
                "root": f"{tmp_path}/root",
                "sources": {n: path(made, n) for n in ("orders", "customers")},
            }
        )
    )
    for name, sql in VIEWS.items():
        (folder / "views" / f"{name}.sql").write_text(sql)
    pipe = Pipeline.load(folder, made.spark)
    assert pipe.refresh().ok
    row = pa.Table.from_pylist([{"id": 60, "cust": 3, "amount": 9}], ORDERS)
    write_deltalake(path(made, "orders"), row, mode="append")
    pipe = Pipeline.load(folder, made.spark)
    pipe._gate = lambda: lambda *_: {"totals": [HOSTILE]}
    pipe.refresh()
    store(
        pipe.context.layout, 2, {"totals"}, [Result("totals", 2, "state", HOSTILE, {"column": HOSTILE}, False, HOSTILE)]
    )
    return folder.parent


def site_of(place):
    return Site(lambda: folders(place))


def crawled(site):
    """Every page that the first leads to, by address."""
    found, todo = {}, [f"{site.base}/"]
    while todo:
        address = todo.pop()
        if address not in found and not address.startswith("#"):
            found[address] = site.answer(address)
            if found[address][1].startswith("text/html"):
                todo += Page(found[address][2]).links
    return found


def test_every_page_is_there_plain_and_safe(place):
    found = crawled(site_of(place))
    assert {status for status, *_ in found.values()} == {200}
    assert {a for a, (_, kind, _) in found.items() if kind.startswith("text/html")} == {
        "/",
        "/p/shop/",
        *(f"/p/shop/v/{view}/" for view in VIEWS),
        "/p/shop/v/totals/held/",
    }
    for address, (_, kind, text) in found.items():
        if kind == "application/json":
            assert json.loads(text)
            continue
        page = Page(text)
        assert {tag for tag, _ in page.elements} <= TAGS, address
        assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on")]
        assert ("html", {"lang": "en"}) in page.elements
        assert [tag for tag, _ in page.elements].count("h1") == 1
        assert all(a.get("scope") for tag, a in page.elements if tag == "th")
        assert all(a.get("aria-label") for tag, a in page.elements if tag == "svg")
        assert all(a.get("tabindex") == "0" for _, a in page.elements if a.get("class") == "scroll")
        tables = [tag for tag, _ in page.elements]
        assert tables.count("table") == tables.count("caption")


def test_hostile_texts_are_shown_as_they_are(place):
    site = site_of(place)
    pipeline, view = (Page(site.answer(a)[2]).said for a in ("/p/shop/", "/p/shop/v/totals/"))
    assert pipeline.count(HOSTILE) >= 3, "the reason, the check's name and its message"
    assert f"-- {HOSTILE}" in view
    assert view.count("<script>") >= 3, "the column's name besides, which Delta takes"


def test_a_pipeline_shows_its_epochs_what_is_held_back_and_lineage(place):
    site = site_of(place)
    page = Page(site.answer("/p/shop/")[2])
    titles = [" ".join(page.words)]
    assert "totals, epoch 2: incremental, held back" in titles[0]
    assert "totals, epoch 1: full, published" in titles[0]
    assert "held back in epoch 2" in page.said
    told = json.loads(site.answer("/p/shop/index.json")[2])
    assert ["named", "upon"] in told["reads"]
    assert ["customers", "named"] in told["reads"]
    assert [c["expectation"] for c in told["failed_checks"]] == [HOSTILE]
    drawn = [a for tag, a in page.elements if tag == "path" and a.get("class") == "edge"]
    assert len(drawn) == len(told["reads"])


def test_a_view_shows_its_program_and_of_which_columns_it_is_made(place):
    told = json.loads(site_of(place).answer("/p/shop/v/nested/index.json")[2])
    assert told["unknown"] == ""
    inner = next(u for u in told["units"] if u != "nested")
    assert told["units"]["nested"] == [inner]
    assert told["rows"][inner]["rows_in"] == 1
    assert told["origins"] == {"n": [], "customers": []}, "counts of rows are made of no column"
    totals = json.loads(site_of(place).answer("/p/shop/v/totals/index.json")[2])
    assert totals["origins"] == {"cust": ["orders.cust"], "<script>": ["orders.amount"]}
    named = json.loads(site_of(place).answer("/p/shop/v/named/index.json")[2])
    assert named["origins"] == {"id": ["orders.id"], "name": ["customers.name"]}
    assert named["epochs"][0]["views"][0]["saved"] is not None


def test_no_spark_is_started(place, monkeypatch):
    def started(*_, **__):
        pytest.fail("a session was started")

    monkeypatch.setattr("ivm.declarations.get_session", started)
    (place / "shop" / "views" / "fresh.sql").write_text("SELECT cust FROM orders")
    status, _, text = site_of(place).answer("/p/shop/v/fresh/")
    assert status == 200
    assert "needs Spark" in Page(text).said
    assert "not refreshed yet" in Page(text).said


def test_what_is_wrong_is_a_sentence_and_hides_nothing_else(place, tmp_path):
    other = place / "other"
    (other / "views").mkdir(parents=True)
    (other / "pipeline.yml").write_text(f"name: other\nroot: {tmp_path}/o\nsources: {{t: {tmp_path}/nothing}}\n")
    site = site_of(place)
    assert "there is nothing at" in Page(site.answer("/")[2]).said
    assert "shop" in Page(site.answer("/")[2]).links[-1]
    assert site.answer("/p/other/")[0] == 500
    assert "there is nothing at" in json.loads(site.answer("/p/other/index.json")[2])["error"]
    for address in ("/p/nobody/", "/p/shop/v/nobody/", "/x", "/p/shop/../..", "/p/%2e%2e/", "nowhere", ""):
        assert site.answer(address)[0] == 404, address


def address(rng: Rng) -> str:
    """One that leads somewhere with parts left out, doubled or broken, or any texts."""
    parts = rng.choice((["p", "shop"], ["p", "shop", "v", "totals"], ["p", "shop", "v", "totals", "held"], ["p"], []))
    parts = [*parts, rng.choice(("", "index.json", "style.css"))]
    for _ in range(rng.randrange(4)):
        at, text = rng.randrange(len(parts)), rng.choice((*TEXTS, HOSTILE, "..", "%00", "%", "?a=1", "#"))
        quoted = urllib.parse.quote(text, safe="", errors="replace")
        parts[at : at + rng.randrange(2)] = rng.choice(([quoted], [text], [quoted, text]))
    return "/" + "/".join(parts)


def test_hostile_addresses_lead_to_a_page_or_nowhere(place):
    site, found = site_of(place), Counter()
    for seed in seeds(0.1, 150):
        asked = address(Rng(seed))
        status, kind, text = site.answer(asked)
        assert status in (200, 404), (asked, status, text)
        assert "Traceback" not in text, asked
        if kind == JSON:
            json.loads(text)
        elif kind == HTML:
            assert {tag for tag, _ in Page(text).elements} <= TAGS, asked
        found[status] += 1
    assert min(found.values()) > 10, found
    assert len(found) == 2, found


def test_names_of_folders(place, tmp_path):
    (place / "again").mkdir()
    (place / "again" / "pipeline.yml").write_text((place / "shop" / "pipeline.yml").read_text())
    with pytest.raises(ConfigError, match="both called 'shop'"):
        folders(place)
    with pytest.raises(ConfigError, match=r"no pipeline\.yml"):
        folders(tmp_path / "nothing")
    assert list(folders(place / "shop")) == ["shop"]


@pytest.fixture
def running(place, request):
    with served(place) as address:
        yield address


def asked(address, method="GET", **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method=method, headers=headers)) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def test_it_is_served_on_the_loopback_interface_to_it_alone(running):
    assert running.startswith("http://127.0.0.1:")
    status, headers, body = asked(running)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"Pipelines" in body
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert asked(f"{running}style.css")[1]["Content-Type"] == "text/css; charset=utf-8"
    assert asked(running, "HEAD")[2] == b""
    assert asked(running, "POST")[0] == 501
    assert asked(running, Host="evil.example")[0] == 404, "a name of another site that leads here"
    assert asked(running, Host="localhost:1")[0] == 200


def test_on_another_interface_there_is_a_token(place, monkeypatch):
    monkeypatch.setattr(serving, "_is_loopback", lambda host: False)
    with served(place) as address:
        root, token = address.split("/t/")
        assert len(token) > 30
        assert asked(address)[0] == 200
        for wrong in (f"{root}/", f"{root}/p/shop/", f"{root}/t/{'x' * 32}/", f"{root}/t/"):
            status, _, body = asked(wrong)
            assert status == 404
            assert b"shop" not in body
            assert token.encode() not in body
        assert token in Page(asked(address)[2].decode()).links[-1]
    with served(place) as another:
        assert another != address


def test_a_graph_with_a_cycle_is_drawn(tmp_path):
    boxes = {n: Box((n, HOSTILE), "view", "/x") for n in "abc"}
    drawn = html(graph(HOSTILE, boxes, [("a", "b"), ("b", "c"), ("c", "a"), ("x", "a")]))
    page = Page(drawn)
    assert len([1 for tag, _ in page.elements if tag == "path"]) == 3
    assert "script" not in {tag for tag, _ in page.elements}


def test_days_stand_above_epochs_as_far_as_there_is_room():
    epochs = [Passed(n, f"2026-11-{1 + n // 2:02}T05:00:00+00:00", "committed") for n in range(9)]
    page = Page(html(el("div", timeline(epochs, ["v"]))))
    places = [int(a["x"]) for tag, a in page.elements if a.get("class") == "day"]
    assert [w for w in page.words if re.fullmatch(r"2026-11-\d\d", w)] == ["2026-11-01", "2026-11-02", "2026-11-04"]
    assert {b - a for a, b in pairwise(places)} == {3 * 26}, "three cells are as wide as a day's name"
    assert "I incremental, F full" in page.elements[1][1]["aria-label"]
    assert "held back" in page.said, "the legend"
    assert "no epoch yet" in html(el("div", timeline([], ["v"])))


def test_long_texts_of_a_box_take_several_lines():
    box = Box(("name", "word " * 20, "x" * 500), "unit")
    assert [row for row, head in box.rows if head] == ["name"]
    assert max(len(row) for row, _ in box.rows) <= 36
    assert [row for row, _ in box.rows][-1].endswith("…"), "of a very long one the beginning"
    assert len([1 for tag, _ in Page(html(graph("g", {"a": box}, []))).elements if tag == "text"]) == len(box.rows)


def test_control_characters_are_shown_by_their_codes():
    assert html(el("p", "a\x1b[31m\x00", title="\x07")) == '<p title="\\x07">a\\x1b[31m\\x00</p>'
