"""SIGTERM and SIGHUP end a command as Ctrl-C does: what it started is ended, and its lock is let go.

By default they end the process where it stands:
the demo's Spark and Airflow, which have sessions of their own, would go on.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """Somebody asked the process to end. Not an Exception, so that nobody takes it for a view's failure."""


@contextmanager
def raised() -> Iterator[None]:
    """Raise Terminated in the main thread on one of the signals; another one, while all is being ended, is ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Who started the process with nohup wants it to go on.
    before = {s: h for s in SIGNALS if (h := signal.getsignal(s)) not in (signal.SIG_IGN, None)}

    def end(number: int, _frame: object) -> NoReturn:
        for s in before:
            signal.signal(s, signal.SIG_IGN)
        raise Terminated(signal.Signals(number).name)

    for s in before:
        signal.signal(s, end)
    try:
        yield
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
