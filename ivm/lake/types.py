"""Delta's JSON types: Spark's names of them, what CHAR declares, and which of them the native lane reads (pure)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ivm.plan.nodes import Column

#: Types whose values delta-rs was seen to read exactly as Spark does (tests/spark/test_lanes.py), alone and nested.
READABLE_TYPES = frozenset(
    [
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "boolean",
        "string",
        "binary",
        "date",
        "timestamp_ntz",
        "decimal",
    ]
)
#: Types that Arrow and our own tables hold. Timestamps that Spark wrote as INT96 (its default) delta-rs reads as
#: nanoseconds, so that those before 1678 and after 2262 come out as others; in our own tables they are microseconds.
HELD_TYPES = READABLE_TYPES | {"timestamp"}
#: Where Spark notes a CHAR or VARCHAR, which Delta stores as a string, and a collation.
_DECLARED = "__CHAR_VARCHAR_TYPE_STRING"
_COLLATIONS = "__COLLATIONS"
#: What rows hold that are older than their column, which only Spark fills in.
_DEFAULT = "EXISTS_DEFAULT"
_CHAR = re.compile(r"\bchar\(\d+\)", re.IGNORECASE)
_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}


def spark_type(type_: Any) -> str:
    """Spark's simple string of a Delta type.

    >>> spark_type("long"), spark_type({"type": "array", "elementType": "string", "containsNull": True})
    ('bigint', 'array<string>')
    """
    if isinstance(type_, str):
        return _NAMES.get(type_, type_)
    if type_["type"] == "array":
        return f"array<{spark_type(type_['elementType'])}>"
    if type_["type"] == "map":
        return f"map<{spark_type(type_['keyType'])},{spark_type(type_['valueType'])}>"
    return "struct<" + ",".join(f"{f['name']}:{spark_type(f['type'])}" for f in type_["fields"]) + ">"


def columns_of(schema_json: str) -> tuple[Column, ...]:
    """The columns of a Delta schema in JSON, with Spark's type names (collations as Spark writes them)."""
    columns = []
    for field in json.loads(schema_json)["fields"]:
        collation = (field.get("metadata") or {}).get("__COLLATIONS", {}).get(field["name"])
        type_ = spark_type(field["type"])
        columns.append(
            Column(
                field["name"],
                f"string collate {collation.split('.')[-1]}" if collation and type_ == "string" else type_,
            )
        )
    return tuple(columns)


def padded_columns(schema_json: str) -> tuple[Column, ...]:
    """Columns with a CHAR somewhere in their declared type, which stands as their type.

    Spark pads their values on reading.

    >>> field = {"name": "c", "type": "string", "nullable": True, "metadata": {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}}
    >>> padded_columns(json.dumps({"type": "struct", "fields": [field]}))
    (Column(name='c', type='char(5)'),)
    """
    declared = [
        (f["name"], str((f.get("metadata") or {}).get(_DECLARED, ""))) for f in json.loads(schema_json)["fields"]
    ]
    return tuple(Column(name, type_) for name, type_ in declared if _CHAR.search(type_))


def unreadable(schema_json: str) -> str:
    """Why the native lane doesn't read columns of such a schema; empty if it does.

    >>> unreadable('{"type": "struct", "fields": [{"name": "v", "type": "variant", "nullable": true, "metadata": {}}]}')
    "the type variant of column 'v'"
    """
    for padded in padded_columns(schema_json):
        return f"the type {padded.type} of column {padded.name!r}, which Spark pads"
    for column in json.loads(schema_json)["fields"]:
        for field in _fields(column):
            type_, metadata = field["type"], field.get("metadata") or {}
            if isinstance(type_, str) and type_.split("(")[0] not in READABLE_TYPES:
                return f"the type {type_} of column {column['name']!r}"
            if metadata.get(_COLLATIONS):
                return f"the collation of column {column['name']!r}"
            if _DEFAULT in metadata:
                return f"the default of column {column['name']!r}"
    return ""


def beyond_arrow(schema_json: str) -> tuple[str, ...]:
    """The columns whose values Arrow and delta-rs can't hold as Spark does (VARIANT).

    Spark alone reads and writes them.

    >>> variants = '{"type": "array", "elementType": "variant"}'
    >>> beyond_arrow('{"type": "struct", "fields": [{"name": "v", "type": ' + variants + '}]}')
    ('v',)
    """
    columns = json.loads(schema_json)["fields"]
    return tuple(
        c["name"]
        for c in columns
        if any(isinstance(f["type"], str) and f["type"].split("(")[0] not in HELD_TYPES for f in _fields(c))
    )


def _fields(field: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A field and all that it holds, elements as fields without a name."""
    yield field
    type_ = field["type"]
    if isinstance(type_, dict):
        inner = type_.get("fields") or [
            {"type": type_[k]} for k in ("elementType", "keyType", "valueType") if k in type_
        ]
        for part in inner:
            yield from _fields(part)


def stored_schema(schema_json: str, keep_padding: bool) -> str:
    """The schema under which a result of Spark's is stored: nullable at every level, without what its sources declare.

    A CHAR column stays one (`keep_padding`), as in Spark's own CREATE TABLE AS SELECT; a VARCHAR's length is no promise
    of ours.
    """
    schema = json.loads(schema_json)
    _loosen(schema)
    for field in schema["fields"]:
        declared = (field.get("metadata") or {}).get(_DECLARED, "")
        field["metadata"] = {_DECLARED: declared} if keep_padding and _CHAR.search(declared) else {}
    return json.dumps(schema)


def _loosen(type_: Any) -> None:
    if not isinstance(type_, dict):
        return
    for field in type_.get("fields", []):
        field["nullable"] = True
        _loosen(field["type"])
    for promise in {"containsNull", "valueContainsNull"} & type_.keys():
        type_[promise] = True
    for part in {"elementType", "keyType", "valueType"} & type_.keys():
        _loosen(type_[part])
