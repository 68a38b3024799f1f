"""The figures of one contestant: each round's, and their medians, in seconds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ivm.demo.bench.taken import Taken


def median(seconds: Sequence[float]) -> float | None:
    """To the millisecond; None where nothing was measured."""
    return round(statistics.median(seconds), 3) if seconds else None


@dataclass
class Record:
    """Lists have an entry a measured round. `by_view` is of the changes; strategies, engines and failures the last."""

    #: From nothing, or of a rebuild the first times.
    first_build_s: list[float] = field(default_factory=list)
    change_s: list[float] = field(default_factory=list)
    no_op_s: list[float] = field(default_factory=list)
    one_row_s: list[float] = field(default_factory=list)
    shell_change_s: list[float] = field(default_factory=list)
    shell_no_op_s: list[float] = field(default_factory=list)
    shell_one_row_s: list[float] = field(default_factory=list)
    by_view_s: dict[str, list[float]] = field(default_factory=dict)
    strategies: dict[str, str] = field(default_factory=dict)
    engines: dict[str, str] = field(default_factory=dict)
    shell_engines: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def change(self, taken: Taken, no_op: float | None) -> None:
        """A batch of changes, and the refresh after it that finds nothing to do."""
        self.change_s.append(taken.seconds)
        self.no_op_s += [] if no_op is None else [no_op]
        for view, seconds in taken.by_view.items():
            self.by_view_s.setdefault(view, []).append(seconds)
        self.strategies |= taken.strategies
        self.engines |= taken.engines
        self.failed |= taken.failed

    def one_row(self, taken: Taken) -> None:
        """One changed row, to one view."""
        self.one_row_s.append(taken.seconds)

    def from_shell(self, taken: Taken, no_op: float) -> None:
        """As `change`, in processes of their own."""
        self.shell_change_s.append(taken.seconds)
        self.shell_no_op_s.append(no_op)
        self.shell_engines |= taken.engines

    def one_row_from_shell(self, taken: Taken) -> None:
        """As `one_row`, in a process of its own."""
        self.shell_one_row_s.append(taken.seconds)

    def told(self) -> dict[str, Any]:
        """All of it, with the medians by the same names under `median`."""
        rounds = {name: value for name, value in asdict(self).items() if value}
        medians: dict[str, Any] = {n: median(v) for n, v in rounds.items() if n.endswith("_s") and isinstance(v, list)}
        by_view = {view: median(seconds) for view, seconds in self.by_view_s.items()}
        return {"median": medians | {"by_view_s": by_view}, **_rounded(rounds)}


def _rounded(found: Any) -> Any:
    """Seconds to the millisecond, wherever they stand."""
    if isinstance(found, dict):
        return {k: _rounded(v) for k, v in found.items()}
    if isinstance(found, list):
        return [_rounded(v) for v in found]
    return round(found, 3) if isinstance(found, float) else found
