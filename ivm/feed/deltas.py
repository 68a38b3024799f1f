"""A source's change feed between two versions, as a consolidated delta; natively where the table allows it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake.exceptions import DeltaError

from ivm.feed.source import Snapshot
from ivm.lake import native
from ivm.names import ident

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)


#: A feed of more changes is not collected: so much change is cheaper to recompute.
DELTA_ROWS = 5_000_000


class TooLargeError(Exception):
    """A delta or a result outgrew what the driver may hold; the view is refreshed in full instead."""


def source_delta(snapshot: Snapshot, since: int, upto: int, columns: Sequence[str], spark: Callable[[], SparkSession]) -> pa.Table:
    """The delta of versions since < v <= upto: `columns` and WEIGHT (+1 or -1), consolidated.

    Whatever delta-rs can't read goes to Spark, whose errors are raised. Raises TooLargeError beyond DELTA_ROWS changes.
    """
    if not snapshot.native:
        try:
            feed = native.change_feed(native.table(snapshot.path, upto), since + 1, upto, columns, DELTA_ROWS)
        except DeltaError as error:
            _log.info("delta-rs can't read the feed of %s (%s); Spark reads it", snapshot.path, error)
            feed = _by_spark(snapshot, since + 1, upto, columns, spark())
    else:
        feed = _by_spark(snapshot, since + 1, upto, columns, spark())
    if feed.num_rows > DELTA_ROWS:
        raise TooLargeError(f"more than {DELTA_ROWS:,} changes")
    return native.consolidate(native.weighted(feed, columns), columns)


def _by_spark(snapshot: Snapshot, first: int, last: int, columns: Sequence[str], spark: SparkSession) -> pa.Table:
    reader = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", first).option("endingVersion", last)
    wanted = [ident(c) for c in (*columns, "_change_type")]
    return native.plain(reader.load(snapshot.path).select(*wanted).limit(DELTA_ROWS + 1).toArrow())
