"""The sources that all contestants read, and a place of its own for each of them.

    FOLDER/data          TPC-H as Parquet, kept from run to run
    FOLDER/lake/sources  Delta tables, made anew in each run, but where it goes on with an earlier one's
    FOLDER/lake/NAME     what a contestant makes
    FOLDER/lake/batches  how many batches of changes were committed
    FOLDER/lake/builds   the seconds of first builds, by contestant, as JSON

Invariant: what a run changes was made by a benchmark.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from ivm.demo import tpch
from ivm.demo.bench.asked import REFRESH_FUNCTIONS, Asked
from ivm.demo.bench.steps import Steps
from ivm.demo.main import clear, repository
from ivm.errors import ConfigError
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
        self._batches = folder / "lake" / "batches"
        self._builds = folder / "lake" / "builds"
        self._left: frozenset[str] = frozenset()

    def load(self, steps: Steps) -> None:
        """Make the sources anew, and nothing else, or find those of an earlier run.

        Raises ConfigError where the folder's lake is no benchmark's, or there is none to go on with.
        """
        if self._asked.again:
            if not self._batches.is_file():
                raise ConfigError(
                    f"No benchmark left a lake in {self._folder}.",
                    "Run one there without --again, or name its --folder.",
                )
            self._left = frozenset(place.name for place in self._batches.parent.iterdir())
            return
        steps.expect(2)
        clear(self._folder)
        steps.at(f"TPC-H at scale {self._asked.scale:g}")
        tpch.generate(self._folder / "data", self._asked.scale)
        steps.at("loading the sources")
        tpch.load(self.spark, self._folder / "data", self.sources)
        self._batches.write_text("0\n")
        self._builds.write_text("{}\n")

    @property
    def batches(self) -> int:
        """How many batches of changes were committed."""
        return int(self._batches.read_text())

    def built(self, name: str, seconds: float | None = None) -> list[float]:
        """The seconds of a contestant's first builds, with those of another one."""
        found: dict[str, list[float]] = json.loads(self._builds.read_text())
        if seconds is not None:
            found.setdefault(name, []).append(round(seconds, 3))
            self._builds.write_text(json.dumps(found) + "\n")
        return found.get(name, [])

    def there(self, name: str) -> bool:
        """Whether a contestant kept something here in an earlier run."""
        return name in self._left

    def place(self, name: str) -> Path:
        """A contestant's folder, which it makes itself."""
        return self._folder / "lake" / name

    def pipeline(self, name: str, **settings: str) -> Path:
        """A copy of pipelines/tpch over these sources, with a root of its own; `settings` are keys of its yml.

        Where an earlier run left it, it is taken as it is.
        """
        place = self.place(name)
        if self.there(name):
            return place / "pipeline"
        shutil.copytree(repository() / "pipelines" / "tpch", place / "pipeline")
        file = place / "pipeline" / "pipeline.yml"
        config = yaml.safe_load(file.read_text()) | {"root": str(place / "root"), **settings}
        for source, declared in config["sources"].items():
            declared["path"] = str(self.sources / source)
        file.write_text(yaml.safe_dump(config, sort_keys=False))
        return place / "pipeline"

    def change(self, fraction: float) -> None:
        """Commit the next batch: about this share of the rows of each changing table."""
        number = self.batches + 1
        self._batches.write_text(f"{number}\n")
        only = self._asked.changes == REFRESH_FUNCTIONS
        tpch.change(self.spark, self.sources, number, fraction, refresh_functions_only=only)

    def change_row(self, q03: str) -> None:
        """Update one order that a published q03 (its table's path) shows."""
        (order,) = self.spark.sql(f"SELECT max(l_orderkey) FROM {table_ref(q03)}").collect()[0]
        orders = table_ref(str(self.sources / "orders"))
        update = f"UPDATE {orders} SET o_shippriority = o_shippriority + 1 WHERE o_orderkey = {int(order)}"
        self.spark.sql(update).collect()
