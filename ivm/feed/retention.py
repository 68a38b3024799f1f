"""How long a source keeps what a lagging view still has to read, and a warning before it is too late.

files     VACUUM may remove the files of a commit `delta.deletedFileRetentionDuration` after it
log       a checkpoint may clean up log entries older than `delta.logRetentionDuration`,
          the one that was read last among them
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from ivm.feed.source import Snapshot

#: Delta's own defaults.
FILES, LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
_DEFAULTS = {FILES: timedelta(days=7), LOG: timedelta(days=30)}
#: A warning comes when this share of the retention has passed.
SHARE = 0.75
_UNITS = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 604800.0,
}


def warnings(snapshot: Snapshot, readers: Mapping[str, int], now: datetime) -> list[str]:
    """A sentence for each retention that the view that lags most comes close to.

    `readers`: views and the version they have read.
    """
    behind = {view: version for view, version in readers.items() if version < snapshot.version}
    if not behind:
        return []
    oldest = min(behind.values())
    views = ", ".join(sorted(v for v, version in behind.items() if version == oldest))
    found = []
    for setting, version, what in ((FILES, oldest + 1, "files"), (LOG, oldest, "log entries")):
        kept, at = retention(snapshot.configuration, setting), snapshot.commits.at(version)
        if kept is None or at is None or now - at < SHARE * kept:
            continue
        end = (at + kept).astimezone(UTC)
        found.append(
            f"Source {snapshot.name!r}: {views} read up to version {oldest} of {snapshot.version}, "
            f"and {what} of version {version} "
            f"{'may be removed from' if now < end else 'may have been removed since'} {end:%Y-%m-%d %H:%M} UTC "
            f"on ({setting}, {_shown(kept)}). "
            "Refresh before that, or set it longer; else the view is refreshed in full."
        )
    return found


def retention(configuration: Mapping[str, str], setting: str) -> timedelta | None:
    """A retention of a table, Delta's default where it sets none; None for what we don't understand.

    >>> retention({LOG: "interval 1 week 12 hours"}, LOG), retention({}, FILES), retention({LOG: "for ever"}, LOG)
    (datetime.timedelta(days=7, seconds=43200), datetime.timedelta(days=7), None)
    """
    text = configuration.get(setting)
    if text is None:
        return _DEFAULTS[setting]
    words = text.lower().removeprefix("interval").strip()
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?\b", words)
    if (
        not parts
        or re.sub(r"(\d+(?:\.\d+)?)\s*([a-z]+?)s?\b", "", words).strip()
        or any(unit not in _UNITS for _, unit in parts)
    ):
        return None
    return timedelta(seconds=sum(float(n) * _UNITS[unit] for n, unit in parts))


def _shown(kept: timedelta) -> str:
    hours = kept.total_seconds() / 3600
    return f"{hours / 24:g} days" if hours >= 48 else f"{hours:g} hours"
