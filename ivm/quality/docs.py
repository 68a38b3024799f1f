"""Data Docs: Great Expectations' own pages of each kept suite result, and an index of all results."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence

from ivm.files import writing
from ivm.quality.redaction import redacted
from ivm.quality.results import Result
from ivm.storage.location import Location


def build_docs(
    results: Sequence[Result], checks: Location, folder: Location, pipeline: str, show: bool = False
) -> Location:
    """Write the pages of `results`, whose documents lie in `checks`, to `folder`; returns the index page.

    They hold values of the data only where these may be shown, whatever was allowed when a result was kept; a page that
    holds none is not written twice. Raises ConfigError where the folder can't be written to.
    """
    with writing(folder):
        for document in dict.fromkeys(r.document for r in results if r.document):
            page = folder / f"{document.removesuffix('.json')}.html"
            if (checks / document).exists() and not (page.exists() and _MARK in page.read().decode()[: len(_MARK)]):
                page.write(_page(checks / document, show).encode())
        index = folder / "index.html"
        index.write(_index(results, pipeline, show).encode())
    return index


#: What a page begins with that was written without values.
_MARK = "<!-- no values -->"


def _page(document: Location, show: bool) -> str:
    from great_expectations.core.expectation_validation_result import expectationSuiteValidationResultSchema
    from great_expectations.render.renderer import ValidationResultsPageRenderer
    from great_expectations.render.view import DefaultJinjaPageView

    content = json.loads(document.read())
    if not show:
        content["results"] = [redacted(entry) for entry in content["results"]]
    result = expectationSuiteValidationResultSchema.load(content)
    page = str(DefaultJinjaPageView().render(ValidationResultsPageRenderer(run_info_at_end=False).render(result)))
    return page if show else _MARK + page


def _counts(result: Result) -> str:
    """What a failure's message may tell where values are hidden: it may be kept of a time when they were shown."""
    failed = not result.success and result.elements is not None
    return f"{result.unexpected} of {result.elements} rows" if failed else ""


def _index(results: Sequence[Result], pipeline: str, show: bool) -> str:
    def cells(r: Result) -> str:
        scope = f"<a href='{r.document.removesuffix('.json')}.html'>{r.scope}</a>" if r.document else r.scope
        shown = (
            str(r.epoch),
            html.escape(r.view),
            scope,
            r.expectation,
            html.escape(json.dumps(r.arguments)),
            "passed" if r.success else "failed",
            html.escape(r.message if show else _counts(r)),
        )
        return "".join(f"<td>{cell}</td>" for cell in shown)

    rows = "".join(f"<tr class='{'ok' if r.success else 'bad'}'>{cells(r)}</tr>" for r in reversed(results))
    return (
        f"<!doctype html><meta charset='utf-8'><title>Checks of {html.escape(pipeline)}</title>"
        "<style>body{font:14px sans-serif;margin:2em}"
        "td,th{padding:4px 10px;border-bottom:1px solid #ddd;text-align:left}.bad{background:#fdd}</style>"
        f"<h1>Checks of {html.escape(pipeline)}</h1>"
        f"<table><tr><th>epoch<th>view<th>on<th>expectation<th>arguments<th>result<th>message</tr>{rows}</table>"
    )
