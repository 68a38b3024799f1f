"""The definitions of an SQL file, as text: what a query says is cut out, never written anew.

CREATE MATERIALIZED VIEW name [(columns)] [clauses] AS query;     and likewise views, streaming tables and flows
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

from ivm.errors import ConfigError
from ivm.sdp.datasets import Dataset, Kind
from ivm.sql.dialect import IvmSpark
from ivm.sql.text import first_line

_OPEN, _CLOSE = TokenType.L_PAREN, TokenType.R_PAREN
#: What stands between CREATE and a name, without what may be left out.
_KINDS = {
    ("MATERIALIZED", "VIEW"): Kind.MATERIALIZED,
    ("STREAMING", "TABLE"): Kind.STREAMING,
    ("TEMPORARY", "VIEW"): Kind.TEMPORARY,
    ("TEMP", "VIEW"): Kind.TEMPORARY,
    ("VIEW",): Kind.PERSISTED,
    ("FLOW",): Kind.FLOW,
}
_LEFT_OUT = {"OR", "REPLACE", "REFRESH", "GLOBAL"}
_PROPERTIES = "TBLPROPERTIES"
#: Clauses of which nothing is made.
_CLAUSES = (
    "USING", "PARTITIONED BY", "CLUSTER BY", "CLUSTERED BY", "COMMENT", "OPTIONS", "LOCATION", "DEFAULT COLLATION",
)  # fmt: skip


#: All that may stand between a name and AS, texts and what is in parentheses left out. Anything else may say which rows
#: are in a view.
_KNOWN = re.compile(
    r"""(\(\)\ )?
    ((USING\ \S+ | COMMENT\ '' | LOCATION\ '' | (OPTIONS|TBLPROPERTIES)\ \(\) | DEFAULT\ COLLATION\ \S+
    | PARTITIONED\ BY\ \(\) | CLUSTER\ BY\ (\(\)|AUTO|NONE)
    | CLUSTERED\ BY\ \(\)\ (SORTED\ BY\ \(\)\ )?INTO\ \d+\ BUCKETS)\ )*""",
    re.VERBOSE,
)
#: What begins a rule among the columns, and what of a column stands for more than its name, type and comment.
_RULES = {"CONSTRAINT", "PRIMARY", "FOREIGN"}
_OF_COLUMNS = {*_RULES, "MASK", "COLLATE", "GENERATED", "DEFAULT"}


def read(sql: str, file: str) -> list[Dataset]:
    """The definitions of a file's text. Raises ConfigError where it can't be read, or changes the database midway."""
    try:
        tokens = sqlglot.tokenize(sql, read=IvmSpark)
    except SqlglotError as error:
        raise ConfigError(f"{file} can't be read as SQL: {first_line(error)}", "Correct that place.") from error
    return [_dataset(sql, statement, file) for statement in _statements(tokens)]


def query(sql: str) -> str:
    """A text's one statement, without what ends it; the text as it is where it is none or many.

    >>> query(" SELECT 1; -- done")
    'SELECT 1'
    """
    try:
        found = _statements(sqlglot.tokenize(sql, read=IvmSpark))
    except SqlglotError:  # whoever reads the query will say what is wrong
        return sql
    return _text(sql, found[0]) if len(found) == 1 else sql


def reads_stream(sql: str) -> bool:
    """Whether a query reads a table as a stream.

    >>> reads_stream("SELECT * FROM STREAM orders"), reads_stream("SELECT * FROM stream WHERE stream.a > 1")
    (True, False)
    """
    tokens = sqlglot.tokenize(sql, read=IvmSpark)
    before = (TokenType.FROM, TokenType.JOIN, TokenType.COMMA)
    after = (_OPEN, TokenType.VAR, TokenType.IDENTIFIER)
    return any(
        a.token_type in before and _word(b) == "STREAM" and c.token_type in after
        for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False)
    )


def _statements(tokens: Sequence[Any]) -> list[list[Any]]:
    found: list[list[Any]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            found.append([])
        else:
            found[-1].append(token)
    return [statement for statement in found if statement]


def _dataset(sql: str, tokens: Sequence[Any], file: str) -> Dataset:
    where = f"{file}:{tokens[0].line}"
    first = _word(tokens[0])
    if first == "USE" or [_word(t) for t in tokens[:2]] == ["SET", "CATALOG"]:
        raise ConfigError(
            f"{where} says {first}, which changes what the names after it mean.",
            "Write these names with their database, and leave the statement out.",
        )
    if first == "SET":
        return Dataset(_text(sql, tokens), Kind.SETTING, where)
    kind, at = _kind(tokens)
    if kind is Kind.UNKNOWN:
        return Dataset(_text(sql, tokens[:3]), kind, where)
    name, at = _name(sql, tokens, at)
    if not name:
        raise ConfigError(f"{where}: this {kind.value} has no name that can be read.", "Write it as database.name.")
    end = next((i for i, d in _depths(tokens) if not d and tokens[i].token_type is TokenType.ALIAS), None)
    if kind is Kind.FLOW:
        return Dataset(name, kind, where)
    header = tokens[at:end]
    properties, clauses, columns = _header(sql, header)
    text = _text(sql, tokens[end + 1 :]) if end is not None else ""
    reason = "" if text else "its definition has no query"
    if "DEFAULT COLLATION" in clauses:
        reason = "its DEFAULT COLLATION changes how texts compare"
    elif unknown := _unknown(header):
        reason = f"its definition has the clause {unknown}, of which nothing can be made"
    return Dataset(name, kind, where, text, reason, properties, clauses, columns)


def _kind(tokens: Sequence[Any]) -> tuple[Kind, int]:
    """What is created, and where its name begins."""
    words: list[str] = []
    for i, token in enumerate(tokens[1:], 1):
        if _word(token) not in _LEFT_OUT:
            words.append(_word(token))
        if (kind := _KINDS.get(tuple(words))) and _word(tokens[0]) == "CREATE":
            there = [_word(t) for t in tokens[i + 1 : i + 4]] == ["IF", "NOT", "EXISTS"]
            return kind, i + (4 if there else 1)
        if len(words) == 2:
            break
    return Kind.UNKNOWN, 0


def _name(sql: str, tokens: Sequence[Any], at: int) -> tuple[str, int]:
    """A name of parts, and where it ends."""
    parts = []
    while at < len(tokens) and tokens[at].token_type not in (_OPEN, TokenType.STRING, TokenType.ALIAS):
        parts.append(tokens[at].text if tokens[at].token_type is TokenType.IDENTIFIER else _text(sql, [tokens[at]]))
        at += 1
        if at >= len(tokens) or tokens[at].token_type is not TokenType.DOT:
            break
        at += 1
    return ".".join(parts), at


def _header(sql: str, tokens: Sequence[Any]) -> tuple[dict[str, str], tuple[str, ...], tuple[str, ...]]:
    """What stands between a name and AS: properties, the names of other clauses, and the names of columns."""
    properties: dict[str, str] = {}
    clauses, columns = [], []
    for i, depth in _depths(tokens):
        if depth:
            continue
        if tokens[i].token_type is _OPEN:
            inner = _inner(tokens, i)
            if i == 0:
                columns = [part[0].text for part in _parts(inner)]
            elif _word(tokens[i - 1]) == _PROPERTIES:
                properties |= dict(_property(sql, part) for part in _parts(inner))
        else:
            here = " ".join(_word(t) for t in tokens[i : i + 2])
            clauses += [c for c in _CLAUSES if f"{here} ".startswith(f"{c} ") and here != "USING DELTA"]
    return properties, tuple(clauses), tuple(columns)


def _unknown(tokens: Sequence[Any]) -> str:
    """The word at which a header says what isn't known; "" where all of it is."""
    outside = [tokens[i] for i, depth in _depths(tokens) if not depth]
    words = "".join("'' " if t.token_type is TokenType.STRING else f"{t.text.upper()} " for t in outside)
    words = words.replace("( )", "()")
    known = _KNOWN.match(words)
    if rest := words[known.end() if known else 0 :].strip():
        return rest.split(" ")[0]
    columns = _parts(_inner(tokens, 0)) if tokens and tokens[0].token_type is _OPEN else []
    for part in columns:
        first, *after = (_word(t).partition(" ")[0] for t in part)  # PRIMARY KEY is one token
        # A member that begins with such a word is a rule, unless it is but a column's name and perhaps its type.
        if first in _RULES and len(after) > 1:
            return first
        if word := next((w for w in after if w in _OF_COLUMNS), ""):
            return word
    return ""


def _inner(tokens: Sequence[Any], at: int) -> Sequence[Any]:
    """What stands between a parenthesis and the one that closes it."""
    closing = (i for i, depth in _depths(tokens) if i > at and not depth and tokens[i].token_type is _CLOSE)
    return tokens[at + 1 : next(closing, len(tokens))]


def _depths(tokens: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Each token's place with the parentheses around it; a parenthesis itself stands outside."""
    depth = 0
    for i, token in enumerate(tokens):
        depth -= token.token_type is _CLOSE
        yield i, depth
        depth += token.token_type is _OPEN


def _parts(tokens: Sequence[Any]) -> list[list[Any]]:
    """A list's members."""
    found: list[list[Any]] = [[]]
    for i, depth in _depths(tokens):
        if not depth and tokens[i].token_type is TokenType.COMMA:
            found.append([])
        else:
            found[-1].append(tokens[i])
    return [part for part in found if part]


def _property(sql: str, tokens: Sequence[Any]) -> tuple[str, str]:
    """`key = value` or `key value`; a key is a text, or words with dots."""
    at = next((i for i, t in enumerate(tokens) if t.token_type is TokenType.EQ), None)
    if at is not None:
        key, value = tokens[:at], tokens[at + 1 :]
    else:
        end = 1
        while end + 1 < len(tokens) and tokens[end].token_type is TokenType.DOT:
            end += 2
        key, value = tokens[:end], tokens[end:]
    return _said(sql, key), _said(sql, value)


def _said(sql: str, tokens: Sequence[Any]) -> str:
    quoted = (TokenType.STRING, TokenType.IDENTIFIER)
    return "".join(t.text if t.token_type in quoted else _text(sql, [t]) for t in tokens)


def _word(token: Any) -> str:
    """A keyword as it is compared; a text in quotes is none."""
    return "" if token.token_type in (TokenType.STRING, TokenType.IDENTIFIER) else token.text.upper()


def _text(sql: str, tokens: Sequence[Any]) -> str:
    return sql[tokens[0].start : tokens[-1].end + 1] if tokens else ""
