"""The definitions of a Python file, by pyspark's own registry: the file runs, and its decorators tell what it defines.

Invariant: no session is opened and no data is read. `spark` is a stand-in that keeps what `spark.sql` and
`spark.table` are given; a DataFrame has no SQL, so a function that builds one in any other way is told by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from pyspark.pipelines.flow import AutoCdcFlow, Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry, graph_element_registration_context
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, Table, TemporaryView
from pyspark.pipelines.source_code_location import SourceCodeLocation
from pyspark.sql import SparkSession

from ivm.errors import ConfigError, ViewError
from ivm.files import read_text
from ivm.names import ident
from ivm.sdp import statements
from ivm.sdp.datasets import Dataset, Kind
from ivm.sql.text import first_line

_KINDS = {
    MaterializedView: Kind.MATERIALIZED,
    TemporaryView: Kind.TEMPORARY,
    StreamingTable: Kind.STREAMING,
    Sink: Kind.SINK,
}
_HINT = 'Write it as return spark.sql("SELECT ...").'


def read(file: Path, folder: Path, configuration: Mapping[str, str]) -> list[Dataset]:
    """Run a file in the project's folder, as `spark-pipelines` does. Raises ConfigError where it fails."""
    session, registry = Session(Conf(configuration)), Definitions(folder)
    module = ModuleType(file.stem)
    module.__dict__.update({"__file__": str(file), "spark": session})
    code = read_text(file)
    with contextlib.chdir(folder), _active(session), graph_element_registration_context(registry):
        try:
            exec(compile(code, str(file), "exec"), module.__dict__)
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"{file.relative_to(folder)} can't be run without a session: {_told(error)}.",
                "What it does outside of the functions has to work without data; or name the project's other files.",
            ) from error
    return registry.datasets()


class Definitions(GraphElementRegistry):
    """What is defined, in order. A function that defines a view is called once, when it is registered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._outputs: list[Output] = []
        self._queries: dict[str, tuple[str, str]] = {}
        self._settled: set[str] = set()
        self._others: list[Dataset] = []

    def register_output(self, output: Output) -> None:
        self._outputs.append(output)

    def register_flow(self, flow: Flow) -> None:
        own = [o for o in self._outputs if o.name == flow.name == flow.target]
        if not own:
            self._others.append(Dataset(flow.name, Kind.FLOW, self._where(flow.source_code_location)))
        elif isinstance(own[-1], MaterializedView | TemporaryView):
            self._queries[flow.target] = _query(flow)
            self._settled |= {flow.target} if flow.spark_conf else set()

    def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
        self._others.append(Dataset(flow.name or flow.target, Kind.FLOW, self._where(flow.source_code_location)))

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        self._others += statements.read(sql_text, str(file_path))

    def datasets(self) -> list[Dataset]:
        return [self._dataset(output) for output in self._outputs] + self._others

    def _dataset(self, output: Output) -> Dataset:
        sql, reason = self._queries.get(output.name, ("", "its definition has no query"))
        clauses = ["spark_conf"] if output.name in self._settled else []
        properties = {}
        if isinstance(output, Table):
            properties = {k: str(v) for k, v in output.table_properties.items()}
            named = {"partition_cols": output.partition_cols, "cluster_by": output.cluster_by, "schema": output.schema}
            clauses += [argument for argument, value in named.items() if value]
        where = self._where(output.source_code_location)
        return Dataset(output.name, _KINDS[type(output)], where, sql, reason, properties, tuple(clauses))

    def _where(self, location: SourceCodeLocation) -> str:
        file = Path(location.filename)
        return f"{file.relative_to(self._folder) if file.is_relative_to(self._folder) else file}:{location.line_number}"


def _query(flow: Flow) -> tuple[str, str]:
    """The SQL that a function returns, or why there is none."""
    try:
        returned: Any = flow.func()
    except ViewError as error:
        return "", _told(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a stranger's function does, it is told
        return "", f"its function can't be run without a session: {_told(error)}"
    if isinstance(returned, Query):
        return returned.sql, ""
    return "", f"its function returns {type(returned).__name__}, where spark.sql or spark.table was expected"


def _told(error: Exception | SystemExit) -> str:
    """What went wrong, in a phrase."""
    if isinstance(error, ViewError):
        return error.message.rstrip(".")
    if isinstance(error, SystemExit):
        return f"it ends the process by sys.exit({error.code!r})"
    return f"{type(error).__name__}: {first_line(error)}" if str(error).strip() else type(error).__name__


# -- the stand-in -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """Stands for a DataFrame of which only the SQL is known."""

    sql: str

    def __getattr__(self, name: str) -> NoReturn:
        raise ViewError(f"it calls DataFrame.{name}, and a DataFrame has no SQL.", _HINT)

    def __getitem__(self, name: object) -> NoReturn:
        raise ViewError("it takes a column of a DataFrame, which has no SQL.", _HINT)


@dataclass(frozen=True)
class Conf:
    """Stands for a session's settings; those of the project are there, and no others."""

    configuration: Mapping[str, str]

    def get(self, key: str, default: str | None = None) -> str | None:
        if key not in self.configuration and default is None:
            raise ViewError(f"it asks for the setting {key}, which the project's configuration lacks.", _HINT)
        return self.configuration.get(key, default)

    def __getattr__(self, name: str) -> NoReturn:
        raise ViewError(f"it calls spark.conf.{name}.", _HINT)


@dataclass(frozen=True)
class Session:
    """Stands for a SparkSession."""

    conf: Conf

    def sql(self, text: str, *args: object, **named: object) -> Query:
        if args or named:
            raise ViewError("it gives spark.sql arguments; the query of a view has none.", _HINT)
        return Query(statements.query(text))

    def table(self, name: str) -> Query:
        return Query(f"SELECT * FROM {name}")

    @property
    def read(self) -> Reader:
        return Reader()

    def __getattr__(self, name: str) -> NoReturn:
        raise ViewError(f"it calls spark.{name}, which gives no SQL.", _HINT)


@dataclass(frozen=True)
class Reader:
    """Stands for a DataFrameReader of tables, by name or by a Delta table's path."""

    kind: str = ""

    def format(self, kind: str) -> Reader:
        return Reader(kind.lower())

    def table(self, name: str) -> Query:
        return Query(f"SELECT * FROM {name}")

    def load(self, path: str, *args: object, **named: object) -> Query:
        if self.kind != "delta" or args or named:
            raise ViewError(f"it reads files of the format {self.kind or 'parquet'}; a source is a Delta table.", _HINT)
        return Query(f"SELECT * FROM delta.{ident(path)}")

    def __getattr__(self, name: str) -> NoReturn:
        raise ViewError(f"it calls spark.read.{name}, which gives no SQL.", _HINT)


@contextlib.contextmanager
def _active(session: Session) -> Iterator[None]:
    """Whoever asks for the session gets the stand-in, so that nobody starts Spark by importing a definition.

    `getActiveSession` is left alone: pyspark itself asks it for settings.
    """
    ways = {SparkSession: ("active",), SparkSession.Builder: ("getOrCreate", "create")}
    kept = [(owner, name, vars(owner)[name]) for owner, names in ways.items() for name in names]
    for owner, name, _ in kept:
        setattr(owner, name, staticmethod(lambda *_: session))
    try:
        yield
    finally:
        for owner, name, value in kept:
            setattr(owner, name, value)
