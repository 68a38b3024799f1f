"""DuckDB's full rebuild: each view's own SQL, transpiled, over the sources' live rows into a Parquet file.

    rows of a source = rows of its newest version's Parquet files, less those that deletion vectors hide

Where some are hidden the others are copied first, into a file of DuckDB's own, with the columns that the views name:
behind a join with hidden rows, or a condition on their places, its optimizer knows little of the others, and orders
joins badly (TPC-H's q08 and q09 at SF10 took 240 s). Finding files and hidden rows, and copying, are part of what a
rebuild takes. DuckDB runs with its own defaults, on all cores and half of the memory; Spark's JVM stands beside it.
What it can't run is listed with its error.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import sqlglot

from ivm.demo import tpch
from ivm.demo.bench.asked import DUCKDB
from ivm.demo.bench.lake import Lake
from ivm.demo.bench.taken import Taken
from ivm.errors import ConfigError
from ivm.lake import native
from ivm.lake.parquet_scan import hidden_rows
from ivm.names import native_ident, native_literal
from ivm.refresh.views import View

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def duck_sql(sql: str) -> str:
    """A view's SQL as DuckDB writes it."""
    return str(sqlglot.transpile(sql, read="spark", write="duckdb")[0])


def _words(view: View) -> set[str]:
    """All words of a view's SQL, names of tables and columns among them."""
    return set(re.findall(r"\w+", view.sql.lower()))


class DuckRebuild:
    """A view that reads another one reads that one's file of the same rebuild.

    Raises ConfigError where DuckDB isn't installed.
    """

    name = DUCKDB

    def __init__(self, lake: Lake, views: Sequence[View]) -> None:
        try:
            import duckdb
        except ImportError as error:
            mend = "Install it with `pip install 'ivm[embedded]'`, or leave it out of --engines."
            raise ConfigError("DuckDB, a contestant, is not installed.", mend) from error
        self._failure = duckdb.Error
        self._views = views
        self._sources = lake.sources
        self._place = lake.place(self.name)
        self._place.mkdir(parents=True, exist_ok=True)
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        settings = {"memory_limit": f"{half}B", "temp_directory": str(self._place / "spilled")}
        copies = self._place / "rows.duckdb"
        copies.unlink(missing_ok=True)
        self._database: DuckDBPyConnection = duckdb.connect(str(copies), config=dict(settings))
        self._named = {word for view in views for word in _words(view)}

    def run(self, views: Sequence[str] | None = None) -> Taken:
        """Rebuild all, or those named."""
        by_view, failed = {}, {}
        started = time.perf_counter()
        chosen = [view for view in self._views if views is None or view.name in views]
        for source in set(tpch.TABLES) & {word for view in chosen for word in _words(view)}:
            self._open(source)
        for view in chosen:
            begun = time.perf_counter()
            try:
                self._write(view)
                by_view[view.name] = time.perf_counter() - begun
            except self._failure as error:
                failed[view.name] = str(error).splitlines()[0]
        return Taken(time.perf_counter() - started, by_view, failed=failed)

    def rows(self) -> dict[str, int]:
        """How many rows each view has that was written."""
        import pyarrow.parquet as pq

        files = {v.name: self._place / f"{v.name}.parquet" for v in self._views}
        return {n: int(pq.read_metadata(f).num_rows) for n, f in files.items() if f.exists()}

    def _open(self, source: str) -> None:
        """Make a view of a source's live rows, with at least the columns that are named."""
        place = self._sources / source
        delta = native.table(str(place))
        names = [unquote(p) for p in native.actions(delta)["path"].to_pylist()]
        hidden = hidden_rows(delta, {n: i for i, n in enumerate(names)})
        files = ", ".join(native_literal(str(place / n)) for n in names)
        named = [f.name for f in delta.schema().fields if f.name.lower() in self._named]
        columns = ", ".join(map(native_ident, named or [delta.schema().fields[0].name]))
        sql = f"SELECT {columns} FROM read_parquet([{files}], file_row_number = true) AS t"
        if hidden.num_rows:
            self._database.register("hidden", hidden)
            self._database.execute(f"CREATE OR REPLACE TABLE hidden_{source} AS SELECT * FROM hidden")
            self._database.unregister("hidden")
            # As NOT EXISTS it groups all rows by their places first.
            sql += f" ANTI JOIN hidden_{source} AS h ON h.i = t.file_index AND h.r = t.file_row_number"
            self._database.execute(f"CREATE OR REPLACE TABLE live_{source} AS {sql}")
            sql = f"SELECT * FROM live_{source}"
        self._database.execute(f"CREATE OR REPLACE VIEW {source} AS {sql}")

    def _write(self, view: View) -> None:
        file = native_literal(str(self._place / f"{view.name}.parquet"))
        self._database.execute(f"COPY ({duck_sql(view.sql)}) TO {file} (FORMAT parquet)")
        self._database.execute(f"CREATE OR REPLACE VIEW {view.name} AS SELECT * FROM read_parquet({file})")
