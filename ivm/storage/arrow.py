"""An object store as one of Arrow's file systems, to read Parquet files part by part.

delta-rs has one of its own (`deltalake.fs`), which holds the interpreter while it waits and was seen to block for ever
among threads.
"""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileSystemHandler, FileType, PyFileSystem


def file_system(root: str, store: Any) -> FileSystem:
    """Reads the objects of a store of obstore's, by their keys."""
    return PyFileSystem(_Reading(root, store))


class _Reading(FileSystemHandler):  # type: ignore[misc]  # Arrow has no types
    def __init__(self, root: str, store: Any) -> None:
        self._root, self._store = root, store

    def get_type_name(self) -> str:
        return "ivm"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[FileInfo]:
        return [self._info(p) for p in paths]

    def _info(self, path: str) -> FileInfo:
        try:
            return _file(self._store.head(path))
        except FileNotFoundError:
            found = any(True for _ in self._store.list(path))
            return FileInfo(path, type=FileType.Directory if found else FileType.NotFound)

    def get_file_info_selector(self, selector: FileSelector) -> list[FileInfo]:
        if selector.recursive:
            return [_file(meta) for portion in self._store.list(selector.base_dir) for meta in portion]
        found = self._store.list_with_delimiter(selector.base_dir)
        folders = [FileInfo(prefix.rstrip("/"), type=FileType.Directory) for prefix in found["common_prefixes"]]
        return folders + [_file(meta) for meta in found["objects"]]

    def open_input_file(self, path: str) -> pa.PythonFile:
        return pa.PythonFile(_Object(self._store, path), mode="r")

    def open_input_stream(self, path: str) -> pa.PythonFile:
        return self.open_input_file(path)

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("objects are written by Location.write")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refused
    move = copy_file = open_output_stream = open_append_stream = _refused


def _file(meta: Any) -> FileInfo:
    return FileInfo(meta["path"], type=FileType.File, size=int(meta["size"]), mtime=meta["last_modified"])


class _Object(io.RawIOBase):
    """An object that is read by ranges."""

    def __init__(self, store: Any, key: str) -> None:
        self._store, self._key, self._place = store, key, 0
        self._size = int(store.head(key)["size"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def read(self, size: int | None = -1) -> bytes:
        left = self._size - self._place
        length = left if size is None or size < 0 else min(size, left)
        if length <= 0:
            return b""
        data = bytes(self._store.get_range(self._key, start=self._place, length=length))
        self._place += len(data)
        return data
