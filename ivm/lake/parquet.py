"""Parquet files that Spark writes for this process, or reads from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ivm.lake.shapes import plain
from ivm.storage.location import Location

if TYPE_CHECKING:
    import pyarrow.dataset as pads


def dataset(*files: Location) -> pads.Dataset:
    """Parquet files that Spark wrote (a folder of them, or each by name), to be read as Spark reads them."""
    import pyarrow.dataset as pads  # 40 ms, with pandas 300, of a refresh that may find nothing to do

    # Spark writes timestamps as INT96 by default, which Arrow would read as nanoseconds:
    # the years before 1678 and after 2262 would come out as others.
    format_ = pads.ParquetFileFormat(read_options=pads.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
    file_system, first = files[0].arrow()
    return pads.dataset(
        first if len(files) == 1 else [f.arrow()[1] for f in files], format=format_, filesystem=file_system
    )


def stream(folder: Location, schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows of Parquet files, read as they are asked for and cast to a schema."""

    def batches() -> Iterator[pa.RecordBatch]:
        for part in dataset(folder).to_batches():
            yield from plain(part).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def total(folder: Location, column: str) -> int:
    """The sum of a column of integers over Parquet files, batch by batch."""
    parts = dataset(folder).scanner([column]).to_batches()
    return sum(pc.sum(part.column(0)).as_py() or 0 for part in parts)


def write(data: pa.Table, file: Location, row_group: int) -> None:
    """One file with these rows, for Spark to read, which soon reads all of it.

    On this machine plain values are written in two fifths of the time that dictionaries take, and read in four fifths;
    elsewhere these are sent in less than half of the bytes.
    """
    buffer = pa.BufferOutputStream()
    pq.write_table(
        data,
        file.url if file.local else buffer,
        compression="NONE",
        row_group_size=row_group,
        store_decimal_as_integer=True,
        use_dictionary=not file.local,
        write_statistics=False,
    )
    if not file.local:
        file.write(buffer.getvalue().to_pybytes())
