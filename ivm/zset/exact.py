"""Arrow values as Python values that are equal only where they are the same value."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa


def hashable(column: pa.ChunkedArray) -> list[Any]:
    """A column's values as Python values that are equal only where they are the same value of the same column.

    Times are counts, whatever their year and precision; structs, arrays and maps are tuples; floats that aren't equal
    to themselves or to no other are texts.

    >>> hashable(pa.chunked_array([pa.array([0.0, -0.0, float("nan"), 1.5])]))
    ['0.0', '-0.0', 'nan', 1.5]
    >>> hashable(pa.chunked_array([pa.array([[("a", None)], None], pa.map_(pa.string(), pa.int32()))]))
    [(('a', None),), None]
    """
    return [_frozen(v) for v in column.cast(_counted(column.type)).to_pylist()]


def _counted(type_: pa.DataType) -> pa.DataType:
    """The type with counts for dates and times, which Python knows for the years 1 to 9999 only."""
    if pa.types.is_date32(type_):
        return pa.int32()
    if pa.types.is_timestamp(type_):
        return pa.int64()
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_counted(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_counted(type_.key_type), _counted(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_counted(type_.value_type)))
    return type_


def _frozen(value: Any) -> Any:
    if isinstance(value, float):
        return repr(value) if value == 0 or math.isnan(value) else value
    if isinstance(value, dict):
        return tuple(map(_frozen, value.values()))
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    return value
