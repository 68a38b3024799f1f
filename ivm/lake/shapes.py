"""Arrow tables and schemas in the one shape that Spark, delta-rs and Parquet readers share."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
from deltalake import Schema


def plain(data: Any) -> pa.Table:
    """An Arrow table without view types, which Spark and Parquet readers don't share, and nullable at every level.

    What is NOT NULL in one version of a source may be NULL in the next: nothing of ours keeps such a promise.
    """
    # pa.table() looks whether it is given a DataFrame, and imports pandas for it.
    table_ = (
        pa.RecordBatchReader.from_stream(data).read_all() if hasattr(data, "__arrow_c_stream__") else pa.table(data)
    )
    return table_.cast(_plain_schema(table_.schema))


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
