"""A definition of a project, wherever it was read, before anything is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """What is defined; the value is how a person calls it."""

    MATERIALIZED = "materialized view"
    TEMPORARY = "temporary view"
    PERSISTED = "view"
    STREAMING = "streaming table"
    FLOW = "flow"
    SINK = "sink"
    SETTING = "setting"
    UNKNOWN = "statement"


@dataclass(frozen=True)
class Dataset:
    """`name` is as it is written, with its database where it has one; `where` is its file and line.

    `sql` is its query. Where there is none to be had, `reason` says why. `clauses` are those of its definition that
    nothing is made of; `columns` the names that a view gives to its query's columns.
    """

    name: str
    kind: Kind
    where: str
    sql: str = ""
    reason: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    clauses: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    @property
    def view(self) -> str:
        """Its name without its database."""
        return self.name.rsplit(".", 1)[-1]
