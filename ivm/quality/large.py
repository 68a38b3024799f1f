"""The checks of a batch that stays with Spark.

    copies after the batch  =  copies in the table + sum of the batch's weights

Of what is built in, a statement finds the rows that break a rule, and no more than a sample of them is collected; what
the user expects of the rows that come is judged by Great Expectations on Spark.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ivm.lake.shapes import arrow_schema, plain
from ivm.names import WEIGHT, ident, parquet_ref
from ivm.plan.kinds import Publish
from ivm.plan.nodes import EPOCH, Column
from ivm.quality.results import Result
from ivm.quality.state_checks import judged_in_spark
from ivm.refresh.context import Context
from ivm.refresh.records import Outcome
from ivm.refresh.relations import batches, unit_table
from ivm.rewrite.statements import consolidated, repeated
from ivm.sql.maps import comparable
from ivm.sql.render import columns_sql

if TYPE_CHECKING:
    import pandas as pd

#: The scope of what no batch may do, whatever the data: delete rows that aren't there.
BUILT_IN = "built-in"
RESULTING = "__ivm_resulting_copies"
KEY_COPIES = "__ivm_rows_of_key"
_WEIGHT = ident(WEIGHT)


def is_large(context: Context, outcome: Outcome) -> bool:
    """Whether Spark judges the rows that an outcome inserts and deletes."""
    assert outcome.state is not None
    rows = outcome.state.rows if outcome.publish == Publish.REPLACE else outcome.rows_out
    return rows > context.limits.judged_rows


def check_large(context: Context, epoch: int, outcome: Outcome, user: dict[str, Any]) -> Iterator[list[Result]]:
    """The results of such a batch's checks, one suite after the other.

    The key of a table that is replaced as a whole is not looked at: that groups all its rows.
    """
    from ivm.quality.expectations import build, recorded, validate

    folder, name = context.layout.checks, context.views[outcome.view].name
    if outcome.publish == Publish.MERGE:
        for scope, column, ends, found in _broken(context, epoch, outcome):
            rules = [{"expect_column_values_to_be_between": {"column": column, **ends}}]
            yield validate(folder, name, epoch, scope, found, build(rules, name))
    if user.get("delta"):
        assert outcome.state is not None
        started, rows = time.perf_counter(), inserted_sql(context, epoch, outcome)
        entries = judged_in_spark(context, rows, arrow_schema(outcome.state.schema), build(user["delta"], name))
        seconds = time.perf_counter() - started
        yield recorded(folder, name, epoch, "delta", entries, seconds, context.checking.show)


def _broken(context: Context, epoch: int, outcome: Outcome) -> list[tuple[str, str, dict[str, int], pd.DataFrame]]:
    """For each rule that is built in: its scope, its column, the ends of that, and what lies outside of them."""
    state, columns = outcome.state, context.compiled[outcome.view].program.columns
    assert state is not None
    table, batch = unit_table(context, outcome.unit, state), _batch(context, epoch, outcome)
    gone = f"(SELECT * FROM {batch} WHERE {_WEIGHT} < 0)"
    found = [(BUILT_IN, RESULTING, {"min_value": 0}, copies_sql(columns, table, gone, "< 0"))]
    if state.key:
        keys = [c for c in columns if c.name in state.key]
        sql = copies_sql(keys, table, batch, "NOT BETWEEN 0 AND 1")
        found.append(("key", KEY_COPIES, {"min_value": 0, "max_value": 1}, sql))
    return [(scope, column, ends, _sample(context, sql, column)) for scope, column, ends, sql in found]


def _batch(context: Context, epoch: int, outcome: Outcome) -> str:
    assert outcome.state is not None
    names = [c.name for c in context.compiled[outcome.view].program.columns]
    return f"({batches(context, outcome.unit, outcome.state, names, f'{ident(EPOCH)} = {int(epoch)}')})"


def inserted_sql(context: Context, epoch: int, outcome: Outcome) -> str:
    """The rows that the batch inserts, each as often as its weight says; of a table written anew, all."""
    if outcome.publish == Publish.REPLACE:
        return f"SELECT * FROM {parquet_ref(outcome.staging)}"
    return repeated(
        f"SELECT * FROM {_batch(context, epoch, outcome)} WHERE {_WEIGHT} > 0",
        context.compiled[outcome.view].program.columns,
    )


def copies_sql(columns: Sequence[Column], table: str, batch: str, having: str) -> str:
    """The values of these columns that the batch touches, with the copies after it as WEIGHT, if these are `having`."""
    names, mine = (columns_sql([c.name for c in columns], alias) for alias in ("", "t"))
    on = " AND ".join(f"{comparable(c, 't')} <=> {comparable(c, 'd')}" for c in columns)
    there = f"SELECT {mine}, CAST(1 AS bigint) AS {_WEIGHT} FROM {table} AS t LEFT SEMI JOIN {batch} AS d ON {on}"
    return consolidated(f"{there}\nUNION ALL\nSELECT {names}, {_WEIGHT} FROM {batch}", columns, having)


def _sample(context: Context, sql: str, name: str) -> pd.DataFrame:
    """The first of a statement's weights, as a column of this name."""
    most = context.limits.sampled_rows
    found = context.spark().sql(f"SELECT {_WEIGHT} AS {ident(name)} FROM ({sql}) LIMIT {most}").toArrow()
    frame: pd.DataFrame = plain(found).to_pandas()
    return frame
