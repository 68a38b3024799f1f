"""Entries of WITH RECURSIVE that read each other, as one recursion (pure, on the statement's text).

    a AS (A(a, b)), b AS (B(a, b))

    r AS (SELECT 0, A's columns, NULLs UNION SELECT 1, NULLs, B's columns), a AS (r where 0), b AS (r where 1)

Spark knows an entry only after it is defined. SQL:1999 has such recursion; its entries are all sets (UNION) or all bags
(UNION ALL) here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot.tokens import Token, TokenType

from ivm.errors import ViewError
from ivm.names import RESERVED_PREFIX, ident
from ivm.plan.nodes import Column
from ivm.sql.dialect import IvmSpark
from ivm.sql.recursion import union_all
from ivm.sql.render import typed_nulls
from ivm.sql.round_trip import split_with
from ivm.sql.text import query_tree, relation_tables, splice

#: What a part may not have after or between its SELECTs: it would belong to the whole entry.
_OF_THE_WHOLE = (
    TokenType.WITH, TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.INTERSECT, TokenType.EXCEPT,
    TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY,
)  # fmt: skip
#: The column that tells which entry a row of the common recursion belongs to.
_ENTRY = f"{RESERVED_PREFIX}_entry"


@dataclass(frozen=True)
class _Entry:
    name: str
    columns: list[str]
    query: str

    @property
    def key(self) -> str:
        return self.name.lower()

    def named(self, columns: Sequence[Column]) -> list[Column]:
        """The columns of its query under the names that the entry gives them."""
        names = self.columns or [c.name for c in columns]
        if len(names) != len(columns):
            raise ViewError(
                f"{self.name} names {len(names)} columns, but its query has {len(columns)}.",
                "Name each of them, or none.",
            )
        return [Column(n, c.type) for n, c in zip(names, columns, strict=True)]


def merged(sql: str, relations: Mapping[str, Sequence[Column]], schema: Callable[[str], tuple[Column, ...]]) -> str:
    """The statement with each group of entries that read each other as one; itself where there is none.

    `relations` are the tables it may read, by lower-case name; `schema` gives a statement's columns. Raises ViewError
    for groups that have no such form.
    """
    with_ = query_tree(sql).args.get("with_")
    if with_ is None or not with_.args.get("recursive") or all(t.lower() in relations for t in _reads(sql)):
        return sql
    *entries, body = (_Entry(*e) for e in split_with(sql))
    groups = list(_groups(entries))
    if all(len(g) == 1 for g in groups) or not _reads(sql) <= relations.keys() | {e.key for e in entries}:
        return sql
    clash = [e.name for e in entries if e.key in relations]
    if clash:
        raise ViewError(
            f"Its WITH RECURSIVE has entries that read each other, and {clash[0]!r} is also a table that it may read.",
            "Rename the entry.",
        )
    nulls = {n: typed_nulls(c) for n, c in relations.items()}
    made: list[str] = []
    for number, group in enumerate(groups):
        if len(group) > 1:
            typed = _typed(group, nulls, schema)
            made += _as_one(group, typed, f"{RESERVED_PREFIX}_recursion_{number}")
            nulls |= {n: typed_nulls(c) for n, c in typed.items()}
            continue
        (entry,) = group
        head = f"{ident(entry.name)}{_listed(entry.columns)} AS"
        made.append(f"{head} (\n{entry.query}\n)")
        alone = f"WITH RECURSIVE {head} (\n{union_all(entry.query)}\n) SELECT * FROM {ident(entry.name)}"
        nulls[entry.key] = typed_nulls(schema(splice(alone, nulls)))
    return f"WITH RECURSIVE {', '.join(made)}\n{body.query}"


def _groups(entries: list[_Entry]) -> Iterator[list[_Entry]]:
    """The entries that read each other together, each group after those that it reads."""
    reads = {e.key: {o.key for o in entries if o.key in _reads(e.query)} for e in entries}
    for _ in entries:
        reads = {k: r.union(*(reads[o] for o in r)) for k, r in reads.items()}
    left = list(entries)
    while left:
        first = next(
            e for e in left if all(e.key in reads[o.key] for o in left if o is not e and o.key in reads[e.key])
        )
        group = [e for e in left if e is first or (e.key in reads[first.key] and first.key in reads[e.key])]
        left = [e for e in left if e not in group]
        yield group


def _parts(entry: _Entry) -> tuple[list[str], set[bool]]:
    """The queries that an entry unites, and whether as sets."""
    tokens = sqlglot.tokenize(entry.query, read=IvmSpark)
    parts, kinds, start = [], set(), 0
    for i, token in _outermost(tokens):
        if token.token_type in _OF_THE_WHOLE:
            raise ViewError(
                f"{entry.name} is read by an entry that it reads, and has {token.text.upper()} around its parts.",
                "Put it around a part, in parentheses.",
            )
        if token.token_type is TokenType.UNION:
            parts.append(entry.query[start : token.start])
            named = tokens[i + 1] if tokens[i + 1].token_type in (TokenType.ALL, TokenType.DISTINCT) else token
            kinds.add(named.token_type is not TokenType.ALL)
            start = named.end + 1
    return [*parts, entry.query[start:]], kinds


def _outermost(tokens: list[Token]) -> Iterator[tuple[int, Token]]:
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0:
            yield i, token


def _typed(
    group: list[_Entry], nulls: dict[str, str], schema: Callable[[str], tuple[Column, ...]]
) -> dict[str, list[Column]]:
    """The columns of a group's entries: those of the parts that can be typed first, as in any recursion."""
    known: dict[str, list[Column]] = {}
    keys = {e.key for e in group}
    while len(known) < len(group):
        before = len(known)
        for entry in (e for e in group if e.key not in known):
            given = nulls | {n: typed_nulls(c) for n, c in known.items()}
            parts = [p for p in _parts(entry)[0] if not (_reads(p) & keys) - known.keys()]
            if parts:
                known[entry.key] = entry.named(schema("\nUNION ALL\n".join(splice(p, given) for p in parts)))
        if len(known) == before:
            names = ", ".join(e.name for e in group)
            raise ViewError(
                f"The entries {names} read each other, and none has a part to start from.",
                "Give one of them a part that reads none of them.",
            )
    return known


def _reads(part: str) -> set[str]:
    return {t.lower() for t, *_ in relation_tables(part)}


def _as_one(group: list[_Entry], typed: dict[str, list[Column]], name: str) -> list[str]:
    """The common recursion, and each entry as what it has of it."""
    places = {e.key: [f"c{i}_{j}" for j, _ in enumerate(typed[e.key])] for i, e in enumerate(group)}
    outs_of = {
        e.key: ", ".join(f"{ident(p)} AS {ident(c.name)}" for p, c in zip(places[e.key], typed[e.key], strict=True))
        for e in group
    }
    rows = {
        e.key: f"(SELECT {outs_of[e.key]} FROM {ident(name)} WHERE {ident(_ENTRY)} = {i})" for i, e in enumerate(group)
    }
    split = {e.key: _parts(e) for e in group}
    kinds = set().union(*(k for _, k in split.values()))
    if len(kinds) != 1:
        names = ", ".join(e.name for e in group)
        raise ViewError(
            f"The entries {names} read each other, some as sets and some as bags.",
            "Use UNION in all of them, or UNION ALL.",
        )
    bases: list[str] = []
    steps: list[str] = []
    for i, entry in enumerate(group):
        outs = [
            f"q.{ident(p)}" if key == entry.key else f"CAST(NULL AS {c.type}) AS {ident(p)}"
            for key in places
            for p, c in zip(places[key], typed[key], strict=True)
        ]
        for part in split[entry.key][0]:
            own = _reads(part) & rows.keys()
            query = (
                f"SELECT {i} AS {ident(_ENTRY)}, {', '.join(outs)} FROM (\n{splice(part, rows)}\n"
                f") AS q{_listed(places[entry.key])}"
            )
            (steps if own else bases).append(query)
    word = " UNION " if kinds == {True} else " UNION ALL "
    return [
        f"{ident(name)} AS ({word.join(bases)}{word}({word.join(steps)}))",
        *(f"{ident(e.name)} AS {rows[e.key]}" for e in group),
    ]


def _listed(columns: Sequence[str]) -> str:
    return f"({', '.join(map(ident, columns))})" if columns else ""
