r"""Fixpoints (WITH RECURSIVE): computed from nothing, and brought up to date.

    R = base(E) + step(R; E)                    as a bag (UNION ALL), step linear in R
    R = distinct(base(E) + step(R; E))          as a set (UNION)

As a bag, linearity gives     dR = F0 + F1 + ...,   F0 = d base + step(R; dE),   F(i+1) = step(Fi; E').

As a set, deletes need care, since rows may support each other in a cycle. Delete and rederive (Gupta, Mumick,
Subrahmanian, "Maintaining views incrementally", SIGMOD 1993), with ranks (see `ivm.rewrite.derivations`), by which far
less is deleted:

    D    rows that lost a derivation and have none left from the base or from a row of lower rank outside of D;
         rows that are derived from D are looked at in turn
    +    rows of D, and new ones, that have a derivation from R - D or the base; then what follows from them

R - D is right under the new rules: each of its rows has a derivation by ever lower ranks. Every look is at given rows
only.

Of a recursion that keeps the least value of a column (see `ivm.rewrite.least`) a row is also new where it undercuts the
stored one, which goes; what follows from that is undercut in turn. For the other columns of rows of D all derivations
are looked at, whatever the value.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ivm.errors import LargeReadError, ViewError
from ivm.execute.changes import Changes, LargeRecursionError, Run
from ivm.feed.arrow_datasets import ArrowDatasets
from ivm.feed.datasets import Datasets
from ivm.feed.input import Input
from ivm.lake import parquet
from ivm.lake.keys import distinct, matching
from ivm.names import RESERVED_PREFIX, WEIGHT, ident
from ivm.plan.nodes import RANK, Unit
from ivm.planner.strategy import Fixpoint
from ivm.rewrite.delta_join import State
from ivm.rewrite.derivations import CANDIDATES
from ivm.rewrite.iterations import (
    FRONTIER,
    Look,
    given,
    identity,
    looks,
    reads_itself,
    step_sql,
    steps,
    support_sql,
    walk_steps,
    walk_support,
)
from ivm.rewrite.slices import Facts, Requests
from ivm.sql.render import LeafSql, branch_sql, columns_sql
from ivm.storage.location import Location
from ivm.zset.weighted import consolidate, sum_weights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Iterations after which a recursion is taken for endless: Spark's own bound for a bag, more for a set,
#: which ends by itself.
ITERATIONS = {"all": 100, "distinct": 10_000}
#: The setting by which Spark bounds the iterations of a bag; -1 for none.
LEVELS = "spark.sql.cteRecursionLevelLimit"

T = TypeVar("T")


def until_none(unit: Unit, bound: int, first: tuple[int, T], step: Callable[[T], tuple[int, T]]) -> Iterator[T]:
    """What the base gives, then what each iteration does, as long as that is rows; each comes with how many it is.

    Of `bound` iterations the last one must give none. Raises ViewError where it does.
    """
    rows, found = first
    for _ in range(bound):
        if not rows:
            return
        yield found
        rows, found = step(found)
    if rows:
        deeper = f", or raise {LEVELS} where the data is that deep" if unit.fixpoint == "all" else ""
        raise ViewError(
            f"The recursion of {unit.name} did not end within {bound:,} iterations; "
            f"the last one still made {rows:,} rows.",
            "Bound it by a condition (a depth, a total), or use UNION instead of UNION ALL where the data has "
            f"cycles{deeper}.",
        )


def _levels(spark: SparkSession) -> int:
    """The bound of a bag computed from nothing, as Spark has it."""
    told = int(spark.conf.get(LEVELS, None) or ITERATIONS["all"])
    return told if told >= 0 else sys.maxsize


def _counted(rows: pa.Table) -> tuple[int, pa.Table]:
    return rows.num_rows, rows


def compute(spark: SparkSession, unit: Unit, leaf_sql: LeafSql, folder: Location) -> str:
    """All rows of a fixpoint, iteration by iteration, as Parquet in `folder`; a SELECT that reads them.

    Raises ViewError where it doesn't end.
    """
    columns = [c.name for c in unit.columns]
    parts = steps(unit)
    made: list[tuple[str, Location]] = []  # view, file
    known: list[str] = []  # the views with rows
    bases = [b for b in unit.core.branches if not reads_itself(b, unit)]
    bound = _levels(spark) if unit.fixpoint == "all" else ITERATIONS["distinct"]

    def named(view: str, *files: Location) -> None:
        types = ", ".join(f"{ident(c.name)} {c.type}" for c in unit.columns)
        spark.read.schema(types).parquet(*(f.spark for f in files)).createOrReplaceTempView(view)

    def everything() -> str:
        return "\nUNION ALL\n".join(f"SELECT * FROM {ident(v)}" for v in known)

    def written(rows: str) -> tuple[int, str]:
        if unit.fixpoint == "distinct":
            rows = _fresh(unit, rows, everything())
        # What is named first: `r` and `r_1` may be built at once.
        view = f"{RESERVED_PREFIX}_step_{len(made)}_{unit.name}"
        file = folder / f"step_{len(made)}_{unit.name}.parquet"
        spark.sql(rows).write.mode("overwrite").parquet(file.spark)
        named(view, file)
        made.append((view, file))
        return int(parquet.dataset(file).count_rows()), view

    def following(view: str) -> str:
        read = {FRONTIER: ident(view), unit.name: f"({everything()})"}
        return "\nUNION ALL\n".join(
            branch_sql(b, lambda leaf: read.get(leaf.relation) or leaf_sql(leaf)) for b in parts
        )

    try:
        base = written("\nUNION ALL\n".join(branch_sql(b, leaf_sql) for b in bases))
        for view in until_none(unit, bound, base, lambda view: written(following(view))):
            known.append(view)
        whole = f"{RESERVED_PREFIX}_steps_{unit.name}"
        named(whole, *(f for _, f in made))
        return f"SELECT {columns_sql(columns)} FROM {_least_of(unit, ident(whole))}"
    finally:
        for view, _ in made:
            spark.catalog.dropTempView(view)


def _fresh(unit: Unit, rows: str, known: str) -> str:
    """Of the rows those that are not known (or are less than what is), each once."""
    same = [f"f.{ident(c)} <=> k.{ident(c)}" for c in identity(unit)]
    least = ident(unit.least)
    no_less = [f"(k.{least} <= f.{least} OR f.{least} IS NULL)"] if unit.least else []
    lacking = f"({rows}) AS f" + (
        f" LEFT ANTI JOIN ({known}) AS k ON {' AND '.join([*same, *no_less])}" if known else ""
    )
    minima = "".join(f", MIN(f.{ident(c)}) AS {ident(c)}" for c in (unit.least, RANK) if c)
    return (
        f"SELECT {columns_sql(identity(unit), 'f')}{minima} FROM {lacking} GROUP BY {columns_sql(identity(unit), 'f')}"
    )


def _least_of(unit: Unit, rows: str) -> str:
    """All iterations' rows less those that a later one undercut."""
    if not unit.least:
        return rows
    keys, least, rank = columns_sql(identity(unit)), ident(unit.least), ident(RANK)
    best = f"SELECT {keys}, MIN(STRUCT({least} IS NULL, {least}, {rank})) AS best FROM {rows} GROUP BY {keys}"
    return f"(SELECT {keys}, best.{least} AS {least}, best.{rank} AS {rank} FROM ({best}))"


def fixpoint(strategy: Fixpoint, datasets: Datasets, run: Run) -> Changes:
    """dOut, as a bag or as a set (see above).

    Raises LargeRecursionError where an iteration is too large for this process.
    """
    made = _Iterations(strategy, datasets, run)
    try:
        return Changes(made.of_bag() if strategy.unit.fixpoint == "all" else made.of_set())
    except LargeReadError as error:
        raise LargeRecursionError(f"an iteration of {strategy.unit.name} reads {error}") from error


class _Iterations:
    """One fixpoint in an epoch; its own relation among the inputs are its old rows, unchanged."""

    def __init__(self, strategy: Fixpoint, datasets: Datasets, run: Run) -> None:
        self.strategy, self.datasets, self._run = strategy, datasets, run
        self.unit = unit = strategy.unit
        self.inputs = {name: datasets.inputs[name] for name in (*unit.reads, unit.name)}
        self.schema = self.inputs[unit.name].schema
        self.columns = [c.name for c in unit.columns]
        self.values = [c for c in self.columns if c != RANK]
        self.identity = identity(unit)
        self._left, self._anew = looks(unit)
        self._reads_itself_twice = any(reads_itself(b, unit) for b in steps(unit))
        self.made = 0

    def of_bag(self) -> pa.Table:
        def step(fresh: pa.Table) -> tuple[int, pa.Table]:
            return _counted(self._summed(self._step(consolidate(fresh, self.columns))))

        first = self._summed(self._rows(self.strategy.first(self.datasets), weighted=True))
        total = first.slice(0, 0)
        for fresh in until_none(self.unit, ITERATIONS["all"], _counted(first), step):
            total = self._summed(pa.concat_tables([total, fresh]))
        return total

    def of_set(self) -> pa.Table:
        rows = self._summed(self._rows(self.strategy.first(self.datasets), weighted=True))
        gone = self._unsupported(self._stored(rows.filter(pc.less(rows[WEIGHT], 0)), self.values))
        reached = self._best(rows.filter(pc.greater(rows[WEIGHT], 0)))
        if gone.num_rows:
            # What was gained may have been derived from a row that is gone.
            reached = self._best(self._derived(self._best(pa.concat_tables([reached, gone])), gone, self._anew))
        found = reached.slice(0, 0)

        def better(reached: pa.Table) -> tuple[int, tuple[pa.Table, pa.Table]]:
            fresh, undercut = self._better(reached, found, gone)
            return fresh.num_rows, (fresh, undercut)

        def step(of: tuple[pa.Table, pa.Table]) -> tuple[int, tuple[pa.Table, pa.Table]]:
            moved = self._moved(found, gone) if self._reads_itself_twice else None
            return better(self._best(self._step(self._weighted(of[0], 1), moved)))

        for fresh, undercut in until_none(self.unit, ITERATIONS["distinct"], better(reached), step):
            gone = pa.concat_tables([gone, undercut])
            found = pa.concat_tables([self._minus(found, fresh, self.identity), fresh])
        return self._moved(found, gone)

    def _better(self, rows: pa.Table, found: pa.Table, gone: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Those of the rows that are not known (or less than what is), and the stored rows that these undercut."""
        stored = self._minus(self._stored(rows, self.identity), gone, self.identity)
        known = pa.concat_tables([stored, found])
        fresh = self._minus(rows, known, self.values)
        if not self.unit.least or fresh.num_rows == 0:
            return fresh, stored.slice(0, 0)
        fresh = fresh.filter(
            matching(fresh, self.values, self._best(pa.concat_tables([known, fresh])).select(self.values))
        )
        return fresh, stored.filter(
            matching(stored, self.identity, fresh.select(self.identity))
        ) if fresh.num_rows else stored.slice(0, 0)

    def _moved(self, found: pa.Table, gone: pa.Table) -> pa.Table:
        return self._summed(pa.concat_tables([self._weighted(found, 1), self._weighted(gone, -1)]))

    def _unsupported(self, lost: pa.Table) -> pa.Table:
        """The stored rows that have no derivation by ever lower ranks any more, given those that lost one."""
        gone = lost.slice(0, 0)

        def unsupported(candidates: pa.Table) -> tuple[int, pa.Table]:
            derived = self._derived(candidates, gone, self._left)
            return _counted(self._minus(candidates, derived, self.values))

        def step(fresh: pa.Table) -> tuple[int, pa.Table]:
            # By the new rules: whose derivation went by the old ones is among those that lost one.
            reached = self._step(self._weighted(fresh, 1))
            return unsupported(self._minus(self._stored(reached, self.values), gone, self.values))

        for fresh in until_none(self.unit, ITERATIONS["distinct"], unsupported(lost), step):
            gone = pa.concat_tables([gone, fresh])
        return gone

    def _derived(self, candidates: pa.Table, gone: pa.Table, look: Look) -> pa.Table:
        """The derivations, with the ranks they give, of rows equal to a candidate.

        They are those from R - `gone`, or from the base, in the new state.
        """
        if candidates.num_rows == 0:
            return candidates
        own = self.unit.name
        left = replace(self.inputs[own], delta=self._weighted(gone, -1) if gone.num_rows else None)
        inputs, facts = self._given(CANDIDATES, self._weighted(candidates, 1), {**self.inputs, own: left})
        requests = Requests()
        walked = walk_support(self.unit, facts, _changed(inputs), look, requests)
        return self._read(inputs, requests, lambda datasets: self._rows(support_sql(walked, datasets)))

    def _step(self, frontier: pa.Table, moved: pa.Table | None = None) -> pa.Table:
        """What follows from the frontier (columns, WEIGHT +1 or -1) in one step by the new rules: weighted rows.

        Where a part reads the unit more than once, the other occurrences read its old rows, and what was `moved` since.
        """
        own = self.unit.name
        inputs = {
            **self.inputs,
            own: replace(self.inputs[own], delta=moved if moved is not None and moved.num_rows else None),
        }
        inputs, facts = self._given(FRONTIER, frontier, inputs)
        requests = Requests()
        walked = walk_steps(self.unit, facts, _changed(inputs), requests)
        return self._read(inputs, requests, lambda datasets: self._rows(step_sql(walked, datasets), weighted=True))

    def _read(self, inputs: Mapping[str, Input], requests: Requests, rows: Callable[[Datasets], pa.Table]) -> pa.Table:
        """What a statement makes of what is asked for."""
        datasets = self._opened(inputs)
        datasets.load(requests)
        found = rows(datasets)
        datasets.close()
        return found

    def _given(
        self, name: str, rows: pa.Table, inputs: Mapping[str, Input]
    ) -> tuple[dict[str, Input], dict[str, Facts]]:
        """Inputs and facts with weighted rows of the unit's columns as the delta of one more relation."""
        more = Input(name, self.unit.columns, self.schema, "", None, State.NEW, True, rows, rows.num_rows)
        return {**inputs, name: more}, given(self.unit, name, self.strategy.facts, rows.num_rows)

    def _opened(self, inputs: Mapping[str, Input]) -> ArrowDatasets:
        self.made += 1
        # A unit's name comes with its length: another's may go on with what this one's relations are called.
        name = self.unit.name
        return ArrowDatasets.beside(self.datasets, f"step_{self.made}_{len(name)}_{name}", inputs)

    # -- sets of rows -----------------------------------------------------------------------------

    def _rows(self, sql: str, weighted: bool = False) -> pa.Table:
        """A statement's rows as they are stored.

        Spark types each statement by its own expressions, a literal as NOT NULL.
        """
        found = self._run.rows(sql)
        if not isinstance(found, pa.Table):
            raise LargeRecursionError(f"an iteration of {self.unit.name} gives {found.num_rows:,} rows")
        schema = self.schema.append(pa.field(WEIGHT, pa.int64())) if weighted else self.schema
        return found.rename_columns(schema.names).cast(schema)

    def _summed(self, rows: pa.Table) -> pa.Table:
        return sum_weights(rows, self.columns)

    def _weighted(self, rows: pa.Table, weight: int) -> pa.Table:
        return rows.append_column(WEIGHT, pa.repeat(pa.scalar(weight, pa.int32()), rows.num_rows))

    def _minus(self, rows: pa.Table, other: pa.Table, columns: Sequence[str]) -> pa.Table:
        """The rows that the other table doesn't have, in these columns."""
        if rows.num_rows == 0 or other.num_rows == 0:
            return rows
        return rows.filter(pc.invert(matching(rows, columns, other.select(list(columns)))))

    def _best(self, rows: pa.Table) -> pa.Table:
        """Each row once (of a least one only the least), at its least rank."""
        least = self.unit.least
        if least and rows.num_rows:
            minima = (
                rows.group_by(self.identity, use_threads=False)
                .aggregate([(least, "min")])
                .select([*self.identity, f"{least}_min"])
            )
            rows = rows.filter(matching(rows, [*self.identity, least], minima))
        found = rows.group_by(self.values, use_threads=False).aggregate([(RANK, "min")])
        return found.rename_columns(self.columns).cast(self.schema)

    def _stored(self, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
        """The rows of the old state, with their rank there, that equal one of these in some columns."""
        source = self.inputs[self.unit.name]
        if rows.num_rows == 0:
            return source.schema.empty_table()
        return self._opened({self.unit.name: source}).read_rows(self.unit.name, distinct(rows.select(list(columns))))


def _changed(inputs: Mapping[str, Input]) -> set[str]:
    return {name for name, source in inputs.items() if source.delta is not None}
