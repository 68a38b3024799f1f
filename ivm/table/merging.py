"""A bag's delta as one MERGE of Spark's (pure).

    table' = table + delta        as a bag

Of a row that the delta takes away all copies are deleted, and as many inserted again as are to be left.
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.names import WEIGHT, ident
from ivm.plan.nodes import Column
from ivm.rewrite.statements import repeated
from ivm.sql.maps import comparable
from ivm.sql.render import columns_sql

#: Tells the rows to insert from those to delete.
INSERT = "__ivm_insert"
_WEIGHT, _INSERT = ident(WEIGHT), ident(INSERT)


def merge_sql(columns: Sequence[Column], table: str, source: str) -> str:
    """The MERGE of a `merge_source` into a table; both are FROM items."""
    names = [c.name for c in columns]
    same = " AND ".join(f"{comparable(c, 't')} <=> {comparable(c, 's')}" for c in columns)
    return (
        f"MERGE INTO {table} AS t USING (SELECT * FROM {source}) AS s\n"
        f"ON NOT s.{_INSERT} AND {same}\n"
        f"WHEN MATCHED THEN DELETE\n"
        f"WHEN NOT MATCHED AND s.{_INSERT} THEN INSERT ({columns_sql(names)}) VALUES ({columns_sql(names, 's')})"
    )


def merge_source(columns: Sequence[Column], table: str, batch: str) -> str:
    """The rows to delete (once each), and those to insert (as often as they shall occur), told apart by a flag."""
    names = columns_sql([c.name for c in columns])
    gone = f"(SELECT {names}, {_WEIGHT} FROM {batch} WHERE {_WEIGHT} < 0)"
    on = " AND ".join(f"{comparable(c, 't')} <=> {comparable(c, 'd')}" for c in columns)
    mine = columns_sql([c.name for c in columns], "t")
    there = f"SELECT {mine}, CAST(1 AS bigint) AS {_WEIGHT} FROM {table} AS t LEFT SEMI JOIN {gone} AS d ON {on}"
    inserted = repeated(f"SELECT {names}, {_WEIGHT} FROM {batch} WHERE {_WEIGHT} > 0", columns)
    left = repeated(f"{there}\nUNION ALL\nSELECT {names}, {_WEIGHT} FROM {gone}", columns)
    parts = [(f"SELECT {names} FROM {gone}", "FALSE"), (inserted, "TRUE"), (left, "TRUE")]
    return "\nUNION ALL\n".join(
        f"SELECT {names}, {flag} AS {_INSERT} FROM ({rows}) AS `__ivm_rows`" for rows, flag in parts
    )
