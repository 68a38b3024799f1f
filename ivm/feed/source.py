"""A source: a Delta table with a change feed, and what a refresh must know of it before it starts.

Invariant: a version range is answered with its exact delta, or with the reason why there is none (a gap); a
gap is never an empty delta.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltalake.exceptions import DeltaError, TableNotFoundError

from ivm.errors import SourceError
from ivm.lake import native
from ivm.lake.types import columns_of
from ivm.names import is_path, literal, table_ref
from ivm.plan.nodes import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FEED = "delta.enableChangeDataFeed"


@dataclass(frozen=True)
class Source:
    """A declared source. `primary_key` and `foreign_keys` (columns -> source) only steer the planner.

    `effective_date` is the column that tells from which day a row holds, "" where rows hold as soon as they are there.
    """

    name: str
    location: str
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[tuple[tuple[str, ...], str], ...] = ()
    effective_date: str = ""


@dataclass(frozen=True)
class Snapshot:
    """A source as it is now. `path` is its folder; `native` is empty if delta-rs may read it, else why not.

    `schema` is Delta's own, in JSON.
    """

    version: int
    table_id: str
    columns: tuple[Column, ...]
    path: str
    native: str
    schema: str


def inspect(source: Source, spark: SparkSession | None, lane: str) -> Snapshot:
    """Look at a source. Raises SourceError where it isn't a Delta table with a change feed.

    `spark` is needed for catalog identifiers and for tables that delta-rs can't open.
    """
    path = source.location
    if not is_path(path):
        path = _catalog_location(source, spark)
    if native.is_local(path):
        return _inspect_native(source, native.local_path(path), lane)
    return _inspect_spark(source, path, spark)


def _inspect_native(source: Source, path: str, lane: str) -> Snapshot:
    if not Path(path).exists():
        raise SourceError(f"Source {source.name!r}: there is nothing at {path}.", "Check the path of the source.")
    try:
        delta = native.table(path)
    except (TableNotFoundError, DeltaError) as error:
        if not (Path(path) / "_delta_log").exists():
            raise SourceError(
                f"Source {source.name!r}: {path} is not a Delta table (it has no _delta_log).",
                f"For a folder of Parquet files run CONVERT TO DELTA parquet.`{path}` first.",
            ) from error
        raise SourceError(f"Source {source.name!r}: {path} can't be opened ({error}).", "Check the table's log.") from error
    metadata = delta.metadata()
    _require_feed(source, metadata.configuration)
    schema = delta.schema().to_json()
    columns = columns_of(schema)
    _require_key(source, columns)
    refused = "the Spark lane is set" if lane == "spark" else native.refusal(delta)
    return Snapshot(delta.version(), str(metadata.id), columns, path, refused, schema)


def _inspect_spark(source: Source, path: str, spark: SparkSession | None) -> Snapshot:
    if spark is None:
        raise SourceError(f"Source {source.name!r} at {path} needs a Spark session to be read.", "Pass spark= or set IVM_SPARK_REMOTE.")
    from pyspark.errors import PySparkException

    ref = table_ref(source.location)
    try:
        detail = spark.sql(f"DESCRIBE DETAIL {ref}").first()
        version = spark.sql(f"DESCRIBE HISTORY {ref} LIMIT 1").first()
        schema = spark.sql(f"SELECT * FROM {ref} LIMIT 0").schema
    except PySparkException as error:
        raise SourceError(f"Source {source.name!r}: {source.location} can't be read as a Delta table.", f"Spark says: {str(error).splitlines()[0]}") from error
    assert detail is not None
    assert version is not None
    _require_feed(source, detail["properties"] or {})
    columns = tuple(Column(f.name, f.dataType.simpleString()) for f in schema.fields)
    _require_key(source, columns)
    return Snapshot(int(version["version"]), str(detail["id"]), columns, path, "not a local path", schema.json())


def _catalog_location(source: Source, spark: SparkSession | None) -> str:
    from pyspark.errors import PySparkException

    if spark is None:
        raise SourceError(f"Source {source.name!r} is a catalog identifier ({source.location}), which needs a Spark session.", "Pass spark= or give a path.")
    try:
        row = spark.sql(f"DESCRIBE DETAIL {table_ref(source.location)}").first()
    except PySparkException as error:
        raise SourceError(
            f"Source {source.name!r}: the catalog has no table {source.location!r}.", f"A path must contain a slash. Spark says: {str(error).splitlines()[0]}"
        ) from error
    if row is None or row["format"] != "delta":
        raise SourceError(f"Source {source.name!r}: {source.location} is not a Delta table.", "Convert it with CONVERT TO DELTA.")
    return str(row["location"]).replace("file:///", "/").replace("file:/", "/")


def _require_feed(source: Source, properties: dict[str, Any]) -> None:
    if str(properties.get(_FEED, "false")).lower() != "true":
        raise SourceError(
            f"Source {source.name!r} ({source.location}) has no change data feed.",
            f"Switch it on with: ALTER TABLE {table_ref(source.location)} SET TBLPROPERTIES ({literal(_FEED)} = 'true')",
        )


def _require_key(source: Source, columns: tuple[Column, ...]) -> None:
    names = {c.name.lower() for c in columns}
    declared = [*source.primary_key, *(c for cs, _ in source.foreign_keys for c in cs), *([source.effective_date] if source.effective_date else [])]
    missing = [k for k in declared if k.lower() not in names]
    if missing:
        raise SourceError(
            f"Source {source.name!r}: the declared key column(s) {', '.join(missing)} don't exist.", f"There are: {', '.join(c.name for c in columns)}."
        )


def gap(snapshot: Snapshot, version: int, table_id: str) -> str:
    """Why the feed can't tell what changed since `version` of table `table_id`; empty if it can."""
    if snapshot.table_id != table_id:
        return "the source was replaced by another table"
    if snapshot.version < version:
        return f"the source went back from version {version} to {snapshot.version}"
    if not native.is_local(snapshot.path):
        return ""
    log = Path(snapshot.path) / "_delta_log"
    for commit in range(version + 1, snapshot.version + 1):
        file = log / f"{commit:020d}.json"
        if not file.exists():
            return f"the log of version {commit} is gone"
        for line in file.read_text().splitlines():
            action = json.loads(line)
            operation = (action.get("commitInfo") or {}).get("operation", "")
            if operation == "RESTORE":
                return f"the source was restored at version {commit}"
            configuration = (action.get("metaData") or {}).get("configuration")
            if configuration is not None and str(configuration.get(_FEED, "false")).lower() != "true":
                return f"the change feed was off at version {commit}"
    return ""
