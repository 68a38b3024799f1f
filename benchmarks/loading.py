"""TPC-H relations as arrays, and the order in which they are loaded from empty.

That order is round-robin: one row of each relation in turn. A logical batch of n updates holds the next n rows of it.
Setting: McSherry, "Implementing a TPC-H-like evaluation", 2017-04-24.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def boundaries(sizes: Mapping[str, int], batch: int) -> list[int]:
    """The rows of each relation at which batches end, where all take turns and drop out when they are through.

    >>> boundaries({"a": 2, "b": 6}, 4)
    [2, 6]
    """
    total, ends, row = sum(sizes.values()), [], 0
    ordered = sorted(sizes.values())
    for end in range(batch, total + batch, batch):
        wanted = min(end, total)
        done, left = sum(min(n, row) for n in ordered), [n for n in ordered if n > row]
        while done < wanted and left:
            step = min(left[0] - row, -(-(wanted - done) // len(left)))
            row, done = row + step, done + step * len(left)
            left = [n for n in left if n > row]
        if not ends or row > ends[-1]:
            ends.append(row)
    return ends


def batches(relations: Mapping[str, Mapping[str, Any]], batch: int) -> Iterator[dict[str, dict[str, Any]]]:
    """The columns of each relation's next rows, batch by batch."""
    sizes = {n: len(next(iter(c.values()))) for n, c in relations.items()}
    start = 0
    for end in boundaries(sizes, batch):
        yield {n: {c: v[start:end] for c, v in columns.items()} for n, columns in relations.items()}
        start = end


def generated(scale: float = 1.0) -> Path:
    """The folder of the relations, made if need be."""
    from ivm.demo import tpch

    folder = Path(__file__).parent.parent / "demo" / "bench" / f"sf{scale}" / "data"
    tpch.generate(folder, scale)
    return folder


def columns(folder: Path, relation: str, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns as integers: dates as days, decimals as hundredths, texts as codes."""
    table = pq.read_table(folder / f"{relation}.parquet", columns=list(names))
    return {n: _integers(table[n].combine_chunks()) for n in names}


def texts(folder: Path, relation: str, name: str) -> pa.Array:
    """A text column as it is."""
    return pq.read_table(folder / f"{relation}.parquet", columns=[name])[name].cast(pa.string()).combine_chunks()


def _integers(values: pa.Array) -> np.ndarray:
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_decimal(values.type):
        values = pc.round(pc.multiply(values.cast(pa.float64()), 100.0)).cast(pa.int64())
    elif not pa.types.is_integer(values.type):
        values = values.cast(pa.string()).dictionary_encode().indices
    return values.to_numpy(zero_copy_only=False).astype("int64")
