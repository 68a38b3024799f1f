"""DuckDB's reader of Parquet files as a reader of Delta tables, for keyed reads of tables in a folder.

    rows(t) = rows of its files, less those that deletion vectors hide

Only what is on the list here is read: tables whose rows stand in their files as they are, columns of flat types that
the first file holds under the table's own type (others, narrower since the type was widened, are cast to it), and keys
whose equality is the same everywhere: no doubles, whose NaN and -0.0 engines tell apart differently. Of a table's
files only those are opened whose statistics allow a match.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from ivm.errors import LargeReadError
from ivm.lake import hiding, native, vectors
from ivm.lake.shapes import arrow_schema, one_nan
from ivm.names import native_ident, native_literal
from ivm.portable import versions
from ivm.storage.location import Location

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_log = logging.getLogger(__name__)

_SETTINGS = {
    # DuckDB 2.0's statistics lose rows in outer joins over empty tables; they gain nothing here.
    "disabled_optimizers": "statistics_propagation",
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "preserve_insertion_order": False,
    "enable_external_file_cache": False,
}
#: Footers are read once for all levels of a slice. What a file holds without a zone (INT96) is an instant of UTC.
_SETUP = ("SET parquet_metadata_cache = true", "SET TimeZone = 'UTC'", "SET lock_configuration = true")
_GLOB = frozenset("*?[")
#: What DuckDB calls the file and the number of a row; a column of that name would be taken for it.
_OWN_NAMES = frozenset({"file_index", "file_row_number", "filename"})
_UTC = pa.timestamp("us", tz="UTC")


#: Asked once: looking for what is installed takes a millisecond, and each scan asks.
lacking = functools.cache(versions.lacking)


class UnfitError(Exception):
    """Why a read is not made here."""


@functools.cache
def _database() -> DuckDBPyConnection:
    """One for all of the process; it holds no rows."""
    import duckdb

    database = duckdb.connect(":memory:", config=dict(_SETTINGS))
    for statement in _SETUP:
        database.execute(statement)
    return database


def cursor() -> DuckDBPyConnection:
    """A cursor with relations of its own."""
    return _database().cursor()


class ParquetScan:
    """Keyed reads of one version of a table."""

    def __init__(self, path: str, delta: DeltaTable) -> None:
        self._path = path
        self._delta = delta

    def find(
        self, columns: Sequence[str], keys: Sequence[tuple[Sequence[str], pa.Table, bool]], where: str, most: int | None
    ) -> pa.Table:
        """As `ivm.lake.keyed.KeyedReader.find`. Raises UnfitError for what isn't on the list, or fails."""
        if self.unfit:
            raise UnfitError(self.unfit)
        schema = self.schema
        wanted = pa.schema([schema.field(c) for c in columns])
        for name in (*columns, *(c for mine, *_ in keys for c in mine)):
            if not _flat(schema.field(name).type):
                raise UnfitError(f"the type of {name}")
        for mine, values, between in keys:
            _check_keys(schema, mine, values, between)
        chosen = self.chosen(keys)
        if not chosen:
            return wanted.empty_table()
        import duckdb

        try:
            return self._read(wanted, keys, chosen, where, most)
        except (duckdb.Error, pa.ArrowException) as error:
            raise UnfitError(str(error)) from error

    @functools.cached_property
    def unfit(self) -> str:
        """Why no read of the table is made here; empty if some are."""
        if missing := lacking():
            return f"it {missing}"
        if not Location.of(self._path).local or _GLOB & set(self._path):
            return "its place"
        if taken := _OWN_NAMES & {n.lower() for n in self.schema.names}:
            return f"a column called {min(taken)}"
        if reason := native.refusal_of_files(self._delta):
            return reason
        # A shallow clone's files are another table's.
        strange = [n for n in self.names if _GLOB & set(n) or "://" in n or n.startswith("/")]
        return f"the file {strange[0]}" if strange else ""

    @functools.cached_property
    def schema(self) -> pa.Schema:
        return arrow_schema(self._delta.schema().to_json())

    @functools.cached_property
    def _actions(self) -> pa.Table:
        return native.actions(self._delta)

    @functools.cached_property
    def names(self) -> list[str]:
        """The files, in the order of the actions; of a hidden row the place names one of them."""
        return [unquote(p) for p in self._actions["path"].to_pylist()]

    @functools.cached_property
    def hidden(self) -> Any:
        """The hidden rows by their `_places`, in order (an array)."""
        return _hidden(self._delta, {n: i for i, n in enumerate(self.names)})

    def chosen(self, keys: Sequence[tuple[Sequence[str], pa.Table, bool]]) -> list[int]:
        """The files that may hold a match, by what the log says of their least and greatest values."""
        actions = self._actions
        some = np.zeros(actions.num_rows, dtype=bool)
        for mine, values, between in keys:
            every = np.ones(actions.num_rows, dtype=bool)
            for column, wanted in zip(mine, values.columns, strict=True):
                every &= between or _may_hold(actions, column, wanted)
            some |= every
        return [int(i) for i in np.flatnonzero(some)]

    def _read(
        self,
        wanted: pa.Schema,
        keys: Sequence[tuple[Sequence[str], pa.Table, bool]],
        chosen: Sequence[int],
        where: str,
        most: int | None,
    ) -> pa.Table:
        asked = cursor()
        conditions = []
        for i, (mine, values, between) in enumerate(keys):
            if not between:
                asked.register(f"k{i}", values.rename_columns([f"c{j}" for j in range(len(mine))]))
            conditions.append(_condition(i, mine, values, between, alone=len(keys) == 1))
        hiding_some = bool(len(self.hidden))
        placed = ["file_index", "file_row_number"] if hiding_some else []
        selected = ", ".join(f"t.{native_ident(c)}" for c in [*wanted.names, *placed])
        sql = f"SELECT {selected} FROM {self.rows(chosen)} WHERE ({' OR '.join(conditions)}) AND ({where})"
        reader: Iterable[pa.RecordBatch] = asked.sql(sql).to_arrow_reader()
        if hiding_some:
            files = np.asarray(chosen, np.int64)
            reader = (self._shown(batch, files) for batch in reader)
        found = [one_nan(_typed(batch, wanted)) for batch in _up_to(reader, most)]
        return pa.Table.from_batches(found, wanted) if found else wanted.empty_table()

    def _shown(self, batch: pa.RecordBatch, files: Any) -> pa.RecordBatch:
        """The rows of a batch that no deletion vector hides; its last columns are the file (of these) and the row.

        They are looked up when they were found: those that are wanted are few, beside those that are hidden.
        """
        number, row = batch.columns[-2:]
        mine = _places(files[number.to_numpy()], row.to_numpy())
        at = np.searchsorted(self.hidden, mine)
        at[at == len(self.hidden)] = 0
        shown = batch.select(batch.schema.names[:-2])
        hidden = self.hidden[at] == mine
        return shown.filter(pa.array(~hidden)) if hidden.any() else shown

    def rows(self, chosen: Sequence[int] | None = None) -> str:
        """The rows of some files, all by default, as a FROM item `t`, with the places of the files and their rows."""
        place = Location.of(self._path)
        names = self.names if chosen is None else [self.names[i] for i in chosen]
        listed = ", ".join(native_literal((place / name).url) for name in names)
        return f"read_parquet([{listed}], file_row_number = true, hive_partitioning = false) AS t"


#: A file has less than 2 to the power of so many rows, and a table less files than what is left of 63 bits.
_ROW_BITS = 40


def _places(files: Any, rows: Any) -> Any:
    """One number for each row of each file (arrays)."""
    return (files.astype(np.int64) << _ROW_BITS) | rows.astype(np.int64)


def hidden_rows(delta: DeltaTable, places: dict[str, int]) -> pa.Table:
    """The rows that deletion vectors hide: i (the file's place, by its name in the table), r (the row's number in it).

    Raises UnfitError where neither their files tell nor delta-rs may be asked.
    """
    found = _hidden(delta, places)
    return pa.table({"i": found >> _ROW_BITS, "r": found & ((1 << _ROW_BITS) - 1)})


def _hidden(delta: DeltaTable, places: dict[str, int]) -> Any:
    """The same rows by their `_places`, in order (an array)."""
    if vectors.FEATURE not in (delta.protocol().reader_features or []):
        return np.empty(0, np.int64)
    try:
        found: Iterable[tuple[str, Any]] = vectors.hidden(delta).items()
    except vectors.UntoldError as reason:
        if many := native.many_vectors(delta):
            raise UnfitError(f"{many}, and {reason}") from reason
        _log.debug("%s: deletion vectors by delta-rs: %s", delta.table_uri, reason)
        found = _hidden_by_delta_rs(delta, places)
    by_place = sorted(((places[unquote(path)], rows) for path, rows in found), key=itemgetter(0))
    return np.concatenate([np.empty(0, np.int64), *((place << _ROW_BITS) | rows for place, rows in by_place)])


def _hidden_by_delta_rs(delta: DeltaTable, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """What delta-rs says of whole addresses, by the files' names in the table."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.rpartition("/")[2], []).append(name)
    with hiding.reading([delta]):
        batches = [pa.record_batch(batch) for batch in delta.deletion_vectors()]
    for found in batches:
        for url, kept in zip(found["filepath"].to_pylist(), found["selection_vector"], strict=True):
            file = unquote(url)
            name = max((n for n in alike[file.rpartition("/")[2]] if f"/{file}".endswith(f"/{n}")), key=len)
            yield name, pc.indices_nonzero(pc.invert(kept.values)).cast(pa.int64()).to_numpy()


def _up_to(reader: Iterable[pa.RecordBatch], most: int | None) -> Iterator[pa.RecordBatch]:
    """Batches, up to so many rows. Raises LargeReadError after them."""
    seen = 0
    for batch in reader:
        seen += batch.num_rows
        if most is not None and seen > most:
            raise LargeReadError(f"more than {most:,} rows")
        yield batch


def _typed(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """A batch under the table's types. Raises UnfitError where the first file holds others."""
    columns = []
    for column, field in zip(batch.columns, wanted, strict=True):
        if field.type == _UTC and pa.types.is_timestamp(column.type) and column.type.unit == "us":
            columns.append(column.cast(pa.timestamp("us")).cast(_UTC))
        elif column.type == field.type:
            columns.append(column)
        else:
            raise UnfitError(f"{field.name} is {column.type} in a file")
    return pa.record_batch(columns, schema=wanted)


def _flat(type_: pa.DataType) -> bool:
    """Whether DuckDB holds a column of this type as Spark does."""
    return keyed(type_) or pa.types.is_floating(type_) or type_ in (_UTC, pa.timestamp("us"))


def keyed(type_: pa.DataType) -> bool:
    """Whether values of this type are equal in DuckDB where they are in Spark."""
    tests = (pa.types.is_signed_integer, pa.types.is_string, pa.types.is_binary, pa.types.is_boolean)
    return any(test(type_) for test in tests) or type_ == pa.date32() or pa.types.is_decimal128(type_)


def _check_keys(schema: pa.Schema, columns: Sequence[str], values: pa.Table, between: bool) -> None:
    """Raises UnfitError for values that are of another type than their columns; integers may differ in width."""
    for column, found in zip(columns, values.schema.types, strict=True):
        type_ = schema.field(column).type
        both_integers = _integer(type_) and _integer(found)
        if between:
            number = pa.types.is_floating(found) and (_integer(type_) or pa.types.is_decimal(type_))
            if not number and not (found == type_ and type_ == pa.date32()):
                raise UnfitError(f"a range of {column}, which is {type_}")
        elif not (keyed(type_) and (found == type_ or both_integers)):
            raise UnfitError(f"{column} is {type_}, its keys are {found}")


def _integer(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_))


def _condition(number: int, columns: Sequence[str], values: pa.Table, between: bool, alone: bool) -> str:
    """The condition of one set of keys, which stand in the table k<number> with the columns c0, c1, ...

    Where it stands `alone`, DuckDB looks up one integer while it reads that column, and joins by several only what is
    left: 8,000 pairs in 60 M rows are found in 0.77 s instead of 1.05. Beside others it would ask for both of all rows.
    """
    listed = [f"t.{native_ident(c)}" for c in columns]
    if between:
        low, high = values.column(0).to_pylist()
        if isinstance(low, float):
            return f"CAST({listed[0]} AS DOUBLE) BETWEEN {low!r} AND {high!r}"
        return f"{listed[0]} BETWEEN DATE {native_literal(low.isoformat())} AND DATE {native_literal(high.isoformat())}"
    if len(columns) == 1:
        found = f"{listed[0]} IN (SELECT c0 FROM k{number} WHERE c0 IS NOT NULL)"
        return f"{found} OR {listed[0]} IS NULL" if values.column(0).null_count else found
    equal = "IS NOT DISTINCT FROM" if any(c.null_count for c in values.columns) else "="
    on = " AND ".join(f"k.c{j} {equal} {c}" for j, c in enumerate(listed))
    found = f"EXISTS (SELECT 1 FROM k{number} AS k WHERE {on})"
    first = _looked_up(values) if alone else None
    return found if first is None else f"{listed[first]} IN (SELECT c{first} FROM k{number}) AND {found}"


def _looked_up(values: pa.Table) -> int | None:
    """The column of integers that tells the most of the keys apart; None where there is none without NULL.

    >>> _looked_up(pa.table({"a": ["x", "y", "z"], "b": [1, 1, 2], "c": [1, 2, 3], "d": [4, 5, None]}))
    2
    """
    whole = [i for i, c in enumerate(values.columns) if _integer(c.type) and not c.null_count]
    return max(whole, key=lambda i: pc.count_distinct(values.column(i)).as_py(), default=None)


def _may_hold(actions: pa.Table, column: str, wanted: pa.ChunkedArray) -> Any:
    """For each file whether a column may hold one of the wanted values, by its least and greatest one (an array).

    Only integers are looked at: of strings the log has the first letters. Where a name has a point, `min.a.b` may be
    that of a struct's field.
    """
    if "." in column:
        return np.ones(actions.num_rows, dtype=bool)
    low, high = (actions[n] if (n := f"{end}.{column}") in actions.column_names else None for end in ("min", "max"))
    if low is None or high is None or wanted.null_count or not (_integer(low.type) and _integer(wanted.type)):
        return np.ones(actions.num_rows, dtype=bool)
    known = np.asarray(pc.and_(pc.is_valid(low), pc.is_valid(high)))
    values = np.sort(wanted.to_numpy())
    first = np.searchsorted(values, pc.fill_null(low, 0).to_numpy(), side="left")
    last = np.searchsorted(values, pc.fill_null(high, 0).to_numpy(), side="right")
    return ~known | (first < last)
