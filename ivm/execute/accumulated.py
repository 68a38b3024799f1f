"""Accumulated: sums are added to, and the rows of the groups that look different now are replaced."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ivm.engine.rows import StagedRows
from ivm.errors import StateError
from ivm.execute.changes import Changes, Run
from ivm.feed.datasets import Datasets
from ivm.names import WEIGHT, ident
from ivm.plan.nodes import COUNT, Column, Unit
from ivm.planner.strategy import CHANGES, Accumulated
from ivm.rewrite.accumulators import accumulator_columns, accumulators
from ivm.rewrite.statements import NEW, OLD, consolidated
from ivm.zset.weighted import sum_weights


def accumulated(strategy: Accumulated, datasets: Datasets, run: Run) -> Changes:
    """sums' = sums + sums over d core; dOut = rows of sums' - rows of sums.

    Raises StateError where a group would have less than no rows, or more values than rows.
    """
    unit, statements = strategy.unit, strategy.statements(datasets)
    if CHANGES in statements:
        datasets.meet(unit.name, run.rows(statements[CHANGES]))
    groups = run.rows(statements[""])
    if isinstance(groups, StagedRows):
        return _staged(unit, groups, run)
    return Changes(_row_changes(unit, groups), _gained(unit, groups))


def _counts(unit: Unit) -> list[str]:
    """The accumulators that count."""
    assert unit.reduce is not None
    return [COUNT, *(a.name for a in accumulators(unit.reduce) if a.kind == "count")]


def _impossible(unit: Unit, groups: int) -> StateError:
    return StateError(f"{groups:,} groups of {unit.name} would have less than no rows.", "Its state is built anew.")


# -- in this process --------------------------------------------------------------------------------


def _gained(unit: Unit, groups: pa.Table) -> pa.Table:
    """What the accumulators of each group gain."""
    assert unit.reduce is not None
    rows = pc.add(groups["o_" + COUNT], groups["d_" + COUNT])
    for count in _counts(unit):
        after = pc.add(groups["o_" + count], groups["d_" + count])
        wrong = pc.or_(pc.less(after, 0), pc.greater(after, rows))
        if pc.any(wrong).as_py():
            raise _impossible(unit, pc.sum(wrong).as_py())
    names = [*(a.name for a in accumulators(unit.reduce)), COUNT]
    keys = [k.name for k in unit.reduce.keys]
    return groups.select([*keys, *("d_" + n for n in names)]).rename_columns([*keys, *names])


def _row_changes(unit: Unit, groups: pa.Table) -> pa.Table:
    """-1 for each old row, +1 for each new one, where they differ; groups that look alike are added up."""
    changed = groups.filter(pc.invert(pc.fill_null(groups["__ivm_same"], False)))
    parts = []
    for side, weight in ((OLD, -1), (NEW, 1)):
        rows = changed.filter(changed[side])
        columns = [rows[f"{side}_{i}"] for i in range(len(unit.columns))]
        parts.append(
            pa.table(
                [*columns, pa.repeat(pa.scalar(weight, pa.int64()), rows.num_rows)],
                names=[*(c.name for c in unit.columns), WEIGHT],
            )
        )
    return sum_weights(pa.concat_tables(parts), [c.name for c in unit.columns])


# -- by Spark ---------------------------------------------------------------------------------------


def _staged(unit: Unit, groups: StagedRows, run: Run) -> Changes:
    """The same of so many groups that they stay where they are."""
    assert unit.reduce is not None
    if wrong := int(run.collected(impossible_sql(unit, groups.ref))["n"][0].as_py() or 0):
        raise _impossible(unit, wrong)
    batch = (*unit.columns, Column(WEIGHT, "bigint"))
    gained = run.stage(gained_sql(unit, groups.ref), accumulator_columns(unit.reduce))
    return Changes(run.rows(row_changes_sql(unit, groups.ref), batch), gained)


def impossible_sql(unit: Unit, groups: str) -> str:
    """How many groups (`n`) would have less than no rows, or more values than rows."""
    rows = f"({ident('o_' + COUNT)} + {ident('d_' + COUNT)})"
    after = [f"({ident('o_' + c)} + {ident('d_' + c)})" for c in _counts(unit)]
    wrong = " OR ".join(f"{a} < 0 OR {a} > {rows}" for a in after)
    return f"SELECT COUNT(*) AS n FROM {groups} AS `__ivm_groups` WHERE {wrong}"


def gained_sql(unit: Unit, groups: str) -> str:
    """What the accumulators of each group gain, as their trace holds it."""
    assert unit.reduce is not None
    names = [*(a.name for a in accumulators(unit.reduce)), COUNT]
    listed = [*(ident(k.name) for k in unit.reduce.keys), *(f"{ident('d_' + n)} AS {ident(n)}" for n in names)]
    return f"SELECT {', '.join(listed)} FROM {groups} AS `__ivm_groups`"


def row_changes_sql(unit: Unit, groups: str) -> str:
    """The rows that go and come, consolidated."""
    parts = []
    for side, weight in ((OLD, -1), (NEW, 1)):
        listed = [f"{ident(f'{side}_{i}')} AS {ident(c.name)}" for i, c in enumerate(unit.columns)]
        weighted = ", ".join([*listed, f"CAST({weight} AS bigint) AS {ident(WEIGHT)}"])
        where = f"{ident(side)} AND NOT COALESCE(`__ivm_same`, FALSE)"
        parts.append(f"SELECT {weighted} FROM {groups} AS `__ivm_groups` WHERE {where}")
    return consolidated("\nUNION ALL\n".join(parts), unit.columns)
