"""DuckDB in the place of a Spark session: what the refresh protocol asks of Spark, over small tables, without a JVM.

Only what `ivm.refresh` and `ivm.feed` call is here. The protocol, its tables (delta-rs) and its files are the real
ones, so that thousands of faults can be tried in the time that Spark takes for some; what Spark computes is tested
elsewhere.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from deltalake import DeltaTable
from pyspark.errors import AnalysisException, SparkRuntimeException
from sqlglot import exp

from ivm.lake import parquet
from ivm.lake.shapes import plain
from ivm.parameters import location
from ivm.storage.location import Location
from ivm.testing.primitives import Kind, Primitive, written_at

#: DuckDB's types as Spark calls them; sums are wider in DuckDB.
_TYPES = {
    "INTEGER": "int", "BIGINT": "bigint", "HUGEINT": "bigint", "VARCHAR": "string", "BOOLEAN": "boolean",
    "TIMESTAMP WITH TIME ZONE": "timestamp", "TIMESTAMP": "timestamp_ntz",
}  # fmt: skip
_JSON = {"int": "integer", "bigint": "long"}
#: DuckDB has no hints.
_HINT = re.compile(r"/\*\+.*?\*/")
_DUCK = {
    "int": "INTEGER", "bigint": "BIGINT", "string": "VARCHAR", "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP",
}  # fmt: skip


class DuckSession:
    """Stands for a SparkSession; statements are Spark's SQL, translated."""

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        # DuckDB 2.0's statistics lose rows that an outer join pads where a table of the join is empty.
        self.connection.execute("SET disabled_optimizers = 'statistics_propagation'")
        self.connection.execute("SET TimeZone = 'UTC'")
        # Spark's hash of a row, as far as audits ask: of pairs (is it NULL, the value); what it is plays no part.
        hashes = [
            f"({', '.join(f'p{i}' for i in range(n))}) AS hash([{', '.join(f'p{i}::VARCHAR' for i in range(n))}]) >> 1"
            for n in range(2, 13, 2)
        ]
        self.connection.execute(f"CREATE MACRO xxhash64{', '.join(hashes)}")
        self.connection.execute("CREATE MACRO try_sum(x) AS sum(x)")
        self.connection.execute("CREATE MACRO pmod(a, b) AS ((a::HUGEINT % b) + b) % b")
        self.lock = threading.RLock()
        self._names = itertools.count()
        self.conf = SimpleNamespace(
            get=lambda key, default=None: default, set=lambda key, value: None, unset=lambda key: None, getAll={}
        )
        self.catalog = SimpleNamespace(dropTempView=self._drop)

    def sql(self, text: str) -> Frame:
        if text == "SHOW USER FUNCTIONS":
            return Frame(self, "SELECT '' AS function WHERE false")
        if text.startswith("EXPLAIN EXTENDED "):
            # It has no variables, and one plan for all: what names mean, Spark is asked.
            return Frame(self, "SELECT '== Analyzed Logical Plan ==\n== Optimized Logical Plan ==\nany' AS plan")
        with self.lock:
            tree = sqlglot.parse_one(_HINT.sub("", text), read="spark").transform(self._resolved)
        return Frame(self, tree.sql(dialect="duckdb"))

    def table(self, name: str) -> Frame:
        return Frame(self, f'SELECT * FROM "{name}"')

    @property
    def read(self) -> Reader:
        return Reader(self)

    def _resolved(self, node: exp.Expression) -> exp.Expression:
        """delta.`path` (VERSION AS OF n) and parquet.`path` become tables that DuckDB knows."""
        if not isinstance(node, exp.Table) or node.db not in ("delta", "parquet"):
            return node
        version = int(node.args["version"].expression.name) if node.args.get("version") else None
        made = exp.to_table(f'"{self._loaded(node.db, node.name, version)}"')
        if node.alias:
            made = exp.alias_(made, node.alias, table=True, quoted=True)
        for join in node.args.get("joins") or ():
            made.append("joins", join)
        return made

    def _loaded(self, kind: str, path: str, version: int | None) -> str:
        name = f"loaded_{next(self._names)}"
        place = Location.of(location(path, "a path"))  # Spark's spelling becomes ours
        rows = (
            DeltaTable(place.url, version=version).to_pyarrow_table()
            if kind == "delta"
            else parquet.dataset(place).to_table()
        )
        with self.lock:
            self.connection.register(name, rows)
        return name

    def _drop(self, name: str) -> None:
        with self.lock:
            self.connection.execute(f'DROP VIEW IF EXISTS "{name}"')


class Frame:
    """Stands for a DataFrame; it runs when it is asked for rows."""

    def __init__(self, session: DuckSession, sql: str, observation: Any = None) -> None:
        self.session, self.text, self.observation = session, sql, observation

    def observe(self, observation: Any, *expressions: Any) -> Frame:
        """The product observes one thing: how many rows a write has."""
        return Frame(self.session, self.text, observation)

    def _described(self) -> list[tuple[str, str]]:
        with self.session.lock:
            rows = self.session.connection.execute(f"DESCRIBE {self.text}").fetchall()
        return [(name, _TYPES.get(type_) or type_.lower()) for name, type_, *_ in rows]

    @property
    def columns(self) -> list[str]:
        return [name for name, _ in self._described()]

    @property
    def schema(self) -> Schema:
        return Schema(self._described())

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        with self.session.lock:
            casts = ", ".join(f'"{n}"::{_DUCK.get(t) or t} AS "{n}"' for n, t in self._described())
            return self.session.connection.sql(f"SELECT {casts} FROM ({self.text})").to_arrow_table()

    def collect(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in self.toArrow().to_pylist()]

    def count(self) -> int:
        return self.toArrow().num_rows

    def select(self, *columns: str) -> Frame:
        listed = ", ".join(c.replace("`", '"') for c in columns)
        return Frame(self.session, f"SELECT {listed} FROM ({self.text})")

    def selectExpr(self, *expressions: str) -> Frame:  # noqa: N802 - Spark's name
        return self.select(*expressions)

    def limit(self, rows: int) -> Frame:
        return Frame(self.session, f"SELECT * FROM ({self.text}) LIMIT {rows}")

    def coalesce(self, partitions: int) -> Frame:
        """The rows are one partition."""
        return self

    def toDF(self, *names: str) -> Frame:  # noqa: N802 - Spark's name
        listed = ", ".join(f'"{n}"' for n in names)
        return Frame(self.session, f"SELECT * FROM ({self.text}) AS named({listed})")

    def sameSemantics(self, other: Frame) -> bool:  # noqa: N802 - Spark's name
        return True

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        with self.session.lock:
            self.session.connection.execute(f'CREATE OR REPLACE TEMP VIEW "{name}" AS {self.text}')

    @property
    def write(self) -> Writer:
        return Writer(self)


class Schema:
    """Stands for a StructType."""

    def __init__(self, columns: Sequence[tuple[str, str]]) -> None:
        self.fields = [
            SimpleNamespace(name=n, dataType=SimpleNamespace(simpleString=lambda t=t: t)) for n, t in columns
        ]

    def __getitem__(self, name: str) -> Any:
        return next(f for f in self.fields if f.name == name)

    def json(self) -> str:
        fields = []
        for f in self.fields:
            kind = f.dataType.simpleString()
            fields.append({"name": f.name, "type": _JSON.get(kind, kind), "nullable": True, "metadata": {}})
        return json.dumps({"type": "struct", "fields": fields})


class Reader:
    """Stands for a DataFrameReader of Parquet, of text and of change feeds."""

    def __init__(self, session: DuckSession) -> None:
        self.session = session
        self.options: dict[str, Any] = {}

    def format(self, kind: str) -> Reader:
        return self

    def option(self, key: str, value: Any) -> Reader:
        self.options[key] = value
        return self

    def load(self, path: str) -> Frame:
        """A table's change feed."""
        first, last = self.options["startingVersion"], self.options["endingVersion"]
        place = Location.of(location(path, "a path"))
        feed = pa.table(DeltaTable(place.url, version=last).load_cdf(starting_version=first, ending_version=last))
        name = f"loaded_{next(self.session._names)}"
        with self.session.lock:
            self.session.connection.register(name, plain(feed))
        return Frame(self.session, f'SELECT * FROM "{name}"')

    def schema(self, ddl: str) -> Reader:
        return self

    def parquet(self, *paths: str) -> Frame:
        parts = [self.session._loaded("parquet", path, None) for path in paths]
        return Frame(self.session, " UNION ALL ".join(f'SELECT * FROM "{p}"' for p in parts))

    def text(self, path: str) -> None:
        """Only looked up (see `ivm.visible`)."""
        if not Location.of(location(path, "a path")).exists():
            raise AnalysisException(f"[PATH_NOT_FOUND] Path does not exist: {path}. SQLSTATE: 42K03")


class Writer:
    """Stands for a DataFrameWriter of Parquet."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.how = frame, "errorifexists"

    def mode(self, how: str) -> Writer:
        self.how = how
        return self

    def option(self, key: str, value: str) -> Writer:
        return self

    def parquet(self, path: str) -> None:
        rows = self.frame.toArrow()
        folder = Location.of(location(path, "a path"))
        if folder.exists() and self.how != "overwrite":
            raise SparkRuntimeException(f"[PATH_ALREADY_EXISTS] Path {path} already exists. SQLSTATE: 42K04")
        for old in folder.list():
            old.drop()
        folder.make()
        half = (rows.num_rows + 1) // 2
        for number, part in enumerate((rows.slice(0, half), rows.slice(half))):
            parquet.write(part, folder / f"part-{number:05d}.parquet", half or 1)
        (folder / "_SUCCESS").write(b"")
        if self.frame.observation is not None:
            self.frame.observation._result = {"rows": rows.num_rows}


#: The write that takes the place of Spark's, for the fault injector.
WRITES = (
    Primitive("tests.pure.duck_session", "Writer", "parquet", Kind.SPARK, written_at("spark", 1, "path"), "spark"),
)
