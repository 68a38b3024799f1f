"""Z-sets as Arrow tables: rows with an integer WEIGHT.

    consolidated = each row once, no zero weight        its form with weights +1 and -1 repeats rows

Rows are compared by their exact values: NaN equals NaN, -0.0 differs from 0.0, NULL equals NULL. Arrow compares bits,
so that rows must come with one NaN (see `ivm.lake.shapes`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.names import WEIGHT
from ivm.zset.exact import hashable
from ivm.zset.fingerprints import fingerprints
from ivm.zset.members import among

if TYPE_CHECKING:
    import numpy as np

_PLACE = "__ivm_place"
#: So many rows are compared at once; of more it is first told by numbers which may be equal.
_FEW = 5_000
#: Places of a table of numbers, for each row: at most one row in twice so many takes part although it equals none.
_PLACES = 8


def of_change_feed(feed: pa.Table, columns: Sequence[str]) -> pa.Table:
    """A Delta change feed's `columns`: weight -1 for deletes and pre-images, +1 for inserts and post-images."""
    gone = pc.is_in(feed["_change_type"], pa.array(["delete", "update_preimage"]))
    weight = pc.if_else(gone, pa.scalar(-1, pa.int32()), pa.scalar(1, pa.int32()))
    return feed.select(list(columns)).append_column(WEIGHT, weight)


def consolidate(rows_: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Sum the weights of equal rows, drop zeros, repeat the rest so that every weight is +1 or -1."""
    if rows_.num_rows == 0:
        return rows_
    if not columns:
        total = pc.sum(rows_[WEIGHT]).as_py()
        return pa.table({WEIGHT: pa.array([1 if total > 0 else -1] * abs(total), pa.int32())})
    ends = pc.min_max(rows_[WEIGHT])
    if ends["min"] == ends["max"] and abs(ends["min"].as_py()) == 1:
        return rows_.select(list(columns)).append_column(WEIGHT, rows_[WEIGHT].cast(pa.int32()))  # nothing can cancel
    near, told = _may_cancel(rows_, columns), rows_.select([*columns, WEIGHT])
    parts = [told] if near is None else [told.filter(near), told.filter(pc.invert(near))]
    parts[0] = sum_weights(parts[0], columns)
    return pa.concat_tables([repeated(t.select(list(columns)), t[WEIGHT].to_numpy()) for t in parts])


def _may_cancel(rows_: pa.Table, columns: Sequence[str]) -> pa.Array | None:
    """Which rows, with weights of both signs, may equal one of the other sign; None where that isn't told."""
    import numpy as np

    numbers = fingerprints(rows_.select(list(columns))) if rows_.num_rows > _FEW else None
    if numbers is None:
        return None
    bits = (_PLACES * len(numbers)).bit_length()
    places = (numbers >> np.uint64(64 - bits)).astype("i8")
    gained = pc.greater(rows_[WEIGHT], 0).to_numpy()
    of_gained, of_lost = np.zeros(1 << bits, np.bool_), np.zeros(1 << bits, np.bool_)
    of_gained[places[gained]], of_lost[places[~gained]] = True, True
    return pa.array(np.where(gained, of_lost.take(places), of_gained.take(places)))


def sum_weights(rows_: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Each row once with the sum of its weights, where that is not zero."""
    if rows_.num_rows == 0:
        return rows_.select([*columns, WEIGHT])
    if any(pa.types.is_nested(rows_.schema.field(c).type) for c in columns):
        summed = _sum_nested(rows_, columns)
    else:
        summed = (
            rows_.group_by(list(columns), use_threads=False)
            .aggregate([(WEIGHT, "sum")])
            .rename_columns([*columns, WEIGHT])
        )
    return summed.filter(pc.not_equal(summed[WEIGHT], 0))


def staying(rows_: pa.Table, gone: pa.Table) -> pa.Array:
    """Which rows of a bag stay where a copy of each row of another one, which has the same columns, is taken from it.

    What isn't there is ignored; of equal rows the first ones are taken. Only rows are looked at that have a value of
    the other's most telling column.
    """
    import numpy as np

    names = rows_.column_names
    stays = np.ones(rows_.num_rows, np.bool_)
    if not rows_.num_rows or not gone.num_rows:
        return pa.array(stays)
    near = np.arange(rows_.num_rows)
    told = [c for c in names if _told_apart(rows_.schema.field(c).type)]
    if told:
        shown = gone.slice(0, _FEW)
        best = max(told, key=lambda c: pc.count_distinct(shown[c], mode="all").as_py())
        near = np.flatnonzero(among(rows_[best], gone[best]).to_numpy(zero_copy_only=False))
    if len(near):
        stays[near[_copies_taken(rows_.take(pa.array(near)), gone, names)]] = False
    return pa.array(stays)


def _copies_taken(rows_: pa.Table, gone: pa.Table, names: Sequence[str]) -> np.ndarray:
    """The places of the rows that are taken, the first ones of equal rows (see `staying`)."""
    import numpy as np

    if any(pa.types.is_nested(rows_.schema.field(c).type) for c in names):
        left = Counter(zip(*(hashable(gone[c]) for c in names), strict=True))
        found = []
        for place, row in enumerate(zip(*(hashable(rows_[c]) for c in names), strict=True)):
            if left[row] > 0:
                left[row] -= 1
                found.append(place)
        return np.array(found, np.int64)
    both = pa.concat_tables([rows_.select(names), gone.select(names)])
    places = np.arange(both.num_rows)
    numbers = fingerprints(both) if both.num_rows > _FEW else None
    if numbers is not None:  # most rows equal none of the other side
        mine, theirs = (pa.chunked_array([part.view("i8")]) for part in np.split(numbers, [rows_.num_rows]))
        equal = (among(one, other).to_numpy(zero_copy_only=False) for one, other in ((mine, theirs), (theirs, mine)))
        places = np.flatnonzero(np.concatenate(list(equal)))
        both = both.take(pa.array(places))
    listed = both.append_column(_PLACE, pa.array(places)).group_by(list(names), use_threads=False)
    alike = listed.aggregate([(_PLACE, "list")])[f"{_PLACE}_list"].combine_chunks()
    group, place = alike.value_parent_indices().to_numpy(), alike.flatten().to_numpy()
    order = np.lexsort((place, group))
    group, place = group[order], place[order]
    is_mine = place < rows_.num_rows
    many = np.bincount(group, ~is_mine, len(alike))
    # The how manieth of its group's rows each of them is.
    first = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=len(alike)))[:-1]])
    taken: np.ndarray = place[is_mine & (np.arange(len(place)) - first[group] < many[group])]
    return taken


def _told_apart(type_: pa.DataType) -> bool:
    """Whether Arrow's sets tell values of this type apart as rows are: -0.0 and NaN they don't."""
    tests = (pa.types.is_integer, pa.types.is_string, pa.types.is_binary, pa.types.is_temporal, pa.types.is_decimal)
    return any(test(type_) for test in tests)


def left_of(rows_: pa.Table, changes: pa.Table, columns: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    """By place in the changes (`columns` and WEIGHT, each row once): its weight and the rows equal to it, added up."""
    if any(pa.types.is_nested(rows_.schema.field(c).type) for c in columns):
        return _left_of_nested(rows_, changes, columns)
    n, total = rows_.num_rows, rows_.num_rows + changes.num_rows
    both = pa.concat_tables([rows_.select(list(columns)), changes.select(list(columns))])
    weights = pa.chunked_array([pa.array([1] * n, pa.int64()), *changes[WEIGHT].cast(pa.int64()).chunks])
    places = pa.array([None] * n + list(range(total - n)), pa.int64())
    counted = (
        both.append_column(WEIGHT, weights)
        .append_column(_PLACE, places)
        .group_by(list(columns), use_threads=False)
        .aggregate([(WEIGHT, "sum"), (_PLACE, "max")])
    )
    counted = counted.filter(pc.is_valid(counted[f"{_PLACE}_max"]))
    return counted[f"{_PLACE}_max"], counted[f"{WEIGHT}_sum"]


def _left_of_nested(rows_: pa.Table, changes: pa.Table, columns: Sequence[str]) -> tuple[pa.Array, pa.Array]:
    copies = Counter(zip(*(hashable(rows_[c]) for c in columns), strict=True))
    mine = zip(*(hashable(changes[c]) for c in columns), strict=True)
    left = [w + copies[row] for w, row in zip(changes[WEIGHT].to_pylist(), mine, strict=True)]
    return pa.array(range(changes.num_rows), pa.int64()), pa.array(left, pa.int64())


def repeated(rows_: pa.Table, weights: np.ndarray) -> pa.Table:
    """Each row as often as its weight says, with +1 or -1."""
    import numpy as np

    copies = np.abs(weights)
    if (copies == 1).all():
        return rows_.append_column(WEIGHT, pa.array(weights.astype("int32")))
    taken = rows_.take(pa.array(np.repeat(np.arange(len(weights)), copies)))
    return taken.append_column(WEIGHT, pa.array(np.repeat(np.sign(weights), copies).astype("int32")))


def _sum_nested(rows_: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Arrow can't group nested values: count by their exact Python form (a delta's rows, not a table's)."""
    import numpy as np

    places: dict[tuple[Any, ...], int] = {}
    weights = np.zeros(rows_.num_rows, dtype="int64")
    values = [hashable(rows_[c]) for c in columns]
    for i, (weight, *row) in enumerate(zip(rows_[WEIGHT].to_pylist(), *values, strict=True)):
        weights[places.setdefault(tuple(row), i)] += weight
    return rows_.select(list(columns)).append_column(WEIGHT, pa.array(weights, pa.int64()))
