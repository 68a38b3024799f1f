"""What statements give: Arrow up to a limit, staged beyond it.

A statement that is taken for a small one is collected, and run again to be staged where it gives more; one that is
taken for a large one is staged at once, and collected where it gave few.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from ivm.engine.rows import Rows, StagedRows, stage
from ivm.lake.shapes import plain
from ivm.plan.nodes import EPOCH, Column
from ivm.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Results:
    """Runs the statements of one unit in one epoch.

    `folder` takes what is staged, `most` is how many rows are collected, `large` says that there will be more. What is
    staged under a batch's columns (its names and types, by position) is stamped with the epoch, as a trace holds it.
    """

    spark: Callable[[], SparkSession]
    folder: Location
    epoch: int
    most: int
    large: bool = False
    #: Sees that Spark knows the names in a statement.
    ready: Callable[[str], None] = lambda _: None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def rows(self, sql: str, batch: Sequence[Column] | None = None) -> Rows:
        """A statement's rows, staged where they are more than `most`."""
        self.ready(sql)
        if not self.large:
            found = self.spark().sql(sql).limit(self.most + 1).toArrow()
            if found.num_rows <= self.most:
                return plain(found)
        staged = self.stage(sql, batch)
        if staged.num_rows > self.most:
            return staged
        few = staged.collect(self.most)
        return few.drop_columns([EPOCH]) if batch is not None else few

    def stage(self, sql: str, batch: Sequence[Column] | None = None) -> StagedRows:
        """A statement's rows, staged however few they are."""
        self.ready(sql)
        return stage(self.spark(), sql, self.folder / f"rows_{next(self._numbers)}", batch, {EPOCH: self.epoch})

    def collected(self, sql: str) -> pa.Table:
        """The rows of a statement that gives few whatever it reads: counts and capped samples."""
        return plain(self.spark().sql(sql).toArrow())
