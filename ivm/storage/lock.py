"""One holder at a time of what lies under a root.

    folder          a lock of the system on a file, which ends with the process, however that ends
    object store    an object that says who holds it, made by put-if-absent and rewritten by compare-and-swap every
                    BEAT seconds; after LEASE seconds without that, or at once where its process is known to be gone,
                    another takes it over likewise

Invariant: of several that take it one succeeds, and who has lost it learns that before it commits (`Fence`). Clocks of
different machines are never compared: an object's age is told by its store.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from ivm.errors import ConcurrentRefreshError, ConfigError, StorageError
from ivm.files import writing
from ivm.storage.location import Location

_log = logging.getLogger(__name__)

#: Seconds after its last sign of life for which a holder is taken for alive, and between two signs.
LEASE, BEAT = 60.0, 15.0

#: Raises ConcurrentRefreshError where the lock was lost.
Fence = Callable[[], None]


def exclusive(lock: Location, whose: str) -> AbstractContextManager[Fence]:
    """Hold a lock while the block runs; `whose` names what it guards, for messages.

    Raises ConcurrentRefreshError where another process holds it, ConfigError or StorageError where it can't be written.
    """
    return _file_lock(lock, whose) if lock.local else _lease(lock, whose)


def _busy(whose: str, who: str = "", hint: str = "Run it again when the other has ended.") -> ConcurrentRefreshError:
    return ConcurrentRefreshError(f"Another refresh of {whose} is running{who}; it wins, this one did nothing.", hint)


# -- folder -----------------------------------------------------------------------------------------


@contextmanager
def _file_lock(lock: Location, whose: str) -> Iterator[Fence]:
    import fcntl

    with ExitStack() as stack:
        with writing(lock):
            lock.parent.make()
            file = stack.enter_context(Path(lock.url).open("a+"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _busy(whose) from error
        yield lambda: None


# -- object store -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Holder:
    """What the lock object says: who holds it, "" for nobody.

    `machine` and `started` tell one process from all others, where the system does.
    """

    token: str = ""
    host: str = ""
    machine: str = ""
    pid: int = 0
    started: str = ""
    since: str = ""
    #: Another content for each sign of life, so that its tag is another one.
    beat: int = 0

    @classmethod
    def this(cls) -> Holder:
        """This process, as a new holder."""
        now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return cls(secrets.token_hex(8), socket.gethostname(), _machine(), os.getpid(), _started(os.getpid()), now)

    @classmethod
    def read(cls, data: bytes) -> Holder:
        """Raises ValueError, or TypeError, for what is no such object."""
        return cls(**json.loads(data))

    def written(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @property
    def gone(self) -> bool:
        """Whether it has let go, or its process is known to have ended; False where that can't be told."""
        if not self.token:
            return True
        if not self.machine or self.machine != _machine():
            return False
        if self.pid == os.getpid() and self.started == _started(self.pid):
            return self.token not in _OURS
        return _started(self.pid) != self.started


#: The tokens that this process holds.
_OURS: set[str] = set()


def _machine() -> str:
    """Identifies the running system, and the room of its process numbers; "" where it doesn't say."""
    try:
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When a process of this machine was started, in the kernel's own count; "" where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@dataclass
class _Lease:
    """A lock object that this process holds."""

    lock: Location
    whose: str
    holder: Holder
    tag: str
    _seen: float = field(default_factory=time.monotonic)
    _lost: bool = False
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def beat(self) -> None:
        """Give a sign of life. A store that doesn't answer is asked again at the next one."""
        with self._mutex:
            if self._lost:
                return
            holder = replace(self.holder, beat=self.holder.beat + 1)
            tag = self.lock.swap(holder.written(), self.tag)
            if tag is None:
                self._lost = True
            else:
                self.holder, self.tag, self._seen = holder, tag, time.monotonic()

    def fence(self) -> None:
        """Raises ConcurrentRefreshError where another one took the lock, StorageError where that can't be told."""
        if time.monotonic() - self._seen > LEASE / 2:
            self.beat()
        if self._lost:
            raise ConcurrentRefreshError(
                f"This refresh of {self.whose} gave no sign of life for too long, and another one took over.",
                "It wins; run this one again when it has ended.",
            )

    def release(self) -> None:
        with self._mutex, suppress(StorageError):  # it runs out by itself
            self._lost = self._lost or self.lock.swap(Holder().written(), self.tag) is None


@contextmanager
def _lease(lock: Location, whose: str) -> Iterator[Fence]:
    holder = Holder.this()
    _OURS.add(holder.token)  # before anybody can read it
    try:
        lease = _Lease(lock, whose, holder, _taken(lock, whose, holder))
    except BaseException:
        _OURS.discard(holder.token)
        raise
    ended = threading.Event()

    def live() -> None:
        while not ended.wait(BEAT):
            try:
                lease.beat()
            except StorageError as error:
                _log.warning("the lock %s could not be renewed: %s", lock, error)

    thread = threading.Thread(target=live, name="ivm-lock", daemon=True)
    thread.start()
    try:
        yield lease.fence
    finally:
        ended.set()
        _OURS.discard(holder.token)
        thread.join()
        lease.release()


def _taken(lock: Location, whose: str, holder: Holder) -> str:
    """The tag of the lock object once it is ours. Raises ConcurrentRefreshError where somebody alive holds it."""
    tag = lock.create(holder.written())
    if tag is not None:
        return tag
    there = lock.stat()
    if there is None:
        raise _busy(whose)  # it was removed this moment
    try:
        other = Holder.read(lock.read())
    except (ValueError, TypeError, FileNotFoundError) as error:
        raise ConfigError(f"{lock} is not a lock of ours.", "Remove it, if no refresh is running.") from error
    if other.gone or (_now(lock, holder.token) - there.modified).total_seconds() > LEASE:
        tag = lock.swap(holder.written(), there.tag)
        if tag is not None:
            if other.token:
                _log.warning("the lock %s was left by process %s on %s, and is taken over", lock, other.pid, other.host)
            return tag
    who = f" (process {other.pid} on {other.host}, since {other.since})" if other.token else ""
    raise _busy(
        whose,
        who,
        (
            f"Run it again when the other has ended; one that died is taken over {LEASE:g} seconds after its last "
            "sign of life."
        ),
    )


def _now(lock: Location, token: str) -> datetime:
    """The store's own time."""
    probe = lock.parent / f"{lock.name}-{token}"
    try:
        probe.write(b"")
        found = probe.stat()
        assert found is not None, "what was written is there"
        return found.modified
    finally:
        probe.drop()
