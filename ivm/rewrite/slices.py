"""Which rows of each relation an epoch must read: keyed slices, shared by all views.

A term starts at its delta and walks the branch's equality edges; each step asks for the rows of the
next relation whose columns match the rows reached so far. A slice is named by (relation, level): the
level counts the steps from a delta. All requests of one slice, from whatever view, are one read.

Invariant: a slice holds, once each, at least the rows that match any of its requests. Terms apply their own
predicates again, so more rows never hurt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ivm.plan.nodes import Branch, Relation, Unit
from ivm.rewrite.delta_join import Term

#: Types whose equality is the same in Spark and in the native engine; only these are walked.
_KEYABLE = ("tinyint", "smallint", "int", "bigint", "string", "date", "boolean")
#: Levels: a delta is 0, its neighbours 1, ...; a relation read whole provides no keys.
DELTA = 0
WHOLE = -1


@dataclass(frozen=True, order=True)
class Provider:
    """Where keys come from: `columns` of a relation's delta (level 0), or of its slice at a level.

    Whoever collects the keys of a slice adds those of the relation's delta, so that old and new state are covered.
    """

    relation: str
    level: int
    columns: tuple[str, ...]


@dataclass(frozen=True, order=True)
class Match:
    """Rows whose `columns` equal the provider's columns, position by position.

    NULL equals nothing in a join; as a group key (`nulls`) it equals NULL.
    """

    columns: tuple[str, ...]
    provider: Provider
    nulls: bool = False


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
    """What the walk may know of a relation: its rows, and whether it is small enough to be read whole."""

    relation: Relation
    rows: int | None
    foreign_keys: tuple[tuple[tuple[str, ...], str], ...] = ()


#: Below this many rows a relation is read whole: cheaper than collecting keys.
SMALL_ROWS = 2_000


def keyable(type_: str) -> bool:
    """Whether columns of this type may be walked.

    >>> keyable("decimal(15,2)"), keyable("double"), keyable("string collate UTF8_LCASE")
    (True, False, False)
    """
    return type_ in _KEYABLE or type_.startswith("decimal(")


def walk_term(term: Term, facts: Mapping[str, Facts], requests: Requests) -> dict[str, int]:
    """Ask for what a term reads; returns the slice level by leaf alias (WHOLE for a whole read)."""
    return _walk(term.branch, {term.delta_alias: DELTA}, facts, requests)


def _walk(branch: Branch, start: dict[str, int], facts: Mapping[str, Facts], requests: Requests) -> dict[str, int]:
    """Visit all leaves from `start` (alias to level), cheapest step first; unreachable ones are read whole."""
    visited = dict(start)
    levels: dict[str, int] = {}
    while len(visited) < len(branch.leaves):
        step = min((s for leaf in branch.leaves if leaf.alias not in visited and (s := _step(branch, leaf.alias, visited, facts))), default=None)
        if step is None:
            alias = next(leaf.alias for leaf in branch.leaves if leaf.alias not in visited)
            requests.whole.add(branch.leaf(alias).relation)
            visited[alias] = levels[alias] = WHOLE
            continue
        relation = branch.leaf(step.alias).relation
        if step.match is None:
            requests.whole.add(relation)
            visited[step.alias] = levels[step.alias] = WHOLE
        else:
            level = step.match.provider.level + 1
            requests.add(relation, level, step.match)
            visited[step.alias] = levels[step.alias] = level
    return levels


@dataclass(frozen=True, order=True)
class _Step:
    cost: tuple[int, int]
    alias: str
    match: Match | None = field(compare=False)


def _step(branch: Branch, alias: str, visited: dict[str, int], facts: Mapping[str, Facts]) -> _Step | None:
    """The cheapest way to reach a leaf: whole if small, by its key, by a foreign key, by any equality."""
    target = facts[branch.leaf(alias).relation]
    if target.rows is not None and target.rows <= SMALL_ROWS:
        return _Step((0, 0), alias, None)
    best: _Step | None = None
    for other, level in visited.items():
        pairs = [
            (mine, theirs[1])
            for e in branch.edges
            if (side := e.from_side(alias))
            for mine, theirs in [side]
            if theirs[0] == other and keyable(target.relation.type_of(mine))
        ]
        if not pairs or level == WHOLE:
            continue
        pairs = sorted(set(pairs))
        mine = {m.lower() for m, _ in pairs}
        provider = branch.leaf(other).relation
        if target.relation.key and {k.lower() for k in target.relation.key} <= mine:
            rank = 1
        elif any(to == provider and {c.lower() for c in columns} <= mine for columns, to in target.foreign_keys):
            rank = 2
        else:
            rank = 3
        match = Match(tuple(m for m, _ in pairs), Provider(provider, level, tuple(t for _, t in pairs)))
        step = _Step((rank, level), alias, match)
        best = step if best is None else min(best, step)
    return best


def walk_groups(
    unit: Unit, walked: Sequence[tuple[Term, dict[str, int]]], facts: Mapping[str, Facts], requests: Requests
) -> tuple[tuple[dict[str, int], ...], int]:
    """Ask for all rows of the affected groups (new state) and for the unit's own stored rows of them.

    In each branch one leaf, the anchor, carries group keys as bare columns. The keys' values are collected from
    the anchors' deltas and slices in `walked`, which hold every value that the core's delta can have.
    Returns the level by alias for each branch, and the level of the unit's own rows. All are WHOLE where no
    anchor is found: then the whole input is read.
    """
    assert unit.reduce is not None
    branches = unit.core.branches
    anchors = [_anchor(b, {k.name for k in unit.reduce.keys}, facts) for b in branches]
    keys = sorted(set.intersection(*(set(columns) for _, columns in anchors)))
    providers = (
        {p for b, (alias, columns) in zip(branches, anchors, strict=True) for p in _key_providers(b, alias, [columns[k] for k in keys], walked)}
        if keys
        else set()
    )
    if not keys or any(p.level == WHOLE for p in providers):
        requests.whole.update(leaf.relation for b in branches for leaf in b.leaves)
        requests.whole.add(unit.name)
        return tuple({leaf.alias: WHOLE for leaf in b.leaves} for b in branches), WHOLE
    level = max(p.level for p in providers) + 1
    stored = dict(zip((k.name for k in unit.reduce.keys), unit.key_outputs(), strict=True))
    levels = []
    for provider in providers:
        requests.add(unit.name, level, Match(tuple(str(stored[k]) for k in keys), provider, nulls=True))
    for branch, (alias, columns) in zip(branches, anchors, strict=True):
        # Keys found in one branch name groups that the other branches feed too: every branch needs them all.
        for provider in providers:
            requests.add(branch.leaf(alias).relation, level, Match(tuple(columns[k] for k in keys), provider, nulls=True))
        levels.append({alias: level} | _walk(branch, {alias: level}, facts, requests))
    return tuple(levels), level


def _anchor(branch: Branch, keys: set[str], facts: Mapping[str, Facts]) -> tuple[str, dict[str, str]]:
    """The leaf that carries most group keys as bare, walkable columns: its alias and column by key."""
    found: dict[str, dict[str, str]] = {}
    for output in branch.outputs:
        if output.name in keys and output.expr.plain:
            alias, column = output.expr.plain
            if keyable(facts[branch.leaf(alias).relation].relation.type_of(column)):
                found.setdefault(alias, {})[output.name] = column
    return max(found.items(), key=lambda item: (len(item[1]), item[0]), default=("", {}))


def _key_providers(branch: Branch, alias: str, columns: Sequence[str], walked: Sequence[tuple[Term, dict[str, int]]]) -> Iterator[Provider]:
    """Where the affected values of the anchor's columns are found: in its delta, and in its slice in each other term."""
    relation = branch.leaf(alias).relation
    for term, levels in walked:
        if term.branch is branch:
            yield Provider(relation, DELTA if term.delta_alias == alias else levels[alias], tuple(columns))
