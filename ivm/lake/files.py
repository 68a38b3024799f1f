"""Parquet files that Spark wrote become files of a table: they get names in its folder, and delta-rs commits the names.

    commit = (an application's transaction, for each file its rows, ends and NULLs)       one commit, so exactly once

No row goes through this process: a file is linked on a folder, and copied by the store itself on an object store; what
is known of its rows comes from its footer. A file's name in the table tells which staged file it is, so that an attempt
that is repeated gives the same names to the same rows, and another attempt never writes over what was committed.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from ivm.errors import ConcurrentRefreshError, StateError
from ivm.lake import handles, native
from ivm.lake.log import actions_of
from ivm.lake.shapes import arrow_schema, plain
from ivm.storage.location import Location

#: Delta's readers know the ends of so many first columns by default.
_INDEXED = 32
#: Ends of longer texts help nobody to skip a file.
_TEXT = 32
_EPOCH = datetime.date(1970, 1, 1)
#: The days that have a date of four digits.
_DAYS = ((datetime.date.min - _EPOCH).days, (datetime.date.max - _EPOCH).days)


@dataclass(frozen=True)
class StagedFile:
    """A Parquet file with its footer."""

    location: Location
    size: int
    footer: pq.FileMetaData

    @property
    def schema(self) -> pa.Schema:
        """Its columns, plain (see `native.plain`)."""
        return plain(self.footer.schema.to_arrow_schema().empty_table()).schema


def staged_files(folder: Location) -> Iterator[StagedFile]:
    """The files of a folder that Spark wrote, by name."""
    for file in folder.list():
        if file.name.startswith(("_", ".")) or not file.name.endswith(".parquet"):
            continue
        stat = file.stat()
        assert stat is not None
        file_system, path = file.arrow()
        yield StagedFile(file, stat.size, pq.read_metadata(path, filesystem=file_system))


def has_nanoseconds(path: str, since: int, version: int) -> bool:
    """Whether commits of a table after one version added files with times as INT96, which delta-rs reads otherwise.

    Of those it takes 64 bits of nanoseconds, so that times before 1678 and after 2262 are others.
    """
    added = [
        unquote(action["add"]["path"])
        for number in range(since + 1, version + 1)
        for action in actions_of(path, number) or ()
        if "add" in action
    ]
    for name in added:
        file_system, place = (Location.of(path) / name).arrow()
        try:
            schema = pq.read_metadata(place, filesystem=file_system).schema
        except FileNotFoundError:  # rewritten since, and removed
            continue
        if any(schema.column(i).physical_type == "INT96" for i in range(len(schema))):
            return True
    return False


def takes_files(path: str, schema: pa.Schema) -> bool:
    """Whether files with these columns can take the place of a table's own.

    Not where the table may have deletion vectors, which are part of a file's name in the log, nor where its columns
    change.
    """
    if not native.exists(path):
        return True
    delta = native.table(path)
    features = delta.protocol().reader_features or []
    return "deletionVectors" not in features and arrow_schema(delta.schema().to_json()).equals(schema)


def commit_files(
    path: str,
    folder: Location,
    app: str,
    version: int,
    mode: str,
    schema: pa.Schema | None = None,
    configuration: Mapping[str, str] | None = None,
    note: Mapping[str, str] | None = None,
) -> bool:
    """`put_files` under an application's transaction (none where `app` is ""); False if that was there already.

    Raises what `put_files` does.
    """
    done = native.last_txn(path, app) if app else None
    if done is not None and done >= version:
        return False
    put_files(path, folder, mode, native.properties(app, version, note), schema, configuration)
    return True


def put_files(
    path: str,
    folder: Location,
    mode: str,
    properties: CommitProperties,
    schema: pa.Schema | None = None,
    configuration: Mapping[str, str] | None = None,
) -> None:
    """Add a folder's files to a table ("append"), or put them in the place of its files ("overwrite").

    Where there is no table it is made, with the `schema` (by default the files' own) and configuration. Raises
    StateError where files hold other columns than the table, and what `native.committing` raises.
    """
    there = native.writable(path) if native.exists(path) else None
    files = list(staged_files(folder))
    if there is not None:
        schema = arrow_schema(there.schema().to_json())
    elif schema is None:
        schema = files[0].schema
    for file in files:
        if types_by_name(file.schema) != types_by_name(schema):
            raise StateError(
                f"{file.location} holds {types_by_name(file.schema)}, and {path} is to hold {types_by_name(schema)}.",
                "It is built anew by the next refresh.",
            )
    added = [_added(file, Location.of(path)) for file in files if file.footer.num_rows]
    with native.committing(path):
        if there is None:
            _created(path, schema, added, configuration, properties)
        else:
            there.create_write_transaction(added, mode, there.schema(), commit_properties=properties)
    if there is not None:
        there.update_incremental()  # such a commit leaves the handle where it was
        handles.keep(path, there)


def types_by_name(schema: pa.Schema) -> dict[str, str]:
    """The types by name, by which Delta finds a file's columns. A list's element has other names in other places."""
    return {f.name: re.sub(r"list<\w+: ", "list<element: ", str(f.type)) for f in schema}


def _created(
    path: str,
    schema: pa.Schema,
    added: list[AddAction],
    configuration: Mapping[str, str] | None,
    properties: CommitProperties,
) -> None:
    try:
        create_table_with_add_actions(
            path,
            Schema.from_arrow(schema),
            added,
            configuration=dict(configuration or {}),
            commit_properties=properties,
        )
    except DeltaError as error:
        if not native.exists(path):
            raise
        raise ConcurrentRefreshError(
            f"Another writer made {path} at the same moment ({error}).", "It wins; run the refresh again."
        ) from error


def _added(file: StagedFile, table: Location) -> AddAction:
    number = hashlib.sha256(file.location.url.encode()).hexdigest()[:32]
    target = table / f"part-{number}.parquet"
    _placed(file, target)
    stat = target.stat()
    assert stat is not None
    return AddAction(
        target.name, file.size, {}, int(stat.modified.timestamp() * 1000), True, json.dumps(statistics(file.footer))
    )


def _placed(file: StagedFile, target: Location) -> None:
    """Make the staged file lie at the target, where an earlier try may have put it."""
    there = target.stat()
    if there is not None and there.size == file.size:
        return
    if not target.local:
        file.location.copy(target)
        return
    target.parent.make()
    target.drop()  # half of a copy
    try:
        os.link(file.location.url, target.url)
    except OSError:  # another disk, or a file system without links
        file.location.copy(target)


def statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """What Delta's log says of a file: its rows, NULLs of flat columns, the ends of integers, dates and short texts.

    Floats are left out (a NaN is in no footer's ends), and so are times (Delta's are milliseconds).
    """
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for place, name, type_ in _flat(footer.schema.to_arrow_schema()):
        parts = [footer.row_group(g).column(place).statistics for g in range(footer.num_row_groups)]
        if not parts or any(p is None or not p.has_null_count for p in parts):
            continue
        nulls[name] = sum(p.null_count for p in parts)
        held = [p for g, p in enumerate(parts) if p.null_count < footer.row_group(g).num_rows]
        if held and all(p.has_min_max for p in held) and _ordered(type_) and (ends := _bounds(held, type_)):
            least[name], greatest[name] = ends
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _ordered(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_) or pa.types.is_date32(type_) or pa.types.is_string(type_))


def _bounds(parts: list[Any], type_: pa.DataType) -> tuple[Any, Any] | None:
    """The least and the greatest of a column's row groups, as Delta's log spells them."""
    if pa.types.is_date32(type_):
        first, last = min(p.min_raw for p in parts), max(p.max_raw for p in parts)
        return (_date(first), _date(last)) if _DAYS[0] <= first and last <= _DAYS[1] else None
    # Texts by code points, as Spark's are by the bytes of UTF-8.
    low, high = min(p.min for p in parts), max(p.max for p in parts)
    return (low, high) if not isinstance(low, str) or max(len(low), len(high)) <= _TEXT else None


def _date(days: int) -> str:
    return (_EPOCH + datetime.timedelta(days)).isoformat()


def _flat(schema: pa.Schema) -> Iterator[tuple[int, str, pa.DataType]]:
    """Each of the first columns that isn't nested, with its place among the footer's."""
    place = 0
    for number, field in enumerate(schema):
        if number < _INDEXED and not pa.types.is_nested(field.type):
            yield place, field.name, field.type
        place += _leaves(field.type)


def _leaves(type_: pa.DataType) -> int:
    if pa.types.is_map(type_):
        return _leaves(type_.key_type) + _leaves(type_.item_type)
    if pa.types.is_list(type_):
        return _leaves(type_.value_type)
    return sum(_leaves(f.type) for f in type_) if pa.types.is_struct(type_) else 1
