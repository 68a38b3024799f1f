"""Whether Spark sees the root that this process sees, asked once a process before anything is written there.

    local[*], a folder      nothing is asked: executors and driver are this machine's
    local[*], a store       Spark looks up an object (no job): it needs a client, an endpoint and credentials of its own
    any other Spark         Spark's executors read what this process wrote: one job of a few small tasks

Invariant: a root is used only if a text that this process put there came back through Spark.
"""

from __future__ import annotations

import secrets
import threading
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from ivm.errors import StorageError, UnseenError
from ivm.session import error_text
from ivm.storage.location import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Files of a folder that executors read: more than one of them gets some.
FILES = 8
#: How often it is asked while others remove the files meanwhile.
TRIES = 5

_lock = threading.Lock()
_asked: WeakKeyDictionary[SparkSession, set[str]] = WeakKeyDictionary()


def check_visible(spark: SparkSession, root: Location, beside: Location) -> None:
    """Raises UnseenError where Spark doesn't see `root`; `beside` is a location under it that is ours to write to.

    A store is asked for once, a folder once for each root. Where this process may not write, nothing is asked: it will
    write nothing. Others may remove what lies in `beside` at any time, and do so where this process dies.
    """
    place = root.url if root.local else "/".join(root.url.split("/")[:3])
    with _lock:
        asked = _asked.setdefault(spark, set())
        if place in asked:
            return
        apart = _apart(spark)
        if apart or not root.local:
            _ask(spark, root, beside, apart)
        asked.add(place)


def _apart(spark: SparkSession) -> bool:
    """Whether Spark's executors may have other disks than this process."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return True
    return not str(spark.conf.get("spark.master", "local")).startswith("local")


def _ask(spark: SparkSession, root: Location, beside: Location, apart: bool) -> None:
    within = (root, beside.parent, beside)
    made = next((place for place in within if root.local and not place.exists()), None)
    for _ in range(TRIES):
        folder = beside / f"seen-{secrets.token_hex(8)}"
        names = [f"{i}.txt" for i in range(FILES if root.local else 1)]
        try:
            for name in names:
                (folder / name).write(folder.name.encode())
        except (OSError, StorageError):
            with suppress(OSError, StorageError):
                folder.drop()
            return
        trouble: Exception | None = None
        try:
            found = spark.read.text(folder.spark)  # Spark lists the files already here
            seen = not apart or {row[0] for row in found.collect()} == {folder.name}
        except Exception as error:  # noqa: BLE001 - each file system inside Spark raises classes of its own
            seen, trouble = False, error
        swept = not seen and not set(names) <= set(folder.names())  # by another process, before they were read
        folder.drop()
        if not swept:
            break
    if not seen:
        if made is not None and not any(made.files()):
            made.drop()
        raise _unseen(root, trouble) from trouble


def _unseen(root: Location, trouble: Exception | None) -> UnseenError:
    if root.local:
        return UnseenError(
            f"Spark doesn't see the root {root}: it is a folder of this machine, and Spark runs elsewhere.",
            "Put the root on an object store (s3://...), or into a folder that all machines mount under this name; "
            "see docs/clusters.md.",
        )
    reason = error_text(trouble).splitlines()[0].rstrip(".") if trouble is not None else "it reads other bytes there"
    return UnseenError(
        f"Spark can't read the root {root}, which this process can: {reason}.",
        "Spark takes endpoint and credentials from its own settings; see docs/clusters.md.",
    )
