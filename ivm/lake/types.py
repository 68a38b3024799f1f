"""Delta's JSON types to Spark's type names (pure)."""

from __future__ import annotations

import json
from typing import Any

from ivm.plan.nodes import Column

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
        columns.append(Column(field["name"], f"string collate {collation.split('.')[-1]}" if collation and type_ == "string" else type_))
    return tuple(columns)
