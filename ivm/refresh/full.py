"""The full refresh of a unit: Spark computes it from the frozen versions into staging; nothing is published yet.

Where the published table exists with the same columns, the result is compared with it and only the difference is
published, so that a full refresh ripples no further than what it changed, and readers downstream stay incremental.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace

import pyarrow as pa

from ivm.engine.rows import few, stage, write_counted
from ivm.execute.fixpoint import compute
from ivm.lake.intact import read_through
from ivm.lake.shapes import arrow_schema, plain
from ivm.lake.types import stored_schema
from ivm.names import WEIGHT, parquet_ref
from ivm.plan.kinds import Publish, StrategyKind
from ivm.plan.nodes import EPOCH, Column, Leaf, Unit
from ivm.planner.choose import wide_products
from ivm.planner.strategy import Full
from ivm.refresh.inputs import Inputs
from ivm.refresh.instead import RECOVERED, told
from ivm.refresh.planning import ANEW
from ivm.refresh.records import Cursor, Outcome, UnitState
from ivm.refresh.relations import signed, unit_table
from ivm.refresh.settings import settings
from ivm.rewrite.accumulators import accumulator_columns
from ivm.rewrite.statements import accumulate, consolidated, final_rows
from ivm.session import own_condition, stored_as_read
from ivm.sql.maps import has_map
from ivm.sql.padding import keeps_padding
from ivm.sql.render import core_sql, unit_sql
from ivm.sql.temporal import at_instant
from ivm.sql.text import splice
from ivm.storage.location import Location
from ivm.table.own import own
from ivm.table.protocol import Commit
from ivm.times.ranges import with_epoch
from ivm.trace.store import TRACE_CONFIGURATION, append_batch

_log = logging.getLogger(__name__)


class FullBuild:
    """Builds units in full within one epoch; the handler of `ivm.planner.strategy.Full`."""

    def __init__(self, inputs: Inputs, attempt: str) -> None:
        self.inputs, self.attempt = inputs, attempt
        self.context, self.plan, self.manifest, self.outcomes, self.snapshots = (
            inputs.context,
            inputs.plan,
            inputs.manifest,
            inputs.outcomes,
            inputs.snapshots,
        )

    def is_small(self, view: str, unit: str) -> bool:
        """Whether a unit reads so little that planning its statement costs more than running it."""
        try:
            rows = [self.inputs.rows_now(r) for r in self.inputs.reads(view, unit)]
        except Exception as error:  # noqa: BLE001 - what can't be counted will say so when it is read
            _log.info("the size of what %s reads is unknown: %s", unit, error)
            return False
        return all(n is not None for n in rows) and sum(n or 0 for n in rows) <= self.context.limits.small_build_rows

    def run(self, view: str, unit: str, strategy: Full) -> Outcome:
        """A unit's (or a view's, where it has no program) outcome, which may be an error."""
        first = self._first_error(view, strategy)
        try:
            warning = self._warning(view, unit) if strategy.code in ("first_build", "definition_changed") else ""
            done = self._build(view, unit, strategy.code, strategy.reason)
            return replace(done, warning="; ".join(filter(None, (warning, done.warning))), first_error=first)
        except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
            return Outcome(
                unit, view, StrategyKind.FULL, "failed", "", Publish.NONE, None, error=told(error), first_error=first
            )

    def _first_error(self, view: str, strategy: Full) -> str:
        """What the incremental refresh failed with, in this epoch or in an earlier one."""
        if strategy.code != RECOVERED:
            return ""
        known = self.manifest.failing.get(view)
        return known.incremental if self.plan.tasks[view].code == RECOVERED and known is not None else strategy.reason

    def _warning(self, view: str, unit: str) -> str:
        """What makes a unit costly to keep, if anything does."""
        if unit not in self.inputs.units:
            return ""
        rows = {r: self.inputs.rows_now(r) for r in self.inputs.reads(view, unit)}
        warning = "; ".join(wide_products(self.inputs.units[unit], rows, self.context.limits))
        if warning:
            _log.warning("view %s: %s", view, warning)
        return warning

    def _build(self, view: str, unit_name: str, code: str, reason: str) -> Outcome:
        """Compute a unit (or a view without a program) into staging, or into a batch of its output trace."""
        started = time.perf_counter()
        cursors = {r: self.inputs.cursor(r) for r in self.inputs.reads(view, unit_name)}
        compiled = self.context.compiled[view]
        unit = self.inputs.units.get(unit_name)
        before = self.manifest.units.get(unit_name) if code not in ANEW else None
        # Named by the epoch and the attempt that build it, so that one that was abandoned, or still runs, is never met.
        generation = f"{self.plan.epoch}_{self.attempt}"
        if unit is None:
            sql = self._own_text(view)
        elif unit.reduce is not None and unit.reduce.linear:
            sql = final_rows(unit, f"SELECT * FROM {self._build_accumulators(unit, generation)}")
        elif unit.fixpoint:
            sql = compute(
                self.context.spark(), unit, self._leaf, self.context.layout.scratch(self.plan.epoch, self.attempt)
            )
        else:
            sql = unit_sql(unit, self._leaf)
        columns = unit.columns if unit else compiled.program.columns
        staging, warning = self._staging(unit_name), ""
        try:
            schema, rows = self._stage(view, sql, columns, staging)
        except Exception as error:
            if unit is None or unit_name != view or compiled.program.rules or own_condition(told(error)):
                raise
            staging = self._staging(f"{unit_name}__as_written")
            schema, rows = self._staged_as_written(view, columns, staging, error)
            warning = f"its compiled statement fails in Spark, so it was run as it is written: {told(error)}"
        batch = self._difference(unit_name, before, schema, columns, staging, rows)
        public = unit_name == view
        key = unit.key if unit else ()
        followed = before if batch is not None else None
        rows_out = rows if batch is None or followed is None else self._append(unit_name, followed, batch)
        # Readers of a unit that didn't change have nothing to read, as after an incremental refresh.
        epoch = followed.epoch if followed is not None and not rows_out else self.plan.epoch
        state = UnitState(
            compiled.definition, public, generation, followed.output_generation if followed else generation,
            followed.since if followed else self.plan.epoch, epoch, None, rows, schema, key, cursors,
            unit is None or unit.arranged,
            with_epoch(followed.batches, self.plan.epoch, self.manifest.epoch)
            if followed else ((self.plan.epoch, self.plan.epoch),),
            settings=settings(self.context.spark()),
        )  # fmt: skip
        return Outcome(
            unit_name, view, StrategyKind.FULL, code, reason,
            Publish.REPLACE if batch is None else Publish.MERGE if rows_out else Publish.NONE, state,
            rows_in=self._rows_in(cursors), rows_out=rows_out, seconds=time.perf_counter() - started,
            staging=staging.url if batch is None else "", warning=warning,
        )  # fmt: skip

    def _own_text(self, view: str) -> str:
        """The view's SQL as it is written, over the relations as they are in this epoch."""
        sql, program = self.context.views[view].sql, self.context.compiled[view].program
        sql = at_instant(sql, self.plan.now) if program.clocks else sql
        return splice(sql, {r: self.inputs.new(r) for r in program.relations})

    def _staging(self, what: str) -> Location:
        return self.context.layout.staging(self.plan.epoch, self.attempt, what)

    def _leaf(self, leaf: Leaf) -> str:
        return self.inputs.new(leaf.relation)

    def _rows_in(self, cursors: dict[str, Cursor]) -> int:
        return sum(self.inputs.rows_now(relation) or 0 for relation in cursors)

    # -- results ----------------------------------------------------------------------------------

    def _append(self, unit: str, before: UnitState, batch: pa.Table) -> int:
        """Append a batch to a unit's output trace; returns how many rows it has there."""
        generation = before.output_generation
        trace, app = self.context.layout.output_trace(unit, generation), self.context.app(unit, f"output/{generation}")
        return append_batch(trace, batch, self.plan.epoch, app)

    def _build_accumulators(self, unit: Unit, generation: str) -> str:
        """Write the accumulators' first batch as a new generation; returns how to read it."""
        assert unit.reduce is not None
        epoch, columns = self.plan.epoch, accumulator_columns(unit.reduce)
        sql = accumulate(unit, core_sql(unit.core, self._leaf), weighted=False)
        place = self._staging(f"{unit.name}__accumulators")
        staged = stage(self.context.spark(), sql, place, columns, {EPOCH: epoch})
        path = self.context.layout.accumulator_trace(unit.name, generation)
        app = self.context.app(unit.name, f"accumulators/{generation}")
        # A trace without batches is a table all the same.
        batch = few(staged, self.context.limits.compare_rows)
        own(path).append(batch, Commit(app, epoch), TRACE_CONFIGURATION)
        return staged.ref

    def _staged_as_written(
        self, view: str, columns: tuple[Column, ...], staging: Location, error: Exception
    ) -> tuple[str, int]:
        """As `_stage`, of the view's own SQL: Spark's optimizer fails on some statements in one form only.

        Where it fails as well, the `error` of the compiled statement is raised.
        """
        try:
            return self._stage(view, self._own_text(view), columns, staging)
        except Exception as another:
            raise error from another

    def _stage(self, view: str, sql: str, columns: tuple[Column, ...], staging: Location) -> tuple[str, int]:
        """Write the rows as Parquet under the view's own column names; returns schema (JSON) and row count."""
        frame = self.context.spark().sql(sql).toDF(*(c.name for c in columns))
        with stored_as_read(self.context.spark(), columns):
            rows = write_counted(frame, staging)
        return stored_schema(frame.schema.json(), keeps_padding(self.context.views[view].sql)), rows

    def _difference(
        self,
        unit: str,
        before: UnitState | None,
        schema: str,
        columns: tuple[Column, ...],
        staging: Location,
        rows: int,
    ) -> pa.Table | None:
        """The result less what is published, or None where the table must be replaced as a whole.

        So it must where the published rows can't be read any more: then a rebuild is what mends it.
        """
        if (
            before is None
            or before.version is None
            or before.schema != schema
            or max(rows, before.rows) > self.context.limits.compare_rows
        ):
            return None
        if any(has_map(c.type) or "variant" in c.type for c in columns):
            return None
        names = [c.name for c in columns]
        new, old = signed(parquet_ref(staging.url), names, 1), signed(unit_table(self.context, unit, before), names, -1)
        try:
            result = plain(self.context.spark().sql(consolidated(f"{new}\nUNION ALL\n{old}", columns)).toArrow())
        except Exception as error:
            if read_through(self.context.layout.table(unit, before.public)):
                raise
            _log.warning("the published rows of %s can't be read, so all are replaced: %s", unit, told(error))
            return None
        return result.cast(pa.schema([*arrow_schema(schema), pa.field(WEIGHT, pa.int64())]))
