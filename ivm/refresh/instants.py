"""The instant of an epoch, and the clocks of temporal filters as relations whose versions are instants.

    version     microseconds since 1970; an epoch's is in its plan, so that whoever goes on with it has the same
    state       one row: the clock's value at the instant
    delta       -1 x the value at the old instant  +  1 x the value at the new one, nothing where they are equal

An instant may be earlier than the one before (a machine's clock was set back): the same rule brings the rows back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from ivm.errors import StateError
from ivm.lake.shapes import plain
from ivm.names import WEIGHT, ident
from ivm.parameters import shown
from ivm.plan.nodes import CLOCK_VALUE, Clock
from ivm.refresh.records import Cursor, UnitState
from ivm.refresh.settings import TIME_ZONE
from ivm.sql.temporal import clock_sql, is_clock, is_daily
from ivm.zset.weighted import consolidate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_START = datetime(1970, 1, 1, tzinfo=UTC)


def as_instant(at: datetime) -> int:
    """Microseconds since 1970. Raises StateError for what is no time, or has no zone.

    >>> as_instant(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if not isinstance(at, datetime) or at.tzinfo is None:
        raise StateError(
            f"The clock says {shown(at)}, which is not a time with a zone.", "Give one that returns datetime.now(UTC)."
        )
    return (at - _START) // timedelta(microseconds=1)


def as_time(instant: int) -> datetime:
    """The time of an instant, in UTC."""
    return _START + timedelta(microseconds=instant)


def due_from(clock: str, instant: int, zone: str) -> datetime | None:
    """From when a clock has, or may have, another value than at an instant; None where the zone isn't known here.

    >>> str(due_from("__ivm_day_1", 0, "Europe/Berlin")), str(due_from("__ivm_clock_1", 0, ""))
    ('1970-01-01 23:00:00+00:00', '1970-01-01 00:00:00.000001+00:00')
    """
    at = as_time(instant)
    if not is_daily(clock):
        return at + timedelta(microseconds=1)
    try:
        local = at.astimezone(ZoneInfo(zone))
    except (ZoneInfoNotFoundError, ValueError):
        return None
    return datetime.combine(local.date() + timedelta(days=1), time(), local.tzinfo).astimezone(UTC)


def is_due(clock: str, since: int, upto: int, settings: Mapping[str, str]) -> bool:
    """Whether a clock may have another value at `upto` than at `since`, in a session of these settings.

    >>> day = 24 * 60 * 60 * 1_000_000
    >>> [is_due("__ivm_day_1", 0, upto, {TIME_ZONE: "UTC"}) for upto in (0, day - 1, day, -1)]
    [False, False, True, True]
    """
    if since == upto:
        return False
    later = due_from(clock, min(since, upto), settings.get(TIME_ZONE, ""))
    return later is None or later <= as_time(max(since, upto))


def instant_of(states: Iterable[UnitState]) -> int | None:
    """The instant up to which the units of a view have read the time; None where none reads it."""
    return next((c.version for s in states for r, c in s.cursors.items() if is_clock(r)), None)


def clock_rows(clock: Clock, cursor: Cursor) -> str:
    """A clock's row where a reader stands, as a FROM item."""
    return f"({clock_sql(clock, cursor.version or 0)})"


def clock_values(spark: SparkSession, clock: Clock, since: int, upto: int) -> tuple[pa.Table, pa.Table]:
    """A clock's row at an instant, and its delta since another one.

    Spark evaluates both: columns `CLOCK_VALUE`, and in the delta WEIGHT.
    """
    weighted = (f"{clock_sql(clock, at)}, {weight} AS {ident(WEIGHT)}" for at, weight in ((upto, 1), (since, -1)))
    rows = plain(spark.sql("\nUNION ALL\n".join(weighted)).toArrow())
    if getattr(rows.schema.field(CLOCK_VALUE).type, "tz", None):  # Spark gives times in the session's zone
        rows = rows.set_column(0, CLOCK_VALUE, rows[CLOCK_VALUE].cast(pa.timestamp("us", "UTC")))
    now = rows.filter(pc.equal(rows[WEIGHT], 1)).select([CLOCK_VALUE])
    return now, consolidate(rows, [CLOCK_VALUE])
