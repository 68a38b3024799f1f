"""What comes in place of an incremental refresh that failed.

A full one, unless that is known to fail for the same reason.
"""

from __future__ import annotations

from ivm.execute.changes import LargeRecursionError
from ivm.feed.deltas import GapError
from ivm.plan.nodes import Unit
from ivm.planner.strategy import LARGE_RECURSION, Full
from ivm.refresh.records import Failure
from ivm.session import error_text, own_condition
from ivm.sql.calls import wide_sums

#: The code of a full refresh in place of an incremental one that failed.
RECOVERED = "recovered"
#: What Spark says where a version's files are gone.
_GONE = ("FILE_NOT_EXIST", "FileNotFoundException", "DELTA_VERSION_NOT_FOUND")


def instead(error: Exception, known: Failure | None, unit: Unit | None) -> Full | None:
    """The full refresh in place of an incremental one.

    None where the view's own SQL failed in full for this reason before (`known`), and would again: of the `unit`'s
    wide sums nobody knows.
    """
    if isinstance(error, LargeRecursionError):
        return Full(LARGE_RECURSION, str(error))
    if isinstance(error, GapError):
        return Full("feed_gap", error.message)
    text = told(error)
    if any(mark in text for mark in _GONE):
        return Full("feed_gap", "files of the old state of a source have been vacuumed")
    own = own_condition(text)
    if known is not None and own and own == own_condition(known.full) and not (unit is not None and wide_sums(unit)):
        return None
    return Full(RECOVERED, f"the incremental refresh failed: {text}")


def told(error: Exception) -> str:
    """What an error says; its class where it says nothing."""
    return error_text(error) or type(error).__name__
