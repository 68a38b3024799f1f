"""Step 6, compact: traces forget the epochs that nobody needs to tell apart any more, and files are rewritten.

    logical    accumulators: batches up to the frontier are summed into one; output traces: batches that every reader
               has passed are dropped, and `since` moves to the frontier
    arranged   arrangements of which much is history are made anew at their last time
    physical   small files are rewritten together, and files that no reader may still need are removed

Invariant: what any reader at or beyond the frontier sees is the same before and after.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltalake import DeltaTable, write_deltalake

from ivm.lake import native
from ivm.lake.log import tagged
from ivm.lake.types import beyond_arrow
from ivm.names import native_ident
from ivm.plan.nodes import COUNT, EPOCH, Unit
from ivm.refresh.arrange import arrangements, compacted, followed
from ivm.refresh.context import Context
from ivm.refresh.guard import step
from ivm.refresh.integrity import TABLE, heads_of, inspect_tables
from ivm.refresh.records import Manifest, Ranges, UnitState, to_json, with_epoch, within
from ivm.rewrite.accumulators import accumulator_columns, accumulators
from ivm.rewrite.timed import DAY

#: Nobody but a running refresh reads a trace, and compaction runs when none does.
TRACE_RETENTION_HOURS = 0


@dataclass(frozen=True)
class Compaction:
    """What compaction did to one table: rows and files before and after."""

    table: str
    rows_before: int
    rows_after: int
    files_before: int
    files_after: int


@step
def compact(context: Context, keep_epochs: int) -> list[Compaction]:
    """Compact all traces, published tables and the epoch log of a pipeline that has no open epoch.

    The frontiers that move are committed before anything is dropped: a stop in between leaves more than is needed, never less.
    """
    manifest = context.log.manifest()
    if manifest.epoch == 0 or context.log.open_epoch() is not None:
        return []
    units = {u.name: u for c in context.compiled.values() for u in c.program.units}
    done, rewritten = [], set()
    damaged = inspect_tables(context, manifest).damaged
    held = tuple(h.epoch for h in manifest.held.values())
    frontiers = {name: _frontier(context, manifest, name, keep_epochs) for name in manifest.units}
    changed = {n: replace(s, since=frontiers[n]) for n, s in manifest.units.items() if frontiers[n] > s.since and not _by_day(s)}
    if changed:
        manifest = _commit(context, manifest, changed)
    for i, (name, state) in enumerate(manifest.units.items()):
        if name in damaged:  # the next refresh builds it anew
            continue
        unit = units.get(name)
        owner = context.log.identity
        trace = context.layout.output_trace(name, state.output_generation)
        if _by_day(state):
            # Its batches are the revisions, which stay readable: only files are rewritten.
            done += [_files(p, owner, context.retention.hours) for p in _companion(context, name, state) if native.exists(p)]
        else:
            if unit is not None and unit.reduce is not None and unit.reduce.linear:
                done.append(_accumulators(context, unit, state, held))
            if native.exists(trace):
                done.append(_output_trace(trace, frontiers[name], state, held, owner))
            rewritten |= {name} if unit is not None or name in context.compiled else set()
            if state.arranged and native.exists(table := context.layout.table(name, state.public)):
                done.append(_files(table, owner, context.retention.hours))
        context.progress("compact", i + 1, len(manifest.units))
    snapshots = context.survey()[0]
    for asked in arrangements(context):
        path = context.layout.arrangement(asked.relation, asked.keys)
        if native.exists(path):
            before = _shape(native.table(path))
            compacted(context, asked, followed(context, asked.relation, snapshots, manifest.sources, manifest.units))
            done.append(Compaction(path, *_pairs(before, _shape(native.table(path)))))
    left = {n: replace(s, batches=_but(manifest.epoch, held)) if len(s.batches) > 1 and n in rewritten else s for n, s in manifest.units.items()}
    _commit(context, manifest, {n: _as_it_is(context, n, s) for n, s in left.items() if n not in damaged}, compacted=True)
    context.log.forget(max(context.retention.epochs, keep_epochs), held, context.layout.archive)
    return done


def _as_it_is(context: Context, unit: str, state: UnitState) -> UnitState:
    """The state with its tables' new heads: the rows are the same."""
    heads = heads_of(context, unit, state)
    return replace(state, heads=heads, version=heads[TABLE].version if TABLE in heads else state.version)


def _but(upto: int, epochs: Sequence[int]) -> Ranges:
    """All epochs up to one, but some.

    >>> _but(9, (4, 5))
    ((0, 3), (6, 9))
    """
    edges = [-1, *(e for e in sorted(set(epochs)) if e <= upto), upto + 1]
    return tuple((a + 1, b - 1) for a, b in itertools.pairwise(edges) if a + 1 <= b - 1)


def _by_day(state: UnitState) -> bool:
    return DAY in [f.name for f in native.arrow_schema(state.schema)]


def _companion(context: Context, name: str, state: UnitState) -> list[str]:
    layout = context.layout
    return [layout.table(name, False), layout.output_trace(name, state.output_generation), layout.accumulator_trace(name, state.generation)]


def _commit(context: Context, manifest: Manifest, changed: dict[str, UnitState], compacted: bool = False) -> Manifest:
    """What compaction changes are facts of the manifest, so they are committed as an epoch that changes no table."""
    epoch = context.log.next_epoch()
    units = {n: replace(s, batches=with_epoch(s.batches, epoch, manifest.epoch)) for n, s in (manifest.units | changed).items()}
    after = replace(manifest, epoch=epoch, units=units, compacted=epoch if compacted else manifest.compacted)
    context.log.record(epoch, "committed", detail=to_json(after))
    return after


def _frontier(context: Context, manifest: Manifest, unit: str, keep_epochs: int) -> int:
    """The newest epoch that all readers downstream have passed, and at least `keep_epochs` back.

    A view that isn't declared any more holds nothing back: should it return, it is built anew, since it stands before `since`.
    """
    declared = {n for c in context.compiled.values() for n in c.unit_names} | set(context.views)
    readers = [s.cursors[unit].epoch for n, s in manifest.units.items() if unit in s.cursors and (n in declared or n.split("__")[0] in context.broken)]
    return max(0, min([manifest.epoch - keep_epochs, *readers]))


def _accumulators(context: Context, unit: Unit, state: UnitState, held: Sequence[int]) -> Compaction:
    """Sum all batches that count into one, at the last epoch; groups that vanished go, and so do batches of failed attempts."""
    assert unit.reduce is not None
    path = context.layout.accumulator_trace(unit.name, state.generation)
    delta = native.table(path)
    before = _shape(delta)
    if before[1] > 1 or len(state.batches) > 1:
        keys = [k.name for k in unit.reduce.keys]
        names = [*(a.name for a in accumulators(unit.reduce)), COUNT]
        epoch = native_ident(EPOCH)
        listed = ", ".join(native_ident(k) for k in keys)
        sums = ", ".join(f"sum({native_ident(n)}) AS {native_ident(n)}" for n in names)
        grouped = f" GROUP BY {listed} HAVING sum({native_ident(COUNT)}) <> 0" if keys else ""
        counted = f"SELECT {listed + ', ' if keys else ''}{sums}, max({epoch}) AS {epoch} FROM t WHERE {within(state.batches, epoch)}{grouped}"
        columns = ", ".join(native_ident(c) for c in [*keys, *names, EPOCH])
        waiting = f"SELECT {columns} FROM t WHERE {_among(held, epoch)}"
        rows = native.query(f"SELECT {columns} FROM ({counted}) AS c WHERE {epoch} IS NOT NULL UNION ALL {waiting}", {"t": delta})
        schema = native.arrow_schema(delta.schema().to_json())
        assert [c.name for c in accumulator_columns(unit.reduce)] + [EPOCH] == schema.names
        owner = context.log.identity
        write_deltalake(path, rows.cast(schema), mode="overwrite", commit_properties=tagged(owner))
        _vacuum(path, owner, TRACE_RETENTION_HOURS)
    return Compaction(path, *_pairs(before, _shape(native.table(path))))


def _output_trace(path: str, frontier: int, state: UnitState, held: Sequence[int], owner: str) -> Compaction:
    """Drop what every reader has passed, and batches of failed attempts."""
    delta = native.table(path)
    before = _shape(delta)
    dropped = f"NOT {_among(held, EPOCH)} AND ({EPOCH} <= {frontier} OR NOT {within(state.batches, EPOCH)})"
    if native.read(delta, [EPOCH], f"{dropped} LIMIT 1").num_rows:
        delta.delete(dropped, commit_properties=tagged(owner))
    return _files(path, owner, TRACE_RETENTION_HOURS, before)


def _among(epochs: Sequence[int], column: str) -> str:
    """The SQL condition that a column's epoch is one of these."""
    return within(tuple((e, e) for e in epochs), column) if epochs else "false"


def _files(path: str, owner: str, hours: int, before: tuple[int, int] | None = None) -> Compaction:
    """Rewrite small files together and remove files older than the retention."""
    delta = native.table(path)
    before = before or _shape(delta)
    # A rewrite by delta-rs would lose what Spark stored of VARIANTs beside their bytes; such tables are replaced whole anyway.
    if before[1] > 1 and not beyond_arrow(delta.schema().to_json()):
        delta.optimize.compact(commit_properties=tagged(owner))
    _vacuum(path, owner, hours)
    return Compaction(path, *_pairs(before, _shape(native.table(path))))


def _vacuum(path: str, owner: str, hours: int) -> None:
    native.table(path).vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False, commit_properties=tagged(owner))


def _shape(delta: DeltaTable) -> tuple[int, int]:
    return native.rows(delta), len(delta.file_uris())


def _pairs(before: tuple[int, int], after: tuple[int, int]) -> tuple[int, int, int, int]:
    return before[0], after[0], before[1], after[1]
