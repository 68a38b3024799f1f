"""Deletion vectors of a table, by its log and the files that this names.

    of(table, version) = for each data file that has one, where its vector stands
    hidden(table, ...) = for each of them the numbers of the rows that it hides, ascending

The format is the Delta protocol's: a 64-bit Roaring bitmap in its portable form after a magic number; in a file that
holds many, between its length and its checksum, or in the log itself, as Z85 (ZeroMQ's RFC 32). delta-rs makes an array
of as many flags as a file has rows of each; here the cost is that of the hidden rows.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import threading
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ivm.lake.commits import commit_file, fingerprint
from ivm.storage.location import Location

FEATURE = "deletionVectors"
#: A classic checkpoint, whole or in parts: all files of the version are named in it.
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.\d{10}\.(\d{10}))?\.parquet")
_MAGIC = 1681511377
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)
#: A UUID's characters at the end of where a vector stands.
_UUID = 20
#: So many hidden rows (8 bytes each) are remembered, of the vectors that were asked for last: none changes.
_REMEMBERED = 8_000_000
#: Of so many tables it is remembered which files have vectors.
_TABLES = 256
Rows: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class UntoldError(Exception):
    """Why the rows that a table's vectors hide aren't told here."""


class Vector(NamedTuple):
    """Where a vector stands: `storage` is u (a file beside the data), i (`place` holds it) or p (a file elsewhere).

    It begins at `offset`, has `size` bytes and hides so many `rows`.
    """

    storage: str
    place: str
    offset: int
    size: int
    rows: int

    @classmethod
    def logged(cls, descriptor: Mapping[str, Any]) -> Vector:
        """As an action of the log describes it."""
        told = descriptor.get
        return cls(
            str(told("storageType")),
            str(told("pathOrInlineDv")),
            told("offset") or 0,
            told("sizeInBytes") or 0,
            told("cardinality") or 0,
        )


def path_of(delta: DeltaTable) -> str:
    """Where an open table lies; delta-rs spells it as a URI."""
    return unquote(delta.table_uri).removeprefix("file://")


def of_table(delta: DeltaTable) -> Mapping[str, Vector]:
    """The vectors of a table that is open, by the files' names in its log. Raises UntoldError."""
    if FEATURE not in (delta.protocol().reader_features or []):
        return {}
    path, version = path_of(delta), delta.version()
    mark = fingerprint(path, version)
    # Where the commit is gone, another table's may have been the same number.
    found = _known(path, version, mark) if mark else _read(path, version)
    if found is None:
        raise UntoldError("its checkpoint names no files itself")
    return found


def in_commits(path: str, first: int, last: int) -> int | None:
    """How many vectors a reader of the change feed of these versions meets; None where a commit is gone.

    They are those of files that came and went, where a commit holds its changes in no files of their own.
    """
    counts = [_in_commit(path, v, mark) if (mark := fingerprint(path, v)) else None for v in range(first, last + 1)]
    return None if None in counts else sum(n or 0 for n in counts)


@functools.lru_cache(maxsize=4096)
def _in_commit(path: str, version: int, _mark: str) -> int | None:
    try:
        actions = [json.loads(line) for line in commit_file(path, version).read().splitlines() if line.strip()]
    except (OSError, ValueError):
        return None
    if any("cdc" in a for a in actions):
        return 0
    return sum(bool((a.get(kind) or {}).get("deletionVector")) for a in actions for kind in ("add", "remove"))


class _Told(NamedTuple):
    """The vectors of a version whose commit has the fingerprint `mark`."""

    version: int
    mark: str
    vectors: Mapping[str, Vector]


#: By table the version that was asked for last: of a newer one only the commits after it are read.
_newest: OrderedDict[str, _Told] = OrderedDict()
_lock = threading.Lock()


@functools.lru_cache(maxsize=_TABLES)
def _known(path: str, version: int, mark: str) -> Mapping[str, Vector] | None:
    with _lock:
        known = _newest.get(path)
    found = None
    if known is not None and known.version < version and fingerprint(path, known.version) == known.mark:
        found = _since(path, version, known)
    if found is None:
        found = _read(path, version)
    if found is not None:
        with _lock:
            _newest[path] = _Told(version, mark, found)
            _newest.move_to_end(path)
            while len(_newest) > _TABLES:
                _newest.popitem(last=False)
    return found


def _since(path: str, version: int, known: _Told) -> Mapping[str, Vector] | None:
    """The vectors of a version by those of an older one; None where a commit between them is gone."""
    seen, found = set[str](), dict[str, Vector]()
    try:
        for number in range(version, known.version, -1):
            _by_commit(commit_file(path, number).read(), seen, found)
    except (OSError, ValueError, KeyError):
        return None
    return {**{p: vector for p, vector in known.vectors.items() if p not in seen}, **found}


def _read(path: str, version: int) -> Mapping[str, Vector] | None:
    try:
        return of(Location.of(path), version)
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise UntoldError(f"its log can't be read: {error}") from error


def of(table: Location, version: int) -> dict[str, Vector] | None:
    """The files that have vectors at a version, by the log; None where a checkpoint names no files itself.

    Raises FileNotFoundError where a commit is missing.
    """
    checkpoints: dict[int, dict[int, list[str]]] = {}
    for name in (table / "_delta_log").names():
        if (match := _CHECKPOINT.fullmatch(name)) and int(match[1]) <= version:
            checkpoints.setdefault(int(match[1]), {}).setdefault(int(match[2] or 1), []).append(name)
    # One of which parts are missing was not finished, or is being removed.
    parts = {n: names for n, of in checkpoints.items() for many, names in of.items() if len(names) == many}
    since = max(parts, default=-1)
    seen, found = set[str](), dict[str, Vector]()
    for number in range(version, since, -1):
        _by_commit(commit_file(str(table), number).read(), seen, found)
    for name in parts.get(since, ()):
        adds = _adds(table / "_delta_log" / name)
        if adds is None:
            return None
        found |= {path: vector for path, vector in adds if path not in seen}
    return found


def _by_commit(commit: bytes, seen: set[str], found: dict[str, Vector]) -> None:
    """Take a commit's files, those of newer commits being `seen`: what adds one tells more than what removes it."""
    actions = [json.loads(line) for line in commit.splitlines() if line.strip()]
    adds = {a["add"]["path"]: a["add"].get("deletionVector") for a in actions if "add" in a}
    found |= {path: Vector.logged(told) for path, told in adds.items() if told is not None and path not in seen}
    seen |= {*adds, *(a["remove"]["path"] for a in actions if "remove" in a)}


def _adds(checkpoint: Location) -> Iterator[tuple[str, Vector]] | None:
    """A checkpoint's files that have vectors; None where other files hold them."""
    file = pq.ParquetFile(pa.BufferReader(checkpoint.read()))
    columns = [file.schema.column(i).path for i in range(len(file.schema))]
    if any(c.startswith("sidecar.") for c in columns):
        return None
    wanted = [c for c in columns if c == "add.path" or c.startswith("add.deletionVector.")]
    adds = file.read(columns=wanted)["add"].drop_null().to_pylist()
    told = ((a["path"], a.get("deletionVector") or {}) for a in adds)
    return ((path, Vector.logged(of)) for path, of in told if of.get("storageType") is not None)


def hidden(delta: DeltaTable) -> dict[str, Rows]:
    """The numbers of the hidden rows of a table's files, by their names in the log; not to be written to.

    Raises UntoldError where the log, a file of vectors, or what is installed doesn't tell.
    """
    table = Location.of(path_of(delta))
    files: dict[Location, bytes] = {}
    found = {}
    for path, vector in of_table(delta).items():
        rows = _recalled(table, vector)
        if rows is None:
            try:
                data = _inline(vector) if vector.storage == "i" else _in_file(table, vector, files)
            except (OSError, ValueError) as error:
                raise UntoldError(f"the vector of {path} can't be read: {error}") from error
            rows = rows_of(data, vector)
            _remember(table, vector, rows)
        found[path] = rows
    return found


#: The rows of vectors that were read, by where they stand.
_rows: OrderedDict[tuple[Location, Vector], Rows] = OrderedDict()
_held = 0


def _recalled(table: Location, vector: Vector) -> Rows | None:
    with _lock:
        found = _rows.get((table, vector))
        if found is not None:
            _rows.move_to_end((table, vector))
        return found


def _remember(table: Location, vector: Vector, rows: Rows) -> None:
    global _held  # noqa: PLW0603 - there is one a process
    rows.setflags(write=False)
    with _lock:
        if (table, vector) not in _rows:
            _rows[table, vector] = rows
            _held += len(rows)
        while _held > _REMEMBERED:
            _, dropped = _rows.popitem(last=False)
            _held -= len(dropped)


def rows_of(data: bytes, vector: Vector) -> Rows:
    """The rows that a vector's bytes name. Raises UntoldError where they are not a vector of so many rows."""
    try:
        from pyroaring import BitMap64
    except ImportError as error:
        raise UntoldError("pyroaring, of ivm's extra `embedded`, is not installed") from error
    if int.from_bytes(data[:4], "little") != _MAGIC:
        raise UntoldError("a vector of another format")
    try:
        bitmap = BitMap64.deserialize(data[4:])
    except (ValueError, IndexError) as error:
        raise UntoldError(f"a vector can't be read: {error}") from error
    if len(bitmap) != vector.rows:
        raise UntoldError(f"a vector hides {len(bitmap):,} rows instead of {vector.rows:,}")
    return np.fromiter(bitmap, np.int64, len(bitmap))


def _inline(vector: Vector) -> bytes:
    return _decoded(vector.place)[: vector.size]


def _in_file(table: Location, vector: Vector, files: dict[Location, bytes]) -> bytes:
    """A vector's bytes; `files` were read already. Raises OSError, or UntoldError where it isn't there."""
    if vector.storage != "u":
        raise UntoldError("a vector elsewhere")
    folder, name = vector.place[:-_UUID], uuid.UUID(bytes=_decoded(vector.place[-_UUID:]))
    file = (table / folder if folder else table) / f"deletion_vector_{name}.bin"
    if file not in files:
        files[file] = file.read()
    data = files[file][vector.offset : vector.offset + 4 + vector.size + 4]
    block, check = data[4:-4], int.from_bytes(data[-4:], "big")
    if int.from_bytes(data[:4], "big") != vector.size or zlib.crc32(block) != check:
        raise UntoldError(f"{file} holds another vector there, or a damaged one")
    return block


def _decoded(text: str) -> bytes:
    """The bytes of a text in Z85.

    >>> _decoded("HelloWorld").hex()
    '864fd26fb559f75b'
    """
    return base64.b85decode(text.translate(_TO_B85))
