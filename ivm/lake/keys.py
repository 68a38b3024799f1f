"""Keyed work on Arrow tables: rows that match keys or filters, without Spark.

Integers of any width are compared as 64-bit ones; everything else by its own type. NULL equals NULL here, and a
value its exact self: NaN equals NaN, of which rows and keys hold one (see `ivm.lake.shapes`), -0.0 differs from 0.0
(they are other values of `CAST(x AS string)`).
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.plan.nodes import Filter
from ivm.zset.exact import hashable
from ivm.zset.members import among, once

#: A type that holds every decimal of Spark and every constant of a filter.
_WIDEST = pa.decimal256(76, 38)
#: Relative width by which the ends of a range are moved outwards.
_MARGIN = 1e-9


def distinct(keys: pa.Table) -> pa.Table:
    """Each row once."""
    if keys.num_columns == 1 and pa.types.is_integer(keys.schema.field(0).type):
        return pa.table([once(keys.column(0))], schema=keys.schema)
    return keys.group_by(keys.column_names, use_threads=False).aggregate([]) if keys.num_rows else keys


def wide(keys: pa.Table) -> pa.Table:
    """Integer columns as 64-bit ones, so that keys of different integer columns can be mixed."""
    return pa.table(
        [c.cast(pa.int64()) if pa.types.is_integer(c.type) else c for c in keys.columns], names=keys.column_names
    )


def matching(rows: pa.Table, columns: Sequence[str], keys: pa.Table) -> pa.Array:
    """Whether each row's columns are among the keys, column by column in their order."""
    import numpy as np

    # By number: a relation may be asked for by one column twice, for the values of two others.
    names = [f"c{i}" for i, _ in enumerate(columns)]
    mine = wide(rows.select(list(columns)).rename_columns(names))
    keys = wide(keys).rename_columns(names)
    if len(columns) == 1:
        return among(mine.column(0), keys.column(0).cast(mine.column(0).type))
    if any(c.null_count for c in keys.columns):
        wanted = set(zip(*map(hashable, keys.columns), strict=True))
        return pa.array([values in wanted for values in zip(*map(hashable, mine.columns), strict=True)], pa.bool_())
    near = among(mine.column(0), keys.column(0).cast(mine.column(0).type))
    numbered = mine.append_column("__ivm_row", pa.array(np.arange(rows.num_rows))).filter(near)
    found = numbered.join(distinct(keys), names, join_type="left semi", use_threads=False)["__ivm_row"]
    there = np.zeros(rows.num_rows, np.bool_)
    there[found.to_numpy()] = True
    return pa.array(there)


def ends(values: pa.Table) -> pa.Table:
    """The least and the greatest of a table's one column: of dates and times as they are, of numbers as doubles.

    Doubles are a little further apart than the numbers: the margin covers what casts of decimals and large integers
    lose.

    >>> ends(pa.table({"k0": pa.array([3, 1], pa.date32())}))["k0"].to_pylist()
    [datetime.date(1970, 1, 2), datetime.date(1970, 1, 4)]
    """
    if pa.types.is_temporal(values.schema.field(0).type):
        first = pc.min_max(values.column(0))
        # Not as Python's values, which end with the year 9999.
        return pa.table({"k0": pa.array([first["min"], first["max"]], values.schema.field(0).type)})
    column = values.column(0).cast(pa.float64(), safe=False)
    found = pc.min_max(column).as_py()
    low, high = found["min"], found["max"]
    return pa.table({"k0": pa.array([low - abs(low) * _MARGIN, high + abs(high) * _MARGIN], pa.float64())})


def within(rows: pa.Table, columns: Sequence[str], limits: pa.Table) -> pa.Array:
    """Whether each row's column lies between two `ends`."""
    type_ = limits.schema.field(0).type
    values = rows.column(columns[0]).cast(type_, safe=pa.types.is_temporal(type_))
    low, high = limits.column(0)
    return pc.fill_null(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)), False)


def filtered(rows: pa.Table, filters: Sequence[Filter]) -> pa.Table:
    """The rows that meet all filters."""
    for f in filters:
        rows = rows.filter(_meets(rows[f.column], f))
    return rows


_COMPARISONS = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_PATTERNS = {"prefix": pc.starts_with, "suffix": pc.ends_with, "contains": pc.match_substring}


def _meets(column: pa.ChunkedArray, f: Filter) -> Any:
    if pa.types.is_decimal(column.type) and not all(_holds(column.type, v) for v in f.values):
        # Room for 38 digits before the point and as many behind it as a constant has:
        # Arrow would not find the common type.
        column = column.cast(_WIDEST)
    if f.op in _PATTERNS:
        return _PATTERNS[f.op](column, f.values[0])
    if f.op == "in":
        met = [pc.equal(column, _scalar(v, column.type)) for v in f.values]
        result = met[0]
        for other in met[1:]:
            result = pc.or_(result, other)
        return result
    return _COMPARISONS[f.op](column, _scalar(f.values[0], column.type))


def _holds(type_: pa.DataType, text: str) -> bool:
    """Whether a type of decimals has the number."""
    try:
        pa.scalar(Decimal(text), type_)
    except pa.ArrowInvalid:
        return False
    return True


def _scalar(text: str, type_: pa.DataType) -> pa.Scalar:
    if pa.types.is_integer(type_):
        return pa.scalar(int(text), pa.int64())
    if pa.types.is_decimal(type_):
        return pa.scalar(Decimal(text), type_)
    if pa.types.is_date(type_):
        return pa.scalar(datetime.date.fromisoformat(text), type_)
    return pa.scalar(text, type_)
