"""Replacing all rows of a published table by those that an epoch staged, in one commit.

few rows                    delta-rs, row by row
many                        their files take the place of the table's
what delta-rs can't hold or write, on a folder      Spark
"""

from __future__ import annotations

from collections.abc import Mapping

from ivm.errors import StateError
from ivm.lake import native, parquet
from ivm.lake.files import commit_files, takes_files
from ivm.lake.shapes import arrow_schema
from ivm.lake.types import beyond_arrow, columns_of, padded_columns
from ivm.names import parquet_ref, spark_path, table_ref
from ivm.refresh.context import Context
from ivm.refresh.records import Outcome
from ivm.session import stored_as_read
from ivm.sql.render import columns_sql
from ivm.storage.location import Location


def refused_features(context: Context, path: str) -> str:
    """The features of a published table that its owner gave it and delta-rs can't write: Spark publishes there.

    Raises StateError at a remote root, where Spark's commits beside delta-rs's could be lost.
    """
    features = native.unwritable(native.table(path)) if native.exists(path) else ""
    if features and not context.layout.base.local:
        raise StateError(
            f"The published table {path} has features that only Spark can write ({features}), and in an object store "
            "only delta-rs commits.",
            native.drop_features(path, features),
        )
    return features


def replace_rows(context: Context, path: str, outcome: Outcome, epoch: int, app: str, note: Mapping[str, str]) -> None:
    """Overwrite the table with an outcome's staged rows, with a `note` in the commit; nothing where that was done.

    Raises StateError where only Spark could, and must not (see `refused_features`).
    """
    state = outcome.state
    assert state is not None
    if native.last_txn(path, app) == epoch:
        return
    schema, staging = arrow_schema(state.schema), Location.of(outcome.staging)
    alone = beyond_arrow(state.schema) or refused_features(context, path)
    configuration = context.retention.output()
    if state.rows <= context.limits.compare_rows and not alone:
        native.overwrite(path, parquet.stream(staging, schema), app, epoch, configuration, note)
    elif not alone and not padded_columns(state.schema) and takes_files(path, schema):
        commit_files(path, staging, app, epoch, "overwrite", schema, configuration, note)
    elif not context.layout.base.local and not alone:
        native.overwrite(path, parquet.stream(staging, schema), app, epoch, configuration, note)
    else:
        _by_spark(context, path, outcome, epoch, app, note)


def _by_spark(context: Context, path: str, outcome: Outcome, epoch: int, app: str, note: Mapping[str, str]) -> None:
    assert outcome.state is not None
    columns, clustered = columns_of(outcome.state.schema), _clustering(context, path)
    writer = (
        context.spark()
        .sql(f"SELECT * FROM {parquet_ref(outcome.staging)}")
        .write.format("delta")
        .mode("overwrite")
        .option("overwriteSchema", "true")
        .option("txnAppId", app)
        .option("txnVersion", epoch)
    )
    for key, value in {**context.retention.output(), **note}.items():
        writer = writer.option(key, value)
    with stored_as_read(context.spark(), columns):
        writer.save(spark_path(path))
    if clustered and set(clustered) <= {c.name for c in columns}:
        # Delta forgets it when rows are replaced. A stop in between leaves the right rows, as they come.
        context.spark().sql(f"ALTER TABLE {table_ref(path)} CLUSTER BY ({columns_sql(clustered)})").collect()


def _clustering(context: Context, path: str) -> list[str]:
    """The columns by which the owner of a published table had it clustered."""
    if not native.exists(path) or "clustering" not in native.unwritable(native.table(path)):
        return []
    return list(context.spark().sql(f"DESCRIBE DETAIL {table_ref(path)}").collect()[0]["clusteringColumns"])
