"""The wait for new commits: it runs in the triggerer, holds no worker, and starts no JVM.

Invariant: one event for one state of things (the committed epoch, and the versions that it has not read), and another
one only when that state has changed or `AGAIN` has passed. The state is in the pipeline's own logs: a triggerer that is
restarted, and several of them, tell too much at worst, which makes a run that finds nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

_log = logging.getLogger(__name__)

#: Seconds after which unread commits are told again: the run that they started did not read them.
AGAIN = 3600.0


class CommitTrigger(BaseEventTrigger):
    """Fires when a source of the pipeline has a commit that its views have not read; looks every `poll` seconds."""

    def __init__(self, folder: str, poll: float) -> None:
        super().__init__()
        self.folder = folder
        self.poll = poll

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The class and what makes another one of it."""
        return f"{type(self).__module__}.{type(self).__name__}", {"folder": self.folder, "poll": self.poll}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yields {epoch, versions} whenever that is news; never ends."""
        told, at = None, 0.0
        while True:
            found = await asyncio.to_thread(look, self.folder)
            if found is not None and (found != told or time.monotonic() - at > AGAIN):
                told, at = found, time.monotonic()
                yield TriggerEvent(found)
            await asyncio.sleep(self.poll)


def look(folder: str) -> dict[str, Any] | None:
    """What the sources have that was not read; None for nothing, and where that can't be told now."""
    from ivm.declarations import declared
    from ivm.refresh.news import news

    try:
        found = news(declared(folder))
    except Exception as error:  # noqa: BLE001 - the wait goes on, whatever a look finds; a refresh will tell
        _log.warning("pipeline %s can't be looked at: %s", folder, error)
        return None
    return {"epoch": found.epoch, "versions": dict(found.versions)} if found else None
