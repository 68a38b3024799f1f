"""A location: a URL under which things lie, in a folder of this machine or in an object store, by the same few verbs.

    folder          /lake/sales
    object store    s3://bucket/sales    abfss://container@account.dfs.core.windows.net/sales    gs://bucket/sales

Invariant: a URL has one spelling here (s3a:// is s3://, see `ivm.parameters.location`), which delta-rs reads as it is
and of which Spark's is made in `ivm.names`. What is written is there whole or not at all, and of several that create
one thing, or swap it for another, one succeeds.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ivm.errors import ConfigError
from ivm.names import spark_path
from ivm.parameters import scheme, shown
from ivm.storage.folder import Folder
from ivm.storage.objects import SCHEMES, opened
from ivm.storage.store import Stat, Store

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@dataclass(frozen=True, order=True)
class Location:
    """One place. `url` is absolute and has no slash at its end; a folder's is its path. Make it with `of`."""

    url: str

    @classmethod
    def of(cls, text: str) -> Location:
        """The location of a path or URL that went through `ivm.parameters.location`.

        Raises ConfigError for a URL whose scheme is not served here, and for a folder that delta-rs can't open.

        >>> Location.of("s3://lake/sales/").url, Location.of("/lake//sales").url
        ('s3://lake/sales', '/lake/sales')
        """
        # What a relative path means depends on where the process is.
        return cls(_spelled(text if text.startswith("/") or scheme(text) else str(Path(text).absolute())))

    def __str__(self) -> str:
        return self.url

    # -- spelling ---------------------------------------------------------------------------------

    def __truediv__(self, name: str) -> Location:
        """What lies under it by a relative name.

        >>> str(Location.of("s3://lake/sales") / "_ivm" / "epochs")
        's3://lake/sales/_ivm/epochs'
        """
        return Location(f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.url.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The last part up to its last dot."""
        return Path(self.name).stem

    @property
    def parent(self) -> Location:
        """The location that it lies in."""
        return Location(self.url.rpartition("/")[0])

    @property
    def local(self) -> bool:
        """Whether it is a folder or file of this machine."""
        return "://" not in self.url

    @property
    def spark(self) -> str:
        """As Spark's file systems call it."""
        return spark_path(self.url)

    def holds(self, other: Location) -> bool:
        """Whether another one is this one or lies in it; links in a local path are followed.

        >>> folder = Location("s3://lake/a")
        >>> folder.holds(Location("s3://lake/a/b")), folder.holds(Location("s3://lake/ab"))
        (True, False)
        """
        return self.followed.spans(other.followed)

    @property
    def followed(self) -> Location:
        """Itself, the links in a local path followed: what lies in what is then told by the spelling."""
        return Location(str(Path(self.url).resolve())) if self.local else self

    def spans(self, other: Location) -> bool:
        """Whether another one is this one or lies in it, by the spelling."""
        return other == self or other.url.startswith(self.url.rstrip("/") + "/")

    # -- verbs ------------------------------------------------------------------------------------

    @property
    def _at(self) -> tuple[Store, str]:
        """The store, and what it calls this location."""
        if self.local:
            return _FOLDER, self.url
        root, key = _split(self.url)
        return opened(root), key

    def stat(self) -> Stat | None:
        """Size, age and tag of a file (an object); None where there is none."""
        store, key = self._at
        return store.stat(key)

    def exists(self) -> bool:
        """Whether a file is here, or anything lies under it."""
        store, key = self._at
        return store.exists(key)

    def read(self) -> bytes:
        """A file's content. Raises FileNotFoundError where there is none."""
        store, key = self._at
        return store.read(key)

    def write(self, data: bytes) -> None:
        """Make a file whole, in place of one that may be there."""
        store, key = self._at
        store.write(key, data)

    def create(self, data: bytes) -> str | None:
        """Make a file where there is none (put-if-absent); its tag, or None where one was there already."""
        store, key = self._at
        return store.create(key, data)

    def swap(self, data: bytes, tag: str) -> str | None:
        """Replace a file's content if its tag is still this one (compare-and-swap).

        Returns its new tag, or None where it was another.
        """
        store, key = self._at
        return store.swap(key, data, tag)

    def names(self) -> Iterable[str]:
        """The names of what lies directly under it, files and folders; none where nothing is there."""
        store, key = self._at
        return store.children(key)

    def list(self) -> list[Location]:
        """What lies directly under it, files and folders, by name; nothing where nothing is there."""
        return [self / name for name in sorted(self.names())]

    def files(self) -> Iterator[Location]:
        """All files under it, however deep."""
        store, key = self._at
        return (self / name for name in store.files(key))

    def drop(self) -> None:
        """Remove the file, and all that lies under it. What isn't there is removed already."""
        store, key = self._at
        store.drop(key)

    def copy(self, target: Location) -> None:
        """Copy the file, or all that lies under it, to a place in the same kind of store where nothing is."""
        (store, key), (_, to) = self._at, target._at
        store.copy(key, to)

    def move(self, target: Location) -> None:
        """Move likewise. On an object store a copy, then a removal: a stop in between leaves both."""
        (store, key), (_, to) = self._at, target._at
        store.move(key, to)

    def make(self) -> None:
        """Make the folder, where there are folders."""
        store, key = self._at
        store.make(key)

    def check(self) -> None:
        """Raises StorageError where the store can't be reached, lacks the bucket or refuses us; asks it once.

        ConfigError where a file is here.
        """
        store, key = self._at
        store.check(key)

    def arrow(self) -> tuple[FileSystem, str]:
        """Arrow's file system, to read from, and its name for this location."""
        store, key = self._at
        return store.arrow(), key

    @contextmanager
    def near(self) -> Iterator[str]:
        """A folder of this machine for what only this process reads.

        This one, or a temporary one where it is remote.
        """
        if self.local:
            yield self.url
            return
        with TemporaryDirectory(prefix="ivm_") as folder:
            yield folder


_FOLDER = Folder()
#: In names of folders it takes these for parts of a URL (deltalake 1.6.6): it ends with an error, or in another folder.
_UNSERVED = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]\\^|]")


@functools.lru_cache(maxsize=4096)
def _spelled(text: str) -> str:
    """The one spelling of an absolute path or URL. Raises what `Location.of` does.

    >>> _spelled("/lake//sales/"), _spelled("gs://lake/sales/")
    ('/lake/sales', 'gs://lake/sales')
    """
    found = scheme(text)
    if not found:
        folder = str(Path(text).absolute())
        if strange := _UNSERVED.search(folder):
            raise ConfigError(
                f"The folder {shown(folder)} has {strange[0]!r} in its name, which delta-rs can't open.",
                "Rename it, or take another one.",
            )
        return folder
    if found not in SCHEMES:
        raise ConfigError(
            f"{shown(text)} has a scheme that is not served here.",
            f"Use a folder, or one of: {', '.join(f'{s}://' for s in SCHEMES)}.",
        )
    if any(not part for part in text.rstrip("/").partition("://")[2].split("/")):
        raise ConfigError(f"{shown(text)} has an empty part.", "Write it without doubled slashes.")
    return text.rstrip("/")


@functools.lru_cache(maxsize=4096)
def _split(url: str) -> tuple[str, str]:
    """The root of the store (scheme and bucket) and the key.

    >>> _split("s3://lake/sales/_ivm"), _split("s3://lake")
    (('s3://lake', 'sales/_ivm'), ('s3://lake', ''))
    """
    head, _, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    return f"{head}://{bucket}", key


def served(location: str) -> Location | None:
    """The location of a path or URL; None where only Spark may open it (hdfs, dbfs, a folder with strange letters)."""
    try:
        return Location.of(location)
    except ConfigError:
        return None


__all__ = ["Location", "Stat", "served"]
