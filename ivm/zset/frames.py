"""Z-sets over DataFrames: rows as Spark columns, differences as one or more numeric columns.

    (column ..., diff ...)        the meaning of a row is the sum of its differences; rows of sum zero are not there

The operators, their classes and their laws are those of `ivm.zset.arrays`, and both are tested against each other; the
streams of `ivm.zset.streams` take either. Scalars are SQL text that Spark evaluates. Keys are compared as values, so
NULL equals NULL here. Nothing is computed until a result is asked for (`rows`, `empty`, `settled`, or an action on
`frame`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce as folded
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as fn
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ivm.names import RESERVED_PREFIX, ident
from ivm.zset.arrays import UnknownColumnError
from ivm.zset.streams import iterate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DIFF = f"{RESERVED_PREFIX}_diff"
Rows = dict[tuple[Any, ...], Any]
_SIGN = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


class FrameZSet:
    """A DataFrame read as a Z-set: `columns` are the row, `diffs` name the parts of the difference.

    The weight is one integer; sums and counts are a tuple of numbers. Raises UnknownColumnError for a column that isn't
    there.
    """

    def __init__(self, frame: DataFrame, columns: Sequence[str], diffs: Sequence[str] = (DIFF,)) -> None:
        self.columns, self.diffs = tuple(columns), tuple(diffs)
        _check(frame.columns, self.columns, self.diffs)
        self.frame = frame.select(*map(ident, (*self.columns, *self.diffs)))

    @classmethod
    def of(cls, frame: DataFrame) -> FrameZSet:
        """The rows of a DataFrame, each once."""
        return cls(frame.withColumn(DIFF, fn.lit(1).cast("bigint")), frame.columns)

    @classmethod
    def of_change_feed(cls, frame: DataFrame) -> FrameZSet:
        """A Delta change data feed: inserts and new images count 1, deletes and old images -1."""
        _check(frame.columns, ["_change_type"])
        columns = [c for c in frame.columns if c not in ("_change_type", "_commit_version", "_commit_timestamp")]
        sign = folded(
            lambda otherwise, kind: fn.when(fn.col("_change_type") == kind, fn.lit(_SIGN[kind])).otherwise(otherwise),
            _SIGN,
            fn.lit(None),
        )
        return cls(frame.withColumn(DIFF, sign.cast("bigint")), columns)

    # -- the group -------------------------------------------------------------------------------

    def zero(self) -> FrameZSet:
        """The neutral element, with the same columns."""
        return FrameZSet(self.frame.limit(0), self.columns, self.diffs)

    def __add__(self, other: FrameZSet) -> FrameZSet:
        if (self.columns, self.diffs) != (other.columns, other.diffs):
            raise ValueError(
                f"Z-sets of different columns can't be added: {self.columns + self.diffs} and "
                f"{other.columns + other.diffs}"
            )
        return FrameZSet(self.frame.unionAll(other.frame), self.columns, self.diffs)

    def __neg__(self) -> FrameZSet:
        return self._with({d: -fn.col(ident(d)) for d in self.diffs})

    def __sub__(self, other: FrameZSet) -> FrameZSet:
        return self + (-other)

    def consolidated(self) -> FrameZSet:
        """Each row once, no zero differences."""
        sums = [fn.sum(ident(d)).alias(d) for d in self.diffs]
        some = folded(lambda a, b: a | b, (fn.col(ident(d)) != 0 for d in self.diffs))
        return FrameZSet(self.frame.groupBy(*map(ident, self.columns)).agg(*sums).where(some), self.columns, self.diffs)

    def settled(self) -> FrameZSet:
        """The same, computed and kept by Spark's executors: what follows no longer repeats what led here."""
        return FrameZSet(self.frame.localCheckpoint(eager=True), self.columns, self.diffs)

    @property
    def empty(self) -> bool:
        """Whether it has no rows at all; a row whose differences cancel is not told from one that is there."""
        return self.frame.isEmpty()

    def rows(self) -> Rows:
        """The meaning, as a mapping from rows to differences. It is collected: for tests and small results."""
        width = len(self.columns)
        found = {tuple(r[:width]): tuple(r[width:]) for r in self.consolidated().frame.collect()}
        return {r: d[0] if len(d) == 1 else d for r, d in found.items()}

    # -- linear ----------------------------------------------------------------------------------

    def map(self, **outputs: str) -> FrameZSet:
        """New columns by SQL expressions, row by row. Linear."""
        return FrameZSet(
            self.frame.select(*(fn.expr(e).alias(n) for n, e in outputs.items()), *map(ident, self.diffs)),
            tuple(outputs),
            self.diffs,
        )

    def filter(self, condition: str) -> FrameZSet:
        """The rows that meet an SQL condition. Linear."""
        return FrameZSet(self.frame.where(condition), self.columns, self.diffs)

    def flat_map(self, generator: str, names: Sequence[str]) -> FrameZSet:
        """Each row as often as a table-generating function says, with its columns `names`. Linear."""
        listed = ", ".join(map(ident, names))
        made = self.frame.selectExpr(*map(ident, (*self.columns, *self.diffs)), f"{generator} AS ({listed})")
        return FrameZSet(made, (*self.columns, *names), self.diffs)

    def explode(self, keys: Sequence[str], **values: str) -> FrameZSet:
        """Move values into the difference. Linear.

        Gives rows of `keys`, whose differences are (the values' sums ..., the weight `n`).
        """
        _check(self.columns, keys)
        (weight,) = self.diffs
        moved = [fn.expr(f"({e}) * {ident(weight)}").alias(n) for n, e in values.items()]
        return FrameZSet(
            self.frame.select(*map(ident, keys), *moved, fn.col(ident(weight)).alias("n")), keys, (*values, "n")
        )

    # -- bilinear --------------------------------------------------------------------------------

    def join(self, other: FrameZSet, on: Sequence[str]) -> FrameZSet:
        """Pairs of rows with equal keys; weights multiply.

        Columns: the keys, the rest of this one's, the rest of the other's. Bilinear.
        """
        _check(self.columns, on)
        _check(other.columns, on)
        rest = [c for c in other.columns if c not in on]
        twice = [c for c in rest if c in self.columns]
        if twice:
            raise ValueError(f"both sides of the join have a column {twice[0]!r} that is no key; rename one by map")
        (weight,) = other.diffs
        columns = [*on, *(c for c in self.columns if c not in on)]
        one, two = self.frame.alias("l"), other.frame.alias("r")
        outs = [*(fn.col(f"l.{ident(c)}") for c in columns), *(fn.col(f"r.{ident(c)}") for c in rest)]
        diffs = [(fn.col(f"l.{ident(d)}") * fn.col(f"r.{ident(weight)}")).alias(d) for d in self.diffs]
        met = folded(
            lambda a, b: a & b, (fn.col(f"l.{ident(k)}").eqNullSafe(fn.col(f"r.{ident(k)}")) for k in on), fn.lit(True)
        )
        return FrameZSet(one.join(two, met).select(*outs, *diffs), (*columns, *rest), self.diffs)

    #: The same join: Spark chooses how to find the partners.
    join_with_index = join

    def semijoin(self, other: FrameZSet, on: Sequence[str]) -> FrameZSet:
        """The rows whose key the other has, weights multiplied by the key's. Bilinear."""
        keys = other.map(**{k: ident(k) for k in on}).consolidated()
        return FrameZSet(self.join(keys, on).frame, self.columns, self.diffs)

    # -- neither ---------------------------------------------------------------------------------

    def antijoin(self, other: FrameZSet, on: Sequence[str]) -> FrameZSet:
        """The rows whose key the other doesn't have: this less its semijoin with the other's distinct keys."""
        return self - self.semijoin(other.keyed(on), on)

    def keyed(self, keys: Sequence[str]) -> FrameZSet:
        """Each key that any row has, listed once whatever the differences."""
        _check(self.columns, keys)
        return FrameZSet.of(self.frame.select(*map(ident, keys)).distinct())

    def distinct(self) -> FrameZSet:
        """Weight 1 for every row of a positive weight."""
        return self.threshold(lambda w: fn.when(w > 0, 1).otherwise(0))

    def threshold(self, function: Callable[[Column], Column]) -> FrameZSet:
        """Each row's weight through a function (of the column of weights)."""
        (weight,) = self.diffs
        made = self.consolidated()._with({weight: function(fn.col(ident(weight))).cast("bigint")})
        return FrameZSet(made.frame.where(fn.col(ident(weight)) != 0), self.columns, self.diffs)

    def count(self, names: Sequence[str] = ("count",)) -> FrameZSet:
        """Each row with its difference as data, weight 1: the accumulated difference moves into columns `names`."""
        if len(names) != len(self.diffs):
            raise ValueError(
                f"{len(self.diffs)} names are needed for differences of {len(self.diffs)} parts, not {list(names)}"
            )
        parts = [fn.col(ident(d)).alias(n) for d, n in zip(self.diffs, names, strict=True)]
        return FrameZSet.of(self.consolidated().frame.select(*map(ident, self.columns), *parts))

    def reduce(
        self,
        keys: Sequence[str],
        logic: Callable[[tuple[Any, ...], Rows], Mapping[tuple[Any, ...], int]],
        types: Mapping[str, str],
    ) -> FrameZSet:
        """For each key any Python function of its rows: (values to weights) to (new values to weights).

        Columns: the keys and `types`.
        """
        return self.cogroup(self.zero(), keys, lambda k, mine, _: logic(k, mine), types)

    def cogroup(
        self,
        other: FrameZSet,
        keys: Sequence[str],
        logic: Callable[[tuple[Any, ...], Rows, Rows], Mapping[tuple[Any, ...], int]],
        types: Mapping[str, str],
    ) -> FrameZSet:
        """Like `reduce`, of two Z-sets at once. A key's rows must fit into a worker's memory."""
        _check(self.columns, keys)
        _check(other.columns, keys)
        places = {c: self.frame.schema[c].dataType.simpleString() for c in keys}
        schema = StructType.fromDDL(
            ", ".join(f"{ident(n)} {t}" for n, t in {**places, **types, DIFF: "bigint"}.items())
        )
        assert isinstance(schema, StructType)
        arrow = to_arrow_schema(schema)
        ((weight,),) = {self.diffs, other.diffs}
        sides = [z.consolidated().frame for z in (self, other)]
        values = [[c for c in z.columns if c not in keys] for z in (self, other)]

        def rows(table: pa.Table, columns: list[str]) -> Rows:
            listed = [table[c].to_pylist() for c in columns]
            made = zip(*listed, strict=True) if columns else ((),) * table.num_rows
            return dict(zip(made, table[weight].to_pylist(), strict=True))

        def grouped(key: tuple[Any, ...], mine: pa.Table, theirs: pa.Table) -> pa.Table:
            plain = tuple(k.as_py() for k in key)
            found = {r: w for r, w in logic(plain, rows(mine, values[0]), rows(theirs, values[1])).items() if w}
            columns = [[(*plain, *r)[i] for r in found] for i in range(len(arrow.names) - 1)]
            return pa.Table.from_arrays(
                [pa.array(v, f.type) for v, f in zip([*columns, list(found.values())], arrow, strict=True)],
                schema=arrow,
            )

        made = (
            sides[0]
            .groupBy(*map(ident, keys))
            .cogroup(sides[1].groupBy(*map(ident, keys)))
            .applyInArrow(grouped, schema)
        )
        return FrameZSet(made, (*keys, *types))

    def top_k(self, keys: Sequence[str], by: Sequence[str], k: int) -> FrameZSet:
        """The first k rows (with their multiplicity) of each key, by `by` and then by all columns."""
        _check(self.columns, keys, by)
        (weight,) = self.diffs
        order = [*by, *(c for c in self.columns if c not in by and c not in keys)]
        before = (
            Window.partitionBy(*map(ident, keys)).orderBy(*map(ident, order)).rowsBetween(Window.unboundedPreceding, -1)
        )
        there = self.consolidated().frame.where(fn.col(ident(weight)) > 0)
        left = fn.lit(k) - fn.coalesce(fn.sum(ident(weight)).over(before), fn.lit(0))
        kept = there.withColumn(weight, fn.least(fn.col(ident(weight)), left)).where(fn.col(ident(weight)) > 0)
        return FrameZSet(kept, self.columns, self.diffs)

    def iterate(self, step: Callable[[FrameZSet], FrameZSet], limit: int = 1000) -> FrameZSet:
        """The least fixpoint of x = distinct(this + step(x)), `step` linear. Raises IterationLimitError."""
        return iterate(self, step, limit)

    def _with(self, outputs: Mapping[str, Column]) -> FrameZSet:
        return FrameZSet(self.frame.withColumns(dict(outputs)), self.columns, self.diffs)


class FrameTrace:
    """The accumulated Z-set of a stream over DataFrames, settled batch by batch."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self.total: FrameZSet | None = None

    def append(self, batch: FrameZSet) -> None:
        self.total = (batch if self.total is None else self.total + batch).consolidated().settled()

    def of_keys(self, keys: FrameZSet) -> FrameZSet | None:
        """The rows of some keys (each listed once); None where nothing is accumulated."""
        return None if self.total is None else self.total.semijoin(keys, self.keys)


def _check(columns: Sequence[str], *named: Sequence[str]) -> None:
    missing = [n for names in named for n in names if n not in columns]
    if missing:
        raise UnknownColumnError(f"there is no column {', '.join(missing)}; the Z-set has {', '.join(columns)}")
