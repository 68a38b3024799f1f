"""Merging a delta into a table that is a bag: duplicates survive, NULLs and NaNs are found.

table' = table + delta        under one application transaction
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from ivm.errors import LargeReadError, StateError
from ivm.lake import handles, keyed, native
from ivm.names import WEIGHT, native_ident
from ivm.zset.weighted import left_of

#: So many rows, or so many for each row of a change, are held to be compared with it; more are joined.
_FEW_ROWS, _FEW_COPIES = 10_000, 10


def merge(
    path: str, changes: pa.Table, key: Sequence[str], app: str, version: int, note: Mapping[str, str] | None = None
) -> bool:
    """Apply a delta to a bag: `changes` holds the columns and WEIGHT (any integer); False if it was done already.

    Rows are compared whole, NULLs equal; `key` only makes the search faster. All copies of a touched row are deleted
    and the right number is inserted again, so duplicates survive.
    """
    target, done = native.opened(path, app)
    if target is None:
        raise StateError(f"There is no table at {path}.", "It is built anew by the next refresh.")
    if done is not None and done >= version:
        return False
    columns = [c for c in changes.column_names if c != WEIGHT]
    negative = changes.filter(pc.less(changes[WEIGHT], 0))
    source = _merge_source(target, changes, negative, columns, key)
    with native.committing(path):
        if negative.num_rows == 0:
            inserted = source.filter(source["__ivm_insert"]).select(columns)
            write_deltalake(target, inserted, mode="append", commit_properties=native.properties(app, version, note))
        else:
            same = _equal(changes, columns, key, "s")
            (
                target.merge(
                    source,
                    f"{same} AND (s.__ivm_insert = false)",
                    source_alias="s",
                    target_alias="t",
                    commit_properties=native.properties(app, version, note),
                )
                .when_matched_delete()
                .when_not_matched_insert(
                    {native_ident(c): f"s.{native_ident(c)}" for c in columns}, predicate="s.__ivm_insert = true"
                )
                .execute()
            )
    handles.keep(path, target)
    return True


def _equal(changes: pa.Table, columns: Sequence[str], key: Sequence[str], alias: str) -> str:
    """A condition: a row `t` is exactly one of the changes, NULLs equal.

    Columns of the key that have none are compared so that a join is hashed.
    DataFusion takes -0.0 for 0.0, unless they are elements of an array, and then tells NaN from NaN with a sign.
    """
    conditions = []
    for c in columns:
        mine, other = f"t.{native_ident(c)}", f"{alias}.{native_ident(c)}"
        if pa.types.is_floating(changes.schema.field(c).type):
            alike = f"make_array({mine}) IS NOT DISTINCT FROM make_array({other})"
            conditions.append(f"(({alike}) OR (isnan({mine}) AND isnan({other})))")
        elif c in key and changes[c].null_count == 0:
            conditions.append(f"{mine} = {other}")
        else:
            conditions.append(f"({mine} IS NOT DISTINCT FROM {other})")
    return " AND ".join(conditions)


def _merge_source(
    target: DeltaTable, changes: pa.Table, negative: pa.Table, columns: Sequence[str], key: Sequence[str]
) -> pa.Table:
    """The rows to delete (once each) and the rows to insert (as often as they shall occur)."""
    import numpy as np

    positive = changes.filter(pc.greater(changes[WEIGHT], 0))
    inserts = positive.select(columns).take(
        pa.array(np.repeat(np.arange(positive.num_rows), positive[WEIGHT].to_numpy()))
    )
    survivors = _survivors(target, negative, columns, key)
    inserts = pa.concat_tables([inserts, survivors.cast(inserts.schema)]) if survivors.num_rows else inserts
    flagged = [negative.select(columns).append_column("__ivm_insert", pa.array(np.zeros(negative.num_rows, bool)))]
    flagged.append(inserts.append_column("__ivm_insert", pa.array(np.ones(inserts.num_rows, bool))))
    return pa.concat_tables(flagged)


def _survivors(target: DeltaTable, negative: pa.Table, columns: Sequence[str], key: Sequence[str]) -> pa.Table:
    """Copies to keep of rows that a delta takes some, not all, copies of."""
    import numpy as np

    if negative.num_rows == 0:
        return negative.select(list(columns))
    counts = copies_left(target, negative, columns, "__ivm_left", key)
    left = np.maximum(counts["__ivm_left"].to_numpy(), 0)
    return counts.select(list(columns)).take(pa.array(np.repeat(np.arange(len(left)), left)))


def copies_left(
    target: DeltaTable, changes: pa.Table, columns: Sequence[str], name: str, key: Sequence[str] = ()
) -> pa.Table:
    """`changes` (columns and WEIGHT, each row once) with the copies the target would hold after them, as `name`."""
    near = _near(target, changes, columns, key)
    places, left = _joined(target, changes, columns, key) if near is None else left_of(near, changes, columns)
    return changes.take(places).select(list(columns)).append_column(name, left)


def _near(target: DeltaTable, changes: pa.Table, columns: Sequence[str], key: Sequence[str]) -> pa.Table | None:
    """The target's rows that may equal one of the changes, found by one column's values, by which files are skipped.

    None where no column serves, or there are many.
    """
    best = ("", 0)
    for c in sorted(columns, key=lambda c: c not in key):
        wanted = pa.table({c: changes[c].unique()}) if not pa.types.is_nested(changes[c].type) else None
        if wanted is None or wanted.num_rows <= best[1]:
            continue
        if listed := keyed.among([c], wanted):
            best = (listed, wanted.num_rows)
    if not best[0]:
        return None
    try:
        return native.read(target, columns, best[0], max(_FEW_ROWS, _FEW_COPIES * changes.num_rows)).cast(
            changes.select(list(columns)).schema
        )
    except LargeReadError:
        return None


def _joined(
    target: DeltaTable, changes: pa.Table, columns: Sequence[str], key: Sequence[str]
) -> tuple[pa.Array, pa.Array]:
    """By place in the changes the copies left, by a join with the whole target, which this process never holds."""
    marked = "(SELECT *, 1 AS __ivm_one FROM t) AS t"
    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, changes.append_column("__ivm_row", pa.array(range(changes.num_rows), pa.int64())))
        counts = native.query(
            f"SELECT n.__ivm_row, count(t.__ivm_one) + min(n.{native_ident(WEIGHT)}) AS left_of_it FROM n "
            f"LEFT JOIN {marked} "
            f"ON {_equal(changes, columns, key, 'n')} GROUP BY n.__ivm_row",
            {"t": target, "n": DeltaTable(folder)},
        )
    return counts["__ivm_row"], counts["left_of_it"].cast(pa.int64())
