"""The sources that all contestants read, and a place of its own for each of them.

    FOLDER/data          TPC-H as Parquet, kept from run to run
    FOLDER/lake/sources  Delta tables, made anew in each run
    FOLDER/lake/NAME     what a contestant makes

Invariant: what a run changes was made by it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from ivm.demo import tpch
from ivm.demo.bench.asked import REFRESH_FUNCTIONS, Asked
from ivm.demo.bench.steps import Steps
from ivm.demo.main import clear, repository
from ivm.names import table_ref

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Lake:
    """One run's sources; batches are numbered, since a batch's rows are chosen by its number."""

    def __init__(self, spark: SparkSession, folder: Path, asked: Asked) -> None:
        self.spark = spark
        self.sources = folder / "lake" / "sources"
        self._folder = folder
        self._asked = asked
        self._batch = 0

    def load(self, steps: Steps) -> None:
        """Make the sources anew, and nothing else. Raises ConfigError where the folder's lake is no benchmark's."""
        steps.expect(2)
        clear(self._folder)
        steps.at(f"TPC-H at scale {self._asked.scale:g}")
        tpch.generate(self._folder / "data", self._asked.scale)
        steps.at("loading the sources")
        tpch.load(self.spark, self._folder / "data", self.sources)

    def place(self, name: str) -> Path:
        """A contestant's folder, which it makes itself."""
        return self._folder / "lake" / name

    def pipeline(self, name: str, **settings: str) -> Path:
        """A copy of pipelines/tpch over these sources, with a root of its own; `settings` are keys of its yml."""
        place = self.place(name)
        shutil.copytree(repository() / "pipelines" / "tpch", place / "pipeline")
        file = place / "pipeline" / "pipeline.yml"
        config = yaml.safe_load(file.read_text()) | {"root": str(place / "root"), **settings}
        for source, declared in config["sources"].items():
            declared["path"] = str(self.sources / source)
        file.write_text(yaml.safe_dump(config, sort_keys=False))
        return place / "pipeline"

    def change(self, fraction: float) -> None:
        """Commit the next batch: about this share of the rows of each changing table."""
        self._batch += 1
        only = self._asked.changes == REFRESH_FUNCTIONS
        tpch.change(self.spark, self.sources, self._batch, fraction, refresh_functions_only=only)

    def change_row(self, q03: str) -> None:
        """Update one order that a published q03 (its table's path) shows."""
        (order,) = self.spark.sql(f"SELECT max(l_orderkey) FROM {table_ref(q03)}").collect()[0]
        orders = table_ref(str(self.sources / "orders"))
        update = f"UPDATE {orders} SET o_shippriority = o_shippriority + 1 WHERE o_orderkey = {int(order)}"
        self.spark.sql(update).collect()
