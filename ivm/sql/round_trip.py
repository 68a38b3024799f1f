"""The guard against misreading: what sqlglot understood must mean to Spark what the user wrote.

The statement is printed again from its tree, and Spark compares both (`sameSemantics`), every WITH inlined. Where Spark
can't inline one (a query inside an expression that reads an outer WITH), the queries of the outermost WITH are
compared one by one instead, each reading the earlier ones as tables.
"""

from __future__ import annotations

import itertools
import re

import sqlglot
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from ivm.names import ident
from ivm.plan.nodes import Column, Relation
from ivm.sql.analyzer import Analyzer
from ivm.sql.dialect import IvmSpark
from ivm.sql.refusals import UnsupportedError
from ivm.sql.render import typed_nulls
from ivm.sql.text import relation_tables, splice


def check_round_trip(sql: str, tree: exp.Expression, relations: dict[str, Relation], analyzer: Analyzer) -> None:
    """Raises UnsupportedError where Spark sees two meanings."""
    if _pads_by_on(sql, tree):
        raise UnsupportedError(
            "clause", "LEFT JOIN LATERAL of a generator, which pads rows in Spark only where ON true is written,"
        )
    if _sized(sql) and _has_decimals(sql, relations):
        raise UnsupportedError("round_trip", "a literal such as 3L, beside decimals only as wide as its digits")
    copy = tree.copy()
    for join in copy.find_all(exp.Join):
        # sqlglot reads a comma as CROSS JOIN (and leaves out `pivots`); to Spark these are two plans of one meaning.
        if join.args.get("kind") == "CROSS" and "pivots" not in join.args:
            join.set("kind", None)
        # LEFT JOIN LATERAL needs no ON, but sqlglot adds ON TRUE: so it is written on both sides.
        if tree.find(exp.Lateral) and join.args.get("on") == exp.true():
            join.set("on", None)
    again = copy.sql(dialect=IvmSpark, comments=False)
    nulls = {name: typed_nulls(r.columns) for name, r in relations.items()}
    sql = without_on_true(spelled_casts(sql)) if tree.find(exp.Lateral) else spelled_casts(sql)
    if analyzer.same(splice(sql, nulls), splice(again, nulls)):
        return
    written, read = split_with(sql), split_with(again)
    if len(written) != len(read):
        raise UnsupportedError("round_trip", "its WITH clause")
    relations_only = dict(nulls)
    for i, ((name, names, mine), (_, _, theirs)) in enumerate(zip(written, read, strict=True)):
        if name and name.lower() in {t.lower() for t, *_ in relation_tables(mine)} - relations.keys():
            entries = ", ".join(f"{n} {_columns(c)} AS ({q})" for n, c, q in written[: i + 1])
            itself = f"WITH RECURSIVE {entries} SELECT * FROM {name}"
            nulls[name.lower()] = typed_nulls(analyzer.schema(splice(itself, relations_only)))
        one = splice(mine, nulls)
        if not analyzer.same(one, splice(theirs, nulls)):
            raise UnsupportedError("round_trip", "after parsing it reads: " + theirs[:200])
        if name:
            columns = analyzer.schema(one)
            nulls[name.lower()] = typed_nulls(
                [Column(n, c.type) for n, c in zip(names or [c.name for c in columns], columns, strict=True)]
            )


def _pads_by_on(sql: str, tree: exp.Expression) -> bool:
    """Whether a statement may have a LEFT JOIN LATERAL of what reads no table, and no ON of its own.

    Without ON Spark's optimizer makes it a plain generator, whose unmatched rows are left out; sqlglot adds ON TRUE.

    >>> pads = [f"SELECT k FROM t LEFT JOIN LATERAL explode(a) AS g(e) {on}" for on in ("", "ON true")]
    >>> [_pads_by_on(p, sqlglot.parse_one(p, read=IvmSpark)) for p in pads]
    [True, False]
    """
    joins = list(tree.find_all(exp.Join))
    made = [j for j in joins if j.side == "LEFT" and isinstance(j.this, exp.Lateral) and not j.this.find(exp.Table)]
    written = sum(t.token_type is TokenType.ON for t in sqlglot.tokenize(sql, read=IvmSpark)) if made else 0
    return bool(made) and written < sum(j.args.get("on") is not None for j in joins)


def _sized(sql: str) -> bool:
    """Whether a statement has whole numbers with the letter of a type, which sqlglot reads as casts.

    >>> _sized("a > 3L"), _sized("a > 3 AND b = '3L'")
    (True, False)
    """
    tokens = sqlglot.tokenize(sql, read=IvmSpark)
    return any(t.token_type is TokenType.NUMBER and sql[t.start : t.end + 1][-1:] in "lLsSyY" for t in tokens)


def _has_decimals(sql: str, relations: dict[str, Relation]) -> bool:
    read = [relations[t.lower()] for t, *_ in relation_tables(sql) if t.lower() in relations]
    written = re.search(r"decimal|\d\.\d|\d\s*bd", sql, re.IGNORECASE)
    return written is not None or any("decimal" in c.type for r in read for c in r.columns)


def _columns(names: list[str]) -> str:
    return f"({', '.join(map(ident, names))})" if names else ""


def spelled_casts(sql: str) -> str:
    """Spell typed literals as sqlglot does, which reads them as casts of the same meaning.

    >>> spelled_casts("a > date '2024-01-01'")
    "a > CAST('2024-01-01' AS DATE)"
    >>> spelled_casts("a > 0.5D AND b = 1L")
    'a > CAST(0.5 AS DOUBLE) AND b = CAST(1 AS BIGINT)'

    One that only is a number of its type with the minus before it stays, since its cast would fail.

    >>> spelled_casts("a = -128Y")
    'a = -128Y'
    """
    tokens = sqlglot.tokenize(sql, read=IvmSpark)
    for word, text in reversed(list(itertools.pairwise(tokens))):
        literal = sql[word.start : word.end + 1]
        if (
            word.token_type is TokenType.NUMBER
            and text.token_type is TokenType.DCOLON
            and text.start == word.start
            and literal[-1:] not in "fF"
            and not _too_large(literal)
        ):
            sql = (
                f"{sql[: word.start]}{sqlglot.parse_one(literal, read=IvmSpark).sql(dialect=IvmSpark)}"
                f"{sql[word.end + 1 :]}"
            )
        elif word.text.upper() in ("DATE", "TIMESTAMP") and text.token_type is TokenType.STRING:
            sql = (
                f"{sql[: word.start]}CAST({sql[text.start : text.end + 1]} AS {word.text.upper()}){sql[text.end + 1 :]}"
            )
    return sql


def _too_large(literal: str) -> bool:
    """Whether an integer literal such as 128Y is too large for its type by itself."""
    most = {"Y": 2**7, "S": 2**15, "L": 2**63}.get(literal[-1:].upper())
    return most is not None and literal[:-1].isdigit() and int(literal[:-1]) >= most


def without_on_true(sql: str) -> str:
    """Leave out ON TRUE.

    >>> without_on_true("a LEFT JOIN LATERAL (SELECT 1) ON true WHERE x")
    'a LEFT JOIN LATERAL (SELECT 1)  WHERE x'
    """
    tokens = sqlglot.tokenize(sql, read=IvmSpark)
    for on, true in reversed(list(itertools.pairwise(tokens))):
        if on.token_type is TokenType.ON and true.token_type is TokenType.TRUE:
            sql = sql[: on.start] + sql[true.end + 1 :]
    return sql


def split_with(sql: str) -> list[tuple[str, list[str], str]]:
    """(name, column names, query) of each WITH entry and, without a name, of the statement's body.

    >>> split_with("WITH a(x) AS (SELECT 1), b AS (SELECT 2) SELECT * FROM a, b")
    [('a', ['x'], 'SELECT 1'), ('b', [], 'SELECT 2'), ('', [], 'SELECT * FROM a, b')]
    """
    tokens = sqlglot.tokenize(sql, read=IvmSpark)
    if not tokens or tokens[0].token_type is not TokenType.WITH:
        return [("", [], sql)]
    parts: list[tuple[str, list[str], str]] = []
    at = 1 + (tokens[1].token_type is TokenType.RECURSIVE)
    while True:
        name, at = tokens[at].text, at + 1
        names: list[str] = []
        if tokens[at].token_type is TokenType.L_PAREN:
            end = _closing(tokens, at)
            names = [t.text for t in tokens[at + 1 : end] if t.token_type is not TokenType.COMMA]
            at = end + 1
        start = at + (tokens[at].token_type is TokenType.ALIAS)
        end = _closing(tokens, start)
        parts.append((name, names, sql[tokens[start].end + 1 : tokens[end].start]))
        at = end + 1
        if tokens[at].token_type is not TokenType.COMMA:
            return [*parts, ("", [], sql[tokens[at].start :])]
        at += 1


def _closing(tokens: list[Token], start: int) -> int:
    depth = 0
    for i in range(start, len(tokens)):
        depth += (tokens[i].token_type is TokenType.L_PAREN) - (tokens[i].token_type is TokenType.R_PAREN)
        if depth == 0:
            return i
    raise UnsupportedError("round_trip", "its parentheses don't close")
