"""Views with an effective day and a revision: what was so on a day, as it was known at an epoch.

    view as of (day, revision)  =  the view's SQL over the source rows with  effective <= day,  at the versions read at `revision`

Times (day, revision) are a product: a correction of a past day arrives at a later revision, and neither precedes the other.
Sources keep both parts: the day in their own column, the revision in Delta's versions. So a correction changes just
the days from its own on, and only for readers at its revision or later.
"""

from __future__ import annotations

import datetime

from ivm.errors import ConfigError, ViewError
from ivm.names import ident
from ivm.refresh.context import Context
from ivm.refresh.verify import recompute_sql


def as_of_sql(context: Context, view: str, day: str | datetime.date | None, revision: int | None) -> str:
    """The SELECT for a view on a day (any, if None) at a revision (the last one, if None).

    Raises ConfigError for what is no day and where no source of the view has an effective date, ViewError where the
    view was not there yet, StateError for an epoch that was never committed.
    """
    manifest = context.log.manifest(revision)
    if view not in manifest.units:
        raise ViewError(f"View {context.views[view].name!r} did not exist at revision {manifest.epoch}.", "Read it at a later one, or refresh first.")
    condition = {}
    if day is not None:
        literal = _day(day).isoformat()
        for name in _sources(context, view):
            column = context.sources[name].effective_date
            if column:
                condition[name] = f" WHERE CAST({ident(column)} AS date) <= DATE '{literal}'"
        if not condition:
            raise ConfigError(
                f"No source that {context.views[view].name!r} reads has an effective date.",
                "Name its column: effective_date in pipeline.yml, or in pipe.source().",
            )
    return recompute_sql(context, view, manifest, condition)


def _sources(context: Context, view: str) -> set[str]:
    found = set()
    for relation in context.compiled[view].program.relations:
        found |= {relation} if relation in context.sources else _sources(context, relation)
    return found


def _day(day: str | datetime.date) -> datetime.date:
    if isinstance(day, datetime.date):
        return day if not isinstance(day, datetime.datetime) else day.date()
    try:
        return datetime.date.fromisoformat(day)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{day!r} is not a day.", "Write it as in 2026-03-31.") from error
