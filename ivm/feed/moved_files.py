"""What changed in a table between two versions by its files: the delta of a source without a change feed.

    rows(upto) - rows(since) = rows of the files that came - rows of the files that went

It holds for any two versions of one table, whatever was done between them; the price is that of the files touched, not
of the rows changed. A commit that only moves rows between files is left out where nothing touched its files since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from ivm.lake import parquet
from ivm.lake.files import types_by_name
from ivm.lake.log import actions_of
from ivm.lake.shapes import arrow_schema, plain
from ivm.names import WEIGHT, ident
from ivm.plan.nodes import Column
from ivm.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Spark takes these in names of files for patterns.
_PATTERN = frozenset("*?{}")


class UntoldError(Exception):
    """The files don't tell what changed; says why."""


@dataclass(frozen=True)
class Moved:
    """The files that came and went."""

    came: tuple[Location, ...]
    went: tuple[Location, ...]

    @property
    def rows(self) -> int:
        """The rows of all of them, by their footers. Raises FileNotFoundError where one is gone."""
        return sum(_rows(file) for file in (*self.came, *self.went))


def moved(path: str, since: int, upto: int) -> Moved:
    """The files in which a table's versions differ.

    Raises UntoldError where a commit between them is gone, or a file is not all of its rows.
    """
    net: dict[str, int] = {}
    compactions: list[tuple[set[str], set[str]]] = []
    for version in range(since + 1, upto + 1):
        actions = actions_of(path, version)
        if actions is None:
            raise UntoldError(f"the log entry of version {version} is gone")
        came, went = _names(actions, "add"), _names(actions, "remove")
        told = any(a[kind].get("dataChange", True) for a in actions for kind in ("add", "remove") if kind in a)
        if not told and not went:
            continue  # files are told of again, with other statistics or tags
        for sign, names in ((-1, went), (1, came)):
            for name in names:
                net[name] = net.get(name, 0) + sign
        if not told:
            compactions.append((came, went))
    for came, went in compactions:
        if all(net.get(name) == 1 for name in came) and all(net.get(name) == -1 for name in went):
            for name in came | went:
                del net[name]
    folder = Location.of(path)
    return Moved(*(tuple(folder / name for name, n in sorted(net.items()) if n == sign) for sign in (1, -1)))


def _names(actions: Iterable[Mapping[str, Any]], kind: str) -> set[str]:
    """The files that a commit adds, or removes, as their folder calls them."""
    files = [action[kind] for action in actions if kind in action]
    for file in files:
        if file.get("deletionVector"):
            raise UntoldError("deletion vectors hide rows of its files")
        if "://" in file["path"] or file["path"].startswith("/"):
            raise UntoldError("it shares files with another table")
    return {unquote(file["path"]) for file in files}


def by_arrow(found: Moved, schema_json: str, columns: Sequence[str]) -> pa.Table:
    """The columns of these files and WEIGHT, not consolidated.

    Raises UntoldError where a file holds a column as another type, and what Arrow raises where one is gone.
    """
    wanted = arrow_schema(schema_json)
    schema = pa.schema([wanted.field(c) for c in columns])
    parts = [_read(file, schema, weight) for weight, files in ((1, found.came), (-1, found.went)) for file in files]
    return pa.concat_tables([schema.append(pa.field(WEIGHT, pa.int32())).empty_table(), *parts])


def _read(file: Location, schema: pa.Schema, weight: int) -> pa.Table:
    """A file's columns, NULL for those that were added to the table later, and WEIGHT."""
    data = parquet.dataset(file)
    there = {name.lower(): name for name in data.schema.names}
    held = [f for f in schema if f.name.lower() in there]
    found = data.to_table(columns=[there[f.name.lower()] for f in held])
    rows, n = plain(found), found.num_rows  # a table without columns knows its rows only as it is read
    types = types_by_name(pa.schema([_utc(f.with_name(h.name)) for f, h in zip(rows.schema, held, strict=True)]))
    if types != types_by_name(pa.schema([_utc(f) for f in held])):
        raise UntoldError("columns changed in type on the way")
    values = {h.name: rows.column(i).cast(h.type) for i, h in enumerate(held)}
    listed = [values[f.name] if f.name in values else pa.nulls(n, f.type) for f in schema]
    weights = pa.array([weight] * n, pa.int32())
    return pa.table([*listed, weights], schema=schema.append(pa.field(WEIGHT, pa.int32())))


def _utc(field: pa.Field) -> pa.Field:
    """INT96 comes without a time zone; it is UTC."""
    return field.with_type(pa.timestamp("us", "UTC")) if field.type == pa.timestamp("us") else field


def _rows(file: Location) -> int:
    file_system, name = file.arrow()
    return int(pq.read_metadata(name, filesystem=file_system).num_rows)


def by_spark(found: Moved, columns: Sequence[Column], spark: SparkSession) -> DataFrame:
    """The columns of these files and WEIGHT, not consolidated; one of them may be called like a feed's own.

    Raises UntoldError where Spark can't name one.
    """
    if any(_PATTERN & set(file.url) for file in (*found.came, *found.went)):
        raise UntoldError("its files have names that Spark takes for patterns")
    listed, ddl = [ident(c.name) for c in columns], ", ".join(f"{ident(c.name)} {c.type}" for c in columns)
    reader = spark.read.schema(ddl) if columns else spark.read
    parts = [
        reader.parquet(*(f.spark for f in files)).selectExpr(*listed, f"{weight} AS {ident(WEIGHT)}")
        for weight, files in ((1, found.came), (-1, found.went))
        if files
    ]
    if not parts:
        nulls = [f"CAST(NULL AS {c.type}) AS {ident(c.name)}" for c in columns]
        return spark.range(0).selectExpr(*nulls, f"1 AS {ident(WEIGHT)}")
    return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
