"""What a command writes: tables and lines for people, JSON for machines, a progress bar on a terminal."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """main() ends quietly then, with a code of its own."""
        raise BrokenPipeError


#: Columns of tables that go into a file or another program, where no terminal says how many fit; COLUMNS does as well.
PIPED = 200

out = _Console(
    markup=False,
    highlight=False,
    width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPED,
)
err = _Console(stderr=True, markup=False, highlight=False)


def visible(text: str) -> str:
    """Text of files and arguments with control characters shown, so that they can't steer the terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def shown(data: Any, as_json: bool, show: Callable[[], None]) -> None:
    """Print data as JSON, or `show` it to people."""
    if as_json:
        print(json.dumps(plain(data), default=str, indent=2, allow_nan=False))
    else:
        show()


def plain(data: Any) -> Any:
    """Data that JSON has: NaN and infinities, which it has not, become texts, and so do keys."""
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, dict):
        return {str(k): plain(v) for k, v in data.items()}
    return [plain(v) for v in data] if isinstance(data, list | tuple) else data


def table(title: str, columns: list[str], rows: list[list[Any]]) -> None:
    """Numbers to the right, texts with their control characters shown."""
    drawn = Table(title=Text(title) if title else None, title_justify="left")
    for column in columns:
        numeric = rows and all(isinstance(r[columns.index(column)], int | float | type(None)) for r in rows)
        drawn.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text("" if v is None else f"{v:,}" if isinstance(v, int) else visible(str(v))) for v in row))
    out.print(drawn)


def warn(warnings: Iterable[str]) -> None:
    """A line a warning."""
    for warning in warnings:
        out.print(Text.assemble(("warning:", "bold yellow"), " ", visible(warning)), soft_wrap=True)


@contextmanager
def progress(as_json: bool) -> Iterator[Any]:
    """A progress bar on a terminal, nothing elsewhere."""
    if as_json or not err.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=err,
        transient=True,
    ) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total)

        yield report
