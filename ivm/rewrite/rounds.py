"""In which order the slices of an epoch are read, so that large relations are scanned as seldom as can be (pure).

A match can be looked for once the rows are there that provide its keys. A round reads the relations that gain nothing
by waiting: all that is left of them can be looked for, or hangs on their own rows. Where there is none, those are read
that are far smaller than the largest, or else all but that one, whose other matches may then be looked for as well.

    level by level     lineitem 1, orders 1 | lineitem 2, orders 2
    by rounds          orders 1 | lineitem 1 and 2 | orders 2
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ivm.rewrite.slices import DELTA, WHOLE, Match, Requests

#: How many times as many rows a relation has that isn't read before a smaller one was read, perhaps for nothing.
_FAR_SMALLER = 8


class Rounds:
    """What is left to be read of `requests`; relations in `whole` are there already. `sizes` are their rows."""

    def __init__(self, requests: Requests, whole: Collection[str], sizes: Mapping[str, int | None]) -> None:
        self._sizes = sizes
        #: The level of each match by relation: the lowest, where it is asked for at several.
        self._levels: dict[str, dict[Match, int]] = {}
        for (relation, level), matches in sorted(requests.matches.items(), key=lambda item: item[0]):
            if relation not in whole:
                of = self._levels.setdefault(relation, {})
                of |= {m: level for m in matches if m not in of}
        self._left = {relation: set(of) for relation, of in self._levels.items()}

    def take(self) -> dict[str, set[Match]]:
        """The next round: what is looked for in each relation, by name; empty after the last one."""
        ready = {relation: {m for m in left if self._provided(m)} for relation, left in self._left.items()}
        ready = {relation: matches for relation, matches in sorted(ready.items()) if matches}
        chosen = {relation: m for relation, m in ready.items() if not self._waits(relation)}
        if not chosen:
            largest = max(ready, key=self._size, default="") if len(ready) > 1 else ""
            others = {relation: m for relation, m in ready.items() if relation != largest}
            small = {r: m for r, m in others.items() if self._size(r) * _FAR_SMALLER <= self._size(largest)}
            chosen = small or others
        assert chosen or not self._left, f"nothing leads to {self._left}"
        self._left = {r: left for r, of in self._left.items() if (left := of - chosen.get(r, set()))}
        return chosen

    def through(self, match: Match) -> list[Match] | None:
        """The matches whose rows provide a match's keys; None where all rows do that are there by now."""
        provider = match.provider
        if provider.via is not None:
            return [provider.via]
        of = self._levels.get(provider.relation, {})
        found = set(of) - self._left.get(provider.relation, set())
        lower = [m for m in found if of[m] <= provider.level]
        return sorted(lower, key=repr) if len(lower) < len(found) else None

    def _provided(self, match: Match) -> bool:
        """Whether the rows are there that provide its keys."""
        return not self._needs(match)

    def _needs(self, match: Match) -> set[tuple[str, Match]]:
        """What must be looked for first, by relation. Rows that are there as a whole are picked by keys as well."""
        partners = (m for m in match.provider.partners if m.provider.level != WHOLE)
        return self._rows_needed(match).union(*map(self._needs, partners))

    def _rows_needed(self, match: Match) -> set[tuple[str, Match]]:
        """What must be looked for first for the rows that provide its keys, whatever partners they have."""
        provider = match.provider
        of, left = self._levels.get(provider.relation, {}), self._left.get(provider.relation, set())
        if provider.level == DELTA:
            return set()
        if provider.via is None:
            return {(provider.relation, m) for m in left if of[m] <= provider.level}
        if provider.via in of:
            return {(provider.relation, provider.via)} if provider.via in left else set()
        return self._needs(provider.via)

    def _waits(self, relation: str) -> bool:
        """Whether a match of the relation can be looked for later, after others have been read, but not this one."""
        return any(self._needs(m) and not self._hangs(m, relation) for m in self._left[relation])

    def _hangs(self, match: Match, relation: str) -> bool:
        """Whether a match needs rows of the relation that are still to be read, by whatever way."""
        way = self._needs(match)
        seen = set(way)
        while way:
            of, step = way.pop()
            if of == relation:
                return True
            further = self._needs(step) - seen
            way |= further
            seen |= further
        return False

    def _size(self, relation: str) -> int:
        size = self._sizes.get(relation)
        return 0 if size is None else size
