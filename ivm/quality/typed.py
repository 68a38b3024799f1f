"""Expectations of a column's type, judged by the view's schema: one verdict, whoever holds its rows.

pandas and Spark have other names for one type, and pandas other types for one column, by whether there are NULLs in it.
So Great Expectations is asked of one row of each type, in pandas; and Spark's names of the types are taken as well.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from ivm.quality.expectations import judged

#: Spark's class of a type, by what Arrow calls it; all classes that it is one of.
_INTEGRAL, _FRACTIONAL = ("IntegralType", "NumericType"), ("FractionalType", "NumericType")
_SPARK = {
    "int8": ("ByteType", *_INTEGRAL),
    "int16": ("ShortType", *_INTEGRAL),
    "int32": ("IntegerType", *_INTEGRAL),
    "int64": ("LongType", *_INTEGRAL),
    "float": ("FloatType", *_FRACTIONAL),
    "double": ("DoubleType", *_FRACTIONAL),
    "decimal128": ("DecimalType", *_FRACTIONAL),
    "bool": ("BooleanType",),
    "string": ("StringType",),
    "binary": ("BinaryType",),
    "date32[day]": ("DateType", "DatetimeType"),
    "timestamp[us, tz=UTC]": ("TimestampType", "DatetimeType"),
    "timestamp[us]": ("TimestampNTZType", "DatetimeType"),
    "list": ("ArrayType",),
    "struct": ("StructType",),
    "map": ("MapType",),
}


def typed() -> tuple[Any, ...]:
    """The expectations of a column's type."""
    import great_expectations.expectations as gxe

    return gxe.ExpectColumnValuesToBeOfType, gxe.ExpectColumnValuesToBeInTypeList


def by_schema(schema: pa.Schema, expectations: Sequence[Any]) -> dict[int, dict[str, Any]]:
    """By place, the results of those that expect a type of a column that the schema tells."""
    mine = {i: e for i, e in enumerate(expectations) if isinstance(e, typed()) and not e.row_condition}
    told = {i: spark_names(schema.field(e.column).type) for i, e in mine.items() if e.column in schema.names}
    places = [i for i, names in told.items() if names]
    if not places:
        return {}
    columns = {c: schema.field(c).type for c in {mine[i].column for i in places}}
    row = pa.table({c: pa.array([_value(type_)], type_) for c, type_ in columns.items()})
    entries = judged(row.to_pandas(date_as_object=True), [mine[i] for i in places])
    for i, entry in zip(places, entries, strict=True):
        wanted = entry["expectation_config"]["kwargs"]
        named = {wanted.get("type_"), *(wanted.get("type_list") or ())}
        entry["success"] = bool(entry["success"] or named & set(told[i]))
        entry["result"] = {"observed_value": told[i][0]}
        entry["exception_info"] = {
            "raised_exception": False,
            "exception_traceback": None,
            "exception_message": None,
        }
    return dict(zip(places, entries, strict=True))


def spark_names(type_: pa.DataType) -> tuple[str, ...]:
    """Spark's classes that a type is one of, its own first; none where another type may stand for it.

    >>> spark_names(pa.int64())[0], spark_names(pa.list_(pa.int64())), spark_names(pa.null())
    ('LongType', ('ArrayType', 'DataType'), ())
    """
    name = str(type_)
    if name not in _SPARK:
        name = name.partition("<")[0].partition("(")[0]
    found = _SPARK.get(name, ())
    if not found:
        return ()
    return (*found, "DataType") if pa.types.is_nested(type_) else (*found, "AtomicType", "DataType")


def _value(type_: pa.DataType) -> Any:
    """Any value of a type."""
    if pa.types.is_map(type_):
        return [(_value(type_.key_type), _value(type_.item_type))]
    if pa.types.is_list(type_):
        return [_value(type_.value_type)]
    if pa.types.is_struct(type_):
        return {f.name: _value(f.type) for f in type_}
    if pa.types.is_decimal(type_):
        return Decimal(0)
    if pa.types.is_timestamp(type_):
        return dt.datetime(2000, 1, 1, tzinfo=dt.UTC if type_.tz else None)
    if pa.types.is_date(type_):
        return dt.date(2000, 1, 1)
    if pa.types.is_string(type_):
        return ""
    return b"" if pa.types.is_binary(type_) else pa.scalar(0, pa.int8()).cast(type_).as_py()
