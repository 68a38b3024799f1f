"""Whether the tables of the last committed epoch are still what it left: published tables, traces, accumulators.

    sound(table)   its commit at the manifest's version is the one that was made there, and what came after it is
                   maintenance
    sound(trace)   likewise, or ours: rows of attempts that don't count are in no list

Maintenance of a published table by others (OPTIMIZE, VACUUM, properties) is adopted: its newest version holds the same
rows, and older files may be gone. Anything else is damage, which is mended by a rebuild of that unit.

An epoch log that was put back from a backup knows less than the tables do: what an epoch wrote that it doesn't know is
damage as well, and no number that a table has seen is given again (`next_epoch`), since its transaction would be taken
for done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import pyarrow as pa

from ivm.errors import StateError
from ivm.lake.commits import fingerprint
from ivm.lake.files import has_nanoseconds
from ivm.lake.handles import open_ahead
from ivm.lake.log import Head, Since, head_of, is_any_of_ours, own_head, since
from ivm.lake.shapes import arrow_schema
from ivm.refresh.context import Context
from ivm.refresh.records import EpochPlan, Manifest, UnitState
from ivm.table.own import own

TABLE, OUTPUT, ACCUMULATORS = "table", "output", "accumulators"


@dataclass(frozen=True)
class Integrity:
    """`damaged`: by unit, what is wrong; `adopted`: by unit, the head of a table that others maintained.

    `last` is the newest epoch by which a table was written that isn't as the manifest has it; 0 if there is none.
    """

    damaged: dict[str, str] = field(default_factory=dict)
    adopted: dict[str, Head] = field(default_factory=dict)
    last: int = 0


def paths(context: Context, unit: str, state: UnitState) -> dict[str, str]:
    """Where a unit's tables lie, those that it has or may have."""
    layout = context.layout
    found = {
        OUTPUT: layout.output_trace(unit, state.output_generation),
        ACCUMULATORS: layout.accumulator_trace(unit, state.generation),
    }
    return {TABLE: layout.table(unit, state.public), **found} if state.arranged else found


def open_tables(context: Context, manifest: Manifest, units: Iterable[str], kinds: Sequence[str]) -> None:
    """Open some of the tables of units ahead, beside what comes next."""
    lie = [paths(context, unit, manifest.units[unit]) for unit in units if unit in manifest.units]
    open_ahead([p[kind] for kind in kinds for p in lie if kind in p], context.limits.threads)


def heads_of(context: Context, unit: str, state: UnitState, known: Mapping[str, Head]) -> dict[str, Head]:
    """A unit's tables as they are now. Raises StateError where somebody else changed one after its `known` head."""
    return {
        what: own_head(path, context.log.identity, known.get(what))
        for what, path in paths(context, unit, state).items()
        if own(path).exists()
    }


def occupied(context: Context, view: str) -> str:
    """Why a view that was never built may not be: somebody else's table lies in its place; empty where none does."""
    path = context.layout.table(view, public=True)
    if not own(path).exists() or is_any_of_ours(path):
        return ""
    return (
        f"a Delta table that ivm did not write lies at {path}, and building the view would replace its rows. "
        "Move that table away or drop it, or give the view another name or the pipeline another root."
    )


def with_own_commits(context: Context, view: str, unit: str, state: UnitState) -> UnitState:
    """The state of a view's unit that an epoch did not publish; its traces' heads are moved on by commits of ours.

    Attempts that don't count leave some there, and a trace's log keeps the last ones only: from a head that is older
    nobody could tell any more whose they were.
    """
    heads = dict(state.heads)
    for what, path in paths(context, unit, state).items():
        head = heads.get(what) if what != TABLE else None
        found = since(path, head, context.log.identity) if head is not None else None
        if head is None or found is None or found.foreign or _unknown(context, view, found):
            continue
        if found.version > head.version:
            heads[what] = replace(head, version=found.version, fingerprint=fingerprint(path, found.version))
    return replace(state, heads=heads)


def inspect_tables(context: Context, manifest: Manifest, units: Set[str] | None = None) -> Integrity:
    """Compare the tables of some units, all by default, with the manifest; a few file look-ups each."""
    damaged: dict[str, str] = {}
    adopted: dict[str, Head] = {}
    views = {u: view for view, compiled in context.compiled.items() for u in compiled.unit_names}
    epochs = [0]
    owner = context.log.identity if manifest.units else ""
    for unit, state in manifest.units.items():
        if units is not None and unit not in units:
            continue
        lie = paths(context, unit, state)
        for what, head in state.heads.items():
            found = since(lie[what], head, owner)
            epochs += found.epochs
            if found.foreign:
                damaged[unit] = f"{_NAMES[what]} {lie[what]}: {found.foreign}"
            elif what == TABLE and found.own:
                damaged[unit] = f"{_NAMES[what]} {lie[what]} holds what an epoch published that was never committed"
            elif unknown := _unknown(context, views.get(unit, unit), found):
                damaged[unit] = (
                    f"{_NAMES[what]} {lie[what]} holds what epoch {unknown} wrote, which the epoch log doesn't know"
                )
            elif what == TABLE and found.version != head.version and _reads_otherwise(lie[what], state, head, found):
                damaged[unit] = (
                    f"{_NAMES[what]} {lie[what]} was rewritten with times as INT96, Spark's default, of which delta-rs "
                    "takes those before 1678 and after 2262 for others (set spark.sql.parquet.outputTimestampType to "
                    "TIMESTAMP_MICROS there, or leave its files to `ivm compact`)"
                )
            elif what == TABLE and found.version != head.version:
                adopted[unit] = replace(head, version=found.version, fingerprint=fingerprint(lie[what], found.version))
    unlike = {*damaged, *((units or set()) - manifest.units.keys())}
    epochs += (_last_published(context, unit) for unit in unlike)
    return Integrity(damaged, adopted, max(epochs))


def next_epoch(context: Context, found: Integrity) -> int:
    """The number of the next epoch: above all that the log names, and all that wrote the tables that were looked at."""
    return max(context.log.next_epoch(), found.last + 1)


def _unknown(context: Context, view: str, found: Since) -> int:
    """An epoch that wrote a table of a view's and that the log never planned for it; 0 if there is none.

    What is older than the log's first event was known to it.
    """
    log = context.log
    first = log.events()[0].epoch if found.epochs else 0
    return next(
        (e for e in found.epochs if e >= first and not (log.has(e, "planned") and view in log.plan(e).tasks)), 0
    )


def _last_published(context: Context, unit: str) -> int:
    """The newest epoch that was published to a unit's table; 0 where there is none."""
    if not context.log.exists():
        return 0
    try:
        return own(context.layout.table(unit, unit in context.views)).transaction(context.app(unit, "table")) or 0
    except Exception:  # noqa: BLE001 - what keeps it from being opened is told when it shall be written
        return 0


def _reads_otherwise(path: str, state: UnitState, head: Head, found: Since) -> bool:
    """Whether others have written a table's rows in a form in which not all who read it here have the same."""
    timed = any(pa.types.is_timestamp(t) for t in arrow_schema(state.schema).types)
    return timed and has_nanoseconds(path, head.version, found.version)


_NAMES = {TABLE: "the published table", OUTPUT: "the output trace", ACCUMULATORS: "the accumulators"}


def adopt(manifest: Manifest, adopted: dict[str, Head], accepted: dict[str, str]) -> Manifest:
    """The manifest with maintained tables at their newest version, and with definitions as this version says them."""
    units = dict(manifest.units)
    for unit in units.keys() & accepted.keys():
        units[unit] = replace(units[unit], definition=accepted[unit])
    for unit in units.keys() & adopted.keys():
        head = adopted[unit]
        units[unit] = replace(units[unit], version=head.version, heads={**units[unit].heads, TABLE: head})
    return replace(manifest, units=units)


def readable(context: Context, view: str) -> int | None:
    """The version of a published table to read.

    It is that of the last epoch, or the newest where others only moved its rows between files since.
    """
    state = context.log.manifest().units[view]
    head = state.heads.get(TABLE)
    if head is None:
        return state.version
    found = since(context.layout.table(view, state.public), head, context.log.identity)
    return state.version if found.foreign or found.own else found.version


def check_history(context: Context, unit: str, state: UnitState, epoch: int) -> None:
    """Raises StateError where a published table's log is no longer the one that this epoch's state was written to.

    A table that was lost and built anew, or put back from a copy, has other rows under the same numbers of versions.
    """
    head, path = state.heads.get(TABLE), context.layout.table(unit, state.public)
    found = fingerprint(path, head.version) if head is not None else ""
    if head is None or found == head.fingerprint:
        return
    if found or head_of(path).table_id != head.table_id:
        raise StateError(
            f"The table {path} was built anew, or put back, after epoch {epoch}: version {head.version} is another.",
            "Read a later epoch, or the last one (without `epoch`).",
        )


def base(context: Context, plan: EpochPlan) -> Manifest:
    """The committed manifest that an epoch starts from."""
    return adopt(context.log.manifest(), plan.adopted, plan.accepted)


def referenced(context: Context, manifest: Manifest) -> Iterator[str]:
    """Every folder of state that the manifest, the open epoch or an epoch that is held back refers to."""
    for unit, state in manifest.units.items():
        yield from paths(context, unit, state).values()
    epochs = {h.epoch for h in manifest.held.values()} | ({e} if (e := context.log.open_epoch()) is not None else set())
    for epoch in epochs:
        for outcome in context.log.outcomes(epoch).values():
            if outcome.state is not None:
                yield from paths(context, outcome.unit, outcome.state).values()
            if outcome.staging:
                yield outcome.staging
