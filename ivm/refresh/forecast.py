"""What the tasks of a plan are expected to cost, from logs and records alone: no data is read, no Spark is started.

    changed rows    of a source: what the commits after the cursor say; of a unit: as many a changed input row as before
    rows, bytes     of a source: its newest files; of a unit: what the last epoch left
    seconds         what the same strategy took of that unit before

It decides nothing: apply reads the deltas and decides by these. What can't be told is left out.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ivm.feed.source import Snapshot
from ivm.plan.kinds import StrategyKind
from ivm.plan.nodes import Unit
from ivm.planner.estimate import Estimate, Size, full_estimate, total, unit_estimate
from ivm.planner.learned import Past
from ivm.refresh.arrangements import arrangements
from ivm.refresh.context import Context
from ivm.refresh.inputs import relation_facts
from ivm.refresh.past import pasts
from ivm.refresh.records import Manifest, UnitState, ViewTask
from ivm.rewrite.slices import Facts
from ivm.sql.temporal import is_clock
from ivm.table.own import own
from ivm.table.rust import RustTable

_log = logging.getLogger(__name__)


def forecast(
    context: Context, tasks: Mapping[str, ViewTask], snapshots: Mapping[str, Snapshot], manifest: Manifest
) -> dict[str, Estimate]:
    """The estimate of each task that would do something, as far as there is one."""
    known = _Known(context, snapshots, manifest)
    found: dict[str, Estimate] = {}
    for view, task in tasks.items():
        if task.strategy in (StrategyKind.INCREMENTAL, StrategyKind.FULL):
            try:
                found[view] = known.full(view, task) if task.strategy == StrategyKind.FULL else known.incremental(view)
            except Exception as error:  # noqa: BLE001 - an estimate decides nothing, so nothing may fail for it
                _log.debug("there is no estimate of %s: %s", view, error)
    return found


@dataclass
class _Known:
    context: Context
    snapshots: Mapping[str, Snapshot]
    manifest: Manifest
    #: By unit that was estimated in this plan: its changed rows out.
    out: dict[str, int] = field(default_factory=dict)
    _facts: dict[str, Facts] = field(default_factory=dict)

    def full(self, view: str, task: ViewTask) -> Estimate:
        compiled = self.context.compiled[view]
        units = {u.name: u for u in compiled.program.units}
        parts = []
        for name in compiled.unit_names:
            reads = [r for r in (units[name].reads if name in units else compiled.program.relations) if not is_clock(r)]
            parts.append(full_estimate(task.code, task.reason, [self.size(r) for r in reads], self.past[name].whole))
            self.out[name] = 2 * (self.manifest.units[name].rows if name in self.manifest.units else 0)
        return total(parts)

    def incremental(self, view: str) -> Estimate:
        parts: list[Estimate] = []
        for unit in self.context.compiled[view].program.units:
            estimate = self._unit(view, unit)
            parts.append(estimate)
            past = self.past[unit.name].ratio
            self.out[unit.name] = round((1.0 if past is None else past) * (estimate.changed or 0))
        return total(parts)

    def _unit(self, view: str, unit: Unit) -> Estimate:
        state, past = self.manifest.units[unit.name], self.past[unit.name]
        deltas = {r: self.changed(r, state) for r in unit.reads}
        if None in deltas.values():
            return Estimate(StrategyKind.INCREMENTAL, "incremental", "only what changed is applied")
        return unit_estimate(
            unit, {r: self.facts(r) for r in (*unit.reads, unit.name)}, {r: n for r, n in deltas.items() if n},
            state.rows, {r: self.size(r) for r in unit.reads}, self._arranged, past,
            self.context.views[view].mode == "incremental", self.context.limits,
        )  # fmt: skip

    def facts(self, relation: str) -> Facts:
        if relation not in self._facts:
            rows = self.size(relation).rows
            known = relation_facts(self.context, relation, self.snapshots, rows)
            small = rows is not None and rows <= self.context.limits.whole_rows
            self._facts[relation] = replace(known, small=small)
        return self._facts[relation]

    def changed(self, relation: str, reader: UnitState) -> int | None:
        """About how many rows of a relation changed since a unit read it."""
        cursor = reader.cursors[relation]
        if is_clock(relation):
            return 2
        if relation not in self.snapshots:
            return self.out.get(relation, 0)
        snapshot = self.snapshots[relation]
        since = (cursor.version or 0) + 1
        return snapshot.commits.changed(since, snapshot.version) if since <= snapshot.version else 0

    def size(self, relation: str) -> Size:
        if relation not in self._sizes:
            self._sizes[relation] = self._measured(relation)
        return self._sizes[relation]

    @functools.cached_property
    def _arranged(self) -> set[tuple[str, tuple[str, ...]]]:
        return {(a.relation, a.keys) for a in arrangements(self.context, self.manifest)}

    @functools.cached_property
    def _sizes(self) -> dict[str, Size]:
        return {}

    def _measured(self, relation: str) -> Size:
        if is_clock(relation):
            return Size(1, 0)
        if relation in self.snapshots:
            found = RustTable(self.snapshots[relation].path).snapshot()
            return Size(found.rows, found.bytes)
        state = self.manifest.units.get(relation)
        if state is None:
            return Size(None)
        if not state.arranged or state.version is None:
            return Size(state.rows)
        return Size(state.rows, own(self.context.layout.table(relation, state.public)).snapshot().bytes)

    @functools.cached_property
    def past(self) -> dict[str, Past]:
        units = {n for c in self.context.compiled.values() for n in c.unit_names}
        return pasts(self.context, units)
