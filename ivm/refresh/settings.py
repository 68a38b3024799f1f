"""The session's settings by which the results of a view's SQL go.

Rows that were stored under others can't be carried on.

    settings(spark) = {"spark.sql.session.timeZone": "UTC", and what else differs from Spark's defaults}

A unit keeps those under which it was built. Settings that only change how fast a statement runs are none of them.
"""

from __future__ import annotations

import functools
import json
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

TIME_ZONE = "spark.sql.session.timeZone"
#: Those of a session that ivm starts by itself, and the only ones under which the embedded engine runs a statement.
STARTED = {TIME_ZONE: "UTC"}
#: With Spark's defaults, in lower case.
_DEFAULTS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.columnNameOfCorruptRecord": "_corrupt_record",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.groupByAliases": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.mapKeyDedupPolicy": "exception",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.timestampType": "timestamp_ltz",
    # Set, and set back, by the compiler where a session can't be cloned.
    "spark.sql.legacy.ctePrecedencePolicy": "corrected",
}
_LEGACY = "spark.sql.legacy."


def settings(spark: SparkSession) -> dict[str, str]:
    """The time zone, and each other setting that results go by where it isn't Spark's default."""
    known = _all(spark)
    watched = {k: v for k, v in known.items() if k in _DEFAULTS or k.startswith(_LEGACY)}
    own = {k: v for k, v in watched.items() if v.lower() != _DEFAULTS.get(k, "false")}
    zone = known.get(TIME_ZONE) or str(spark.conf.get(TIME_ZONE, "UTC"))
    return {TIME_ZONE: zone, **dict(sorted(own.items()))}


def _all(spark: SparkSession) -> dict[str, str]:
    """All settings, in one answer of the JVM where it is this process's: asked for each by itself they take 30 ms."""
    try:
        told = _mapper(spark._jvm).writeValueAsString(spark.conf._jconf.getAllAsJava())
        return {str(k): str(v) for k, v in json.loads(told).items()}
    except Exception as error:  # noqa: BLE001 - over Spark Connect there is no JVM, and nobody promises one
        _log.debug("the settings are asked for one by one: %s", error)
        return dict(spark.conf.getAll)


@functools.lru_cache(maxsize=1)
def _mapper(jvm: Any) -> Any:
    """What writes a map as JSON: each part of its name is an answer of the JVM's."""
    return jvm.com.fasterxml.jackson.databind.ObjectMapper()


def changed(built: dict[str, str], now: dict[str, str]) -> str:
    """What is other than when something was built, in words.

    Empty where nothing is, or where it isn't known (state of an older ivm).

    >>> changed({TIME_ZONE: "UTC"}, {TIME_ZONE: "Europe/Berlin"})
    'spark.sql.session.timeZone was UTC and is Europe/Berlin'
    >>> changed({}, {TIME_ZONE: "UTC"}), changed({TIME_ZONE: "UTC"}, {TIME_ZONE: "UTC"})
    ('', '')
    """
    keys = sorted({k for k in {**built, **now} if built.get(k) != now.get(k)}) if built else []
    return ", ".join(f"{k} was {built.get(k, 'the default')} and is {now.get(k, 'the default')}" for k in keys)
