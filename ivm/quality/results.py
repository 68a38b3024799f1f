"""Results of checks: kept as JSON lines by epoch, shown as a table or as HTML."""

from __future__ import annotations

import html
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Result:
    """One expectation's verdict in one epoch. `scope` is built-in, key, delta or state."""

    view: str
    epoch: int
    scope: str
    expectation: str
    arguments: dict[str, Any]
    success: bool
    message: str = ""

    @property
    def sentence(self) -> str:
        arguments = ", ".join(f"{k}={v}" for k, v in self.arguments.items())
        return f"view {self.view}, {self.scope}: {self.expectation}({arguments}) failed: {self.message}"


def store(folder: str, epoch: int, results: list[Result]) -> None:
    """Keep an epoch's results; a second run of the check replaces the first's."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{epoch:010d}.jsonl").write_text("".join(json.dumps(asdict(r)) + "\n" for r in results))


def load(folder: str, last: int | None = None) -> list[Result]:
    """All kept results by epoch, or those of the `last` epochs."""
    files = sorted(Path(folder).glob("*.jsonl"))
    chosen = files if last is None else files[-last:]
    return [Result(**json.loads(line)) for file in chosen for line in file.read_text().splitlines()]


def to_html(results: list[Result], pipeline: str) -> str:
    """Results as one HTML page."""
    rows = "".join(
        f"<tr class='{'ok' if r.success else 'bad'}'><td>{r.epoch}</td><td>{html.escape(r.view)}</td><td>{r.scope}</td><td>{html.escape(r.expectation)}</td>"
        f"<td>{html.escape(json.dumps(r.arguments))}</td><td>{'passed' if r.success else 'failed'}</td><td>{html.escape(r.message)}</td></tr>"
        for r in reversed(results)
    )
    return (
        f"<!doctype html><meta charset='utf-8'><title>Checks of {html.escape(pipeline)}</title><style>body{{font:14px sans-serif;margin:2em}}"
        "td,th{padding:4px 10px;border-bottom:1px solid #ddd;text-align:left}.bad{background:#fdd}</style>"
        f"<h1>Checks of {html.escape(pipeline)}</h1><table><tr><th>epoch<th>view<th>on<th>expectation<th>arguments<th>result<th>message</tr>{rows}</table>"
    )
