"""Which rows of each relation an epoch must read: keyed slices, shared by all views.

A term starts at its delta and walks the branch's equality edges; each step asks for the rows of the
next relation whose columns match the rows reached so far. A slice is named by (relation, level): the
level counts the steps from a delta. All requests of one slice, from whatever view, are one read.

A delta of a leaf inside an outer join or a subquery first finds its way out to the rows of scope 0 it may affect,
and from these the walk goes on to all leaves, the changed one included: its rows for them must be complete.

The rows from which a walk goes on are those that may be in a result: by the constants that the branch compares them
with, and by their partners in other leaves that were reached by then (semijoin reduction: P. A. Bernstein and D.-M. W.
Chiu, Using Semi-Joins to Solve Relational Queries, 1981). A supplier of no nation that a view asks for leads nowhere.

Invariant: a slice holds, once each, at least the rows that match any of its requests. Terms apply their own
predicates again, so more rows never hurt: a row of scope 0 that no change touches sees the same rows in both states.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ivm.plan.anchors import anchor, keyable
from ivm.plan.nodes import Branch, Filter, Relation, Unit
from ivm.rewrite.delta_join import Term

#: Levels: a delta is 0, its neighbours 1, ...; a relation read whole provides no keys, and holds what any level does.
DELTA = 0
WHOLE = sys.maxsize

#: A slice gives partners up to this level: each doubles what a match says of where its keys come from.
_FEW_STEPS = 6
#: How many times as many rows a relation has that is worth waiting for the partners of the rows that lead to it.
_FAR_FEWER = 4


@dataclass(frozen=True)
class Provider:
    """Where keys come from: `columns` of a relation's delta (level 0), or of the rows of its slice that `via` found.

    Only rows that meet `filters` and each of `partners` need provide keys. Whoever collects the keys of a slice adds
    those of the relation's delta, so that old and new state are covered.
    """

    relation: str
    level: int
    columns: tuple[str, ...]
    via: Match | None = None
    filters: tuple[Filter, ...] = ()
    partners: tuple[Match, ...] = ()

    @property
    def reads(self) -> frozenset[str]:
        """The columns of its relation that tell the keys."""
        return frozenset(
            (*self.columns, *(f.column for f in self.filters), *itertools.chain(*(m.columns for m in self.partners)))
        )

    @property
    def depth(self) -> int:
        """The level of the last slice that it waits for."""
        return max([self.level, *(m.provider.depth for m in self.partners if m.provider.level != WHOLE)])

    def providers(self) -> Iterator[Provider]:
        """Itself, and those of its partners."""
        yield self
        for match in self.partners:
            yield from match.provider.providers()


@dataclass(frozen=True)
class Match:
    """Rows whose `columns` equal the provider's columns, position by position.

    NULL equals nothing in a join; as a group key (`nulls`) it equals NULL. With `between` the rows are meant whose one
    column lies between the least and the greatest of the provider's values.
    """

    columns: tuple[str, ...]
    provider: Provider
    nulls: bool = False
    between: bool = False


@dataclass(frozen=True)
class Reached:
    """How a walk reached a leaf: the level of the slice, and the match that found its rows."""

    level: int
    via: Match | None = None


#: A relation read whole.
WHOLLY = Reached(WHOLE)


@dataclass
class Requests:
    """All that an epoch wants to read: matches by (relation, level), and the relations wanted whole."""

    matches: dict[tuple[str, int], set[Match]] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)

    def add(self, relation: str, level: int, match: Match) -> None:
        self.matches.setdefault((relation, level), set()).add(match)

    def merge(self, other: Requests) -> None:
        for slice_, matches in other.matches.items():
            self.matches.setdefault(slice_, set()).update(matches)
        self.whole |= other.whole


@dataclass(frozen=True)
class Facts:
    """What the walk may know of a relation."""

    relation: Relation
    rows: int | None
    foreign_keys: tuple[tuple[tuple[str, ...], str], ...] = ()
    #: Whether its delta is one row that was replaced by another.
    moved: bool = False
    #: Whether it has so few rows that it is read whole.
    small: bool = False


def walk_term(term: Term, facts: Mapping[str, Facts], requests: Requests) -> dict[str, Reached]:
    """Ask for what a term reads; returns how each leaf was reached, by alias; the delta's own leaf may be left out."""
    branch = term.branch
    start = branch.leaf(term.delta_alias)
    if start.scope == 0:
        return _walk(branch, {start.alias: Reached(DELTA)}, facts, requests)
    way = _way_out(branch, start.alias, facts)
    if not way:
        # Nothing tells which rows it affects: all of them.
        requests.whole.update(leaf.relation for leaf in branch.leaves)
        return {leaf.alias: WHOLLY for leaf in branch.leaves}
    at, reached = start.alias, Reached(DELTA)
    for alias, pairs, nulls in way:
        reached = _request(branch, at, reached, (), alias, pairs, nulls, requests)
        at = alias
    return {at: reached} | _walk(branch, {at: reached}, facts, requests)


def _request(
    branch: Branch,
    at: str,
    reached: Reached,
    partners: tuple[Match, ...],
    alias: str,
    pairs: Sequence[tuple[str, str]],
    nulls: bool,
    requests: Requests,
) -> Reached:
    """Ask for the rows of `alias` that equal those of `at`, which was reached before and has these `partners`."""
    leaf = branch.leaf(at)
    columns = tuple(t for _, t in pairs)
    provider = Provider(leaf.relation, reached.level, columns, reached.via, leaf.filters, partners)
    match = Match(tuple(m for m, _ in pairs), provider, nulls)
    level = provider.depth + 1
    requests.add(branch.leaf(alias).relation, level, match)
    return Reached(level, match)


#: A step of a walk: the leaf it reaches, (its column, the column across) of each equality, whether NULL equals NULL.
Way = list[tuple[str, list[tuple[str, str]], bool]]


def _way_out(branch: Branch, start: str, facts: Mapping[str, Facts]) -> Way:
    """The shortest way from a leaf inside to one of scope 0; each step leaves by an equality of the scope it is in."""
    ways: list[tuple[str, Way]] = [(start, [])]
    seen = {start}
    while ways:
        at, way = ways.pop(0)
        if branch.leaf(at).scope == 0:
            return way
        for other in branch.leaves:
            if other.alias not in seen and (pairs := _pairs(branch, other.alias, at, branch.leaf(at).scope, facts)):
                seen.add(other.alias)
                ways.append((other.alias, [*way, (other.alias, *pairs)]))
    return []


def _pairs(
    branch: Branch, alias: str, other: str, scope: int, facts: Mapping[str, Facts]
) -> tuple[list[tuple[str, str]], bool] | None:
    """The walkable equalities of a scope between two leaves, as (alias's column, other's column)."""
    relation = facts[branch.leaf(alias).relation].relation
    found = [(m, t, n) for m, t, n in branch.across(alias, other, scope) if keyable(relation.type_of(m))]
    return (sorted({(m, t) for m, t, _ in found}), any(n for *_, n in found)) if found else None


def _walk(
    branch: Branch, start: dict[str, Reached], facts: Mapping[str, Facts], requests: Requests
) -> dict[str, Reached]:
    """Visit all leaves from `start`, cheapest step first; unreachable ones are read whole."""
    visited = dict(start)
    found: dict[str, Reached] = {}
    partners, came = _Partners(branch, facts), dict[str, str]()
    while len(visited) < len(branch.leaves):
        step = min(
            (
                s
                for leaf in branch.leaves
                if leaf.alias not in visited
                and (s := _step(branch, leaf.alias, visited, leaf.alias in partners.selective, facts))
            ),
            default=None,
        )
        if step is None:
            # One of the outermost scope first: others may be reachable from it.
            alias = min(
                (leaf.scope, i, leaf.alias) for i, leaf in enumerate(branch.leaves) if leaf.alias not in visited
            )[2]
            step = _Step((0, 0, 0), alias)
        if step.between:
            provider = Provider(branch.leaf(step.other).relation, DELTA, (step.pairs[0][1],))
            match = Match((step.pairs[0][0],), provider, between=True)
            requests.add(branch.leaf(step.alias).relation, 1, match)
            visited[step.alias] = Reached(1, match)
        elif step.other:
            rows = facts[branch.leaf(step.alias).relation].rows or 0
            of = partners.of(step.other, visited, came.get(step.other, ""), rows)
            visited[step.alias] = _request(
                branch, step.other, visited[step.other], of, step.alias, step.pairs, step.nulls, requests
            )
            came[step.alias] = step.other
        else:
            requests.whole.add(branch.leaf(step.alias).relation)
            visited[step.alias] = WHOLLY
        found[step.alias] = visited[step.alias]
    return found


@dataclass(frozen=True, order=True)
class _Step:
    """From `other`, or a whole read where there is none."""

    cost: tuple[int, int, int]
    alias: str
    other: str = ""
    pairs: tuple[tuple[str, str], ...] = ()
    nulls: bool = False
    between: bool = False


def _step(
    branch: Branch, alias: str, visited: dict[str, Reached], selective: bool, facts: Mapping[str, Facts]
) -> _Step | None:
    """The cheapest way to reach a leaf: whole if small, by its key, by a foreign key, by any equality.

    Of two the one of which only some rows may be in a result (`selective`): it is a partner for the other's steps.
    """
    target = facts[branch.leaf(alias).relation]
    if target.small:
        return _Step((0, 0, 0), alias)
    best: _Step | None = None
    for other, reached in visited.items():
        found = _pairs(branch, alias, other, branch.leaf(alias).scope, facts)
        if found is None or reached.level == WHOLE:
            continue
        pairs, nulls = found
        mine = {m.lower() for m, _ in pairs}
        provider = branch.leaf(other).relation
        if target.relation.key and {k.lower() for k in target.relation.key} <= mine:
            rank = 1
        elif any(to == provider and {c.lower() for c in columns} <= mine for columns, to in target.foreign_keys):
            rank = 2
        else:
            rank = 3
        step = _Step((rank, reached.level, not selective), alias, other, tuple(pairs), nulls)
        best = step if best is None else min(best, step)
    return best or _bounded(branch, alias, visited, facts)


def _bounded(branch: Branch, alias: str, visited: dict[str, Reached], facts: Mapping[str, Facts]) -> _Step | None:
    """From a row that moved to the rows between its old and its new value, where nothing else is read of it."""
    for bound in branch.bounds:
        (other, column), (mine, compared) = bound.bounding, bound.bounded
        if mine == alias and visited.get(other) == Reached(DELTA) and facts[branch.leaf(other).relation].moved:
            return _Step((4, DELTA, 0), alias, other, ((compared, column),), between=True)
    return None


class _Partners:
    """Which rows of other leaves a row of scope 0 must match to be in a result of a branch.

    They are those of leaves that are inner-joined to it, or that an IN looks for it in. Only partners that are
    `selective` are told of: some of their rows can't be in a result, as a comparison with constants says, or a partner
    of their own in a small relation. What isn't read whole is waited for, so it is one only where it was reached after
    few steps, and of far fewer rows than the relation whose keys are told.
    """

    def __init__(self, branch: Branch, facts: Mapping[str, Facts]) -> None:
        self._branch, self._facts = branch, facts
        #: By leaf, then by partner: (its column, the partner's column) of each equality.
        self._near: dict[str, dict[str, list[tuple[str, str]]]] = {}
        scopes = {leaf.alias: leaf.scope for leaf in branch.leaves}
        for edge in branch.edges:
            sides = (edge.left, edge.right)
            inner = edge.scope == 0 and not any(scopes[alias] for alias, _ in sides)
            member = edge.member and scopes[edge.left[0]] == 0
            if not edge.nulls and (inner or member):
                for (one, mine), (other, theirs) in (sides, sides[::-1]) if inner else (sides,):
                    if keyable(facts[branch.leaf(one).relation].relation.type_of(mine)):
                        self._near.setdefault(one, {}).setdefault(other, []).append((mine, theirs))
        self.selective = {leaf.alias for leaf in branch.leaves if leaf.filters}
        spreading = [alias for alias in self.selective if self._is_small(alias)]
        while spreading:
            alias = spreading.pop()
            new = {other for other, near in self._near.items() if alias in near} - self.selective
            self.selective |= new
            spreading += [other for other in new if self._is_small(other)]

    def of(self, alias: str, visited: Mapping[str, Reached], origin: str = "", rows: int = 0) -> tuple[Match, ...]:
        """The partners of a visited leaf's rows among the others; `origin` led to them, so they match its rows.

        `rows` has the relation that is read by them.
        """
        return self._of(alias, visited, {alias, origin}, rows) if self.selective else ()

    def _of(self, alias: str, visited: Mapping[str, Reached], seen: set[str], rows: int) -> tuple[Match, ...]:
        found = []
        for other, pairs in self._near.get(alias, {}).items():
            if other in seen or other not in visited or not self._is_told(other, visited[other], rows):
                continue
            seen.add(other)
            leaf, reached = self._branch.leaf(other), visited[other]
            further = self._of(other, visited, seen, rows)
            if leaf.filters or further:
                mine, theirs = zip(*sorted(set(pairs)), strict=True)
                provider = Provider(leaf.relation, reached.level, theirs, reached.via, leaf.filters, further)
                found.append(Match(mine, provider))
        return tuple(found)

    def _is_told(self, alias: str, reached: Reached, rows: int) -> bool:
        if reached.level == WHOLE:
            return self._is_small(alias)
        mine = self._facts[self._branch.leaf(alias).relation].rows
        return reached.level <= _FEW_STEPS and mine is not None and mine * _FAR_FEWER < rows

    def _is_small(self, alias: str) -> bool:
        return self._facts[self._branch.leaf(alias).relation].small


def walk_groups(
    unit: Unit, walked: Sequence[tuple[Term, dict[str, Reached]]], facts: Mapping[str, Facts], requests: Requests
) -> tuple[tuple[dict[str, Reached], ...], int]:
    """Ask for all rows of the affected groups (new state) and for the unit's own stored rows of them.

    In each branch one leaf, the anchor, carries group keys as bare columns. The keys' values are collected from
    the anchors' deltas and slices in `walked`, which hold every value that the core's delta can have.
    Returns how the leaves of each branch were reached, and the level of the unit's own rows. All are WHOLE where no
    anchor is found: then the whole input is read.
    """
    assert unit.reduce is not None
    branches = unit.core.branches
    relations = {name: fact.relation for name, fact in facts.items()}
    anchors = [anchor(b, {k.name for k in unit.reduce.keys}, relations) for b in branches]
    keys = sorted(set.intersection(*(set(columns) for _, columns in anchors)))
    providers: dict[Provider, None] = {}
    for branch, (alias, columns) in zip(branches, anchors, strict=True) if keys else ():
        leaf = branch.leaf(alias)
        for term, found in walked:
            if term.branch is branch:
                reached = found.get(alias, Reached(DELTA))
                # Not those of slices: the groups would have to wait for them, and large relations be searched again.
                of = _Partners(branch, facts).of(alias, found)
                on = tuple(columns[k] for k in keys)
                providers[Provider(leaf.relation, reached.level, on, reached.via, leaf.filters, of)] = None
    if not keys or any(p.level == WHOLE for p in providers):
        requests.whole.update(leaf.relation for b in branches for leaf in b.leaves)
        requests.whole.add(unit.name)
        return tuple({leaf.alias: WHOLLY for leaf in b.leaves} for b in branches), WHOLE
    level = max(p.level for p in providers) + 1
    stored = dict(zip((k.name for k in unit.reduce.keys), unit.key_outputs(), strict=True))
    for provider in providers:
        requests.add(unit.name, level, Match(tuple(str(stored[k]) for k in keys), provider, nulls=True))
    levels = []
    for branch, (alias, columns) in zip(branches, anchors, strict=True):
        # Keys found in one branch name groups that the other branches feed too: every branch needs them all.
        matches = [Match(tuple(columns[k] for k in keys), provider, nulls=True) for provider in providers]
        for match in matches:
            requests.add(branch.leaf(alias).relation, level, match)
        # The walk goes on from the rows of any of these matches.
        reached = Reached(level, matches[0] if len(matches) == 1 else None)
        levels.append({alias: reached} | _walk(branch, {alias: reached}, facts, requests))
    return tuple(levels), level
