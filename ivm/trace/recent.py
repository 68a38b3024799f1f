"""The batch that this process appended last to a trace: the steps that ask for it next needn't read it again.

    recalled(trace, epoch) = the batch as it was appended, or None

Invariant: what is recalled is what the trace holds. Its head is still the commit that appended it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple

import pyarrow as pa

from ivm.lake.log import Head, head_of

#: So many bytes of batches are held, those that came last; one of more than an eighth of that is not.
BYTES = 64 * 1024 * 1024


class _Appended(NamedTuple):
    epoch: int
    batch: pa.Table
    head: Head


_batches: OrderedDict[str, _Appended] = OrderedDict()
_lock = threading.Lock()


def appended(path: str, epoch: int, batch: pa.Table) -> None:
    """Hold a batch that was appended just now, by this process."""
    with _lock:
        _batches.pop(path, None)
    if batch.nbytes > BYTES // 8:
        return
    head = head_of(path)
    with _lock:
        _batches[path] = _Appended(epoch, batch, head)
        while sum(held.batch.nbytes for held in _batches.values()) > BYTES:
            _batches.popitem(last=False)


def recalled(path: str, epoch: int) -> pa.Table | None:
    """The batch of an epoch; None where another one was appended last, or the trace has changed since."""
    with _lock:
        held = _batches.get(path)
    if held is None or held.epoch != epoch or not held.head.fingerprint or head_of(path) != held.head:
        return None
    return held.batch


def forget() -> None:
    """Know no batch, as a process that begins."""
    with _lock:
        _batches.clear()
