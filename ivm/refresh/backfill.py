"""Rebuild a slice of a view: recompute the rows that satisfy a condition, publish what differs as an epoch of its own.

The slice is recomputed at the versions the view has read, so it needs no change in a source: it repairs. For a view
with accumulators the condition may name group keys only, and the groups' accumulators are rebuilt with the rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.errors import PySparkException

from ivm.engine.results import Results
from ivm.engine.rows import Rows
from ivm.errors import ConfigError, StateError
from ivm.lake.shapes import arrow_schema
from ivm.names import WEIGHT, ident
from ivm.parameters import shown
from ivm.plan.kinds import Publish, StrategyKind
from ivm.plan.nodes import COUNT, Column, Unit
from ivm.refresh.context import Context
from ivm.refresh.definitions import difference
from ivm.refresh.guard import step
from ivm.refresh.integrity import base, inspect_tables, next_epoch
from ivm.refresh.planning import write_plan
from ivm.refresh.protocol import Run, advance
from ivm.refresh.records import EpochPlan, Manifest, Outcome, ViewTask
from ivm.refresh.relations import as_read, signed, sums, unit_table
from ivm.refresh.run import Gate, Report, abandon, committed_or_raise, in_one_go, view_reports
from ivm.refresh.settings import changed, settings
from ivm.refresh.verify import recompute_sql
from ivm.rewrite.accumulators import accumulator_columns, accumulators
from ivm.rewrite.statements import accumulate, consolidated
from ivm.session import SparkAnalyzer, error_text
from ivm.sql.condition import parse_condition
from ivm.sql.render import columns_sql, core_sql, typed_nulls
from ivm.table.own import own
from ivm.times.ranges import with_epoch
from ivm.trace.store import append_batch


@step
def backfill_slice(context: Context, view: str, where: str, gate: Gate) -> Report:
    """Raises ConfigError for a condition that isn't one over the view's columns (group keys).

    Raises StateError before the first refresh, with an open epoch, and where the view failed, its last batch was
    wrong, or its state was damaged, which a slice can't mend.
    """
    started = time.perf_counter()
    committed_or_raise(context, view)
    open_epoch = context.log.open_epoch()
    if (
        open_epoch is not None
        and in_one_go(context.log.plan(open_epoch))
        and not context.log.has(open_epoch, "checked")
    ):
        abandon(context, context.log.plan(open_epoch))
    elif open_epoch is not None:
        raise StateError("An epoch is open: an earlier refresh did not end.", "Run a refresh first, then the backfill.")
    compiled = context.compiled[view]
    where = check_condition(context, view, where)
    integrity = inspect_tables(context, context.log.manifest())
    damaged = next((integrity.damaged[u] for u in compiled.unit_names if u in integrity.damaged), "")
    state = context.log.manifest().units[view]
    other = difference(state.definition, compiled, context.layout.programs)
    other = other or changed(state.settings, settings(context.spark()))
    if other:
        raise StateError(
            f"{view!r} is built by another definition or in another session: {other}.",
            "Run a refresh first, which rebuilds it.",
        )
    failure = context.log.manifest().failing.get(view)
    if failure is not None:
        raise StateError(
            f"{view!r} failed in epoch {failure.epoch}: {failure.full or failure.incremental}",
            "Run a refresh first, which builds it anew.",
        )
    held = context.log.manifest().held.get(view)
    if held is not None and held.impossible:
        raise StateError(
            f"The batch of {view!r} of epoch {held.epoch} was wrong: {held.reason}.",
            "Run a refresh first, which builds the view anew.",
        )
    if damaged:
        raise StateError(
            f"The state of {view!r} is not what the last epoch left: {damaged}.",
            f"Rebuild the whole view: `ivm repair {view}`.",
        )
    task = ViewTask(StrategyKind.INCREMENTAL, "backfill", f"the slice {where} was rebuilt", compiled.definition)
    plan = EpochPlan(
        next_epoch(context, integrity), context.log.manifest().sources, {view: task}, adopted=integrity.adopted
    )
    write_plan(context, plan)
    try:
        outcome = _apply_slice(context, plan, view, where, started)
    except Exception:
        abandon(context, plan)
        raise
    run = Run(context, gate, plan=plan, outcomes=context.log.record_outcomes(plan.epoch, [outcome]))
    advance(run, "check", "publish")
    return Report(
        plan.epoch, view_reports(context, plan, run.outcomes, [view]), round(time.perf_counter() - started, 3)
    )


def _apply_slice(context: Context, plan: EpochPlan, view: str, where: str, started: float) -> Outcome:
    """The slice's difference to what is published, appended to the view's traces."""
    manifest = base(context, plan)
    state, task, compiled = manifest.units[view], plan.tasks[view], context.compiled[view]
    names = [c.name for c in compiled.program.columns]
    published = f"{signed(unit_table(context, view, state), names, -1)} WHERE {where}"
    fresh = f"{signed(f'({recompute_sql(context, view, manifest)}) AS `__ivm_recomputed`', names, 1)} WHERE {where}"
    scratch = context.layout.scratch(plan.epoch, "slice")
    results = Results(context.spark, scratch, plan.epoch, context.limits.result_rows)
    sql = consolidated(f"{fresh}\nUNION ALL\n{published}", compiled.program.columns)
    rows = results.rows(sql, (*compiled.program.columns, Column(WEIGHT, "bigint")))
    batch = _stored(rows, pa.schema([*arrow_schema(state.schema), pa.field(WEIGHT, pa.int64())]))
    unit = compiled.program.units[-1] if compiled.program.units else None
    if unit is not None and unit.reduce is not None and unit.reduce.linear:
        _rebuild_accumulators(context, unit, manifest, where, results)
    append_batch(
        context.layout.output_trace(view, state.output_generation),
        batch,
        plan.epoch,
        context.app(view, f"output/{state.output_generation}"),
    )
    scratch.drop()
    after = replace(
        state,
        epoch=plan.epoch if batch.num_rows else state.epoch,
        batches=with_epoch(state.batches, plan.epoch, manifest.epoch),
    )
    seconds = time.perf_counter() - started
    publish = Publish.MERGE if batch.num_rows else Publish.NONE
    return Outcome(
        view,
        view,
        StrategyKind.INCREMENTAL,
        task.code,
        task.reason,
        publish,
        after,
        rows_out=batch.num_rows,
        seconds=seconds,
    )


def check_condition(context: Context, view: str, where: str) -> str:
    """The condition as it goes into statements (see `ivm.sql.condition`).

    Raises ConfigError where `where` is not a boolean over the columns that the view can be sliced by.
    """
    program = context.compiled_or_raise(view).program
    unit = program.units[-1] if program.units else None
    columns = list(program.columns)
    what = "columns"
    if unit is not None and unit.reduce is not None and unit.reduce.linear:
        keys = [o for o in unit.key_outputs() if o]
        columns = [c for c in columns if c.name in keys]
        what = "group keys (its sums are kept by group)"
    if not columns:
        raise ConfigError(f"View {view!r} has no group keys to slice by.", "Backfill the whole view.")
    return condition_over(context, view, where, columns, what)


def condition_over(context: Context, view: str, where: str, columns: Sequence[Column], what: str) -> str:
    """The condition as it goes into statements. Raises ConfigError where it is not a boolean over these columns."""
    condition = parse_condition(where)
    nulls = typed_nulls(columns)
    message = f"{shown(where)} is not a condition over the {what} of view {view!r}"
    listed = f"There are: {', '.join(c.name for c in columns)}."
    try:
        # Spark must take the user's own text as well, so that no spelling is read into it that Spark doesn't have;
        # it is only analysed.
        context.spark().sql(f"SELECT ({where}\n) AS c FROM {nulls}")
        found = context.spark().sql(f"SELECT ({condition}) AS c FROM {nulls}").schema["c"].dataType.simpleString()
        complaint = SparkAnalyzer(context.spark()).scalar([condition], nulls)
    except PySparkException as error:
        raise ConfigError(f"{message}: {error_text(error)}", listed) from error
    if found != "boolean" or complaint:
        raise ConfigError(f"{message}: {complaint or 'its type is ' + found}.", listed)
    return condition


def _stored(rows: Rows, schema: pa.Schema) -> Rows:
    """Rows with the types of a trace; staged ones have them."""
    return rows.cast(schema) if isinstance(rows, pa.Table) else rows


def _rebuild_accumulators(context: Context, unit: Unit, manifest: Manifest, where: str, results: Results) -> None:
    """Append what the slice's groups lack, so that their sums are those of a new build."""
    state = manifest.units[unit.name]
    assert unit.reduce is not None
    columns = accumulator_columns(unit.reduce)
    path = context.layout.accumulator_trace(unit.name, state.generation)
    keys = [k.name for k in unit.reduce.keys]
    names = [*(a.name for a in accumulators(unit.reduce)), COUNT]
    renamed = ", ".join(f"{ident(k)} AS {ident(str(o))}" for k, o in zip(keys, unit.key_outputs(), strict=True) if o)

    def sliced(rows: str, sign: str) -> str:
        outs = ", ".join([*(f"r.{ident(k)}" for k in keys), *(f"{sign}r.{ident(s)} AS {ident(s)}" for s in names)])
        return (
            f"SELECT {outs} FROM ({rows}) AS r LEFT SEMI JOIN (SELECT * FROM (SELECT {renamed} FROM ({rows})) "
            f"WHERE {where}) AS w ON {on}"
        )

    on = " AND ".join(f"r.{ident(k)} <=> w.{ident(str(o))}" for k, o in zip(keys, unit.key_outputs(), strict=True) if o)
    fresh = accumulate(unit, core_sql(unit.core, as_read(context, manifest, state)), weighted=False)
    both = f"{sliced(fresh, '')} UNION ALL {sliced(sums(context, unit, state), '-')}"
    added = ", ".join(
        [
            *(ident(k) for k in keys),
            *(f"CAST(SUM({ident(c.name)}) AS {c.type}) AS {ident(c.name)}" for c in columns if c.name not in keys),
        ]
    )
    having = " OR ".join(f"SUM({ident(s)}) <> 0" for s in names)
    batch = results.rows(f"SELECT {added} FROM ({both}) GROUP BY {columns_sql(keys)} HAVING {having}", columns)
    schema = arrow_schema(own(path).snapshot().schema)
    append_batch(
        path,
        _stored(batch, pa.schema([schema.field(c.name) for c in columns])),
        results.epoch,
        context.app(unit.name, f"accumulators/{state.generation}"),
    )
