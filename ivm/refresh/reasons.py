"""Reasons for a full refresh that a plan gives, and what would mend each; the compiler's are in `ivm.sql.refusals`."""

from __future__ import annotations

from ivm.plan.nodes import Program

#: Reasons that a plan gives, not the compiler: code, reason, what would mend it.
PLANNED: tuple[tuple[str, str, str], ...] = (
    ("first_build", "the view is built for the first time", "nothing to mend"),
    (
        "definition_changed",
        "the view's definition, or the columns it reads, changed",
        "nothing to mend: it is built anew, and swapped in when it is complete",
    ),
    ("backfill", "a rebuild was asked for", "nothing to mend"),
    (
        "settings_changed",
        (
            "the session's time zone, ANSI mode or another setting by which results go "
            "isn't that under which the view was built"
        ),
        "refresh from sessions with the same settings",
    ),
    (
        "feed_gap",
        (
            "the change feed has a gap (restored, replaced, put back from a copy, switched off, "
            "files or log gone, other columns, rows missing; see sources.md)"
        ),
        "keep the feed on and the log longer than the time between refreshes",
    ),
    ("upstream_replaced", "a view that this one reads was replaced as a whole", "nothing to mend"),
    (
        "cost",
        "so much changed that a full refresh is cheaper, by the rows that both would read or by what the unit's own "
        "refreshes of about as many rows took",
        "refresh more often",
    ),
    (
        "damaged",
        "a table or trace of the view is not what the last epoch left (changed, replaced or removed by others)",
        "leave the tables under the root to ivm",
    ),
    (
        "recovered",
        "the incremental refresh failed, in this epoch or an earlier one; the first error is kept",
        "nothing to mend; if it comes back, tell us",
    ),
    (
        "large_recursion",
        "so much of a recursion changed that its iterations are too large for one process",
        "refresh more often",
    ),
)
#: What `mend` says where there is nothing to do.
NOTHING = "nothing to mend"


def mend(code: str, program: Program | None = None) -> str:
    """What would spare a full refresh with this code; "" where nothing would, or need to.

    >>> mend("cost"), mend("first_build")
    ('refresh more often', '')
    """
    compiled = {r.code: r.mend for r in program.refusals} if program is not None else {}
    found = {**{code: text for code, _, text in PLANNED}, **compiled}.get(code, "")
    return "" if found.startswith(NOTHING) else found
