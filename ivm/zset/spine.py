"""A trace in memory: the batches of a Z-set sorted by key, merged so that their number stays logarithmic.

    trace  =  batch 1 + batch 2 + ... , each at least twice as long as the next

A merge consolidates wherever something may cancel, so what is gone takes no space. Looking up a batch's keys costs a
binary search in each batch. Source: differential dataflow's spine (geometric merging).
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.zset.arrays import Indexed, ZSet
from ivm.zset.backend import xp


class Spine:
    """The accumulated Z-set, by key.

    >>> trace = Spine(["k"])
    >>> trace.append(ZSet({"k": [1, 2], "v": [10, 20]}))
    >>> trace.append(ZSet({"k": [2], "v": [20]}, [-1]))
    >>> trace.rows().rows()
    {(1, 10): 1}
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = tuple(keys)
        self.batches: list[Indexed] = []

    def append(self, batch: ZSet) -> None:
        if len(batch) == 0:
            return
        self.batches.append(batch.indexed(self.keys))
        while len(self.batches) > 1 and len(self.batches[-1].rows) * 2 > len(self.batches[-2].rows):
            last, before = self.batches.pop(), self.batches.pop()
            merged = before.rows + last.rows
            # Where nothing can cancel and rows have values of their own, sorting by the key is enough.
            if merged.names == list(self.keys) or bool((merged.diffs < 0).any()):
                merged = merged.consolidated()
            if len(merged):
                self.batches.append(merged.indexed(self.keys))

    def __len__(self) -> int:
        return sum(len(b.rows) for b in self.batches)

    def rows(self) -> ZSet:
        """All of it, consolidated."""
        total = ZSet({k: xp().zeros(0, dtype="int64") for k in self.keys})
        for batch in self.batches:
            total = total + batch.rows
        return total.consolidated()

    def join(self, delta: Indexed) -> ZSet | None:
        """The delta joined with everything accumulated; None where nothing is."""
        result = None
        for batch in self.batches:
            part = delta.join_with_index(batch)
            result = part if result is None else result + part
        return result

    def of_keys(self, keys: ZSet) -> ZSet | None:
        """The rows of some keys (distinct, weight 1), not consolidated; None where nothing is accumulated."""
        index = keys.indexed(self.keys)
        result = None
        for batch in self.batches:
            part = _matching(batch, index)
            result = part if result is None else result + part
        return result


def _matching(batch: Indexed, keys: Indexed) -> ZSet:
    """A batch's rows whose key is among `keys`, whatever kind of difference they have."""
    if batch.codes is None or keys.codes is None:
        a = xp()
        places = ZSet({**{k: batch.rows.columns[k] for k in batch.keys}, "__place": a.arange(len(batch.rows))})
        found = keys.join_with_index(places.indexed(batch.keys))
        return batch.rows.taken(found.columns["__place"])
    a = xp()
    low = a.searchsorted(batch.codes, keys.codes, side="left")
    matches = a.searchsorted(batch.codes, keys.codes, side="right") - low
    ends = a.cumsum(matches)
    total = int(ends[-1]) if len(ends) else 0
    places = a.arange(total) - a.repeat(ends - matches, matches) + a.repeat(low, matches)
    return batch.rows.taken(places)
