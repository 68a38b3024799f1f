"""Step 6, compact: traces forget the epochs that nobody needs to tell apart any more, and files are rewritten.

    logical    accumulators: batches up to the frontier are summed into one; output traces: batches that every reader
               has passed are dropped, and `since` moves to the frontier
    arranged   arrangements of which much is history are made anew at their last time
    physical   small files are rewritten together, and files that no reader may still need are removed

Invariant: what any reader at or beyond the frontier sees is the same before and after.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pyarrow as pa

from ivm.engine.rows import stage
from ivm.errors import OpenEpochError
from ivm.lake.intact import read_through
from ivm.lake.shapes import arrow_schema
from ivm.lake.types import beyond_arrow
from ivm.names import ident, table_ref
from ivm.plan.nodes import COUNT, EPOCH, Column, Unit
from ivm.planner.lanes import Lane
from ivm.refresh.archive import archive_results
from ivm.refresh.arrangements import Arranged, Followed, arrangements, compacted, drop_damaged, followed
from ivm.refresh.context import Context
from ivm.refresh.definitions import difference
from ivm.refresh.epochs import CONFIGURATION
from ivm.refresh.guard import step
from ivm.refresh.integrity import TABLE, heads_of, inspect_tables, paths
from ivm.refresh.living import of_one
from ivm.refresh.paying import make_paying
from ivm.refresh.published_table import PublishedTable
from ivm.refresh.records import Failure, Manifest, UnitState, to_json
from ivm.rewrite.accumulators import accumulator_columns, accumulators
from ivm.rewrite.timed import DAY
from ivm.session import error_text
from ivm.storage.location import Location
from ivm.table.archived import archived
from ivm.table.own import own
from ivm.table.protocol import Commit, Table, Verb
from ivm.times.ranges import Ranges, with_epoch, within
from ivm.trace.store import TRACE_RETENTION_HOURS, holds

#: Bytes of a file of what only grows: events and results that were archived. All that is smaller is read and written
#: with each compaction, and a text is a hundred times as large in memory.
ARCHIVED = 4_000_000


@dataclass(frozen=True)
class Compaction:
    """What compaction did to one table: rows and files before and after."""

    table: str
    rows_before: int
    rows_after: int
    files_before: int
    files_after: int
    #: Why it was left out (the counts are 0 then); "" if it was not.
    error: str = ""


@step
def compact(context: Context, keep_epochs: int, least: int = 0) -> list[Compaction]:
    """Compact all traces, published tables and the epoch log of a pipeline. Raises OpenEpochError where one is open.

    Arrangements that pay and aren't there are made first.
    Of a unit with fewer than `least` batches since it was compacted only files that nobody needs any more are removed:
    its tables are read and written as a whole, which its few batches don't cost who reads them.

    The frontiers that move are committed before anything is dropped: a stop in between leaves more than is needed,
    never less.
    """
    manifest = context.log.manifest()
    if manifest.epoch == 0:
        return []
    if (epoch := context.log.open_epoch()) is not None:
        raise OpenEpochError(
            f"Nothing was compacted: epoch {epoch} is open.",
            "Run it again after `ivm refresh`, which finishes that epoch.",
        )
    make_paying(context, manifest)
    units = _built_by(context, manifest)
    done: list[Compaction] = []
    rewritten: set[str] = set()
    left_out: dict[str, str] = {}
    damaged = inspect_tables(context, manifest).damaged
    waiting = _waiting(context, manifest)
    few = {name for name, state in manifest.units.items() if _batches(state) < least}
    frontiers = {name: _frontier(context, manifest, name, keep_epochs) for name in manifest.units}
    changed = {
        n: replace(s, since=frontiers[n])
        for n, s in manifest.units.items()
        if frontiers[n] > s.since and n not in few and not _by_day(s)
    }
    if changed:
        manifest = _commit(context, manifest, changed)

    def compacted_unit(name: str, state: UnitState) -> list[Compaction]:
        if name in damaged:  # the next refresh builds it anew
            return []
        context.log.ask()
        try:
            if name in few:
                return _vacuumed(context, name, state)
            unit = units.get(name)
            found = _unit(context, name, state, unit, frontiers[name], waiting.get(name, ()))
        except Exception as error:  # noqa: BLE001 - one unit's failure must not stop the others
            left_out[name] = f"its state can't be compacted: {error_text(error) or type(error).__name__}"
            return [Compaction(context.layout.table(name, state.public), 0, 0, 0, 0, left_out[name])]
        if not _by_day(state) and (_summed(unit) or not own(_sums(context, name, state)).exists()):
            rewritten.add(name)
        return found

    with ThreadPoolExecutor(context.limits.threads) as pool:
        # Their tables are their own.
        for i, found in enumerate(pool.map(compacted_unit, manifest.units, manifest.units.values())):
            done += found
            context.progress("compact", i + 1, len(manifest.units))
    follow = functools.partial(
        followed, context, snapshots=context.survey()[0], sources=manifest.sources, units=manifest.units
    )
    for asked in arrangements(context, manifest):
        context.log.ask()
        done += _arrangement(context, asked, follow)
    listed = {
        n: _but(manifest.epoch, waiting.get(n, ()))
        for n, s in manifest.units.items()
        if len(s.batches) > 1 and n in rewritten
    }
    left = {n: replace(s, batches=listed.get(n, s.batches)) for n, s in manifest.units.items()}
    manifest = replace(manifest, failing=_failing(context, manifest, left_out))
    _commit(
        context,
        manifest,
        {n: _as_it_is(context, n, s) for n, s in left.items() if n not in damaged and n not in left_out},
        compacted=True,
    )
    _archive(context, max(context.retention.epochs, keep_epochs), [h.epoch for h in manifest.held.values()])
    return done


def _archive(context: Context, keep: int, needed: Sequence[int]) -> None:
    """Move events and results of checks to tables of their own.

    Those of the last `keep` epochs stay, and those that are `needed`.
    A stop between two of its writes leaves some in both places: reading the tables, take each once.
    """
    layout, owner, first = context.layout, context.log.identity, context.log.next_epoch() - keep
    context.log.forget(keep, needed, layout.archive)
    old = {f: int(f.name[:10]) for f in layout.checks.files() if f.name[:10].isdigit()}
    old = {f: epoch for f, epoch in old.items() if epoch < first and epoch not in needed}
    texts = {epoch: f.read().decode() for f, epoch in sorted(old.items()) if f.name.endswith(".jsonl")}
    if texts:
        rows = pa.table({"epoch": pa.array(texts, pa.int64()), "results": pa.array(texts.values(), pa.string())})
        archived(layout.archived_checks, rows, rows.column_names, context.app("checks", "archive"), CONFIGURATION)
    for file in old:
        file.drop()
    archive_results(context, first, needed)
    histories = dict.fromkeys((layout.archive, layout.archived_checks, layout.check_results), ARCHIVED)
    for path, target in {**histories, layout.facts: None}.items():
        if own(path).exists():
            _files(path, owner, 0, target=target)


def _unit(
    context: Context, name: str, state: UnitState, unit: Unit | None, frontier: int, held: Sequence[int]
) -> list[Compaction]:
    """Compact all tables of a unit."""
    owner, hours = context.log.identity, context.retention.hours
    if _by_day(state):
        # Its batches are the revisions, which stay readable: only files are rewritten.
        return [_files(p, owner, hours) for p in _companion(context, name, state) if own(p).exists()]
    done = []
    if unit is not None and _summed(unit):
        done.append(_accumulators(context, unit, state, held))
    if own(trace := context.layout.output_trace(name, state.output_generation)).exists():
        done.append(_output_trace(trace, frontier, state, held, owner))
    if state.arranged and own(path := context.layout.table(name, state.public)).exists():
        table = PublishedTable.of(context, path)
        found = table.choice(Verb.VACUUM)
        done.append(_by_spark(context, table, hours) if found.lane is Lane.SPARK else _files(path, owner, hours))
    return done


def _built_by(context: Context, manifest: Manifest) -> dict[str, Unit]:
    """By name, the units that state was built by.

    A view that was edited since it was refreshed tells nothing of its state, whatever its units are called.
    """
    cache, states = context.layout.programs, manifest.units
    return {
        unit.name: unit
        for compiled in context.compiled.values()
        for unit in compiled.program.units
        if unit.name in states and not difference(states[unit.name].definition, compiled, cache)
    }


def _summed(unit: Unit | None) -> bool:
    """Whether batches of accumulators can be summed into one: only what a unit does tells how."""
    return unit is not None and unit.reduce is not None and unit.reduce.linear


def _sums(context: Context, name: str, state: UnitState) -> str:
    return context.layout.accumulator_trace(name, state.generation)


def _batches(state: UnitState) -> int:
    """How many epochs a unit tells apart since it was compacted."""
    return sum(max(0, last - max(first, state.since + 1) + 1) for first, last in state.batches)


def _vacuumed(context: Context, name: str, state: UnitState) -> list[Compaction]:
    """Remove the files of a unit's tables that no reader may still need, and nothing else."""
    done, commit = [], Commit(owner=context.log.identity)
    for what, path in paths(context, name, state).items():
        table: Table = own(path, context.limits)
        if not table.exists():
            continue
        hours = context.retention.hours if what == TABLE or _by_day(state) else TRACE_RETENTION_HOURS
        if what == TABLE and (public := PublishedTable.of(context, path)).choice(Verb.VACUUM).lane is Lane.SPARK:
            table = public.spark
        table.vacuum(hours, commit)
        done.append(Compaction(path, *_pairs(shape := _shape(own(path)), shape)))
    return done


def _failing(context: Context, manifest: Manifest, left_out: Mapping[str, str]) -> dict[str, Failure]:
    """What views fail with, those included whose state was left out and can't be read.

    The next refresh builds these anew. The first error is kept.
    """
    failing = dict(manifest.failing)
    for unit, error in left_out.items():
        if _can_be_read(context, unit, manifest.units[unit]):  # a full disk, say: it is compacted another time
            continue
        view = next((v for v, c in context.compiled.items() if unit in c.unit_names), unit)
        known = failing.get(view)
        if known is None or not known.incremental:
            failing[view] = Failure(manifest.epoch, error, known.full if known is not None else "")
    return failing


def _can_be_read(context: Context, unit: str, state: UnitState) -> bool:
    """Whether every file of a unit's tables is there and can be read through."""
    return all(read_through(path) for path in paths(context, unit, state).values())


def _waiting(context: Context, manifest: Manifest) -> dict[str, tuple[int, ...]]:
    """By unit, the epochs of its batches that are held back; other units' batches of these epochs count as any."""
    found: dict[str, tuple[int, ...]] = {}
    for view, held in manifest.held.items():
        for outcome in context.log.outcomes(held.epoch).values():
            if outcome.view == view:
                found[outcome.unit] = (outcome.stamp or held.epoch,)
    return found


def _as_it_is(context: Context, unit: str, state: UnitState) -> UnitState:
    """The state with its tables' new heads: the rows are the same."""
    heads = heads_of(context, unit, state, state.heads)
    return replace(state, heads=heads, version=heads[TABLE].version if TABLE in heads else state.version)


def _but(upto: int, epochs: Sequence[int]) -> Ranges:
    """All epochs up to one, but some.

    >>> _but(9, (4, 5))
    ((0, 3), (6, 9))
    """
    edges = [-1, *(e for e in sorted(set(epochs)) if e <= upto), upto + 1]
    return tuple((a + 1, b - 1) for a, b in itertools.pairwise(edges) if a + 1 <= b - 1)


def _by_day(state: UnitState) -> bool:
    return DAY in [f.name for f in arrow_schema(state.schema)]


def _companion(context: Context, name: str, state: UnitState) -> list[str]:
    layout = context.layout
    return [
        layout.table(name, False),
        layout.output_trace(name, state.output_generation),
        _sums(context, name, state),
    ]


def _commit(context: Context, manifest: Manifest, changed: dict[str, UnitState], compacted: bool = False) -> Manifest:
    """What compaction changes are facts of the manifest, so they are committed as an epoch that changes no table."""
    epoch = context.log.next_epoch()
    units = {
        n: replace(s, batches=with_epoch(s.batches, epoch, manifest.epoch))
        for n, s in (manifest.units | changed).items()
    }
    after = replace(manifest, epoch=epoch, units=units, compacted=epoch if compacted else manifest.compacted)
    context.log.record(epoch, "committed", detail=to_json(after))
    return after


def _frontier(context: Context, manifest: Manifest, unit: str, keep_epochs: int) -> int:
    """The newest epoch that all readers downstream have passed.

    It is at least `keep_epochs` back, and none that the unit itself has not reached.
    A view that isn't declared any more holds nothing back: should it return, it is built anew, since it stands before
    `since`.
    """
    declared = {n for c in context.compiled.values() for n in c.unit_names} | set(context.views)
    readers = [
        s.cursors[unit].epoch
        for n, s in manifest.units.items()
        if unit in s.cursors and (n in declared or of_one(n, context.broken))
    ]
    return max(0, min([manifest.epoch - keep_epochs, manifest.units[unit].epoch, *readers]))


def _accumulators(context: Context, unit: Unit, state: UnitState, held: Sequence[int]) -> Compaction:
    """Sum all batches that count into one, at the last epoch.

    Groups that vanished go, and so do batches of failed attempts.
    """
    assert unit.reduce is not None
    path, commit = _sums(context, unit.name, state), Commit(owner=context.log.identity)
    table = own(path, context.limits)
    before = _shape(table)
    if before[1] > 1 or len(state.batches) > 1:
        columns = [*accumulator_columns(unit.reduce), Column(EPOCH, "bigint")]
        schema = table.snapshot().schema
        assert [c.name for c in columns] == arrow_schema(schema).names
        summed = functools.partial(_one_batch, unit, state, held)
        if before[0] > context.limits.summed_rows:
            folder = _scratch(context, unit.name)
            folder.drop()  # what a compaction left that was stopped
            table.replace(stage(context.spark(), summed(table_ref(path), ident), folder, columns), schema, commit)
            folder.drop()
        else:
            table.replace(table.query(summed), schema, commit)
        table.vacuum(TRACE_RETENTION_HOURS, commit)
    return Compaction(path, *_pairs(before, _shape(table)))


def _scratch(context: Context, unit: str) -> Location:
    return context.layout.scratch(context.log.next_epoch(), "compact") / unit


def _one_batch(unit: Unit, state: UnitState, held: Sequence[int], trace: str, quoted: Callable[[str], str]) -> str:
    """All batches of accumulators that count as one, at the last epoch; those that are held stay as they are."""
    assert unit.reduce is not None
    keys = [k.name for k in unit.reduce.keys]
    names = [*(a.name for a in accumulators(unit.reduce)), COUNT]
    epoch = quoted(EPOCH)
    listed = ", ".join(quoted(k) for k in keys)
    sums = ", ".join(f"sum({quoted(n)}) AS {quoted(n)}" for n in names)
    grouped = f" GROUP BY {listed} HAVING sum({quoted(COUNT)}) <> 0" if keys else ""
    counted = (
        f"SELECT {listed + ', ' if keys else ''}{sums}, max({epoch}) AS {epoch} FROM {trace} "
        f"WHERE {within(state.batches, epoch)}{grouped}"
    )
    columns = ", ".join(quoted(c) for c in [*keys, *names, EPOCH])
    waiting = f"SELECT {columns} FROM {trace} WHERE {_among(held, epoch)}"
    return f"SELECT {columns} FROM ({counted}) AS c WHERE {epoch} IS NOT NULL UNION ALL {waiting}"


def _arrangement(context: Context, asked: Arranged, follow: Callable[[str], Followed]) -> list[Compaction]:
    """Compact an arrangement, if it is there; one that is damaged is dropped."""
    table = own(path := context.layout.arrangement(asked.relation, asked.keys))
    if not table.exists():
        return []
    try:
        before = _shape(table)
        compacted(context, asked, follow(asked.relation))
        return [Compaction(path, *_pairs(before, _shape(table)))]
    except Exception as error:  # noqa: BLE001 - whatever is wrong with the copy, its relation is there
        drop_damaged(context, asked, error)
        return []


def _output_trace(path: str, frontier: int, state: UnitState, held: Sequence[int], owner: str) -> Compaction:
    """Drop what every reader has passed, and batches of failed attempts."""
    before = _shape(own(path))

    def dropped(_: Callable[[str], str]) -> str:
        return f"NOT {_among(held, EPOCH)} AND ({EPOCH} <= {frontier} OR NOT {within(state.batches, EPOCH)})"

    if holds(path, dropped):
        own(path).delete(dropped, Commit(owner=owner))
    return _files(path, owner, TRACE_RETENTION_HOURS, before)


def _among(epochs: Sequence[int], column: str) -> str:
    """The SQL condition that a column's epoch is one of these."""
    return within(tuple((e, e) for e in epochs), column) if epochs else "false"


def _files(
    path: str, owner: str, hours: int, before: tuple[int, int] | None = None, target: int | None = None
) -> Compaction:
    """Rewrite small files together, up to `target` bytes each, and remove files older than the retention.

    Without a target it is the table's own (`delta.targetFileSize`), or that of delta-rs (100 MB).
    """
    table, commit = own(path), Commit(owner=owner)
    before = before or _shape(table)
    # A rewrite by delta-rs would lose what Spark stored of VARIANTs beside their bytes;
    # such tables are replaced whole anyway.
    if before[1] > 1 and not beyond_arrow(table.snapshot().schema):
        table.compact(commit, target)
    table.vacuum(hours, commit)
    return Compaction(path, *_pairs(before, _shape(table)))


def _by_spark(context: Context, table: PublishedTable, hours: int) -> Compaction:
    """The same for a published table that is Spark's to write."""
    commit, before = Commit(owner=context.log.identity), _shape(table.rust)
    table.spark.compact(commit)
    table.spark.vacuum(hours, commit)
    return Compaction(table.rust.path, *_pairs(before, _shape(table.rust)))


def _shape(table: Table) -> tuple[int, int]:
    """Rows and files."""
    return table.count(), table.snapshot().files


def _pairs(before: tuple[int, int], after: tuple[int, int]) -> tuple[int, int, int, int]:
    return before[0], after[0], before[1], after[1]
