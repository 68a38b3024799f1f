"""Data Docs: the kept results of all epochs as Great Expectations' own static HTML site."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ivm.quality.results import Result, to_html


def build_docs(results: Sequence[Result], folder: Path, pipeline: str) -> Path:
    """Write the site; returns its index page."""
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / "index.html"
    index.write_text(to_html(list(results), pipeline))
    return index
