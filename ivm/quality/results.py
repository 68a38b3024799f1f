"""Results of checks: kept as JSON lines by epoch, shown as a table or as HTML."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from ivm.errors import StateError
from ivm.storage.location import Location


@dataclass(frozen=True)
class Result:
    """One expectation's verdict in one epoch. `scope` is built-in, key, delta or state.

    `document` names the file (beside this one) with Great Expectations' own result of the whole suite.
    """

    view: str
    epoch: int
    scope: str
    expectation: str
    arguments: dict[str, Any]
    success: bool
    message: str = ""
    document: str = ""

    @property
    def sentence(self) -> str:
        arguments = ", ".join(f"{k}={v}" for k, v in self.arguments.items())
        return f"view {self.view}, {self.scope}: {self.expectation}({arguments}) failed: {self.message}"


def store(folder: Location, epoch: int, results: list[Result]) -> None:
    """Keep an epoch's results; a second run of the check replaces the first's."""
    (folder / f"{epoch:010d}.jsonl").write("".join(json.dumps(asdict(r)) + "\n" for r in results).encode())


def load(folder: Location, last: int | None = None) -> list[Result]:
    """All kept results by epoch, or those of the `last` epochs. Raises StateError where a file is damaged."""
    files = [f for f in folder.list() if f.name.endswith(".jsonl")]
    chosen = files if last is None else files[-last:]
    return [result for file in chosen for result in _read(file)]


def _read(file: Location) -> list[Result]:
    try:
        return [Result(**json.loads(line)) for line in file.read().decode().splitlines()]
    except (OSError, ValueError, TypeError) as error:
        raise StateError(
            f"The kept results of checks in {file} can't be read.", "Remove the file: the next refresh writes its own."
        ) from error
