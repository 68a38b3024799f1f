"""When and how views are audited: the `audit` block of pipeline.yml.

audit: {schedule: "@weekly", how: sample, sample: 0.01, views: [revenue]}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ivm.cron import check_schedule
from ivm.errors import ConfigError
from ivm.parameters import shown

FULL, SAMPLE, CHECKSUM = "full", "sample", "checksum"
WAYS = (FULL, SAMPLE, CHECKSUM)
_KEYS = ("how", "sample", "schedule", "views")


@dataclass(frozen=True)
class Audits:
    """`how`: row for row, so by a share (`sample`) of the groups, or by a checksum. `views`: those to audit, in order.

    Raises ConfigError for another way, and for a share that is none.
    """

    views: tuple[str, ...]
    schedule: str | None = None
    how: str = FULL
    sample: float = 0.01

    def __post_init__(self) -> None:
        if self.how not in WAYS:
            raise ConfigError(f"audit.how is {shown(self.how)}.", f"Choose one of: {', '.join(WAYS)}.")
        check_share(self.sample, "audit.sample")


def check_share(value: Any, what: str) -> float:
    """A share of the groups. Raises ConfigError for what is none.

    >>> check_share(0.01, "sample")
    0.01
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise ConfigError(f"{what} is {shown(value)}.", "Give a number above 0, at most 1.")
    return float(value)


def audits_of(data: Any, views: Sequence[str]) -> Audits | None:
    """The `audit` block of a pipeline's file, None where there is none. Raises ConfigError for anything else."""
    if data is None:
        return None
    if not isinstance(data, Mapping) or any(k not in _KEYS for k in data):
        raise ConfigError(f"audit is {shown(data)}.", f"Write a mapping with: {', '.join(_KEYS)}.")
    named = data.get("views", list(views))
    if not isinstance(named, list) or not all(isinstance(v, str) for v in named):
        raise ConfigError(f"audit.views is {shown(named)}.", "Write a list of views.")
    if strange := [v for v in named if v not in views]:
        raise ConfigError(
            f"audit.views names {shown(strange[0])}, which is no view.", f"There are: {', '.join(views) or 'none'}."
        )
    schedule = check_schedule(data.get("schedule"), "audit.schedule")
    return Audits(tuple(dict.fromkeys(named)), schedule, data.get("how", FULL), data.get("sample", 0.01))
