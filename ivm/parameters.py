"""What callers and files pass: brought to one form, or refused with what was expected and what was found (pure).

Invariant: a location, a column or a number that went through here is safe to hand to the file system and to Spark.
"""

from __future__ import annotations

import os
import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

from ivm.errors import ConfigError

#: Values that a setting may have.
MODES = ("auto", "incremental", "warn", "full")
LANES = ("auto", "native", "spark")
#: Who may run a refresh's statements: Spark alone, or (`auto`) the embedded engine those that are portable.
SPARK, AUTO = "spark", "auto"
ENGINES = (SPARK, AUTO)
#: Which arrangements are made: also those that pay (`auto`), or only those that hints ask for.
ARRANGE = (AUTO, "hints")

#: What file systems allow, less what we put below a root.
MAX_PATH_BYTES, MAX_PART_BYTES = 3_500, 255
#: Spark's and Delta's versions and epochs are signed 64-bit integers.
MAX_NUMBER = 2**63 - 1

#: Says which engine, where a pipeline doesn't.
ENGINE_VARIABLE = "IVM_ENGINE"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")


def shown(value: Any) -> str:
    """A value for a message, cut to a readable length.

    >>> shown("a" * 100)
    "'aaaaaaaaaaaa...aaaaaaaaaaaaa'"
    """
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001 - repr() of a stranger's object, or of an integer with thousands of digits
        return f"a value of type {type(value).__name__}"


def text(value: Any, what: str, hint: str = "Give a text.") -> str:
    """A text with something in it. Raises ConfigError for what is none, is blank, or can't be written as UTF-8."""
    if not isinstance(value, str):
        raise ConfigError(f"{what} must be a text, found {shown(value)} ({type(value).__name__}).", hint)
    if not value.strip():
        raise ConfigError(f"{what} is empty.", hint)
    if "\0" in value:
        raise ConfigError(f"{what} holds a NUL character.", hint)
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise ConfigError(f"{what} holds half of a character (a lone surrogate).", hint)
    return value


def columns(value: Any, what: str) -> tuple[str, ...]:
    """A column, or several, as a tuple.

    >>> columns("id", "primary_key"), columns(["a", "b"], "primary_key")
    (('id',), ('a', 'b'))
    """
    hint = "Give a column's name or a list of names."
    if not isinstance(value, str | list | tuple):
        raise ConfigError(
            f"{what} must be a column or a list of columns, found {shown(value)} ({type(value).__name__}).", hint
        )
    found = tuple(text(c, f"{what}: a column", hint) for c in ([value] if isinstance(value, str) else value))
    twice = {c for c in found if [f.lower() for f in found].count(c.lower()) > 1}
    if twice:
        raise ConfigError(f"{what} names {', '.join(sorted(twice))} more than once.", "Name each column once.")
    return found


def references(value: Any, what: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Foreign keys, {columns: source}, with columns as a tuple or as a text with commas.

    >>> references({"a, b": "Orders"}, "foreign_keys")
    ((('a', 'b'), 'orders'),)
    """
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{what} must be a mapping of columns to sources, found {shown(value)}.",
            'Write {column: source} or {"a, b": source}.',
        )
    found: dict[tuple[str, ...], str] = {}
    for keys, to in value.items():
        names = columns([c.strip() for c in keys.split(",")] if isinstance(keys, str) else keys, what)
        if not names:
            raise ConfigError(f"{what} has an entry without a column.", 'Write {column: source} or {"a, b": source}.')
        if names in found:
            raise ConfigError(
                f"{what} names {', '.join(names)} twice.", "A column (or a list of them) refers to one source."
            )
        found[names] = text(to, f"{what}: the source that {', '.join(names)} refers to").lower()
    return tuple(found.items())


def check_references(keys: Mapping[str, tuple[tuple[str, ...], tuple[tuple[tuple[str, ...], str], ...]]]) -> None:
    """Raises ConfigError where a foreign key leads nowhere; `keys` has (primary key, foreign keys) by source."""
    primary = {name.lower(): key for name, (key, _) in keys.items()}
    for name, (_, foreign) in keys.items():
        for names, to in foreign:
            if to not in primary:
                raise ConfigError(
                    f"Source {name!r} has a foreign key to {to!r}, which is no source of this pipeline.",
                    f"There are: {', '.join(sorted(keys))}.",
                )
            if primary[to] and len(primary[to]) != len(names):
                raise ConfigError(
                    (
                        f"Source {name!r} refers to {to!r} by {', '.join(names)}, "
                        f"but its primary key is {', '.join(primary[to])}."
                    ),
                    "Name one column for each column of that key.",
                )


def number(value: Any, what: str, least: int = 0, most: int = MAX_NUMBER) -> int:
    """A whole number. Raises ConfigError for another type (also True and False) and for one that is out of range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        to = "on" if most == MAX_NUMBER else f"to {most}"
        raise ConfigError(
            f"{what} must be a whole number from {least} {to}, found {shown(value)}.", "Give such a number."
        )
    return value


def names(value: Any, what: str) -> list[str]:
    """A list of names; a single one may stand alone. Raises ConfigError for anything else."""
    if not isinstance(value, str | Iterable) or isinstance(value, bytes | Mapping):
        raise ConfigError(f"{what} must be a list of names, found {shown(value)}.", "Give the names in a list.")
    return [text(v, f"{what}: a name") for v in ([value] if isinstance(value, str) else value)]


def is_url(location: str) -> bool:
    """Whether a location has a scheme: s3://b/t, file:///t, dbfs:/t.

    >>> is_url("s3://b/t"), is_url("dbfs:/t"), is_url("/t"), is_url("sales.orders")
    (True, True, False, False)
    """
    return _SCHEME.match(location) is not None


def scheme(location: str) -> str:
    """The scheme of a URL in lower case; "" for what is none.

    >>> scheme("S3://b/t"), scheme("/t"), scheme("sales.orders")
    ('s3', '', '')
    """
    found = _SCHEME.match(location)
    return found[1].lower() if found else ""


#: Spellings of one store by several clients.
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}


def location(value: Any, what: str) -> str:
    """A path, URL or catalog identifier as text; a `file:` URL becomes its path, and another URL has one spelling.

    >>> location("file:///lake/orders", "root"), location("s3a://lake/orders/", "root")
    ('/lake/orders', 's3://lake/orders')
    """
    hint = "Give a folder's path or a URL."
    found = text(os.fspath(value) if isinstance(value, os.PathLike) else value, what, hint)
    if found.lower().startswith("file:"):
        rest = found[5:]
        if rest.startswith("//") and not rest.startswith("///"):
            raise ConfigError(
                f"{what} is {shown(found)}, a folder of another host.", "Write file:///folder or only the folder."
            )
        found = text("/" + rest.lstrip("/") if rest.startswith("/") else rest, what, hint)
    if name := scheme(found):
        found = _ALIASES.get(name, name) + found[len(name) :].rstrip("/")
    parts = [len(p.encode()) for p in found.split("/")]
    if sum(parts) + len(parts) > MAX_PATH_BYTES or max(parts) > MAX_PART_BYTES:
        raise ConfigError(
            f"{what} is too long: {shown(found)}.",
            f"A path has at most {MAX_PATH_BYTES:,} bytes and each of its parts at most {MAX_PART_BYTES}.",
        )
    return found


def local_folder(value: Any, what: str) -> str:
    """A folder of this machine, existing or not. Raises ConfigError for any other URL."""
    found = location(value, what)
    if is_url(found):
        raise ConfigError(f"{what} is {shown(found)}, which is no folder of this machine.", "Give a folder's path.")
    return found


def engine(given: str) -> str:
    """The engine that a pipeline names, else the environment's, else Spark. Raises ConfigError for another."""
    chosen = given or os.environ.get(ENGINE_VARIABLE, "") or ENGINES[0]
    if chosen not in ENGINES:
        where = "" if given else f" (in {ENGINE_VARIABLE})"
        raise ConfigError(f"There is no engine {shown(chosen)}{where}.", f"Choose one of: {', '.join(ENGINES)}.")
    return chosen
