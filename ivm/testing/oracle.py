"""The oracle: drive views through random change batches and compare each with a full recompute after each.

lake = Lake(spark, folder, seed=7)
lake.table("t", "k bigint, v int", rows=50)
lake.check({"v1": "SELECT k, sum(v) AS s FROM t GROUP BY k"}, batches=5)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ivm.lake import native
from ivm.names import ident
from ivm.pipeline import Pipeline
from ivm.planner.limits import EMBEDDED, Limits
from ivm.refresh.verify import FLOAT_DIGITS, recompute_sql
from ivm.session import statements

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Kinds of change that a batch is made of.
CHANGES = ("insert", "delete", "update", "duplicate", "delete_key", "no_op", "reinsert")


@dataclass
class Lake:
    """Random Delta sources with change feeds. Equal seeds make equal lakes and equal changes."""

    spark: SparkSession
    folder: Path
    seed: int = 0
    tables: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    #: Of the pipelines over it.
    limits: Limits = EMBEDDED
    #: Likewise; "" for what the environment says.
    engine: str = ""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def path(self, table: str) -> str:
        return str(self.folder / "sources" / table)

    def ref(self, table: str) -> str:
        return f"delta.{ident(self.path(table))}"

    def table(self, name: str, ddl: str, rows: int = 30) -> None:
        """Create a table with random rows; a column is `name type`, types as in Spark."""
        columns = [(c.split()[0], c.split(maxsplit=1)[1]) for c in _columns(ddl)]
        self.tables[name] = columns
        self.spark.sql(
            f"CREATE TABLE {self.ref(name)} ({ddl}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        )
        if rows:
            self.insert(name, rows)

    def insert(self, name: str, rows: int) -> None:
        values = ", ".join("(" + ", ".join(self.value(t) for _, t in self.tables[name]) + ")" for _ in range(rows))
        self.spark.sql(f"INSERT INTO {self.ref(name)} VALUES {values}")

    def value(self, type_: str) -> str:
        """A random literal from a small, skewed domain with NULLs."""
        if self.random.random() < 0.1:
            return f"CAST(NULL AS {type_})"
        n = min(int(self.random.expovariate(0.4)), 8)
        if type_.startswith("decimal"):
            return f"CAST({n}.{self.random.randint(0, 99):02d} AS {type_})"
        if type_.startswith("struct<"):
            return f"CAST(struct({', '.join(self.value(f.split(':')[1]) for f in type_[7:-1].split(','))}) AS {type_})"
        if type_.startswith("array<"):
            return f"CAST(array({', '.join(self.value(type_[6:-1]) for _ in range(n % 4))}) AS {type_})"
        if type_ == "string":
            return f"'{'abcdefghi'[n]}'"
        if type_ == "date":
            return f"DATE '2024-01-0{n + 1}'"
        if type_ == "boolean":
            return str(n % 2 == 0).lower()
        return f"CAST({n} AS {type_})"

    def change(self, name: str) -> str:
        """Apply one random change to a table; returns its kind."""
        kind = self.random.choice(CHANGES)
        column, type_ = self.random.choice(self.tables[name])
        key, key_type = self.tables[name][0]
        some = f"{ident(key)} <=> {self.value(key_type)}"
        ref = self.ref(name)
        if kind == "insert":
            self.insert(name, self.random.randint(1, 4))
        elif kind == "duplicate":
            self.spark.sql(f"INSERT INTO {ref} SELECT * FROM {ref} WHERE {some}")
        elif kind == "delete":
            self.spark.sql(f"DELETE FROM {ref} WHERE {some} AND {ident(column)} <=> {self.value(type_)}")
        elif kind == "delete_key":
            self.spark.sql(f"DELETE FROM {ref} WHERE {some}")
        elif kind == "update":
            self.spark.sql(f"UPDATE {ref} SET {ident(column)} = {self.value(type_)} WHERE {some}")
        elif kind == "no_op":
            self.spark.sql(f"UPDATE {ref} SET {ident(column)} = {ident(column)} WHERE {some}")
        else:
            rows = self.spark.sql(f"SELECT * FROM {ref} WHERE {some}").collect()
            self.spark.sql(f"DELETE FROM {ref} WHERE {some}")
            if rows:
                schema = self.spark.sql(f"SELECT * FROM {ref} LIMIT 0").schema
                self.spark.createDataFrame(rows, schema).write.format("delta").mode("append").save(self.path(name))
        return kind

    def pipeline(
        self, views: Mapping[str, str], mode: str = "auto", lane: str = "auto", root: str = "root"
    ) -> Pipeline:
        """A pipeline over all tables with these views, its state in the folder `root` of the lake."""
        pipe = Pipeline("oracle", self.spark, self.folder / root, lane=lane, limits=self.limits, engine=self.engine)
        for name in self.tables:
            pipe.source(name, self.path(name))
        for name, sql in views.items():
            pipe.view(name, sql, mode=mode)
        return pipe

    def check(
        self, views: Mapping[str, str], batches: int = 4, changes: int = 3, mode: str = "auto", lane: str = "auto"
    ) -> Pipeline:
        """Build the views, then compare them with a recompute after each batch.

        Raises AssertionError naming seed and batch.
        """
        pipe = self.pipeline(views, mode, lane)
        self.compare(pipe, "first build")
        for batch in range(1, batches + 1):
            kinds = [
                f"{kind} {name}"
                for _ in range(changes)
                for name in [self.random.choice(list(self.tables))]
                for kind in [self.change(name)]
            ]
            self.compare(pipe, f"batch {batch} ({', '.join(kinds)})")
        return pipe

    def compare(self, pipe: Pipeline, what: str) -> None:
        """Refresh and compare all views; raises AssertionError that names the seed, what was done, and the rows."""
        found = self.differences(pipe)
        if found:
            raise AssertionError(f"seed {self.seed}, {what}: {found}")

    def differences(self, pipe: Pipeline) -> dict[str, str]:
        """Refresh, and compare all views with their recompute in Python: what fails or differs, by view.

        Takes half the time of `Pipeline.verify`, whose one statement reads both sides in Spark and counts them there.
        """
        report = pipe.refresh()
        found = {name: f"failed: {view.error}" for name, view in report.views.items() if view.error}
        manifest = pipe.context.log.manifest()
        with statements(self.spark, small=True):
            for name, view in report.views.items():
                if name in found:
                    continue
                expected = bag(self.spark.sql(recompute_sql(pipe.context, name.lower(), manifest)).toArrow())
                actual = bag(native.table(pipe.context.layout.table(name.lower(), True)).to_pyarrow_table())
                if actual != expected:
                    found[name] = (
                        f"{view.strategy}: missing {list((expected - actual).items())[:3]}, "
                        f"unexpected {list((actual - expected).items())[:3]}"
                    )
        return found


def bag(rows: pa.Table) -> Counter[str]:
    """Rows as a bag: each as text, floats to FLOAT_DIGITS digits, maps (pyarrow's lists of pairs) sorted."""
    return Counter(
        repr(tuple(_plain(v) for v in row)) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True)
    )


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return f"{value + 0.0:.{FLOAT_DIGITS - 1}e}"
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        listed = [_plain(v) for v in value]
        return sorted(listed, key=repr) if value and isinstance(value[0], tuple) else listed
    return (value[0], _plain(value[1])) if isinstance(value, tuple) else value


def _columns(ddl: str) -> list[str]:
    """Split a column list at its top-level commas.

    >>> _columns("a int, b decimal(5,2)")
    ['a int', 'b decimal(5,2)']
    """
    parts, depth, start = [], 0, 0
    for i, char in enumerate(ddl):
        depth += (char in "(<") - (char in ")>")
        if char == "," and depth == 0:
            parts.append(ddl[start:i].strip())
            start = i + 1
    return [*parts, ddl[start:].strip()]
