"""Lengths of time as people write them in settings: 90s, 15m, 1h, 1h30m, 2d (pure)."""

from __future__ import annotations

import re
from datetime import timedelta

from ivm.errors import ConfigError
from ivm.parameters import shown

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_DURATION = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,7})m)?(?:(\d{1,8})s)?\Z", re.ASCII)


def duration(value: object, what: str, least: timedelta, most: timedelta = timedelta(days=366)) -> timedelta:
    """A length of time. Raises ConfigError for what is none, and for one out of bounds.

    >>> duration("1h30m", "freshness", timedelta(minutes=1))
    datetime.timedelta(seconds=5400)
    """
    hint = f"Write it as in 90s, 15m, 1h, 1h30m or 2d, from {written(least)} to {written(most)}."
    found = _DURATION.match(value) if isinstance(value, str) and value else None
    if found is None:
        raise ConfigError(f"{what} is {shown(value)}, which is no length of time.", hint)
    parts = dict(zip(_UNITS.values(), (int(n or 0) for n in found.groups()), strict=True))
    length = timedelta(**parts)
    if not least <= length <= most:
        raise ConfigError(f"{what} is {shown(value)}, which is out of bounds.", hint)
    return length


def written(length: timedelta) -> str:
    """A length of time as it is written in settings, to the second.

    >>> written(timedelta(seconds=5400)), written(timedelta(0)), written(timedelta(days=2, seconds=1))
    ('1h30m', '0s', '2d1s')
    """
    seconds = int(length.total_seconds())
    found = ""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        found += f"{count}{unit}" if count else ""
    return found or "0s"
