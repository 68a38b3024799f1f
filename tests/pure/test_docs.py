"""Generated pages are what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_table_of_reasons_is_current():
    assert (DOCS / "reasons.md").read_text() == runpy.run_path(str(DOCS / "generate.py"))["table"]()


def test_the_list_of_what_is_portable_is_current():
    assert (DOCS / "portable.md").read_text() == runpy.run_path(str(DOCS / "generate.py"))["portable"]()


def test_links_lead_somewhere():
    import re

    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_each_event_of_a_source_has_its_row():
    """The matrix in docs/sources.md and the events in tests/spark/test_sources.py: the same names, the same answers."""
    import re

    from tests.spark.test_sources import EVENTS

    rows = re.findall(r"^\| ([^|]+?) \| `([^|]+?)` \|", (DOCS / "sources.md").read_text(), re.M)
    assert len(rows) == len(dict(rows)), "a row twice"
    assert dict(rows) == {name: event.answer for name, event in EVENTS.items()}
