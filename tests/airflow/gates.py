"""Gates in the tasks of an Airflow under test: a step is held in the middle of its writes, or one of them fails.

    test                                        task (in a process of Airflow's)
    gate.close("hold", root, "traces/")         takes the order, works, and waits after its first write of this name
    gate.arrived()  -> its process              ...
    gate.open()                                 goes on

Invariant: an order is for one try; the next one finds none. An order without a write's name is for the task's begin,
where a failure is that of the storage of the pipeline's folder.
"""

from __future__ import annotations

import functools
import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from ivm.errors import StorageError
from ivm.testing.faults import Injector
from ivm.testing.primitives import Kind

#: The environment variable with the folder of the gates.
GATES = "IVM_TEST_GATES"
#: And that with the Spark Connect server of the tasks that need one.
SPARK = "IVM_TEST_SPARK"


@dataclass(frozen=True)
class Gate:
    """The gate of one task, as the test sees it; `task` is DAG and task."""

    folder: Path
    task: str

    @property
    def _order(self) -> Path:
        return self.folder / f"{self.task}.order"

    @property
    def _held(self) -> Path:
        return self.folder / f"{self.task}.held"

    def close(self, effect: str, root: Path, at: str = "") -> None:
        """`hold` the next try of the task after the first write under the root with this name, or let that `fail`."""
        self.folder.mkdir(exist_ok=True)
        self._written(self._order, json.dumps({"effect": effect, "root": str(root), "at": at}))

    def taken(self) -> dict[str, str] | None:
        """The order, for the task; None if there is none."""
        try:
            order: dict[str, str] = json.loads(self._order.read_text())
        except FileNotFoundError:
            return None
        self._order.unlink()
        return order

    def hold(self) -> None:
        """Wait, in the task, until the test opens the gate."""
        self._written(self._held, str(os.getpid()))
        while self._held.exists():
            time.sleep(0.1)

    def arrived(self) -> int | None:
        """The process that is held."""
        return int(self._held.read_text()) if self._held.exists() else None

    def open(self) -> None:
        self._held.unlink(missing_ok=True)

    @staticmethod
    def _written(place: Path, text: str) -> None:
        part = place.with_suffix(".part")
        part.write_text(text)
        part.rename(place)


@dataclass
class Strike(Injector):
    """Holds the process after a write, or lets it fail as on a full disk; all other writes are done."""

    gate: Gate | None = None
    effect: str = "hold"
    at: str = ""

    def _write(
        self, kind: Kind, label: str, relative: str, path: str, act: Callable[[], Any], kwargs: Mapping[str, Any]
    ) -> Any:
        with self._lock:
            strikes = not self.dead and re.search(self.at, f"{label} {relative}") is not None
            self.dead = self.dead or strikes
        if strikes and self.effect == "fail":
            raise kind.error("DISK", path)
        result = act()
        if strikes and self.gate is not None:
            self.gate.hold()
        return result


def gated(task: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a task, with its gate."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        gate = Gate(Path(os.environ[GATES]), task)
        order = gate.taken()
        if order is None:
            return function(*args, **kwargs)
        if order["at"]:
            with Strike([order["root"]], gate=gate, effect=order["effect"], at=order["at"]):
                return function(*args, **kwargs)
        if order["effect"] == "hold":
            gate.hold()
            return function(*args, **kwargs)
        away = StorageError("The folder does not answer.", "Try again.")
        with mock.patch("ivm.declarations.load_folder", side_effect=away):
            return function(*args, **kwargs)

    return run
