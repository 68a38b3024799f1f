"""Why a view has the rows that it has: the source rows that support them now, and the epochs that changed them.

    support(rows of a unit)     of each branch the rows of its leaves whose product gives one of the rows; of a reduce
                                those of the rows' groups or partitions; of what is read inside an outer join or a
                                subquery those that an equality leads to from them
    changes(rows of a view)     the batches of its output trace that hold such a row

Support is asked of the plan from the view down to the sources, at the versions that the view has read. Where the plan
doesn't know it, one sentence says why. Nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ivm.lake.shapes import arrow_schema
from ivm.names import WEIGHT, ident
from ivm.plan.kinds import ReduceKind
from ivm.plan.nodes import EPOCH, Branch, Column, Leaf, Unit
from ivm.refresh.backfill import condition_over
from ivm.refresh.context import Context
from ivm.refresh.guard import step
from ivm.refresh.history import history
from ivm.refresh.inputs import unit_columns
from ivm.refresh.records import Manifest, UnitState
from ivm.refresh.relations import as_read, batches, stream_rows, unit_table
from ivm.refresh.run import committed_or_raise
from ivm.sql.maps import has_map
from ivm.sql.render import branch_sql, columns_sql
from ivm.sql.temporal import is_clock
from ivm.table.own import own
from ivm.times.ranges import within

#: How a leaf's columns are called in the statements.
_LEAF = "__ivm_leaf"


@dataclass(frozen=True)
class Support:
    """Rows of a source (or of a view, where the way ends there) that support the rows asked for, equal ones once.

    `version` is the one that was read; `rows` have the columns that the view reads, at most as many as asked for, and
    `more` says that there are others. `note` is what the plan doesn't know.
    """

    relation: str
    version: int | None
    rows: tuple[dict[str, Any], ...] = ()
    more: bool = False
    note: str = ""


@dataclass(frozen=True)
class Changed:
    """A row that an epoch added (`weight` times), or took away (negative)."""

    epoch: int
    at: str
    strategy: str
    reason: str
    weight: int
    row: dict[str, Any]


@dataclass(frozen=True)
class Why:
    """The rows of a view that meet a condition, at an epoch, with what supports them and what changed them."""

    view: str
    where: str
    epoch: int
    rows: tuple[dict[str, Any], ...]
    more: bool
    support: tuple[Support, ...]
    changes: tuple[Changed, ...]
    notes: tuple[str, ...] = ()


@step
def step_why(context: Context, view: str, where: str, limit: int) -> Why:
    """Of a compiled view (by its kept name). Raises ConfigError for what is no condition over the view's columns.

    Raises StateError before the first refresh, and where a source isn't what the view has read any more.
    """
    state = committed_or_raise(context, view)
    columns = context.compiled_or_raise(view).program.columns
    condition = condition_over(context, view, where, columns, "columns")
    manifest = context.log.manifest()
    wanted = f"SELECT * FROM {unit_table(context, view, state)} WHERE {condition}"
    rows, more = _taken(context, wanted, limit)
    lineage = _Lineage(context, manifest, limit)
    if rows:
        lineage.of_view(view, state, wanted)
    changes, note = _changes(context, view, state, condition, limit)
    notes = tuple(dict.fromkeys(n for n in (*lineage.notes, note) if n))
    return Why(
        context.views[view].name, condition, manifest.epoch, rows, more, tuple(lineage.found), changes, notes
    )  # fmt: skip


def _taken(context: Context, sql: str, limit: int) -> tuple[tuple[dict[str, Any], ...], bool]:
    rows = context.spark().sql(sql).limit(limit + 1).toArrow().to_pylist()
    return tuple(rows[:limit]), len(rows) > limit


def _changes(
    context: Context, view: str, state: UnitState, condition: str, limit: int
) -> tuple[tuple[Changed, ...], str]:
    """What the view's output trace holds of such rows, the newest first, and from which epoch on it tells."""
    note = f"changes up to epoch {state.since} are not kept apart"
    if not own(context.layout.output_trace(view, state.output_generation)).exists():
        return (), note
    names = list(arrow_schema(state.schema).names)
    listed = batches(context, view, state, [*names, EPOCH], f"({condition}) AND {within(state.batches, ident(EPOCH))}")
    found = context.spark().sql(f"{listed} ORDER BY {ident(EPOCH)} DESC").limit(limit).toArrow().to_pylist()
    told = {r.epoch: r for e in history(context, view, 1_000_000) for r in e.views}
    return (
        tuple(
            Changed(
                row[EPOCH], told[row[EPOCH]].at if row[EPOCH] in told else "",
                told[row[EPOCH]].strategy if row[EPOCH] in told else "",
                told[row[EPOCH]].reason if row[EPOCH] in told else "", row[WEIGHT], {n: row[n] for n in names},
            )
            for row in found
        ),
        note,
    )  # fmt: skip


def _comparable(type_: str) -> bool:
    """Whether Spark compares values of a type."""
    return not has_map(type_) and "variant" not in type_


@dataclass
class _Lineage:
    """The way from rows of units to those of sources."""

    context: Context
    manifest: Manifest
    limit: int
    found: list[Support] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def of_view(self, view: str, state: UnitState, wanted: str) -> None:
        program = self.context.compiled[view].program
        if not program.units:
            reason = program.refusals[0].reason if program.refusals else "it has no plan"
            self.notes.append(f"{view} is run as it is written, so its rows' sources are not known: {reason}")
            return
        self.of_unit(program.units[-1], state, wanted)

    def of_unit(self, unit: Unit, reader: UnitState, wanted: str) -> None:
        """Follow the rows of a unit that equal those `wanted`, a SELECT of some of its rows."""
        if unit.fixpoint:
            self.notes.append(
                f"the rows of {unit.name} follow from each other over any number of steps of a recursion, "
                "so which of them support one is not told"
            )
            return
        pairs = self._pairs(unit)
        if pairs is None:
            return
        for branch in _told_alike(unit.core.branches):
            for leaf in branch.linear:
                self._of_leaf(unit, reader, branch, leaf, wanted, pairs)
            for leaf in branch.dependents:
                self._of_dependent(unit, reader, branch, leaf, wanted, pairs)

    def _pairs(self, unit: Unit) -> Sequence[tuple[str, str]] | None:
        """(core column, the unit's own column): equal in a core row and in the rows that it supports."""
        types = {c.name: c.type for c in unit.columns}
        if unit.reduce is None or unit.post is None:
            shown = [(n, c.name) for n, c in zip(unit.core.columns, unit.columns, strict=True)]
            return self._comparable(unit, shown, types)
        if unit.reduce.kind is ReduceKind.TOP:
            core = set(unit.core.columns)
            shown = [(o.expr.plain[1], o.name) for o in unit.post.outputs if o.expr.plain and o.expr.plain[1] in core]
            return self._comparable(unit, shown, types)
        outputs = unit.key_outputs()
        hidden = [k.name for k, o in zip(unit.reduce.keys, outputs, strict=True) if o is None]
        if hidden:
            self.notes.append(
                f"{unit.name} is grouped by {', '.join(hidden)}, which it doesn't show, "
                "so which groups its rows are of is not known"
            )
            return None
        return [(k.name, str(o)) for k, o in zip(unit.reduce.keys, outputs, strict=True)]

    def _comparable(
        self, unit: Unit, pairs: Sequence[tuple[str, str]], types: Mapping[str, str]
    ) -> Sequence[tuple[str, str]]:
        left_out = [c for _, c in pairs if not _comparable(types[c])]
        if left_out:
            self.notes.append(
                f"rows of {unit.name} that differ only in {', '.join(left_out)} are not told apart, "
                "since these can't be compared"
            )
        return [(n, c) for n, c in pairs if c not in left_out]

    def _of_leaf(
        self, unit: Unit, reader: UnitState, branch: Branch, leaf: Leaf, wanted: str, pairs: Sequence[tuple[str, str]]
    ) -> None:
        self._follow(unit, reader, leaf, self._core_rows(reader, branch, leaf, leaf.columns, wanted, pairs))

    def _of_dependent(
        self, unit: Unit, reader: UnitState, branch: Branch, leaf: Leaf, wanted: str, pairs: Sequence[tuple[str, str]]
    ) -> None:
        """Rows inside an outer join or a subquery, by an equality with a leaf whose rows are known."""
        outer = {other.alias: other for other in branch.linear}
        sides = [s for e in branch.edges if (s := e.from_side(leaf.alias)) and s[1][0] in outer and e.scope]
        if not sides:
            self.notes.append(
                f"{unit.name} reads {leaf.relation} in an outer join or a subquery without an equality to the rows "
                "outside, so which of its rows support one is not known"
            )
            return
        other = outer[sides[0][1][0]]
        mine = [(column, across[1]) for column, across in sides if across[0] == other.alias]
        self.notes.append(
            f"rows of {leaf.relation} are those that {' and '.join(m for m, _ in mine)} leads to: "
            f"other conditions of the outer join or subquery in {unit.name} are not applied"
        )
        known = self._core_rows(reader, branch, other, [c for _, c in mine], wanted, pairs)
        on = " AND ".join(f"l.{ident(m)} = w.{ident(c)}" for m, c in mine)
        rows = as_read(self.context, self.manifest, reader)(leaf)
        self._follow(
            unit, reader, leaf, f"SELECT l.* FROM {rows} AS l LEFT SEMI JOIN ({known}) AS w ON {on}"
        )  # fmt: skip

    def _core_rows(
        self,
        reader: UnitState,
        branch: Branch,
        leaf: Leaf,
        columns: Sequence[str],
        wanted: str,
        pairs: Sequence[tuple[str, str]],
    ) -> str:
        """A leaf's columns in the core rows that support the rows wanted."""
        extra = [f"{ident(leaf.alias)}.{ident(c)} AS {ident(f'{_LEAF}_{i}')}" for i, c in enumerate(columns)]
        core = branch_sql(branch, as_read(self.context, self.manifest, reader), extra)
        shown = ", ".join(f"c.{ident(f'{_LEAF}_{i}')} AS {ident(n)}" for i, n in enumerate(columns)) or "1 AS `one`"
        on = " AND ".join(f"c.{ident(n)} <=> w.{ident(o)}" for n, o in pairs) or "true"
        return f"SELECT {shown} FROM ({core}) AS c LEFT SEMI JOIN ({wanted}) AS w ON {on}"

    def _follow(self, unit: Unit, reader: UnitState, leaf: Leaf, rows: str) -> None:
        """From the rows of a leaf to what supports them; at a source the way ends."""
        if is_clock(leaf.relation):
            return  # the time supports all rows alike
        cursor, types = reader.cursors[leaf.relation], self._types(leaf.relation)
        names = [c for c in leaf.columns if _comparable(types[c.lower()])]
        if leaf.relation in self.context.sources:
            distinct = f"SELECT DISTINCT {columns_sql(names)} FROM ({rows}) AS r" if names else rows
            taken, more = _taken(self.context, distinct, self.limit)
            hidden = [c for c in leaf.columns if c not in names]
            note = f"without the columns {', '.join(hidden)}, which can't be compared" if hidden and names else ""
            support = Support(leaf.relation, cursor.version, taken, more, note)
            if support not in self.found:  # another branch reads the same
                self.found.append(support)
            return
        upstream = self.manifest.units[leaf.relation]
        if cursor.version is not None and cursor.epoch != upstream.epoch:
            taken, more = _taken(self.context, rows, self.limit)
            note = f"{unit.name} has read it as of epoch {cursor.epoch}, and it has changed since"
            self.found.append(Support(leaf.relation, cursor.version, taken, more, note))
            return
        table = (
            unit_table(self.context, leaf.relation, upstream)
            if upstream.arranged
            else f"({stream_rows(self.context, leaf.relation, upstream, self.manifest.epoch)})"
        )
        on = " AND ".join(f"u.{ident(n)} <=> r.{ident(n)}" for n in names) or "true"
        wanted = f"SELECT u.* FROM {table} AS u LEFT SEMI JOIN ({rows}) AS r ON {on}"
        inner = next(
            (u for c in self.context.compiled.values() for u in c.program.units if u.name == leaf.relation), None
        )
        if inner is None:
            self.of_view(leaf.relation, upstream, wanted)
        else:
            self.of_unit(inner, upstream, wanted)

    def _types(self, relation: str) -> Mapping[str, str]:
        columns: Sequence[Column] = (
            self.context.snapshots({relation})[relation].columns
            if relation in self.context.sources
            else unit_columns(self.context, relation)
        )
        return {c.name.lower(): c.type for c in columns}


def _told_alike(branches: Sequence[Branch]) -> list[Branch]:
    """The branches, each leaf with the columns that any of them reads of its relation: its rows are shown by these."""
    columns: dict[str, dict[str, None]] = {}
    for branch in branches:
        for leaf in branch.leaves:
            columns.setdefault(leaf.relation, {}).update(dict.fromkeys(leaf.columns))
    return [
        replace(b, leaves=tuple(replace(leaf, columns=tuple(columns[leaf.relation])) for leaf in b.leaves))
        for b in branches
    ]
