"""A schedule as Airflow takes it: one of its names, or a cron expression of five or six fields (pure)."""

from __future__ import annotations

import re

from ivm.errors import ConfigError
from ivm.parameters import shown

PRESETS = ("@once", "@continuous", "@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
#: (field, least, most, names that stand for numbers from `least` on)
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("weekday", 0, 7, _DAYS),
    ("second", 0, 59, ()),
)
_PART = re.compile(r"(?:(?P<all>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>\d{1,4}))?\Z", re.ASCII)
#: "?" says nothing of this day; "l" is the last of a month, 15w the working day next to the 15th;
#: l5 and 5#2 are its last and second Friday.
_SPECIAL = {"day": ("?", "l"), "weekday": ("?",)}
_NTH = {"day": re.compile(r"([1-9]|[12]\d|3[01])[wW]\Z"), "weekday": re.compile(r"([lL][0-7]|[0-7]#[1-5])\Z")}
_HINT = "Write a cron expression such as '0 5 * * *', one of " + ", ".join(PRESETS) + ", or null."


def check_schedule(value: object, what: str) -> str | None:
    """The schedule, None for none. Raises ConfigError for what no scheduler takes.

    >>> check_schedule("0 5 * * mon-fri", "schedule")
    '0 5 * * mon-fri'
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise ConfigError(
            f"{what} must be a cron expression or null, found {shown(value)} ({type(value).__name__}).", _HINT
        )
    if value in PRESETS:
        return value
    fields = value.split()
    if len(fields) not in (5, 6):
        raise ConfigError(
            f"{what} is {shown(value)}, which is no cron expression: it has {len(fields)} fields, not five or six.",
            _HINT,
        )
    for field, (name, least, most, named) in zip(fields, _FIELDS, strict=False):
        if not all(_fits(part, name, least, most, named) for part in field.split(",")):
            raise ConfigError(
                (
                    f"{what} is {shown(value)}, which is no cron expression: "
                    f"its {name} is {shown(field)}, not {least} to {most}."
                ),
                _HINT,
            )
    return value


def _fits(part: str, name: str, least: int, most: int, named: tuple[str, ...]) -> bool:
    if part.lower() in _SPECIAL.get(name, ()) or (name in _NTH and _NTH[name].match(part)):
        return True
    found = _PART.match(part)
    if found is None or (found["step"] is not None and int(found["step"]) == 0):
        return False
    bounds = [_value(found[end], least, named) for end in ("low", "high") if found[end] is not None]
    return all(b is not None and least <= b <= most for b in bounds)


def _value(text: str, least: int, named: tuple[str, ...]) -> int | None:
    if text.isdigit() and len(text) <= 4:
        return int(text)
    return named.index(text.lower()) + least if text.lower() in named else None
