"""Publishing a batch that is too large for this process, where it touches most files: Spark writes the table anew.

table' = table + batch        as a bag, under one application transaction
"""

from __future__ import annotations

from ivm.engine.rows import QueriedRows, stage
from ivm.feed.states import shifted
from ivm.lake.types import columns_of
from ivm.names import WEIGHT, ident
from ivm.plan.nodes import EPOCH, Column
from ivm.refresh.context import Context
from ivm.refresh.published_table import PublishedTable
from ivm.refresh.records import Outcome, UnitState
from ivm.refresh.relations import batches, unit_table
from ivm.table.protocol import Commit


def write_anew(
    context: Context, table: PublishedTable, outcome: Outcome, before: UnitState, commit: Commit, stamp: int
) -> None:
    """Write all rows that the table will have to scratch, and put these files in the place of its own."""
    after, unit = outcome.state, outcome.unit
    assert after is not None
    batch, columns = batch_rows(context, unit, after, stamp), columns_of(after.schema)
    sql = shifted(columns, unit_table(context, unit, before), batch.ref)
    table.rust.replace(stage(context.spark(), sql, table.spark.place(), columns), after.schema, commit)


def batch_rows(context: Context, unit: str, state: UnitState, stamp: int) -> QueriedRows:
    """A unit's batch of an epoch, as it lies in its output trace."""
    columns = columns_of(state.schema)
    sql = batches(context, unit, state, [c.name for c in columns], f"{ident(EPOCH)} = {int(stamp)}")
    return QueriedRows(sql, (*columns, Column(WEIGHT, "bigint")))
