"""What has a name and is made once, by whoever asks for it first; others are made beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator


class Once:
    """The names of what was made, in that order. What makes one may ask for others, which don't ask for it."""

    def __init__(self) -> None:
        self._made: dict[str, None] = {}
        #: A lock a name: who asks for what is being made waits for it, and for nothing else.
        self._making: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def make(self, name: str, made: Callable[[], object]) -> None:
        """Call `made`, unless that was done for the name. What it raises is raised here; who asks next tries again."""
        if name in self._made:
            return
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:
            if name not in self._made:
                made()
                self._made[name] = None

    def note(self, name: str) -> None:
        """Count a name among those that were made."""
        self._made[name] = None

    def forget(self, name: str) -> bool:
        """Let a name be made anew; whether it had been made."""
        there = name in self._made
        self._made.pop(name, None)
        return there

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._made))
