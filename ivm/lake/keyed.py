"""Keyed reads: the rows of a Delta table that match wanted values, in one scan.

    find(columns, wanted) = columns of the rows that match any of `wanted`, each row once

Two readers give the same rows. DuckDB's reader of Parquet files (`ivm.lake.parquet_scan`) takes a third of the time or
less, and does what is on its list; DataFusion, through delta-rs, does everything else, and whatever DuckDB fails at.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from ivm.lake import native
from ivm.lake.parquet_scan import ParquetScan, UnfitError
from ivm.names import native_ident, native_literal
from ivm.planner.limits import EMBEDDED
from ivm.storage.location import Location

_log = logging.getLogger(__name__)

#: The table's columns, a table of their wanted values, and whether these are two ends. A NULL among the wanted values
#: matches NULL; between two ends (doubles, days or times) lies what isn't less or greater.
Keys: TypeAlias = tuple[Sequence[str], pa.Table, bool]


class KeyedReader:
    """Finds rows of one version of a table, as often as it is asked; what the log says of its files is read once."""

    def __init__(self, path: str, delta: DeltaTable, literals: int = EMBEDDED.literal_keys) -> None:
        self._delta = delta
        self._literals = literals
        self._scan = ParquetScan(path, delta)

    def find(
        self,
        columns: Sequence[str],
        keys: Sequence[Keys],
        scratch: Location,
        where: str = "true",
        most: int | None = None,
    ) -> pa.Table:
        """Rows that match any of `keys`, and `where` (over the alias t), with the types that delta-rs gives them.

        Up to so many wanted values of a column as `literals` are written as such for DataFusion. Raises
        LargeReadError after `most` rows.
        """
        found = self.find_in_files(columns, keys, where, most)
        if found is not None:
            return found
        with scratch.near() as folder:
            return self._by_datafusion(columns, keys, folder, where, most)

    def find_in_files(
        self, columns: Sequence[str], keys: Sequence[Keys], where: str = "true", most: int | None = None
    ) -> pa.Table | None:
        """As `find`, without delta-rs; None where DuckDB's reader doesn't do it."""
        try:
            return self._scan.find(columns, keys, where, most)
        except UnfitError as reason:
            _log.debug("%s: not read by DuckDB: %s", self._delta.table_uri, reason)
            return None

    def _by_datafusion(
        self, columns: Sequence[str], keys: Sequence[Keys], folder: str, where: str, most: int | None
    ) -> pa.Table:
        tables = {"t": self._delta}
        conditions = []
        for i, (mine, wanted, between) in enumerate(keys):
            if between:
                conditions.append(_between(f"t.{native_ident(mine[0])}", *wanted.column(0).to_pylist()))
                continue
            if listed := among(mine, wanted, self._literals):
                conditions.append(listed)
                continue
            path = f"{folder}/keys_{i}"
            write_deltalake(path, wanted, mode="overwrite")
            tables[f"k{i}"] = DeltaTable(path)
            if len(mine) == 1:
                column = f"t.{native_ident(mine[0])}"
                conditions.append(
                    f"{column} IN (SELECT {native_ident(wanted.column_names[0])} FROM k{i} "
                    f"WHERE {native_ident(wanted.column_names[0])} IS NOT NULL)"
                )
                if wanted.column(0).null_count:
                    conditions.append(f"{column} IS NULL")
            else:
                equal = "IS NOT DISTINCT FROM" if any(c.null_count for c in wanted.columns) else "="
                on = " AND ".join(
                    f"(k{i}.{native_ident(k)} {equal} t.{native_ident(m)})"
                    for m, k in zip(mine, wanted.column_names, strict=True)
                )
                conditions.append(f"EXISTS (SELECT 1 FROM k{i} WHERE {on})")
        selected = ", ".join("t." + native_ident(c) for c in columns)
        return native.query(f"SELECT {selected} FROM t WHERE ({' OR '.join(conditions)}) AND {where}", tables, most)


def _between(column: str, low: Any, high: Any) -> str:
    """Between two ends, as `ivm.lake.keys.ends` gives them.

    >>> _between("t.a", 1.0, 2.0)
    'CAST(t.a AS DOUBLE) BETWEEN 1.0 AND 2.0'
    """
    if isinstance(low, float):
        return f"CAST({column} AS DOUBLE) BETWEEN {low!r} AND {high!r}"
    zone = 'Some("UTC")' if isinstance(low, datetime) and low.tzinfo is not None else "None"
    type_ = f"Timestamp(Microsecond, {zone})" if isinstance(low, datetime) else "Date32"
    one, other = (f"arrow_cast({native_literal(end.isoformat())}, {native_literal(type_)})" for end in (low, high))
    return f"{column} BETWEEN {one} AND {other}"


def among(columns: Sequence[str], wanted: pa.Table, most: int = EMBEDDED.literal_keys) -> str:
    """A condition on one column with few integers or strings to find; '' where it takes a join."""
    if wanted.num_rows == 0:
        return "false"
    if len(columns) != 1 or wanted.num_rows > most or wanted.column(0).null_count:
        return ""
    type_ = wanted.schema.field(0).type
    if not pa.types.is_integer(type_) and not pa.types.is_string(type_):
        return ""
    listed = ", ".join(native_literal(v) if isinstance(v, str) else str(v) for v in wanted.column(0).to_pylist())
    return f"t.{native_ident(columns[0])} IN ({listed})"
