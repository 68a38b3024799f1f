"""The one place where names and paths become SQL: they are quoted here or refused, never pasted.

Invariant: every identifier, path and literal in a generated statement went through this module.
"""

from __future__ import annotations

import re

from ivm.errors import ConfigError
from ivm.parameters import shown

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_CATALOG = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*){0,2}\Z")
#: Names that begin so are ours: columns of traces and internal units.
RESERVED_PREFIX = "__ivm"
#: The column of a Z-set that says how often a row is in it.
WEIGHT = f"{RESERVED_PREFIX}_weight"


def check_name(name: str, what: str) -> str:
    """Return `name` if it is a plain identifier of at most 128 letters, digits and underscores.

    Raises ConfigError for anything else, so a name can be a folder and a table alias as it is.

    >>> check_name("revenue", "view")
    'revenue'
    """
    if not isinstance(name, str) or not _NAME.match(name):
        raise ConfigError(
            (
                f"{shown(name)} is not a name for a {what}: expected letters, digits and underscores, "
                "not starting with a digit."
            ),
            "Rename it; a path or a catalog identifier goes into the source's location.",
        )
    if name.lower().startswith(RESERVED_PREFIX):
        raise ConfigError(
            (
                f"The {what} name {name!r} starts with {RESERVED_PREFIX!r}, "
                "which is kept for ivm's own columns and tables."
            ),
            "Rename it.",
        )
    return name


def ident(name: str) -> str:
    """Quote an identifier for Spark SQL.

    >>> ident("a`b")
    '`a``b`'
    """
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Quote a string for Spark SQL (backslashes are escapes there).

    >>> literal("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def native_literal(text: str) -> str:
    """Quote a string for the SQL of DataFusion or DuckDB, where only the quote itself is doubled.

    >>> native_literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"


def native_ident(name: str) -> str:
    """Quote an identifier for the SQL of DataFusion or DuckDB.

    >>> native_ident('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def is_path(location: str) -> bool:
    """Tell a path or URL from a catalog identifier: a path holds a slash.

    >>> is_path("/lake/orders"), is_path("s3://b/t"), is_path("main.sales.orders")
    (True, True, False)
    """
    return "/" in location


def spark_path(location: str) -> str:
    """A location as Hadoop's file systems, and so Spark, call it: S3's is s3a.

    >>> spark_path("s3://lake/orders"), spark_path("/lake/orders")
    ('s3a://lake/orders', '/lake/orders')
    """
    return "s3a" + location[2:] if location.startswith("s3://") else location


def parquet_ref(location: str) -> str:
    """Render a folder of Parquet files as a Spark SQL table.

    >>> parquet_ref("s3://lake/staged")
    'parquet.`s3a://lake/staged`'
    """
    return "parquet." + ident(spark_path(location))


def table_ref(location: str, version: int | None = None) -> str:
    """Render a location as a Spark SQL table, at a version where one is given.

    >>> table_ref("/lake/orders", 3)
    'delta.`/lake/orders` VERSION AS OF 3'
    >>> table_ref("s3://lake/orders"), table_ref("sales.orders")
    ('delta.`s3a://lake/orders`', '`sales`.`orders`')
    """
    if is_path(location):
        ref = "delta." + ident(spark_path(location))
    elif _CATALOG.match(location):
        ref = ".".join(ident(part) for part in location.split("."))
    else:
        raise ConfigError(
            (
                f"{shown(location)} is neither a path (with a slash) nor a catalog identifier (one to three names "
                "with dots)."
            ),
            "Give one of the two.",
        )
    return ref if version is None else f"{ref} VERSION AS OF {int(version)}"
