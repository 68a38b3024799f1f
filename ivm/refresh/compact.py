"""Step 6, compact: traces forget the epochs that nobody needs to tell apart any more, and files are rewritten.

    logical    accumulators: batches up to the frontier are summed into one; output traces: batches that every reader
               has passed are dropped, and `since` moves to the frontier
    arranged   arrangements of which much is history are made anew at their last time
    physical   small files are rewritten together, and files that no reader may still need are removed

Invariant: what any reader at or beyond the frontier sees is the same before and after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deltalake import CommitProperties, DeltaTable, write_deltalake

from ivm.lake import native
from ivm.names import native_ident
from ivm.plan.nodes import COUNT, EPOCH, Unit
from ivm.refresh.arrange import arrangements, compacted, followed
from ivm.refresh.context import Context
from ivm.refresh.records import Manifest, UnitState, to_json
from ivm.rewrite.accumulators import accumulator_columns, accumulators
from ivm.rewrite.timed import DAY
from ivm.trace.store import RETENTION_HOURS


@dataclass(frozen=True)
class Compaction:
    """What compaction did to one table: rows and files before and after."""

    table: str
    rows_before: int
    rows_after: int
    files_before: int
    files_after: int


def compact(context: Context, keep_epochs: int) -> list[Compaction]:
    """Compact all traces and published tables of a pipeline that has no open epoch."""
    manifest = context.log.manifest()
    if manifest.epoch == 0 or context.log.open_epoch() is not None:
        return []
    units = {u.name: u for c in context.compiled.values() for u in c.program.units}
    done = []
    changed: dict[str, UnitState] = {}
    for i, (name, state) in enumerate(manifest.units.items()):
        unit = units.get(name)
        if DAY in [f.name for f in native.arrow_schema(state.schema)]:
            # Its batches are the revisions, which stay readable: only files are rewritten.
            done += [_files(p) for p in _companion(context, name, state) if native.exists(p)]
            context.progress("compact", i + 1, len(manifest.units))
            continue
        if unit is not None and unit.reduce is not None and unit.reduce.linear:
            done.append(_accumulators(context, unit, state))
        frontier = _frontier(manifest, name, keep_epochs)
        trace = context.layout.output_trace(name, state.output_generation)
        if native.exists(trace):
            done.append(_output_trace(trace, frontier))
            if frontier > state.since:
                changed[name] = replace(state, since=frontier)
        if state.arranged:
            done.append(_files(context.layout.table(name, state.public)))
        context.progress("compact", i + 1, len(manifest.units))
    snapshots = context.snapshots()
    for asked in arrangements(context):
        path = str(context.layout.arrangement(asked.relation, asked.keys))
        if native.exists(path):
            before = _shape(native.table(path))
            compacted(context, asked, followed(context, asked.relation, snapshots, manifest.sources, manifest.units))
            done.append(Compaction(path, *_pairs(before, _shape(native.table(path)))))
    if changed:
        _commit(context, manifest, changed)
    _files(context.layout.epochs)
    return done


def _companion(context: Context, name: str, state: UnitState) -> list[str]:
    layout = context.layout
    return [layout.table(name, False), layout.output_trace(name, state.output_generation), layout.accumulator_trace(name, state.generation)]


def _commit(context: Context, manifest: Manifest, changed: dict[str, UnitState]) -> None:
    """A frontier that moved is a fact of the manifest, so it is committed as an epoch that changes no table."""
    epoch = context.log.next_epoch()
    context.log.record(epoch, "committed", detail=to_json(replace(manifest, epoch=epoch, units=manifest.units | changed)))


def _frontier(manifest: Manifest, unit: str, keep_epochs: int) -> int:
    """The newest epoch that all readers downstream have passed, and at least `keep_epochs` back."""
    readers = [s.cursors[unit].epoch for s in manifest.units.values() if unit in s.cursors]
    return max(0, min([manifest.epoch - keep_epochs, *readers]))


def _accumulators(context: Context, unit: Unit, state: UnitState) -> Compaction:
    """Sum all batches into one, at the last epoch; groups that vanished go."""
    assert unit.reduce is not None
    path = context.layout.accumulator_trace(unit.name, state.generation)
    delta = native.table(path)
    before = _shape(delta)
    if before[1] > 1:
        keys = [k.name for k in unit.reduce.keys]
        names = [*(a.name for a in accumulators(unit.reduce)), COUNT]
        listed = ", ".join(native_ident(k) for k in keys)
        sums = ", ".join(f"sum({native_ident(n)}) AS {native_ident(n)}" for n in names)
        grouped = f" GROUP BY {listed} HAVING sum({native_ident(COUNT)}) <> 0" if keys else ""
        rows = native.query(f"SELECT {listed + ', ' if keys else ''}{sums}, max({native_ident(EPOCH)}) AS {native_ident(EPOCH)} FROM t{grouped}", {"t": delta})
        schema = native.arrow_schema(delta.schema().to_json())
        assert [c.name for c in accumulator_columns(unit.reduce)] + [EPOCH] == schema.names
        write_deltalake(path, rows.cast(schema), mode="overwrite", commit_properties=CommitProperties(custom_metadata={"ivm": "compact"}))
        native.table(path).vacuum(retention_hours=RETENTION_HOURS, dry_run=False)
    return Compaction(path, *_pairs(before, _shape(native.table(path))))


def _output_trace(path: str, frontier: int) -> Compaction:
    delta = native.table(path)
    before = _shape(delta)
    if frontier > 0:
        delta.delete(f"{EPOCH} <= {frontier}")
    return _files(path, before)


def _files(path: str, before: tuple[int, int] | None = None) -> Compaction:
    """Rewrite small files together and remove files older than the retention."""
    delta = native.table(path)
    before = before or _shape(delta)
    if before[1] > 1:
        delta.optimize.compact()
    native.table(path).vacuum(retention_hours=RETENTION_HOURS, dry_run=False)
    return Compaction(path, *_pairs(before, _shape(native.table(path))))


def _shape(delta: DeltaTable) -> tuple[int, int]:
    return native.rows(delta), len(delta.file_uris())


def _pairs(before: tuple[int, int], after: tuple[int, int]) -> tuple[int, int, int, int]:
    return before[0], after[0], before[1], after[1]
