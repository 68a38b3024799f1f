"""Steps 4 and 5, publish and commit: merge each unit's batch into its table, then write the manifest.

Every write carries the epoch as its transaction version, so a second run of this step changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc
import pyarrow.dataset as pads

from ivm.lake import native
from ivm.names import ident
from ivm.plan.nodes import EPOCH, WEIGHT
from ivm.refresh.context import Context
from ivm.refresh.full import COMPARE_ROWS
from ivm.refresh.records import Cursor, EpochPlan, Manifest, Outcome, UnitState, to_json
from ivm.trace.store import OUTPUT_CONFIGURATION


def publish_epoch(context: Context, plan: EpochPlan, outcomes: dict[str, Outcome]) -> Manifest:
    """Publish all outcomes of an epoch and commit it. Returns the committed manifest."""
    context.log.record(plan.epoch, "publishing")
    before = context.log.manifest()
    units = dict(before.units)
    good = [o for o in outcomes.values() if not o.error and o.state is not None]
    for i, outcome in enumerate(good):
        units[outcome.unit] = _publish_unit(context, plan.epoch, outcome, before.units.get(outcome.unit))
        context.progress("publish", i + 1, len(good))
    for outcome in good:
        units[outcome.unit] = _with_upstream_versions(units[outcome.unit], units)
    manifest = Manifest(plan.epoch, plan.sources, units)
    context.log.record(plan.epoch, "committed", detail=to_json(manifest))
    for outcome in good:
        context.layout.drop(context.layout.staging(outcome.unit, plan.epoch))
        context.layout.drop(context.layout.staging(f"{outcome.unit}__accumulators", plan.epoch))
    return manifest


def _publish_unit(context: Context, epoch: int, outcome: Outcome, before: UnitState | None) -> UnitState:
    state = outcome.state
    assert state is not None
    path = context.layout.table(outcome.unit, state.public)
    app = context.app(outcome.unit, "table")
    if not state.arranged:
        if outcome.publish != "merge" or before is None:
            return state
        trace = native.table(context.layout.output_trace(outcome.unit, state.output_generation))
        gained = pc.sum(native.read(trace, [WEIGHT], f"{EPOCH} = {epoch}")[WEIGHT]).as_py() or 0
        return replace(state, rows=before.rows + gained)
    if outcome.publish == "none":
        return replace(state, version=before.version, rows=before.rows) if before is not None else state
    if outcome.publish == "replace":
        _replace(context, path, outcome, epoch, app)
    else:
        trace = native.table(context.layout.output_trace(outcome.unit, state.output_generation))
        schema = native.arrow_schema(state.schema)
        batch = native.read(trace, [*schema.names, WEIGHT], f"{EPOCH} = {epoch}")
        native.merge(path, batch, state.key, app, epoch)
    published = native.table(path)
    return replace(state, version=published.version(), rows=native.rows(published))


def _replace(context: Context, path: str, outcome: Outcome, epoch: int, app: str) -> None:
    """Overwrite the table with the staged rows; a small result by the native lane, a large one by Spark."""
    state = outcome.state
    assert state is not None
    staging = context.layout.staging(outcome.unit, epoch)
    if native.last_txn(path, app) == epoch:
        return
    if state.rows <= COMPARE_ROWS:
        rows = native.plain(pads.dataset(staging, format="parquet").to_table())
        native.overwrite(path, rows.cast(native.arrow_schema(state.schema)), app, epoch, OUTPUT_CONFIGURATION)
        return
    writer = context.spark().sql(f"SELECT * FROM parquet.{ident(staging)}").write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    for key, value in OUTPUT_CONFIGURATION.items():
        writer = writer.option(key, value)
    writer.option("txnAppId", app).option("txnVersion", epoch).save(path)


def _with_upstream_versions(state: UnitState, units: dict[str, UnitState]) -> UnitState:
    """Cursors on other units get the table version that the commit gave them."""
    cursors = {
        r: Cursor(units[r].version, epoch=units[r].epoch) if r in units and c.version is None and c.epoch == units[r].epoch else c
        for r, c in state.cursors.items()
    }
    return replace(state, cursors=cursors)
