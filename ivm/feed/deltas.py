"""A source's changes between two versions, as a consolidated delta: by its feed, or where it has none by its files.

    rows(since) + inserted - deleted = rows(upto)

Invariant: a delta satisfies this sum, or there is none (GapError). Whatever keeps delta-rs from reading a feed, Spark
gets a try; whatever keeps Spark from it, the table itself can still be read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ivm.engine.rows import Rows, StagedRows, few, stage
from ivm.errors import IvmError, StateError
from ivm.feed.moved_files import Moved, UntoldError, by_arrow, by_spark, moved
from ivm.feed.source import Snapshot
from ivm.feed.states import ones
from ivm.lake import hiding, native, parquet
from ivm.lake.calendars import old_in_commits
from ivm.lake.shapes import plain
from ivm.names import WEIGHT, ident
from ivm.plan.nodes import Column
from ivm.planner.limits import EMBEDDED
from ivm.session import error_text
from ivm.sql.render import columns_sql
from ivm.storage.location import Location
from ivm.table.rust import RustTable
from ivm.table.spark import SparkTable
from ivm.zset.weighted import consolidate, of_change_feed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger(__name__)


#: What Spark says where it can't read a feed, and what that means.
_GAPS = (
    ("DELTA_MISSING_CHANGE_DATA", "the change feed was off for a while"),
    ("DELTA_CHANGE_TABLE_FEED_DISABLED", "the change feed was off for a while"),
    ("INCOMPATIBLE_DATA_SCHEMA", "columns were renamed, dropped or changed in type on the way"),
    ("INCOMPATIBLE_SCHEMA_CHANGE", "columns were renamed, dropped or changed in type on the way"),
    ("DELTA_CHANGE_DATA_FILE_NOT_FOUND", "its files were removed (VACUUM)"),
    ("FILE_NOT_EXIST", "its files were removed (VACUUM)"),
    ("FileNotFoundException", "its files were removed (VACUUM)"),
    ("DELTA_VERSION_NOT_FOUND", "its log entries were removed"),
    ("DELTA_VERSION_INVALID", "its log entries were removed"),
)


class GapError(IvmError):
    """A source's feed can't be read, or isn't complete; views that read it are refreshed in full instead."""


def source_delta(
    snapshot: Snapshot,
    since: int,
    upto: int,
    columns: Sequence[str],
    spark: Callable[[], SparkSession],
    most: int = EMBEDDED.delta_rows,
    staging: Location | None = None,
) -> Rows:
    """The delta of versions since < v <= upto: `columns` and WEIGHT (+1 or -1), consolidated.

    Of more than `most` changes it is made by Spark, and stays in `staging` if it has as many rows. Raises GapError
    where nobody can read the feed, where it doesn't add up, and where it is that large and there is no place for it.
    """
    weighted = _here(snapshot, since, upto, columns, most)
    if weighted is None:
        weighted = _by_spark(snapshot, since + 1, upto, columns, most, spark())
    if weighted.num_rows > most:
        if staging is None:
            raise _gap(snapshot, since, upto, f"it has more than {most:,} changes")
        staged = _staged(snapshot, since + 1, upto, columns, spark(), staging)
        told = parquet.total(staged.location, WEIGHT)
        _add_up(snapshot, since, upto, told, spark)
        return few(staged, most)
    _add_up(snapshot, since, upto, pc.sum(weighted[WEIGHT]).as_py() or 0, spark)
    return consolidate(weighted, columns)


#: So many rows of a commit's feed show how many of them cancel out; of so many commits, the largest.
_SAMPLE, _SAMPLED = 50_000, 20


def expected_changes(snapshot: Snapshot, since: int, upto: int, columns: Sequence[str]) -> int | None:
    """About how many rows the delta of versions since < v <= upto has; little is read for that.

    The log tells how many rows changed. A MERGE that sets rows to what they were changes few of these: the first rows
    of each commit's feed are consolidated, and the others taken for alike. None where the log doesn't tell, there is no
    feed, or delta-rs can't read it.
    """
    if not fed_here(snapshot, since, upto) or not snapshot.commits.fed(since + 1, upto):
        return None
    counts = {v: snapshot.commits.changed(v, v) for v in range(since + 1, upto + 1)}
    told = {v: n for v, n in counts.items() if n}
    if None in counts.values():
        return None
    left = float(sum(told.values()))
    for version in sorted(told, key=lambda v: -told[v])[:_SAMPLED]:
        feed = _by_delta_rs(snapshot, version, version, columns, _SAMPLE)
        if feed is None:
            return None
        if feed.num_rows:
            kept = consolidate(of_change_feed(feed, columns), columns).num_rows
            left -= told[version] * (1 - kept / feed.num_rows)
    return round(left)


def fed_here(snapshot: Snapshot, since: int, upto: int) -> bool:
    """Whether the changes are this process's to read: of a table with too many vectors for it where these have few.

    Files of the old calendar, which the table may have no more, are Spark's.
    """
    fed = snapshot.commits.fed(since + 1, upto)
    if snapshot.by_spark and not (snapshot.searched and fed and hiding.fits(snapshot.path, since + 1, upto)):
        return False
    return not old_in_commits(snapshot.path, snapshot.schema, since + 1, upto, fed)


def _here(snapshot: Snapshot, since: int, upto: int, columns: Sequence[str], most: int) -> pa.Table | None:
    """The changes with WEIGHT, more than `most` of them where there are more; None where Spark is to read them."""
    if not fed_here(snapshot, since, upto):
        return None
    if not snapshot.commits.fed(since + 1, upto):
        found = _moved(snapshot, since, upto)
        try:
            return by_arrow(found, snapshot.schema, columns) if found.rows <= most else None
        except UntoldError as error:
            raise _gap(snapshot, since, upto, str(error)) from error
        except FileNotFoundError as error:
            raise _gap(snapshot, since, upto, "its files were removed (VACUUM)") from error
    feed = _by_delta_rs(snapshot, since + 1, upto, columns, most)
    return None if feed is None else of_change_feed(feed, columns)


def _moved(snapshot: Snapshot, since: int, upto: int) -> Moved:
    """The files that tell the changes. Raises GapError where files alone don't, of this table or of this range."""
    if beside := native.refusal_of_files(native.table(snapshot.path, upto)):
        raise _gap(snapshot, since, upto, f"the change feed was off for a while, and files don't tell all: {beside}")
    try:
        return moved(snapshot.path, since, upto)
    except UntoldError as error:
        raise _gap(snapshot, since, upto, f"it has no feed, and {error}") from error


def _add_up(snapshot: Snapshot, since: int, upto: int, told: int, spark: Callable[[], SparkSession]) -> None:
    """Raises GapError where the table did not grow by as many rows as its feed tells."""
    gained = _gained(snapshot, since, upto, spark)
    if told != gained:
        raise _gap(snapshot, since, upto, f"by it the table has {told:+,} rows, by its files {gained:+,}")


def _gap(snapshot: Snapshot, since: int, upto: int, why: str) -> GapError:
    return GapError(
        f"the change feed of {snapshot.name.lower()!r} has a gap between versions {since} and {upto}: {why}"
    )


def _by_delta_rs(snapshot: Snapshot, first: int, last: int, columns: Sequence[str], most: int) -> pa.Table | None:
    """The feed, or None where delta-rs can't read it."""
    try:
        return RustTable(snapshot.path).feed(first, last, columns, most)
    # delta-rs, DataFusion and Arrow raise classes of their own, some of them bare Exceptions
    except Exception as error:  # noqa: BLE001
        _log.info("delta-rs can't read the feed of %s (%s); Spark reads it", snapshot.path, error)
        return None


def _by_spark(
    snapshot: Snapshot, first: int, last: int, columns: Sequence[str], most: int, spark: SparkSession
) -> pa.Table:
    try:
        return plain(_feed(snapshot, first, last, columns, spark).limit(most + 1).toArrow())
    except GapError:
        raise
    except Exception as error:
        raise _unread(snapshot, first, last, error) from error


def _staged(
    snapshot: Snapshot, first: int, last: int, columns: Sequence[str], spark: SparkSession, staging: Location
) -> StagedRows:
    """The feed as a delta, made by Spark; of what Delta's reader can't read, by Spark of what delta-rs reads."""
    try:
        try:
            return _weighted(_feed(snapshot, first, last, columns, spark), snapshot, columns, spark, staging)
        except Exception as error:
            if snapshot.by_spark or _HIDES_MUCH not in str(error):
                raise
            staging.drop()
        place = staging.parent / f"{staging.name}_feed"
        place.make()
        RustTable(snapshot.path).feed_into(first, last, columns, place)
        return _weighted(_signed(spark.read.parquet(place.spark), columns), snapshot, columns, spark, staging)
    except (GapError, StateError):
        raise
    except Exception as error:
        raise _unread(snapshot, first, last, error) from error


#: What Spark says where a commit hides so many more rows of a file that they fill 64 KiB as a bitmap:
#: https://github.com/delta-io/delta/issues/5662, open with Delta 4.4.
_HIDES_MUCH = "UTFDataFormatException"


def _weighted(
    changes: DataFrame, snapshot: Snapshot, columns: Sequence[str], spark: SparkSession, staging: Location
) -> StagedRows:
    """Changes as a delta."""
    view = f"__ivm_feed_{staging.name}"
    kept = [c for c in snapshot.columns if c.name in columns]
    weighted = f"SELECT {columns_sql([*columns, WEIGHT])} FROM {ident(view)}"
    changes.createOrReplaceTempView(view)
    try:
        return stage(spark, ones(weighted, kept), staging, (*kept, Column(WEIGHT, "int")))
    finally:
        spark.catalog.dropTempView(view)


def _feed(snapshot: Snapshot, first: int, last: int, columns: Sequence[str], spark: SparkSession) -> DataFrame:
    """The columns and WEIGHT, as Spark reads them. Raises GapError where the files that moved don't tell."""
    if not snapshot.commits.fed(first, last):
        types = {c.name: c for c in snapshot.columns}
        try:
            return by_spark(_moved(snapshot, first - 1, last), [types[c] for c in columns], spark)
        except UntoldError as error:
            raise _gap(snapshot, first - 1, last, str(error)) from error
    return _signed(SparkTable(snapshot.path, lambda: spark).feed_frame(first, last, columns), columns)


def _signed(feed: DataFrame, columns: Sequence[str]) -> DataFrame:
    """A change feed's columns and WEIGHT."""
    gone = "`_change_type` IN ('delete', 'update_preimage')"
    return feed.selectExpr(*(ident(c) for c in columns), f"CASE WHEN {gone} THEN -1 ELSE 1 END AS {ident(WEIGHT)}")


def _unread(snapshot: Snapshot, first: int, last: int, error: Exception) -> GapError:
    text = str(error)
    why = next(
        (meaning for condition, meaning in _GAPS if condition in text), f"Spark can't read it: {error_text(error)}"
    )
    return _gap(snapshot, first - 1, last, why)


def _gained(snapshot: Snapshot, since: int, upto: int, spark: Callable[[], SparkSession]) -> int:
    """By how many rows the table grew: from its log, else by counting both versions."""
    gained = snapshot.commits.gained(since + 1, upto)
    return gained if gained is not None else _rows(snapshot, upto, spark) - _rows(snapshot, since, spark)


def _rows(snapshot: Snapshot, version: int, spark: Callable[[], SparkSession]) -> int:
    if not snapshot.by_spark:
        try:
            return RustTable(snapshot.path).count(version)
        except Exception as error:  # noqa: BLE001 - as above
            _log.info("delta-rs can't count version %s of %s (%s); Spark counts", version, snapshot.path, error)
    try:
        return SparkTable(snapshot.path, spark).count(version)
    except Exception as error:
        raise _gap(
            snapshot, version, snapshot.version, f"the rows of version {version} can't be counted: {error_text(error)}"
        ) from error
