"""Arrow tables and schemas in the one shape that Spark, delta-rs and Parquet readers share."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import Schema


def plain(data: Any) -> pa.Table:
    """An Arrow table without view types, which Spark and Parquet readers don't share, and nullable at every level.

    What is NOT NULL in one version of a source may be NULL in the next: nothing of ours keeps such a promise. NaN is
    one value (see `one_nan`).
    """
    # pa.table() looks whether it is given a DataFrame, and imports pandas for it.
    table_ = (
        pa.RecordBatchReader.from_stream(data).read_all() if hasattr(data, "__arrow_c_stream__") else pa.table(data)
    )
    return one_nan(table_.cast(_plain_schema(table_.schema)))


def one_nan(rows: Any) -> Any:
    """A table, or a batch, with one NaN in place of all, at every level: the one that Spark writes to Parquet.

    Rows are compared by their bits from here on (grouped, joined, deleted in a table). The JVM and DuckDB make a NaN
    with a sign where they negate one, and files of others hold any. Tables without floats are not looked at.
    """
    for place, field in enumerate(rows.schema):
        if not _has_floats(field.type):
            continue
        column = rows.column(place)
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        mended = [_with_one_nan(c) for c in chunks]
        if any(new is not old for new, old in zip(mended, chunks, strict=True)):
            whole = isinstance(column, pa.ChunkedArray)
            rows = rows.set_column(place, field, pa.chunked_array(mended, field.type) if whole else mended[0])
    return rows


def _has_floats(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_has_floats(type_.field(i).type) for i in range(type_.num_fields))
    return bool(pa.types.is_floating(type_))


def _with_one_nan(values: pa.Array) -> pa.Array:
    """An array of a plain type, itself where no NaN is another."""
    type_ = values.type
    if pa.types.is_floating(type_):
        is_nan = pc.is_nan(values)
        return pc.if_else(is_nan, pa.scalar(float("nan"), type_), values) if pc.any(is_nan).as_py() else values
    if not _has_floats(type_):
        return values
    if pa.types.is_struct(type_):
        fields = [values.field(i) for i in range(type_.num_fields)]
        mended = [_with_one_nan(f) for f in fields]
        if all(new is old for new, old in zip(mended, fields, strict=True)):
            return values
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(mended, fields=list(type_), mask=mask)
    # A list, or a map, which is one of structs; a slice refers to all of its values.
    listed = values.values
    mended_list = _with_one_nan(listed)
    if mended_list is listed:
        return values
    own = values.buffers()[:2]
    return pa.Array.from_buffers(type_, len(values), own, offset=values.offset, children=[mended_list])


def _plain_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_type(_plain_type(f.type)).with_nullable(True) for f in schema])


def _plain_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_string_view(type_) or pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_binary_view(type_) or pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_list_view(type_):
        return pa.list_(type_.value_field.with_type(_plain_type(type_.value_type)).with_nullable(True))
    if pa.types.is_struct(type_):
        return pa.struct(
            [
                type_.field(i).with_type(_plain_type(type_.field(i).type)).with_nullable(True)
                for i in range(type_.num_fields)
            ]
        )
    if pa.types.is_map(type_):
        return pa.map_(_plain_type(type_.key_type), _plain_type(type_.item_type))
    return type_


def delta_schema(schema: pa.Schema) -> str:
    """The Delta schema, in JSON, of an Arrow schema."""
    return str(Schema.from_arrow(schema).to_json())


@functools.lru_cache(maxsize=1024)
def arrow_schema(schema_json: str) -> pa.Schema:
    """The Arrow schema of a Delta (and Spark) schema in JSON."""
    return _plain_schema(pa.schema(Schema.from_json(schema_json).to_arrow()))
