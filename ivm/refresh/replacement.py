"""Replacing all rows of a published table by those that an epoch staged, in one commit.

few rows                    delta-rs, row by row
many                        their files take the place of the table's
what delta-rs can't hold or write, on a folder      Spark
"""

from __future__ import annotations

from ivm.engine.rows import StagedRows
from ivm.lake.types import columns_of
from ivm.refresh.context import Context
from ivm.refresh.published_table import PublishedTable
from ivm.refresh.records import Outcome
from ivm.storage.location import Location
from ivm.table.protocol import Commit, Verb


def replace_rows(context: Context, table: PublishedTable, outcome: Outcome, commit: Commit) -> None:
    """Overwrite the table with an outcome's staged rows; nothing where that was done.

    Raises StateError where only Spark could, and must not (see `ivm.planner.lanes.writes`).
    """
    state = outcome.state
    assert state is not None
    if table.rust.transaction(commit.app) == commit.version:
        return
    staged = StagedRows(Location.of(outcome.staging), columns_of(state.schema), state.rows)
    many, most = state.rows > context.limits.compare_rows, context.limits.compare_rows
    large = f"more than {most:,} rows, whose files can't take the place of the table's"
    found = table.choice(Verb.REPLACE, state.schema, large if many and not table.rust.takes_files(state.schema) else "")
    table.lane(found).replace(staged, state.schema, commit, context.retention.output())
