"""The log of a Delta table written by hand: commits, checkpoints, files with deletion vectors."""

from __future__ import annotations

import base64
import itertools
import json
import uuid
import zlib
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyroaring import BitMap64

from ivm.lake import native
from ivm.lake.vectors import _B85, _Z85

PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["deletionVectors"],
}
METADATA = {
    "id": "4e4b1e9d-0000-4000-8000-000000000000",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": '{"type":"struct","fields":[{"name":"k","type":"long","nullable":true,"metadata":{}}]}',
    "partitionColumns": [],
    "configuration": {},
    "createdTime": 0,
}
#: A vector of which nobody reads the file.
SOME = {"storageType": "u", "pathOrInlineDv": "ab" + 20 * "0", "offset": 1, "sizeInBytes": 34, "cardinality": 1}


def add(path: str, vector: dict | None = None, **others: object) -> dict:
    action = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True} | others
    return {"add": action | ({"deletionVector": vector} if vector else {})}


def remove(path: str) -> dict:
    return {"remove": {"path": path, "deletionTimestamp": 0, "dataChange": True}}


def commit(table: Path, version: int, *actions: dict) -> None:
    log = table / "_delta_log"
    log.mkdir(exist_ok=True)
    first = [{"protocol": PROTOCOL}, {"metaData": METADATA}] if version == 0 else []
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(a) for a in (*first, *actions)))


def hide(table: Path, *hidden: Sequence[int]) -> dict[str, list[int]]:
    """Hide rows of a table's files by a commit, each list of rows in one of them (the last of all others).

    Tells what is hidden, by the files' names. Some vectors stand in the log, some in a file, some in a folder.
    """
    delta = DeltaTable(str(table))
    files = native.actions(delta).to_pylist()
    told = {}
    actions: list[dict] = [
        {"protocol": PROTOCOL},
        {"metaData": METADATA | {"schemaString": delta.schema().to_json(), "id": str(delta.metadata().id)}},
    ]
    actions[1]["metaData"]["configuration"] = dict(delta.metadata().configuration)
    ways = itertools.cycle(
        (
            lambda rows: inline(rows),
            lambda rows: stored(table, [9], rows)[1],
            lambda rows: stored(table, rows, folder="x")[0],
        )
    )
    for file, rows, way in zip(files, itertools.chain(hidden, itertools.repeat(hidden[-1])), ways, strict=False):
        told[file["path"]] = list(rows)
        stats = json.dumps({"numRecords": file["num_records"]})
        actions += [remove(file["path"]), add(file["path"], way(rows), size=file["size_bytes"], stats=stats)]
    commit(table, delta.version() + 1, *actions)
    return told


_KINDS = {"storageType": "string", "pathOrInlineDv": "string", "offset": "int32", "sizeInBytes": "int32"}
VECTOR = pa.struct([*_KINDS.items(), ("cardinality", "int64")])


def checkpoint(
    table: Path, version: int, name: str, files: dict[str, bool], known: bool = True, **others: list
) -> None:
    """A checkpoint of files, each with whether it has a vector; other actions have rows of their own.

    Where vectors are not `known` it has no column for them.
    """
    type_ = pa.struct([("path", pa.string()), *([("deletionVector", VECTOR)] if known else [])])
    adds = [None, *({"path": p, "deletionVector": SOME if hides else None} for p, hides in files.items())]
    columns = {"add": pa.array(adds, type_)} | {n: pa.array(v) for n, v in others.items()}
    pq.write_table(pa.table(columns), table / "_delta_log" / f"{version:020d}.checkpoint{name}.parquet")


def vector(rows: Sequence[int]) -> bytes:
    """A vector's bytes as the protocol has them."""
    return (1681511377).to_bytes(4, "little") + BitMap64(rows).serialize()


def inline(rows: Sequence[int]) -> dict:
    """The descriptor of a vector in the log itself."""
    data = vector(rows)
    return {"storageType": "i", "pathOrInlineDv": z85(data), "sizeInBytes": len(data), "cardinality": len(rows)}


def stored(table: Path, *vectors: Sequence[int], folder: str = "") -> list[dict]:
    """A file of vectors, and the descriptor of each."""
    name, data, found = uuid.uuid4(), b"\1", []
    place = folder + z85(name.bytes)
    for rows in vectors:
        block = vector(rows)
        found.append(
            {
                "storageType": "u",
                "pathOrInlineDv": place,
                "offset": len(data),
                "sizeInBytes": len(block),
                "cardinality": len(rows),
            }
        )
        data += len(block).to_bytes(4, "big") + block + zlib.crc32(block).to_bytes(4, "big")
    (table / folder).mkdir(exist_ok=True)
    (table / folder / f"deletion_vector_{name}.bin").write_bytes(data)
    return found


def z85(data: bytes) -> str:
    padded = data + bytes(-len(data) % 4)
    return base64.b85encode(padded).decode().translate(str.maketrans(_B85, _Z85))
