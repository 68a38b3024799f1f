"""Folders of this machine as a store."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ivm.errors import ConfigError
from ivm.storage.store import Stat

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

#: What a write that did not end leaves ends with this.
PARTIAL = ".partial"


class Folder:
    """Implements `ivm.storage.store.Store`; raises what the system raises (OSError)."""

    def stat(self, key: str) -> Stat | None:
        try:
            found = os.stat(key)  # a Path takes longer to make than this
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stat(found.st_size, datetime.fromtimestamp(found.st_mtime, UTC), _tag(found))

    def exists(self, key: str) -> bool:
        return Path(key).exists()

    def read(self, key: str) -> bytes:
        return Path(key).read_bytes()

    def write(self, key: str, data: bytes) -> None:
        with self._whole(key, data) as partial:
            partial.replace(key)

    def create(self, key: str, data: bytes) -> str | None:
        with self._whole(key, data) as partial:
            try:
                os.link(partial, key)
            except FileExistsError:
                return None
            finally:
                partial.unlink()
        return _tag(Path(key).stat())

    def swap(self, key: str, data: bytes, tag: str) -> str | None:
        """Safe among those that swap: they hold the lock of the folder meanwhile."""
        import fcntl

        with self._whole(key, data) as partial:
            folder = os.open(partial.parent, os.O_RDONLY)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX)
                now = self.stat(key)
                if now is None or now.tag != tag:
                    partial.unlink()
                    return None
                partial.replace(key)
                return _tag(Path(key).stat())
            finally:
                os.close(folder)

    @contextmanager
    def _whole(self, key: str, data: bytes) -> Iterator[Path]:
        """The data in a file beside the one that it shall be; removed where what follows fails."""
        file = Path(key)
        partial = file.with_name(f"{file.stem}-{uuid.uuid4().hex}{PARTIAL}")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
            yield partial
        except OSError:
            with suppress(OSError):
                partial.unlink()
            raise

    def children(self, key: str) -> list[str]:
        try:
            return os.listdir(key)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def files(self, key: str) -> Iterator[str]:
        return (str(p.relative_to(key)) for p in sorted(Path(key).rglob("*")) if not p.is_dir())

    def drop(self, key: str) -> None:
        if Path(key).is_dir() and not Path(key).is_symlink():
            shutil.rmtree(key, ignore_errors=True)
        else:
            Path(key).unlink(missing_ok=True)

    def copy(self, key: str, to: str) -> None:
        if Path(key).is_dir():
            shutil.copytree(key, to)
        else:
            shutil.copy2(key, to)

    def move(self, key: str, to: str) -> None:
        Path(to).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(key, to)

    def make(self, key: str) -> None:
        Path(key).mkdir(parents=True, exist_ok=True)

    def check(self, key: str) -> None:
        if os.path.lexists(key) and not Path(key).is_dir():
            raise ConfigError(f"{key} is not a folder.", "Give a folder; it need not exist.")

    def arrow(self) -> FileSystem:
        from pyarrow.fs import LocalFileSystem

        return LocalFileSystem()


def _tag(found: os.stat_result) -> str:
    return f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
