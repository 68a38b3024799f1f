"""What `ivm adopt` shows of the tables it found, and what it asks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ivm.adopt import Adoption
from ivm.errors import ConfigError

COLUMNS = ["table", "source", "place", "change feed", "rows", "primary key (counted)", "foreign keys (counted)"]
_FEED = {True: "on", False: "OFF", None: "not looked at"}


def rows(found: Adoption) -> list[list[Any]]:
    """A line a table."""
    return [
        [
            t.written,
            t.name,
            t.location,
            _FEED[t.feed],
            t.rows,
            ", ".join(t.primary_key),
            ", ".join(f"{column} -> {other}" for column, other in t.foreign_keys.items()),
        ]
        for t in found.tables
    ]


def check_asked(query: str, dbt: Path | None, models: Sequence[str] | None, again: bool) -> None:
    """Raises ConfigError for what doesn't go together."""
    if bool(query) == (dbt is not None):
        raise ConfigError("Either a query is adopted or a dbt project.", 'Give "SELECT ..." or --dbt, one of the two.')
    if dbt is None and (models or again):
        raise ConfigError("--model and --again go with --dbt.", "Leave them out.")


def places(given: Sequence[str]) -> dict[str, str]:
    """NAME=PLACE by name. Raises ConfigError for anything else.

    >>> places(["sales.orders=/lake/orders"])
    {'sales.orders': '/lake/orders'}
    """
    found = {}
    for text in given:
        name, sign, place = text.partition("=")
        if not (name and sign and place):
            raise ConfigError(f"--table {text!r} is not NAME=PLACE.", "Write it as orders=/lake/orders.")
        found[name] = place
    return found


def agreed(found: Adoption) -> bool:
    """Whether a person at the terminal agrees to switch feeds on; without a terminal nobody does."""
    if not sys.stdin.isatty():
        return False
    named = ", ".join(t.written for t in found.without_feed)
    return typer.confirm(f"Switch the change feed of {named} on? Their writers then keep change files")


def name_of(folder: Path) -> str:
    """A pipeline's name by its folder's."""
    return folder.absolute().name.replace("-", "_").replace(" ", "_")
