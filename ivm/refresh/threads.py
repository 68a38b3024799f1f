"""The threads in which an epoch's units run, and the session's settings while they do.

Small statements of all waves run beside each other. The session has one set of settings, so large statements begin when
the small ones have ended, and nothing else is asked of Spark before `quiet`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING

from ivm.session import statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Threads:
    """A few threads; `session` gives Spark, which is asked for when the first statement of its own is to run."""

    def __init__(self, session: Callable[[], SparkSession], most: int) -> None:
        self._session = session
        self._pool = ThreadPoolExecutor(most)
        self._settings = ExitStack()
        self._small: bool | None = None
        self._running: set[Future[None]] = set()

    def __enter__(self) -> Threads:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(cancel_futures=error is not None)
        self._settings.close()

    def begin(self, tasks: Iterable[Callable[[], None]], small: bool | None) -> list[Future[None]]:
        """Begin tasks in their order: those of Spark's small or large statements, or (None) of none of Spark's."""
        if small is not None and small is not self._small:
            self.quiet()
            self._settings.enter_context(statements(self._session(), small=small))
            self._small = small
        begun = [self._pool.submit(task) for task in tasks]
        self._running = {f for f in self._running if not f.done()} | set(begun)
        return begun

    def quiet(self) -> None:
        """Wait until all have ended, and give the session its settings back."""
        wait(self._running)
        self._running, self._small = set(), None
        self._settings.close()
