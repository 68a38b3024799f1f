"""Spark's full rebuild: each view's own SQL over the newest sources into a plain Delta table, one after another.

It is what a user without ivm runs each night. The session is the one that ivm's refreshes use, with the settings that
suit statements over whole tables; they are set for the rebuild only, and put back.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from ivm.demo import tpch
from ivm.demo.bench.asked import REBUILD
from ivm.demo.bench.lake import Lake
from ivm.demo.bench.taken import Taken
from ivm.names import table_ref
from ivm.refresh.views import View
from ivm.session import configured
from ivm.sql.text import splice

#: Spark's own defaults, written out, and so many partitions after a shuffle as two waves of tasks need.
SETTINGS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.constraintPropagation.enabled": "true",
    "spark.sql.files.openCostInBytes": "4194304",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}


class SparkRebuild:
    """A view that reads another one reads that one's table of the same rebuild."""

    name = REBUILD

    def __init__(self, lake: Lake, views: Sequence[View]) -> None:
        self._spark = lake.spark
        self._views = views
        place = lake.place(self.name)
        self._tables = {v.name: table_ref(str(place / v.name)) for v in views}
        self._relations = {n: table_ref(str(lake.sources / n)) for n in tpch.TABLES} | self._tables

    def run(self, views: Sequence[str] | None = None) -> Taken:
        """Rebuild all, or those named."""
        by_view = {}
        started = time.perf_counter()
        with configured(self._spark, SETTINGS):
            for view in self._views:
                if views is None or view.name in views:
                    begun = time.perf_counter()
                    query = splice(view.sql, self._relations)
                    self._spark.sql(f"CREATE OR REPLACE TABLE {self._tables[view.name]} USING delta AS {query}")
                    by_view[view.name] = time.perf_counter() - begun
        return Taken(time.perf_counter() - started, by_view)
