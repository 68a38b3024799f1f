"""The kinds that nodes of a plan come in. Each is stored as its text, so that JSON reads as it always did."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

#: What a leaf can read: a table of somebody's, another view, a unit inside the same view, or the time.
RelationKind = Literal["source", "view", "unit", "clock"]

#: Stands for the day from which the rows of a view hold: each as its sources say.
BY_ITS_SOURCES = "*"
#: Stands for a LIMIT or OFFSET that isn't there.
NOT_GIVEN = -1


class ReduceKind(StrEnum):
    """How the rows of one partition are looked at together."""

    GROUP = "group"
    WINDOW = "window"
    TOP = "top"


class Recursion(StrEnum):
    """Whether a unit reads itself, and how: as a bag (UNION ALL) or as a set (UNION)."""

    NONE = ""
    BAG = "all"
    SET = "distinct"


class StrategyKind(StrEnum):
    """How a view, or a unit of it, is refreshed. One that FAILED has no result."""

    INCREMENTAL = "incremental"
    FULL = "full"
    UNCHANGED = "unchanged"
    FAILED = "failed"


class Publish(StrEnum):
    """What of a unit's outcome gets into its table: nothing, the trace's batch, or the staged rows for all of it."""

    NONE = "none"
    MERGE = "merge"
    REPLACE = "replace"
