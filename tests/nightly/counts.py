"""What a nightly script counts, shows while it runs, and stores at its end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

#: In a log, where no bar is shown, a line every so often.
LINE_SECONDS = 60


@dataclass
class Counts:
    """Counts by name, and each failure whole."""

    name: str
    seed: int
    minutes: float
    counted: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._bar: Progress | None = None
        self._told = 0.0

    def add(self, **more: int) -> None:
        self.counted.update(more)
        if self._bar is None:
            return
        told = ", ".join(f"{v:,} {k}" for k, v in self.counted.items())
        self._bar.update(self._bar.task_ids[0], completed=min(self.seconds, 60 * self.minutes), counts=told)
        if not self._bar.console.is_terminal and self.seconds - self._told > LINE_SECONDS:
            self._told = self.seconds
            print(f"{self.name}, {self.seconds:,.0f} s: {told}", flush=True)

    def fail(self, text: str) -> None:
        """Print a failing case whole, with all that replays it."""
        self.failures.append(text)
        self.counted["differences"] += 1
        print(f"\nDIFFERS (seed {self.seed}): {text}\n", flush=True)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def over(self) -> bool:
        return self.seconds >= 60 * self.minutes

    @contextmanager
    def shown(self) -> Iterator[None]:
        """A bar over the minutes that the script has, with the counts beside it."""
        with Progress(
            TextColumn(self.name), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[counts]}")
        ) as bar:
            bar.add_task(self.name, total=60 * self.minutes, counts="")
            self._bar = bar
            try:
                yield
            finally:
                self._bar = None

    def store(self, path: Path | None) -> int:
        """Print the counts, and keep them as JSON; returns the exit code."""
        told = {
            "name": self.name,
            "seed": self.seed,
            "seconds": round(self.seconds),
            "differences": len(self.failures),
            **self.counted,
        }
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({**told, "cases": self.failures}, indent=1) + "\n")
        print(json.dumps(told))
        return 1 if self.failures else 0
