"""Generated pages are what the code says."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = [*DOCS.rglob("*.md"), *(DOCS.parent / n for n in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))]


def plain(page: Path) -> str:
    """A page without its blocks and snippets of code."""
    return re.sub(r"(`+)(?!`).*?\1", "", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S))


def anchors(page: Path) -> set[str]:
    """What headings are called in links, as GitHub and the site's tool do."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings}


def test_the_table_of_reasons_is_current():
    assert (DOCS / "reasons.md").read_text() == runpy.run_path(str(DOCS / "generate.py"))["table"]()


def test_the_list_of_what_is_portable_is_current():
    assert (DOCS / "portable.md").read_text() == runpy.run_path(str(DOCS / "generate.py"))["portable"]()


def test_the_page_of_results_is_current():
    made = runpy.run_path(str(DOCS / "generate.py"))
    assert (DOCS / "results.md").read_text() == made["page"](made["kept"]())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(DOCS.parent)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", plain(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = page.parent / path if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


def test_index_and_navigation_name_every_page():
    settings = yaml.safe_load((DOCS.parent / "mkdocs.yml").read_text())
    listed = re.findall(r"[\w./-]+\.md", str(settings["nav"]))
    pages = {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")}
    assert len(listed) == len(set(listed))
    assert set(listed) == pages
    linked = set(re.findall(r"\]\(([\w./-]+\.md)\)", (DOCS / "index.md").read_text()))
    assert linked == pages - {"index.md"}


def test_the_site_can_be_built(tmp_path):
    """Strictly: each warning is an error."""
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "reference" / "pipeline.html").read_text()
    assert "Bring all views, or those named" in page, "the reference is made of docstrings"


def test_each_event_of_a_source_has_its_row():
    """The matrix in docs/sources.md and the events in tests/spark/test_sources.py: the same names, the same answers."""
    from tests.spark.test_sources import EVENTS

    rows = re.findall(r"^\| ([^|]+?) \| `([^|]+?)` \|", (DOCS / "sources.md").read_text(), re.M)
    assert len(rows) == len(dict(rows)), "a row twice"
    assert dict(rows) == {name: event.answer for name, event in EVENTS.items()}
