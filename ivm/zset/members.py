"""Which values are among others, and each value once: of whole numbers that lie close together by a table of them.

    there[v - least] = whether v is wanted

Looking a value up there takes a few nanoseconds, in a set some twenty, of hundreds of thousands eighty (measured). Of
numbers that lie far apart a table of a part of their products with a constant tells which can't be wanted (a Bloom
filter of one function: B. H. Bloom, Space/Time Trade-offs in Hash Coding with Allowable Errors, 1970).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.zset.fingerprints import FAR

if TYPE_CHECKING:
    import numpy as np

#: Numbers lie close together where the table has at most so many places for each of them.
_PLACES = 16
#: Of fewer values a set is as quick.
_MANY = 10_000


def among(values: pa.ChunkedArray, wanted: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Whether each value is one of `wanted`, which has the same type; NULL equals NULL.

    >>> among(pa.chunked_array([[1, None, 3]]), pa.chunked_array([[3, None]])).to_pylist()
    [False, True, True]
    """
    import numpy as np

    mine, theirs = _numbers(values), _numbers(wanted)
    if mine is None or theirs is None or len(mine) < _MANY or not len(theirs):
        return pc.is_in(values, wanted.combine_chunks())
    least, span = _extent(theirs)
    if span <= _PLACES * (len(mine) + len(theirs)):
        # Place `span` is that of all values that lie outside: a difference below zero is a huge one without a sign.
        places = np.minimum((mine - least).view("u8"), np.uint64(span))
        return pa.array(_table(theirs - least, span + 1).take(places.view("i8")))
    bits = (_PLACES * len(theirs)).bit_length()
    there = _table(_spread(theirs, bits), 1 << bits).take(_spread(mine, bits))
    some = np.flatnonzero(there)
    there[some] = pc.is_in(pa.array(mine[some]), pa.array(theirs)).to_numpy(zero_copy_only=False)
    return pa.array(there)


def once(values: pa.ChunkedArray) -> pa.Array:
    """Each value once, in any order; NULL as well.

    >>> sorted(once(pa.chunked_array([[3, 1], [3]])).to_pylist())
    [1, 3]
    """
    import numpy as np

    mine = _numbers(values)
    if mine is not None and len(mine) >= _MANY:
        least, span = _extent(mine)
        if span <= _PLACES * len(mine):
            return pa.array(np.flatnonzero(_table(mine - least, span)) + least).cast(values.type)
    return pc.unique(values)


def _numbers(values: pa.ChunkedArray) -> np.ndarray | None:
    """Whole numbers as 64-bit ones; None for other types, and where there are NULLs."""
    if values.null_count or not pa.types.is_integer(values.type) or pa.types.is_uint64(values.type):
        return None
    found: np.ndarray = values.cast(pa.int64()).to_numpy()
    return found


def _spread(numbers: np.ndarray, bits: int) -> np.ndarray:
    """A place below 2 to the power of `bits` for each number, the same for equal ones: the first bits of a product.

    Source: multiplicative hashing, D. E. Knuth, The Art of Computer Programming 3, 6.4.
    """
    import numpy as np

    return ((numbers.view("u8") * np.uint64(FAR)) >> np.uint64(64 - bits)).view("i8")


def _extent(numbers: np.ndarray) -> tuple[Any, int]:
    least, most = numbers.min(), numbers.max()
    return least, int(most) - int(least) + 1


def _table(places: np.ndarray, size: int) -> np.ndarray:
    import numpy as np

    there = np.zeros(size, np.bool_)
    there[places] = True
    return there
