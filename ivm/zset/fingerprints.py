"""Numbers that tell most rows apart: equal rows have equal ones, so rows of different numbers need not be compared.

    number(row) = a mix of its values of fixed width, and of how long its texts are

A value counts whose bits are its identity: of a float they are not, and what is nested has none. Of rows without a
value of fixed width the texts themselves count: to look at all of their bytes costs about what comparing them does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy as np

#: An odd number of 64 bits, by which neighbouring values become far apart: 2 ** 64 divided by the golden ratio.
FAR = 0x9E3779B97F4A7C15
#: A decimal of so many digits is in the first of its two words.
_ONE_WORD = 18


def fingerprints(rows: pa.Table) -> np.ndarray | None:
    """A number of 64 bits for each row; None where no column tells rows apart by numbers.

    >>> one, two, other = fingerprints(pa.table({"k": [1, 1, 2], "t": ["a", "a", "a"]}))
    >>> one == two, one == other
    (np.True_, np.False_)
    >>> fingerprints(pa.table({"x": [0.5]})) is None
    True
    """
    import numpy as np

    mixed: np.ndarray | None = None
    fixed = [words for column in rows.columns for words in _fixed(column)]
    for words in (*fixed, *(w for column in rows.columns for w in _texts(column, lengths=bool(fixed)))):
        mixed = words if mixed is None else (mixed ^ (mixed >> np.uint64(29))) + words
        mixed = mixed * np.uint64(FAR)
    return mixed


def _fixed(column: pa.ChunkedArray) -> Iterator[Any]:
    """The values as words of 64 bits; nothing of other types."""
    type_ = column.type
    if pa.types.is_decimal128(type_):
        words = _words(column, "<u8", 2)
        yield from (words[0::2], words[1::2]) if type_.precision > _ONE_WORD else (words[0::2],)
    elif pa.types.is_integer(type_) or pa.types.is_date32(type_) or pa.types.is_timestamp(type_):
        yield _words(column, f"<u{type_.bit_width // 8}").astype("<u8", copy=False)


def _texts(column: pa.ChunkedArray, lengths: bool) -> Iterator[Any]:
    """Of texts the lengths, or a number for each different one."""
    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        found = pc.binary_length(column) if lengths else _numbered(column)
        yield pc.fill_null(found, 0).to_numpy().astype("<u8")


def _numbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A number for each different text; all parts have one dictionary."""
    return pa.chunked_array([part.indices for part in column.dictionary_encode().chunks], pa.int32())


def _words(column: pa.ChunkedArray, word: str, each: int = 1) -> Any:
    """The bits of a column's values, `each` so many words; zeros for NULLs, in whose places anything may lie."""
    import numpy as np

    values = column.combine_chunks()
    buffer = values.buffers()[1]
    words = np.frombuffer(buffer if buffer is not None else b"", word)
    words = words[each * values.offset : each * (values.offset + len(values))]
    return words * values.is_valid().to_numpy(zero_copy_only=False).repeat(each) if values.null_count else words
