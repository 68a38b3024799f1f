"""What one contestant took for one turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Taken:
    """Seconds by the wall clock, and those of each view where they can be told.

    `strategies` and `engines` are ivm's, by view; `failed` has what a contestant can't run, with its error.
    """

    seconds: float
    by_view: Mapping[str, float] = field(default_factory=dict)
    strategies: Mapping[str, str] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
