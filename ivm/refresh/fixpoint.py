r"""Fixpoints (WITH RECURSIVE): computed from nothing, and brought up to date.

    R = base(E) + step(R; E)                    as a bag (UNION ALL), step linear in R
    R = distinct(base(E) + step(R; E))          as a set (UNION)

As a bag, linearity gives     dR = F0 + F1 + ...,   F0 = d base + step(R; dE),   F(i+1) = step(Fi; E').

As a set, deletes need care, since rows may support each other in a cycle. Delete and rederive (Gupta, Mumick,
Subrahmanian, "Maintaining views incrementally", SIGMOD 1993): D holds the rows that lost a derivation, and what was
derived from them by the old rules; what is left, S = R - D, is right under the new ones. Then rows derived from S that
S lacks are added, and what follows from them, until nothing new appears.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from ivm.errors import ViewError
from ivm.feed.datasets import Datasets, Input
from ivm.lake import native
from ivm.lake.keys import distinct, matching
from ivm.names import ident
from ivm.plan.nodes import WEIGHT, Branch, Leaf, Unit
from ivm.rewrite.delta_join import State, Term
from ivm.rewrite.slices import WHOLE, Facts, Reached, Requests, walk_term
from ivm.rewrite.statements import branch_deltas, term_sql
from ivm.sql.render import LeafSql, branch_sql, columns_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Iterations after which a recursion is taken for endless: Spark's own bound for a bag, more for a set, which ends by itself.
ITERATIONS = {"all": 100, "distinct": 10_000}


def endless(unit: Unit, rows: int) -> ViewError:
    """What to say of a recursion that doesn't end."""
    bound = ITERATIONS[unit.fixpoint]
    return ViewError(
        f"The recursion of {unit.name} did not end within {bound:,} iterations; the last one still made {rows:,} rows.",
        "Bound it by a condition (a depth, a total), or use UNION instead of UNION ALL where the data has cycles.",
    )


def compute(spark: SparkSession, unit: Unit, leaf_sql: LeafSql, folder: Path) -> str:
    """All rows of a fixpoint, iteration by iteration, as Parquet in `folder`; a SELECT that reads them. Raises ViewError where it doesn't end."""
    columns = [c.name for c in unit.columns]
    steps = [b for b in unit.core.branches if _self(b, unit)]
    parts: list[str] = []
    bases = [b for b in unit.core.branches if not _self(b, unit)]
    rows = "\nUNION ALL\n".join(branch_sql(b, leaf_sql) for b in bases)
    types = ", ".join(f"{ident(c.name)} {c.type}" for c in unit.columns)
    for number in range(ITERATIONS[unit.fixpoint] + 1):
        if unit.fixpoint == "distinct":
            known = "\nUNION ALL\n".join(f"SELECT * FROM {p}" for p in parts)
            on = " AND ".join(f"f.{ident(c)} <=> k.{ident(c)}" for c in columns)
            rows = f"SELECT DISTINCT {columns_sql(columns, 'f')} FROM ({rows}) AS f" + (f" LEFT ANTI JOIN ({known}) AS k ON {on}" if known else "")
        path = folder / f"{unit.name.strip('_')}_{number}.parquet"
        spark.sql(rows).write.mode("overwrite").parquet(str(path))
        made = int(pads.dataset(path, format="parquet").count_rows())
        name = f"__ivm_{unit.name}_iteration_{number}"
        spark.read.schema(types).parquet(str(path)).createOrReplaceTempView(name)
        if made == 0:
            return "\nUNION ALL\n".join(f"SELECT {columns_sql(columns)} FROM {p}" for p in (parts or [ident(name)]))
        parts.append(ident(name))
        frontier = ident(name)
        rows = "\nUNION ALL\n".join(branch_sql(b, lambda leaf, f=frontier: f if leaf.relation == unit.name else leaf_sql(leaf)) for b in steps)  # type: ignore[misc]
    raise endless(unit, made)


class Fixpoint:
    """The delta of one fixpoint in an epoch.

    `inputs` are the relations that the unit reads, itself among them (its old rows, unchanged); `run` collects a statement.
    """

    def __init__(
        self,
        unit: Unit,
        inputs: Mapping[str, Input],
        facts: Mapping[str, Facts],
        datasets: Callable[[str, Mapping[str, Input]], Datasets],
        run: Callable[[str], pa.Table],
    ) -> None:
        self.unit, self.inputs, self.facts, self._datasets, self._run = unit, dict(inputs), facts, datasets, run
        self.columns = [c.name for c in unit.columns]
        self.steps = [b for b in unit.core.branches if _self(b, unit)]
        self.made = 0
        self.rows_read = 0

    def delta(self, walked: list[tuple[Term, dict[str, Reached]]], datasets: Datasets) -> pa.Table:
        """(columns, WEIGHT), each row once. `walked` are the terms of the relations that changed, `datasets` what they read."""
        return self._of_bag(walked, datasets) if self.unit.fixpoint == "all" else self._of_set(walked, datasets)

    def _of_bag(self, walked: list[tuple[Term, dict[str, Reached]]], datasets: Datasets) -> pa.Table:
        total = fresh = self._summed(self._run(branch_deltas(walked, datasets)))
        for _ in range(ITERATIONS["all"]):
            if fresh.num_rows == 0:
                return total
            fresh = self._summed(self._step(native.consolidate(fresh, self.columns), State.NEW))
            total = self._summed(pa.concat_tables([total, fresh]))
        raise endless(self.unit, fresh.num_rows)

    def _of_set(self, walked: list[tuple[Term, dict[str, Reached]]], datasets: Datasets) -> pa.Table:
        rows = self._run(branch_deltas(walked, datasets))
        lost = distinct(rows.filter(pc.less(rows[WEIGHT], 0)).select(self.columns))
        gone = self._overdeleted(self._stored(lost))
        if gone.num_rows:
            fresh = self._lacking(gone)
        else:
            summed = self._summed(rows)
            gained = summed.filter(pc.greater(summed[WEIGHT], 0)).select(self.columns)
            fresh = self._minus(gained, self._stored(gained))
        found = fresh
        for _ in range(ITERATIONS["distinct"]):
            if fresh.num_rows == 0:
                return self._summed(pa.concat_tables([self._weighted(found, 1), self._weighted(gone, -1)]))
            reached = distinct(self._step(self._weighted(fresh, 1), State.NEW).select(self.columns))
            reached = self._minus(reached, found)
            there = self._stored(reached)
            fresh = self._minus(reached, self._minus(there, gone))
            found = pa.concat_tables([found, fresh])
        raise endless(self.unit, fresh.num_rows)

    def _overdeleted(self, lost: pa.Table) -> pa.Table:
        """The rows that lost a derivation, and all stored ones derived from them in the old state."""
        gone = fresh = lost
        for _ in range(ITERATIONS["distinct"]):
            if fresh.num_rows == 0:
                return gone
            reached = distinct(self._step(self._weighted(fresh, 1), State.OLD).select(self.columns))
            fresh = self._stored(self._minus(reached, gone))
            gone = pa.concat_tables([gone, fresh])
        raise endless(self.unit, fresh.num_rows)

    def _lacking(self, gone: pa.Table) -> pa.Table:
        """Rows that follow from S = R - `gone` (and the base) in the new state, and that S lacks."""
        own = self.unit.name
        datasets = self._opened({**self.inputs, own: replace(self.inputs[own], delta=self._weighted(gone, -1))})
        left = f"(SELECT {columns_sql(self.columns, 'r')} FROM {datasets.bag(Leaf(own, own, tuple(self.columns)), WHOLE, State.NEW)} AS r)"

        def leaf_sql(leaf: Leaf) -> str:
            return left if leaf.relation == own else datasets.bag(leaf, WHOLE, State.NEW)

        rows = "\nUNION ALL\n".join(branch_sql(b, leaf_sql) for b in self.unit.core.branches)
        on = " AND ".join(f"f.{ident(c)} <=> s.{ident(c)}" for c in self.columns)
        found = self._run(f"SELECT DISTINCT {columns_sql(self.columns, 'f')} FROM ({rows}) AS f LEFT ANTI JOIN {left} AS s ON {on}")
        datasets.close()
        return found.rename_columns(self.columns)

    def _step(self, frontier: pa.Table, state: State) -> pa.Table:
        """The steps with the frontier (columns, WEIGHT +1 or -1) in the place of the unit, all else in a state: weighted rows."""
        own = self.unit.name
        inputs = {**self.inputs, own: replace(self.inputs[own], delta=frontier)}
        requests, walked = Requests(), []
        for branch in self.steps:
            states = tuple(
                State.DELTA if leaf.relation == own else state if self.inputs[leaf.relation].delta is not None else State.SAME for leaf in branch.leaves
            )
            term = Term(branch, states)
            walked.append((term, walk_term(term, self.facts, requests)))
        datasets = self._opened(inputs)
        datasets.load(requests)
        found = self._run("\nUNION ALL\n".join(term_sql(t, t.branch, reached, datasets) for t, reached in walked))
        self.rows_read += datasets.rows_read
        datasets.close()
        return found.rename_columns([*self.columns, WEIGHT])

    def _opened(self, inputs: Mapping[str, Input]) -> Datasets:
        self.made += 1
        return self._datasets(str(self.made), inputs)

    # -- sets of rows -----------------------------------------------------------------------------

    def _summed(self, rows: pa.Table) -> pa.Table:
        named = rows.rename_columns([*self.columns, WEIGHT])
        return native.sum_weights(named.set_column(len(self.columns), WEIGHT, named[WEIGHT].cast(pa.int64())), self.columns)

    def _weighted(self, rows: pa.Table, weight: int) -> pa.Table:
        return rows.append_column(WEIGHT, pa.array([weight] * rows.num_rows, pa.int32()))

    def _minus(self, rows: pa.Table, other: pa.Table) -> pa.Table:
        """The rows that the other table doesn't have."""
        if rows.num_rows == 0 or other.num_rows == 0:
            return rows
        return rows.filter(pc.invert(matching(rows, self.columns, other.select(self.columns))))

    def _stored(self, rows: pa.Table) -> pa.Table:
        """Those of the rows that the unit holds in the old state."""
        source = self.inputs[self.unit.name]
        if rows.num_rows == 0:
            return rows
        datasets = self._opened({self.unit.name: source})
        stored = datasets.read_rows(self.unit.name, rows)
        return rows.filter(matching(rows, self.columns, stored)) if stored.num_rows else rows.slice(0, 0)


def _self(branch: Branch, unit: Unit) -> bool:
    return any(leaf.relation == unit.name for leaf in branch.leaves)
