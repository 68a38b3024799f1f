"""The primitives by which anything is written, for the fault injector.

Where they are bound, what they write, how they fail.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from ivm.parameters import location
from ivm.storage.location import Location

#: The label and the path (or the statement's text) of a write; no label where the call writes nothing.
Target = Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[str, str]]

_STATEMENT = re.compile(
    r"\s*(MERGE|INSERT|UPDATE|DELETE|OPTIMIZE|VACUUM|RESTORE|REORG|TRUNCATE|ALTER|DROP\s+TABLE|"
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:EXTERNAL\s+)?TABLE)\b",
    re.I,
)
_REASONS = {
    "DISK": (errno.ENOSPC, "No space left on device (os error 28)"),
    "PERMISSION": (errno.EACCES, "Permission denied (os error 13)"),
    "COMMIT": (errno.EIO, "Failed to commit transaction: 15"),
}


class Kind(Enum):
    """Who writes: decides what a half-done write leaves, and which error it raises."""

    DELTA = "delta-rs"
    SPARK = "spark"
    STATEMENT = "statement"
    PARQUET = "parquet file"
    TEXT = "text file"
    REMOVE = "remove folder"
    ATOMIC = "atomic"

    @property
    def divisible(self) -> bool:
        """Whether the write has a middle."""
        return self not in (Kind.ATOMIC, Kind.STATEMENT)

    def amid(self, act: Callable[[], Any], path: str) -> None:
        """Do a part of the write: what a process leaves that ends in the middle of it."""
        if self is Kind.DELTA:
            _stray_file(Location.of(path))
        elif self is Kind.SPARK:
            act()
            _lose_half(Location.of(path))
        elif self is Kind.REMOVE:
            files = sorted(p for p in Path(path).rglob("*") if p.is_file())
            for file in files[: (len(files) + 1) // 2]:
                file.unlink()
        elif self in (Kind.PARQUET, Kind.TEXT):
            act()
            file = Path(path)
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    def error(self, trouble: str, path: str) -> Exception:
        """What the library raises for a full disk (DISK), a lacking PERMISSION, or a COMMIT that fails."""
        number, text = _REASONS[trouble]
        if self is Kind.DELTA:
            from deltalake.exceptions import CommitFailedError

            return (
                CommitFailedError(text)
                if trouble == "COMMIT"
                else OSError(f"Generic LocalFileSystem error: Unable to copy data to file {path}: {text}")
            )
        if self in (Kind.SPARK, Kind.STATEMENT):
            from pyspark.errors import SparkRuntimeException

            return SparkRuntimeException(
                f"[TASK_WRITE_FAILED] Task failed while writing rows to {path}: {text} SQLSTATE: 58030"
            )
        return OSError(number, os.strerror(number), path)


def _stray_file(table: Location) -> None:
    """A data file and an unfinished commit that no log refers to."""
    (table / f"part-00000-{uuid.uuid4()}-c000.snappy.parquet").write(b"PAR1 and no more")
    if (table / "_delta_log").exists():
        (table / "_delta_log" / f"_commit_{uuid.uuid4()}.json.tmp").write(b"{")


def _lose_half(folder: Location) -> None:
    """A folder of Parquet files as an unfinished job commit leaves it: without its mark, without half of the files."""
    (folder / "_SUCCESS").drop()
    files = [f for f in folder.list() if f.name.startswith("part-")]
    for file in files[: (len(files) + 1) // 2]:
        file.drop()
    if (folder / "_delta_log").exists():  # a table: its commit is what is not there yet
        max(f for f in (folder / "_delta_log").list() if f.name.endswith(".json")).drop()


@dataclass(frozen=True)
class Primitive:
    """A function or method: the module (and class) that holds it, its name, and how to see what a call writes."""

    module: str
    owner: str
    name: str
    kind: Kind
    target: Target
    label: str = ""

    def found(self) -> tuple[Any, Any]:
        """Its owner and the plain function as it is bound there (None where this version of the library has none)."""
        try:
            owner = importlib.import_module(self.module)
        except ImportError:
            return None, None
        if self.owner:
            owner = getattr(owner, self.owner)
        return owner, vars(owner).get(self.name)


def _plain(path: Any) -> str:
    text = path if isinstance(path, str) else os.fspath(path)
    if isinstance(text, bytes):
        text = os.fsdecode(text)
    if text.startswith("file:"):
        text = "/" + text[5:].lstrip("/")
    return os.path.abspath(text) if "://" not in text else location(text, "a path")


def _argument(args: tuple[Any, ...], kwargs: Mapping[str, Any], place: int, *names: str) -> Any:
    return args[place] if len(args) > place else next((kwargs[n] for n in names if n in kwargs), None)


def _delta_path(table: Any) -> str:
    """Of a path, a DeltaTable, or the raw table inside of one."""
    uri = getattr(table, "table_uri", table)
    return _plain(uri() if callable(uri) else uri).rstrip("/")


def _write_deltalake(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
    return f"delta {kwargs.get('mode', 'error')}", _delta_path(_argument(args, kwargs, 0, "table_or_uri"))


def _of_table(label: str, table: Callable[[Any], Any]) -> Target:
    def target(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
        return ("" if kwargs.get("dry_run", label == "delta vacuum") else label), _delta_path(table(args[0]))

    return target


def written_at(label: str, place: int, *names: str) -> Target:
    """A call that writes to the path that is its argument at a place, or of one of these names."""

    def target(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
        path = _argument(args, kwargs, place, *names)
        return (label, _plain(path)) if isinstance(path, str | bytes | os.PathLike) else ("", "")

    return target


def _statement(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
    text = str(_argument(args, kwargs, 1, "sqlQuery") or "")
    found = _STATEMENT.match(text)
    return (" ".join(["sql", *found[1].lower().split()]), f"{text} ") if found else ("", "")


def _of_object(label: str) -> Target:
    def target(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
        return label, f"{args[0].root}/{args[1]}"

    return target


def _opened(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
    path, mode = _argument(args, kwargs, 0, "file"), _argument(args, kwargs, 1, "mode") or "r"
    if not isinstance(path, str | bytes | os.PathLike) or not set(mode) & set("wxa"):
        return "", ""
    if "a" in mode and os.path.exists(path):
        return "", ""
    return "open", _plain(path)


def _os_open(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
    path, flags = _argument(args, kwargs, 0, "path"), _argument(args, kwargs, 1, "flags")
    creates = (
        flags & (os.O_CREAT | os.O_TRUNC)
        and not (os.path.exists(path) and not flags & os.O_TRUNC)
        and kwargs.get("dir_fd") is None
    )
    return ("open", _plain(path)) if creates else ("", "")


def _made(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
    path = _argument(args, kwargs, 0, "path")
    return ("", "") if kwargs.get("dir_fd") is not None or os.path.exists(path) else ("mkdir", _plain(path))


def _removed(label: str) -> Target:
    def target(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
        path = _argument(args, kwargs, 0, "path")
        if (
            kwargs.get("dir_fd") is not None
            or not isinstance(path, str | bytes | os.PathLike)
            or not os.path.lexists(path)
        ):
            return "", ""
        return label, _plain(path)

    return target


def _moved(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[str, str]:
    return "rename", _plain(_argument(args, kwargs, 1, "dst"))


def _itself(table: Any) -> Any:
    return table


def _inner(table: Any) -> Any:
    return table.table


_WRITERS = [
    (m, c)
    for m, c in (("pyspark.sql.readwriter", "DataFrameWriter"), ("pyspark.sql.connect.readwriter", "DataFrameWriter"))
]
_SESSIONS = [("pyspark.sql.session", "SparkSession"), ("pyspark.sql.connect.session", "SparkSession")]

PRIMITIVES: tuple[Primitive, ...] = (
    Primitive("deltalake", "", "write_deltalake", Kind.DELTA, _write_deltalake, "delta"),
    Primitive(
        "deltalake.table", "DeltaTable", "create", Kind.DELTA, written_at("delta create", 1, "table_uri"), "delta"
    ),
    Primitive(
        "deltalake.transaction",
        "",
        "create_table_with_add_actions",
        Kind.DELTA,
        written_at("delta create", 0, "table_uri"),
        "delta",
    ),
    *(
        Primitive("deltalake.table", "DeltaTable", n, Kind.DELTA, _of_table(f"delta {n}", _itself), "delta")
        for n in (
            "create_write_transaction",
            "delete",
            "update",
            "vacuum",
            "restore",
            "repair",
            "create_checkpoint",
            "cleanup_metadata",
            "compact_logs",
        )
    ),
    Primitive(
        "deltalake.table", "TableMerger", "execute", Kind.DELTA, _of_table("delta merge", lambda m: m._table), "delta"
    ),
    *(
        Primitive("deltalake.table", "TableOptimizer", n, Kind.DELTA, _of_table(f"delta {n}", _inner), "delta")
        for n in ("compact", "z_order")
    ),
    *(
        Primitive("deltalake.table", "TableAlterer", n, Kind.DELTA, _of_table(f"delta {n}", _inner), "delta")
        for n in (
            "add_columns",
            "add_constraint",
            "add_feature",
            "drop_column_not_null",
            "drop_constraint",
            "set_table_properties",
            "set_table_name",
        )
    ),
    *(
        Primitive(m, c, n, Kind.SPARK, written_at("spark", 1, "path", "name"), "spark")
        for m, c in _WRITERS
        for n in ("parquet", "save", "json", "csv", "orc", "text")
    ),
    *(Primitive(m, c, n, Kind.STATEMENT, _statement, "sql") for m, c in _SESSIONS for n in ("sql",)),
    *(
        Primitive("ivm.storage.objects", "Objects", n, Kind.ATOMIC, _of_object(f"object {n}"), "object")
        for n in ("write", "create", "swap", "drop", "copy", "move")
    ),
    Primitive("pyarrow.parquet", "", "write_table", Kind.PARQUET, written_at("parquet", 1, "where"), "parquet"),
    Primitive("pathlib", "Path", "write_text", Kind.TEXT, written_at("text", 0), "text"),
    Primitive("pathlib", "Path", "write_bytes", Kind.TEXT, written_at("text", 0), "text"),
    Primitive("shutil", "", "rmtree", Kind.REMOVE, _removed("rmtree"), "rmtree"),
    Primitive("shutil", "", "copyfile", Kind.TEXT, written_at("copy", 1, "dst"), "copy"),
    Primitive("builtins", "", "open", Kind.ATOMIC, _opened, "open"),
    Primitive("io", "", "open", Kind.ATOMIC, _opened, "open"),
    Primitive("os", "", "open", Kind.ATOMIC, _os_open, "open"),
    Primitive("os", "", "mkdir", Kind.ATOMIC, _made, "mkdir"),
    Primitive("os", "", "rename", Kind.ATOMIC, _moved, "rename"),
    Primitive("os", "", "replace", Kind.ATOMIC, _moved, "rename"),
    Primitive("os", "", "link", Kind.ATOMIC, _moved, "rename"),
    *(Primitive("os", "", n, Kind.ATOMIC, _removed(n), n) for n in ("unlink", "remove", "rmdir")),
)
