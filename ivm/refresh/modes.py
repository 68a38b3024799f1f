"""What a view's mode makes of a full refresh: `incremental` forbids it, `warn` reports it, `auto` takes it as it comes.

    allowed in every mode    the first build, and a rebuild that was asked for (`ivm backfill`, `ivm repair --yes`)

A refresh that is forbidden is the view's error: it stays as it was published, what reads it waits, and the other views
go on. It is tried again by each refresh, since what forbade it may have passed.
"""

from __future__ import annotations

from ivm.planner.strategy import Full

#: Full refreshes that nobody is surprised by.
EXPECTED = ("first_build", "backfill")


def forbidden(mode: str, view: str, full: Full) -> str:
    """Why a view's full refresh may not run, and what to do; "" where it may."""
    if mode != "incremental" or full.code in EXPECTED:
        return ""
    return (
        f"it would be refreshed in full, which its mode incremental forbids: {full.reason} [{full.code}]. "
        f"To rebuild it once, run `ivm backfill {view}`; to let it happen, set mode warn or auto."
    )


def warning(mode: str, full: Full) -> str:
    """What mode warn says of a full refresh; "" in other modes, and where it was to be expected."""
    if mode != "warn" or full.code in EXPECTED:
        return ""
    return f"it is refreshed in full: {full.reason} [{full.code}]"
