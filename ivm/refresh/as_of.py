"""Views with an effective day and a revision: what was so on a day, as it was known at an epoch.

    view as of (day, revision)  =  reduce over the core's rows with times <= (day, revision)

Times (day, revision) are a product: a correction of a past day arrives at a later revision, and neither precedes the
other. A view with a companion (see `ivm.rewrite.timed`) has its core, or the sums of it, kept over these times, from
the epoch that built the companion on. Any other view is computed by its SQL over the source rows effective up to the
day, at the versions the revision had read; so are earlier revisions, as long as Delta still has those versions.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from dataclasses import dataclass

from ivm.errors import ConfigError, ViewError
from ivm.names import ident
from ivm.plan.nodes import EPOCH, Unit
from ivm.refresh.context import Context
from ivm.refresh.definitions import difference
from ivm.refresh.past import manifest_of, when_read
from ivm.refresh.records import Cursor, Manifest, UnitState
from ivm.refresh.relations import as_read, batches, signed, source_table, sums, unit_table
from ivm.refresh.verify import cursor_of, recompute_sql
from ivm.rewrite.statements import accumulate, final_rows, repeated
from ivm.rewrite.timed import DAY, companion_name
from ivm.sql.render import columns_sql, core_sql, post_sql, reduce_sql
from ivm.table.own import own
from ivm.times.ranges import within

_log = logging.getLogger(__name__)

#: More days than that at once are not a correction, but a table that is built.
MOST_DAYS = 366


@dataclass(frozen=True)
class Revision:
    """What a refresh did to a view's days: groups (or rows) that it changed, by their first and last day."""

    revision: int
    first_day: datetime.date | None
    last_day: datetime.date | None
    changes: int


def as_of_sql(context: Context, view: str, day: str | datetime.date | None, revision: int | None) -> str:
    """The SELECT for a view on a day (any, if None) at a revision (the last one, if None).

    Raises ConfigError for what is no day and where no source of the view has an effective date, ViewError where the
    view was not there yet, StateError for an epoch that was never committed.
    """
    manifest = manifest_of(context, revision)
    if view not in manifest.units:
        raise ViewError(
            f"View {context.views[view].name!r} did not exist at revision {manifest.epoch}.",
            "Read it at a later one, or refresh first.",
        )
    literal = "" if day is None else f"DATE '{as_day(day).isoformat()}'"
    if literal and not any(context.sources[s].effective_date for s in _sources(context, view)):
        raise ConfigError(
            f"No source that {context.views[view].name!r} reads has an effective date.",
            "Name its column: effective_date in pipeline.yml, or in pipe.source().",
        )
    return _rows(context, view, manifest, literal)


def revisions(context: Context, view: str) -> list[Revision]:
    """The revisions that a view's companion keeps apart, oldest first; the first stands for all that came before.

    Raises ConfigError without one.
    """
    unit, state = companion_or_raise(context, view)
    path = (
        context.layout.accumulator_trace(unit.name, state.generation)
        if unit.reduce
        else context.layout.output_trace(unit.name, state.output_generation)
    )
    if not own(path).exists():
        return []

    def sql(trace: str, _: Callable[[str], str]) -> str:
        found = f"min({DAY}) AS first_day, max({DAY}) AS last_day, count(*) AS changes"
        counted = within(state.batches, EPOCH)
        return f"SELECT {EPOCH} AS revision, {found} FROM {trace} WHERE {counted} GROUP BY {EPOCH} ORDER BY 1"

    return [Revision(**row) for row in own(path).query(sql).to_pylist()]


def changed_days(context: Context, view: str, first: int, most: int = MOST_DAYS) -> list[datetime.date]:
    """The days of a view that revisions from `first` on changed, in order, without compiling anything.

    None for a view without a companion; nor where they are more than `most`, as those of a first build may be, or can't
    be read: what is published is published.
    """
    name = companion_name(view)
    state = context.log.manifest().units.get(name)
    since = "" if state is None else _since(context, name, state, first)
    if state is None or not since:
        return []
    layout = context.layout
    traces = layout.accumulator_trace(name, state.generation), layout.output_trace(name, state.output_generation)
    path = next((t for t in traces if own(t).exists()), "")
    if not path:
        return []
    counted = f"{since} AND {within(state.batches, EPOCH)} AND {DAY} IS NOT NULL"
    try:
        days = own(path).query(
            lambda t, _: f"SELECT DISTINCT {DAY} AS d FROM {t} WHERE {counted} ORDER BY 1 LIMIT {most + 1}"
        )
        found = days["d"].to_pylist()
    except Exception as error:  # noqa: BLE001 - the next refresh says what is wrong with the trace, and mends it
        _log.warning("the days that epochs from %s on changed in view %s can't be read: %s", first, view, error)
        return []
    return found if len(found) <= most else []


def _since(context: Context, name: str, now: UnitState, first: int) -> str:
    """The condition that a batch of a unit counts since an epoch and did not before; "" where there is none.

    By the lists, not by epochs: a batch that was held back and released keeps its epoch. Where the log tells of no
    manifest before that epoch, by epochs all the same.
    """
    before = max((e.epoch for e in context.log.events() if e.status == "committed" and e.epoch < first), default=None)
    then = manifest_of(context, before).units.get(name) if before is not None else None
    if before is not None and then is None:
        return "true"
    if then is None or not then.batches:
        return f"{EPOCH} >= {int(first)}"
    return f"NOT {within(then.batches, EPOCH)}" if then.batches != now.batches else ""


def differing(context: Context, view: str, first: datetime.date, last: datetime.date) -> int:
    """How many sums (or rows) of these days the companion has other than its sources; 0 if it is right.

    What it reads is read at the versions that the companion has read.
    """
    unit, _ = companion_or_raise(context, view)
    manifest = context.log.manifest()
    state = manifest.units[unit.name]
    fresh = core_sql(unit.core, as_read(context, manifest, state))
    if unit.reduce:
        fresh, kept = accumulate(unit, fresh, weighted=False), sums(context, unit, state)
    else:
        kept = f"SELECT {columns_sql([c.name for c in unit.columns])} FROM {unit_table(context, unit.name, state)}"
    days = f"{ident(DAY)} BETWEEN DATE '{first.isoformat()}' AND DATE '{last.isoformat()}'"
    one, two = (f"(SELECT * FROM ({rows}) WHERE {days})" for rows in (fresh, kept))
    return int(context.spark().sql(f"({one} EXCEPT ALL {two}) UNION ALL ({two} EXCEPT ALL {one})").count())


def companion_or_raise(context: Context, view: str) -> tuple[Unit, UnitState]:
    """A view's companion and its state. Raises ConfigError where it has none, ViewError where it can't be compiled."""
    name = companion_name(view)
    unit = next((u for u in context.compiled_or_raise(view).program.units if u.name == name), None)
    state = context.log.manifest().units.get(name)
    if unit is None or state is None:
        raise ConfigError(
            f"View {context.views[view].name!r} is not kept by day.",
            (
                "That needs a refresh, and one grouping or none over sources with an effective date, "
                "without outer joins and subqueries."
            ),
        )
    return unit, state


def check_days(
    context: Context, view: str, day: str | datetime.date, until: str | datetime.date | None, where: str | None
) -> tuple[datetime.date, datetime.date]:
    """The first and the last day of a backfill: one day, where `until` is None.

    Raises ConfigError where one is no day, for a range that ends before it begins, where a slice is asked for as well,
    and where the view is not kept by day.
    """
    if where is not None:
        raise ConfigError("A backfill is of a slice or of days, not of both.", "Leave out where or day.")
    first = as_day(day)
    last = first if until is None else as_day(until)
    if last < first:
        raise ConfigError(f"The days {first} to {last} are none.", "Give the earlier one as day, the later as until.")
    companion_or_raise(context, view)
    return first, last


def as_day(day: str | datetime.date) -> datetime.date:
    """Raises ConfigError for what is no day."""
    if isinstance(day, datetime.date):
        return day if not isinstance(day, datetime.datetime) else day.date()
    try:
        return datetime.date.fromisoformat(day)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{day!r} is not a day.", "Write it as in 2026-03-31.") from error


def _rows(context: Context, view: str, manifest: Manifest, day: str) -> str:
    kept = _kept(context, view, manifest, day)
    if kept:
        return kept
    given = {}
    for relation in context.compiled[view].program.relations:
        cursor = cursor_of(context, view, relation, manifest)
        if relation in context.sources:
            given[relation] = _source_rows(context, relation, cursor, day)
        else:
            # A view that is held back, or failed, has read an earlier state than the manifest's.
            then, _ = when_read(context, manifest, relation, cursor)
            given[relation] = f"({_rows(context, relation, then, day)})"
    return recompute_sql(context, view, manifest, given)


def _source_rows(context: Context, name: str, cursor: Cursor, day: str) -> str:
    source = context.sources[name]
    where = f" WHERE CAST({ident(source.effective_date)} AS date) <= {day}" if day and source.effective_date else ""
    return f"(SELECT * FROM {source_table(context, name, cursor)}{where})"


def _kept(context: Context, view: str, manifest: Manifest, day: str) -> str:
    """The view from its companion, "" where that doesn't reach back to the revision."""
    *_, unit = context.compiled[view].program.units or (None,)
    name = companion_name(view)
    then, now = manifest.units.get(name), context.log.manifest().units.get(name)
    if (
        unit is None
        or then is None
        or now is None
        or not _of_one_definition(context, view, then, now)
        or not any(u.name == name for u in context.compiled[view].program.units)
    ):
        return ""
    until = f"{ident(DAY)} <= {day}" if day else "true"
    if unit.reduce is not None and unit.reduce.linear:
        if then.generation != now.generation:
            return ""
        return final_rows(unit, sums(context, unit, then, until, of=name))
    if manifest.epoch < now.since or then.output_generation != now.output_generation:
        return ""
    rows = f"{signed(unit_table(context, name, now), unit.core.columns, 1)} WHERE {until}"
    if own(context.layout.output_trace(name, now.output_generation)).exists():
        # By the revision's list, not by epochs: a batch that was held back and released keeps its epoch.
        known, counted = (within(s.batches, ident(EPOCH)) for s in (then, now))
        later = f"{until} AND {counted} AND NOT {known}"
        rows += f" UNION ALL {batches(context, name, now, unit.core.columns, later, sign='-')}"
    core = repeated(rows, unit.core.typed)
    return post_sql(unit.post, reduce_sql(unit.reduce, core)) if unit.reduce and unit.post else core


def _sources(context: Context, view: str) -> set[str]:
    found = set()
    for relation in context.compiled[view].program.relations:
        found |= {relation} if relation in context.sources else _sources(context, relation)
    return found


def _of_one_definition(context: Context, view: str, then: UnitState, now: UnitState) -> bool:
    """Whether two states are of the view's definition as it is declared, be it in the words of two versions."""
    compiled, cache = context.compiled[view], context.layout.programs
    return not any(difference(definition, compiled, cache) for definition in {then.definition, now.definition})
