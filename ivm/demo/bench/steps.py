"""How far a benchmark is: a bar on a terminal, elsewhere a line a step, with minutes and seconds since it began."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Steps:
    """A context: the bar stands while it is open."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._started = time.monotonic()
        self._bar = Progress(
            BarColumn(20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=0)
        self._done = self._total = -1
        self._what = ""

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def expect(self, steps: int) -> None:
        """So many more are to come."""
        self._total = max(0, self._total) + steps

    def at(self, what: str) -> None:
        """Another step begins."""
        self._done += 1
        self._what = what
        self._bar.update(self._task, description=what, completed=self._done, total=self._total)
        if not self._console.is_terminal:
            minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
            self._console.print(f"{minutes:3}:{seconds:02}  {self._done + 1} of {self._total}: {what}")

    def within(self, what: str, done: int, total: int) -> None:
        """How far the step itself is (`ivm.refresh.context.Progress`)."""
        self._bar.update(self._task, description=f"{self._what} ({what} {done} of {total})")
