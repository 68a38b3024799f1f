"""The full refresh of a unit: Spark computes it from the frozen versions into staging; nothing is published yet.

Where the published table exists with the same columns, the result is compared with it and only the difference is
published, so that a full refresh ripples no further than what it changed, and readers downstream stay incremental.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa

from ivm.errors import StateError
from ivm.feed.source import Snapshot
from ivm.lake import native
from ivm.lake.types import stored_schema
from ivm.names import ident, parquet_ref, spark_path, table_ref
from ivm.plan.nodes import EPOCH, WEIGHT, Column, Leaf, Unit
from ivm.refresh.context import Context
from ivm.refresh.fixpoint import compute
from ivm.refresh.plan import ANEW
from ivm.refresh.records import Cursor, EpochPlan, Manifest, Outcome, UnitState, with_epoch, within
from ivm.rewrite.accumulators import accumulator_columns
from ivm.rewrite.statements import accumulate, accumulated, consolidated, final_rows, repeated
from ivm.session import stored_as_read
from ivm.sql.maps import has_map
from ivm.sql.padding import keeps_padding
from ivm.sql.render import columns_sql, core_sql, unit_sql
from ivm.sql.text import splice
from ivm.storage.location import Location
from ivm.trace.store import TRACE_CONFIGURATION, append_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Up to this many rows a result is compared with what is published, and committed by the native lane.
COMPARE_ROWS = 1_000_000


class FullBuild:
    """Builds units in full within one epoch."""

    def __init__(
        self, context: Context, plan: EpochPlan, attempt: str, manifest: Manifest, outcomes: dict[str, Outcome], snapshots: dict[str, Snapshot]
    ) -> None:
        self.context, self.plan, self.attempt, self.manifest, self.outcomes, self.snapshots = context, plan, attempt, manifest, outcomes, snapshots

    def run(self, view: str, unit_name: str, code: str, reason: str, cursors: dict[str, Cursor]) -> Outcome:
        """Compute a unit (or a view without a program) into staging, or into a batch of its output trace."""
        started = time.perf_counter()
        compiled = self.context.compiled[view]
        unit = next((u for u in compiled.program.units if u.name == unit_name), None)
        before = self.manifest.units.get(unit_name) if code not in ANEW else None
        # Named by the epoch and the attempt that build it, so that one that was abandoned, or still runs, is never met.
        generation = f"{self.plan.epoch}_{self.attempt}"
        if unit is None:
            sql = splice(self.context.views[view].sql, {r: self._from(r) for r in compiled.program.relations})
        elif unit.reduce is not None and unit.reduce.linear:
            sql = final_rows(unit, f"SELECT * FROM {self._build_accumulators(unit, generation)}")
        elif unit.fixpoint:
            sql = compute(self.context.spark(), unit, self._leaf, self.context.layout.scratch(self.plan.epoch, self.attempt))
        else:
            sql = unit_sql(unit, self._leaf)
        columns = unit.columns if unit else compiled.program.columns
        staging = self._staging(unit_name)
        schema, rows = self._stage(sql, columns, staging, keeps_padding(self.context.views[view].sql))
        batch = self._difference(unit_name, before, schema, columns, staging, rows)
        public = unit_name == view
        key = unit.key if unit else ()
        follows = batch is not None and before is not None
        state = UnitState(
            compiled.definition, public, generation, before.output_generation if follows and before else generation,
            before.since if follows and before else self.plan.epoch, self.plan.epoch, None, rows, schema, key, cursors,
            unit is None or unit.arranged,
            with_epoch(before.batches, self.plan.epoch, self.manifest.epoch) if follows and before else ((self.plan.epoch, self.plan.epoch),),
        )  # fmt: skip
        rows_out = rows
        if batch is not None:
            append_batch(
                self.context.layout.output_trace(unit_name, state.output_generation),
                batch,
                self.plan.epoch,
                self.context.app(unit_name, f"output/{state.output_generation}"),
            )
            rows_out = batch.num_rows
        return Outcome(
            unit_name, view, "full", code, reason, "replace" if batch is None else "merge" if batch.num_rows else "none", state,
            rows_in=self._rows_in(cursors), rows_out=rows_out, seconds=time.perf_counter() - started, staging=staging.url if batch is None else "",
        )  # fmt: skip

    def _staging(self, what: str) -> Location:
        return self.context.layout.staging(self.plan.epoch, self.attempt, what)

    # -- inputs: the new state of each relation ----------------------------------------------------

    def _from(self, relation: str) -> str:
        if relation in self.snapshots:
            return self._source(relation, self.snapshots[relation].columns)
        return self._upstream(relation)

    def _leaf(self, leaf: Leaf) -> str:
        return self._from(leaf.relation)

    def _source(self, relation: str, columns: tuple[Column, ...]) -> str:
        snapshot = self.snapshots[relation]
        return f"(SELECT {columns_sql([c.name for c in columns])} FROM {table_ref(snapshot.path, self.plan.sources[relation].version)})"

    def _upstream(self, relation: str) -> str:
        outcome = self.outcomes.get(relation)
        state = outcome.state if outcome and outcome.state else self.manifest.units[relation]
        names = native.arrow_schema(state.schema).names
        columns = columns_sql(names)
        if outcome is not None and outcome.publish == "replace":
            return f"(SELECT {columns} FROM {parquet_ref(outcome.staging)})"
        if not state.arranged:
            return f"({stream_rows(self.context, relation, state, self.plan.epoch)})"
        before = self.manifest.units[relation]
        published = f"SELECT {columns} FROM {table_ref(self.context.layout.table(relation, before.public), before.version)}"
        if outcome is None or outcome.publish == "none":
            return f"({published})"
        trace = table_ref(self.context.layout.output_trace(relation, state.output_generation))
        weighted = f"SELECT {columns}, CAST(1 AS bigint) AS {ident(WEIGHT)} FROM ({published}) UNION ALL SELECT {columns}, {ident(WEIGHT)} FROM {trace} WHERE {ident(EPOCH)} = {self.plan.epoch}"
        return f"({repeated(weighted, self._columns(relation))})"

    def _columns(self, relation: str) -> tuple[Column, ...]:
        for compiled in self.context.compiled.values():
            for unit in compiled.program.units:
                if unit.name == relation:
                    return unit.columns
        return self.context.compiled[relation].program.columns

    def _rows_in(self, cursors: dict[str, Cursor]) -> int:
        total = 0
        for relation in cursors:
            if relation in self.snapshots:
                snapshot = self.snapshots[relation]
                total += 0 if snapshot.native else native.rows(native.table(snapshot.path))
            else:
                outcome = self.outcomes.get(relation)
                total += (outcome.state if outcome and outcome.state else self.manifest.units[relation]).rows
        return total

    # -- results ----------------------------------------------------------------------------------

    def _build_accumulators(self, unit: Unit, generation: str) -> str:
        """Write the accumulators' first batch as a new generation; returns how to read it."""
        spark, epoch = self.context.spark(), self.plan.epoch
        staging = self._staging(f"{unit.name}__accumulators")
        staged = write_counted(spark.sql(accumulate(unit, core_sql(unit.core, self._leaf), weighted=False)), staging)
        path = self.context.layout.accumulator_trace(unit.name, generation)
        app = self.context.app(unit.name, f"accumulators/{generation}")
        if staged <= COMPARE_ROWS:
            batch = native.plain(native.parquet(staging).to_table())
            if not append_batch(path, batch, epoch, app) and not native.exists(path):
                # A trace without batches is a table all the same.
                native.append(path, batch.append_column(EPOCH, pa.array([], pa.int64())), app, epoch, TRACE_CONFIGURATION)
        elif not self.context.layout.base.local:  # as in publishing: on an object store delta-rs alone commits
            native.append(path, native.stream(staging, **{EPOCH: epoch}), app, epoch, TRACE_CONFIGURATION)
        elif (native.last_txn(path, app) or 0) < epoch:
            rows = spark.sql(f"SELECT *, CAST({epoch} AS bigint) AS {ident(EPOCH)} FROM {parquet_ref(staging.url)}")
            assert unit.reduce is not None
            with stored_as_read(spark, accumulator_columns(unit.reduce)):
                rows.write.format("delta").mode("append").option("txnAppId", app).option("txnVersion", epoch).save(spark_path(path))
        return parquet_ref(staging.url)

    def _stage(self, sql: str, columns: tuple[Column, ...], staging: Location, keep_padding: bool) -> tuple[str, int]:
        """Write the rows as Parquet under the view's own column names; returns schema (JSON) and row count."""
        frame = self.context.spark().sql(sql).toDF(*(c.name for c in columns))
        with stored_as_read(self.context.spark(), columns):
            rows = write_counted(frame, staging)
        return stored_schema(frame.schema.json(), keep_padding), rows

    def _difference(self, unit: str, before: UnitState | None, schema: str, columns: tuple[Column, ...], staging: Location, rows: int) -> pa.Table | None:
        """The result less what is published, or None where the table must be replaced as a whole."""
        if before is None or before.version is None or before.schema != schema or max(rows, before.rows) > COMPARE_ROWS:
            return None
        if any(has_map(c.type) or "variant" in c.type for c in columns):
            return None
        names = [c.name for c in columns]
        path = self.context.layout.table(unit, before.public)
        new = f"SELECT {columns_sql(names)}, CAST(1 AS bigint) AS {ident(WEIGHT)} FROM {parquet_ref(staging.url)}"
        old = f"SELECT {columns_sql(names)}, CAST(-1 AS bigint) AS {ident(WEIGHT)} FROM {table_ref(path, before.version)}"
        result = native.plain(self.context.spark().sql(consolidated(f"{new}\nUNION ALL\n{old}", columns)).toArrow())
        return result.cast(pa.schema([*native.arrow_schema(schema), pa.field(WEIGHT, pa.int64())]))


def stream_rows(context: Context, name: str, state: UnitState, upto: int) -> str:
    """The rows of a unit that keeps none, as of an epoch, from its accumulators."""
    unit = next(u for c in context.compiled.values() for u in c.program.units if u.name == name)
    trace = table_ref(context.layout.accumulator_trace(name, state.generation))
    counted = within(state.batches, ident(EPOCH))
    return final_rows(unit, accumulated(unit, f"(SELECT * FROM {trace} WHERE {ident(EPOCH)} <= {upto} AND {counted})"))


def write_counted(frame: DataFrame, folder: Location) -> int:
    """Write rows as Parquet to a folder that isn't there yet; returns how many.

    Raises StateError where not as many rows lie there as were written: executors that have another disk, or somebody else's job.
    """
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    written = Observation()
    frame.observe(written, count(lit(1)).alias("rows")).write.option("compression", "zstd").parquet(folder.spark)
    found = int(native.parquet(folder).count_rows()) if folder.exists() else 0
    if found != written.get["rows"]:
        raise StateError(
            f"Spark wrote {written.get['rows']:,} rows to {folder}, and {found:,} are there.",
            "The root must be one folder that Spark's executors and this process both see; run the refresh again.",
        )
    return found
