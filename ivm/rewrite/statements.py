"""The statements of one refresh of a unit, as Spark SQL over named datasets.

`Reads` says how a leaf's states are read; this module only composes. Weights of deltas are +1 or -1 (a
feed emits a row once for each time it occurs), so a product of weights is +1 or -1 as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ivm.names import WEIGHT, ident
from ivm.plan.nodes import COUNT, IN_NEW, IN_OLD, Branch, Column, Core, Leaf, Post, Unit
from ivm.rewrite.accumulators import Accumulator, accumulators, added, result_sql
from ivm.rewrite.delta_join import State, Term
from ivm.rewrite.slices import DELTA, Reached
from ivm.sql.blocks import sql_of
from ivm.sql.maps import decoded, has_float, has_map, sort_key
from ivm.sql.render import branch_sql, columns_sql, group_by, post_sql, reduce_sql

OLD, NEW = "__ivm_old", "__ivm_new"


@dataclass(frozen=True)
class Sums:
    """A trace of accumulators as a FROM item.

    Of a `large` one only the affected groups' should be summed. Where `changes` is one, too, what the groups gain is
    computed first and stands there, and the trace holds these groups' rows only.
    """

    trace: str
    large: bool = False
    changes: str = ""


class Reads(Protocol):
    """How leaves are read in this epoch: a FROM item (no alias) for a leaf, given the level its walk found."""

    def changed(self, relation: str) -> bool:
        """Whether the relation's delta is not empty."""

    def signed(self, leaf: Leaf, level: int) -> str | None:
        """Rows of old and new state together, flagged IN_OLD and IN_NEW; None where only Spark can read them all.

        Rows of a relation that did not change carry no flags: they are in both.
        """

    def delta(self, leaf: Leaf) -> str:
        """The relation's delta, with WEIGHT +1 or -1."""

    def state(self, leaf: Leaf, level: int, state: State) -> tuple[str, bool]:
        """The rows of one state, and whether they carry WEIGHT."""

    def bag(self, leaf: Leaf, level: int, state: State) -> str:
        """The rows of one state, each as often as it occurs."""

    def stored(self, unit: str) -> str:
        """A unit's own published rows: all of them, or at least those of the affected groups."""

    def accumulators(self, unit: str) -> Sums:
        """The accumulators of a unit before this epoch."""


#: One way to read a branch's delta: its terms, each with the level of every leaf but the delta's own.
Walked = Sequence[tuple[Term, dict[str, Reached]]]


def branch_deltas(walked: Walked, reads: Reads, outputs: Sequence[str] | None = None) -> str:
    """The core's delta, not consolidated: weighted rows; `outputs` keeps only some of the core's columns."""
    parts: list[str] = []
    for branch in dict.fromkeys(term.branch for term, _ in walked):
        mine = [(t, levels) for t, levels in walked if t.branch is branch]
        if any(reads.changed(leaf.relation) for leaf in branch.dependents):
            parts.append(difference_sql(_kept(branch, outputs), mine, reads))
            continue
        signed = signed_sql(_kept(branch, outputs), mine, reads)
        parts += [signed] if signed else [term_sql(t, _kept(branch, outputs), levels, reads) for t, levels in mine]
    return "\nUNION ALL\n".join(parts)


def _kept(branch: Branch, outputs: Sequence[str] | None) -> Branch:
    if outputs is None:
        return branch
    return replace(branch, outputs=tuple(o for o in branch.outputs if o.name in outputs))


def _levels(branch: Branch, walked: Walked) -> dict[str, int]:
    """The level at which each leaf is read, for all terms of a branch together."""
    found = {}
    for leaf in branch.leaves:
        levels = [reached[leaf.alias].level for _, reached in walked if leaf.alias in reached]
        found[leaf.alias] = max(levels, default=DELTA)
    return found


def difference_sql(branch: Branch, walked: Walked, reads: Reads) -> str:
    r"""The branch over the slices' new state less the branch over their old state.

        d f(R; D)  =  f(R'|K; D'|K)  -  f(R|K; D|K)

    f is linear in the leaves R of scope 0 and any function, row by row of their product, of the dependents D. A row
    that a change touches finds all its partners in the slices, by the walks; another row finds the same rows in both
    states, so that it cancels, whether they are all its partners or not.
    """
    levels = _levels(branch, walked)
    parts = []
    for state, weight in ((State.NEW, 1), (State.OLD, -1)):
        parts.append(
            branch_sql(
                branch,
                lambda leaf, s=state: reads.bag(leaf, levels[leaf.alias], s),  # type: ignore[misc]
                [f"CAST({weight} AS int) AS {ident(WEIGHT)}"],
            )
        )
    return "\nUNION ALL\n".join(parts)


def signed_sql(branch: Branch, walked: Walked, reads: Reads) -> str | None:
    r"""All terms of a branch in one join over the rows of both states, or None where a leaf can't be read so.

        d(R1 x..x Rk)  =  sum over the tuples of  (all rows are in the new state) - (all rows are in the old state)

    Tuples of unchanged rows count 1 - 1 = 0, so it is enough that every tuple with a changed row is among those
    read, which the walks' slices guarantee. One join costs Spark far less than one for each changed leaf.
    """
    items: dict[str, str] = {}
    flagged: list[str] = []
    level = _levels(branch, walked)
    for leaf in branch.leaves:
        item = reads.signed(leaf, level[leaf.alias])
        if item is None:
            return None
        items[leaf.alias] = item
        if reads.changed(leaf.relation):
            flagged.append(ident(leaf.alias))
    new = " * ".join(f"{a}.{ident(IN_NEW)}" for a in flagged)
    old = " * ".join(f"{a}.{ident(IN_OLD)}" for a in flagged)
    return branch_sql(
        branch, lambda leaf: items[leaf.alias], [f"{new} - {old} AS {ident(WEIGHT)}"], [f"({new} <> {old})"]
    )


def term_sql(term: Term, branch: Branch, reached: dict[str, Reached], reads: Reads) -> str:
    """The weighted rows of one term of the telescoping sum."""
    items: dict[str, str] = {}
    weights: list[str] = []
    for leaf, state in zip(branch.leaves, term.states, strict=True):
        if state is State.DELTA:
            items[leaf.alias], weighted = reads.delta(leaf), True
        else:
            items[leaf.alias], weighted = reads.state(leaf, reached[leaf.alias].level, state)
        if weighted:
            weights.append(f"{ident(leaf.alias)}.{ident(WEIGHT)}")
    return branch_sql(branch, lambda leaf: items[leaf.alias], [f"{' * '.join(weights)} AS {ident(WEIGHT)}"])


def consolidated(rows: str, columns: Sequence[Column], having: str = "<> 0") -> str:
    """Each row once, without zero weights (or only those whose weight is `having`).

    Maps are grouped by their entries: Spark 4.2's own GROUP BY takes NULL values of maps for zeros. Floats by their
    texts: it takes -0.0 for 0.0.
    """
    if any(has_map(c.type) or has_float(c.type) for c in columns):
        entries = [f"{sql_of(sort_key(c, exact=True))} AS {ident(c.name)}" for c in columns]
        plain = [Column(c.name, "") for c in columns]
        inner = consolidated(
            f"SELECT {', '.join(entries)}, {ident(WEIGHT)} FROM ({rows}) AS `__ivm_maps`", plain, having
        )
        back = [
            f"{sql_of(decoded(sort_key(Column(c.name, '')), c.type, exact=True))} AS {ident(c.name)}" for c in columns
        ]
        return f"SELECT {', '.join(back)}, {ident(WEIGHT)}\nFROM ({inner}) AS `__ivm_entries`"
    names = [c.name for c in columns]
    return _grouped(rows, names, having)


def _grouped(rows: str, columns: Sequence[str], having: str) -> str:
    return (
        f"SELECT {columns_sql(columns)}, CAST(SUM({ident(WEIGHT)}) AS bigint) AS {ident(WEIGHT)}\n"
        f"FROM ({rows}) AS `__ivm_rows`{group_by(columns)}\nHAVING SUM({ident(WEIGHT)}) {having}"
    )


def linear_delta(unit: Unit, walked: Walked, reads: Reads) -> str:
    """Output delta of a unit without reduce: (columns, WEIGHT), consolidated."""
    return consolidated(branch_deltas(walked, reads), unit.columns)


def accumulate(unit: Unit, rows: str, weighted: bool) -> str:
    """(keys, accumulators, COUNT) of core rows, by group."""
    assert unit.reduce is not None
    keys = [k.name for k in unit.reduce.keys]
    sums = [f"{a.over_delta() if weighted else a.over_rows()} AS {ident(a.name)}" for a in accumulators(unit.reduce)]
    count = f"COALESCE(SUM({ident(WEIGHT)}), 0)" if weighted else "COUNT(*)"
    outputs = [ident(k) for k in keys] + sums + [f"CAST({count} AS bigint) AS {ident(COUNT)}"]
    return f"SELECT {', '.join(outputs)}\nFROM ({rows}) AS `__ivm_core`{group_by(keys)}"


def accumulated(unit: Unit, trace: str) -> str:
    """The sum of a trace's batches: one row a group that exists; of a total always one, zeros over no batch."""
    assert unit.reduce is not None
    keys = [k.name for k in unit.reduce.keys]
    kept = [*accumulators(unit.reduce), Accumulator(COUNT, "", "count", "bigint")]
    sums = {a.name: f"CAST(SUM({ident(a.name)}) AS {a.type})" for a in kept}
    totals = sums if keys else {a.name: f"COALESCE({sums[a.name]}, {a.zero})" for a in kept}
    outputs = [ident(k) for k in keys] + [f"{total} AS {ident(name)}" for name, total in totals.items()]
    having = f"\nHAVING SUM({ident(COUNT)}) <> 0" if keys else ""
    return f"SELECT {', '.join(outputs)}\nFROM {trace} AS `__ivm_trace`{group_by(keys)}{having}"


def _finals(unit: Unit, prefix: str, suffix: str | None) -> list[str]:
    """The calls' results from `prefix`ed accumulators, plus the `suffix`ed ones where given."""
    assert unit.reduce is not None
    kept = [*accumulators(unit.reduce), Accumulator(COUNT, "", "count", "bigint")]
    value = {
        a.name: ident(prefix + a.name) if suffix is None else added(a, ident(prefix + a.name), ident(suffix + a.name))
        for a in kept
    }
    return [f"{result_sql(c, value)} AS {ident(c.name)}" for c in unit.reduce.calls]


def final_rows(unit: Unit, groups: str) -> str:
    """The unit's rows from consolidated accumulators."""
    assert unit.reduce is not None
    assert unit.post is not None
    keys = [ident(k.name) for k in unit.reduce.keys]
    return post_sql(
        unit.post, f"SELECT {', '.join([*keys, *_finals(unit, '', None)])}\nFROM ({groups}) AS `__ivm_groups`"
    )


def accumulated_changes(unit: Unit, walked: Walked, reads: Reads) -> str:
    """What the accumulators of each affected group gain: (keys, accumulators, COUNT)."""
    return accumulate(unit, branch_deltas(walked, reads), True)


def accumulated_delta(unit: Unit, changes: str, trace: str, large: bool = False) -> str:
    """One row an affected group: keys, `d_`-prefixed accumulator deltas, and the old and new output row.

    The SELECT `changes` tells what its accumulators gain.

    Old and new outputs are columns `__ivm_old_<i>` and `__ivm_new_<i>` behind a flag `__ivm_old`, `__ivm_new` that
    says whether the row exists; `__ivm_same` says that nothing changed. Groups whose deltas are all zero are left out.
    Of a `large` trace only the affected groups' rows are summed.
    """
    assert unit.reduce is not None
    assert unit.post is not None
    keys = [k.name for k in unit.reduce.keys]
    zeros = {a.name: a.zero for a in accumulators(unit.reduce)} | {COUNT: "0"}
    names = list(zeros)
    on = " AND ".join(f"d.{ident(k)} <=> o.{ident(k)}" for k in keys) or "1 = 1"
    deltas = [f"d.{ident(n)} AS {ident('d_' + n)}" for n in names]
    olds = [f"COALESCE(o.{ident(n)}, {zero}) AS {ident('o_' + n)}" for n, zero in zeros.items()]
    group_keys = [f"d.{ident(k)} AS {ident(k)}" for k in keys]
    changed = " OR ".join(f"d.{ident(n)} <> 0" for n in names)
    if large and keys:
        met = " AND ".join(f"t.{ident(k)} <=> a.{ident(k)}" for k in keys)
        trace = f"(SELECT t.*\nFROM {trace} AS t\nLEFT SEMI JOIN ({changes}) AS a ON {met})"
    groups = (
        f"SELECT {', '.join([*group_keys, *deltas, *olds])}\nFROM ({changes}) AS d\n"
        f"LEFT JOIN ({accumulated(unit, trace)}) AS o ON {on}\nWHERE {changed}"
    )
    carried = [*keys, *("d_" + n for n in names), *("o_" + n for n in names)]
    rows = _with_outputs(unit, unit.post, groups, carried, OLD, _finals(unit, "o_", None), f"{ident('o_' + COUNT)} > 0")
    carried += [OLD, *(f"{OLD}_{i}" for i in range(len(unit.columns)))]
    rows = _with_outputs(
        unit,
        unit.post,
        rows,
        carried,
        NEW,
        _finals(unit, "o_", "d_"),
        f"({ident('o_' + COUNT)} + {ident('d_' + COUNT)}) > 0",
    )
    pairs = [
        (sort_key(Column(f"{OLD}_{i}", c.type), exact=True), sort_key(Column(f"{NEW}_{i}", c.type), exact=True))
        for i, c in enumerate(unit.columns)
    ]
    same = " AND ".join(f"{sql_of(a)} <=> {sql_of(b)}" for a, b in pairs)
    return f"SELECT *, {ident(OLD)} AND {ident(NEW)} AND {same} AS `__ivm_same`\nFROM ({rows}) AS `__ivm_both`"


def _with_outputs(
    unit: Unit, post: Post, rows: str, carried: Sequence[str], side: str, finals: Sequence[str], exists: str
) -> str:
    """Add the output row of one side to `rows`; a row that doesn't exist evaluates nothing (it could raise)."""
    assert unit.reduce is not None
    exists = exists if unit.reduce.keys else "TRUE"
    having = " AND ".join([f"{ident(side + '_exists')}", *(f"({p.sql})" for p in post.predicates)])
    group = ident(post.alias)
    flag = f"{exists} AS {ident(side + '_exists')}"
    inner = f"SELECT *, {', '.join([*finals, flag])}\nFROM ({rows}) AS `__ivm_groups`"
    kept = [f"{group}.{ident(c)}" for c in carried]
    outputs = [
        f"CASE WHEN {having} THEN {o.expr.sql} END AS {ident(f'{side}_{i}')}" for i, o in enumerate(post.outputs)
    ]
    return (
        f"SELECT {', '.join([*kept, f'COALESCE({having}, FALSE) AS {ident(side)}', *outputs])}\n"
        f"FROM ({inner}) AS {group}"
    )


def group_delta(
    unit: Unit,
    walked: Walked,
    levels: Sequence[Mapping[str, Reached]],
    reads: Reads,
    stored: str,
) -> str:
    """Output delta of a non-linear reduce: the affected groups evaluated anew, less their stored rows.

    dOut = post(reduce(core' restricted to K)) - stored restricted to K,   K = the keys in dCore
    """
    assert unit.reduce is not None
    assert unit.post is not None
    keys = [k.name for k in unit.reduce.keys]
    columns = [c.name for c in unit.columns]
    core = new_core(unit.core, levels, reads)
    if not keys:
        new = post_sql(unit.post, reduce_sql(unit.reduce, core), [f"CAST(1 AS int) AS {ident(WEIGHT)}"])
        old = f"SELECT {columns_sql(columns)}, CAST(-1 AS int) AS {ident(WEIGHT)}\nFROM {stored}"
        return consolidated(new + chr(10) + "UNION ALL" + chr(10) + old, unit.columns)
    affected = (
        f"SELECT DISTINCT {columns_sql(keys)}\nFROM ({_changed_rows(unit.core, walked, reads, keys)}) AS `__ivm_terms`"
    )
    on_new = " AND ".join(f"c.{ident(k)} <=> k.{ident(k)}" for k in keys)
    restricted = f"SELECT c.*\nFROM ({core}) AS c\nLEFT SEMI JOIN `__ivm_affected` AS k ON {on_new}"
    new = post_sql(unit.post, reduce_sql(unit.reduce, restricted), [f"CAST(1 AS int) AS {ident(WEIGHT)}"])
    on_old = " AND ".join(f"s.{ident(str(o))} <=> k.{ident(k)}" for o, k in zip(unit.key_outputs(), keys, strict=True))
    old = (
        f"SELECT {columns_sql(columns, 's')}, CAST(-1 AS int) AS {ident(WEIGHT)}\nFROM {stored} AS s\n"
        f"LEFT SEMI JOIN `__ivm_affected` AS k ON {on_old}"
    )
    return (
        f"WITH `__ivm_affected` AS (\n{affected}\n)\n"
        f"{consolidated(new + chr(10) + 'UNION ALL' + chr(10) + old, unit.columns)}"
    )


def _changed_rows(core: Core, walked: Walked, reads: Reads, keys: Sequence[str]) -> str:
    """The keys of the core's changed rows, at least once each.

    A difference of two states holds unchanged rows on both sides, whose groups need not be complete in the slices:
    there the rows must cancel before their keys count. So must those beyond the two values of a bound that moved,
    which others may have asked for.
    """
    bounded = any(step.via is not None and step.via.between for _, reached in walked for step in reached.values())
    if not bounded and not any(reads.changed(leaf.relation) for term, _ in walked for leaf in term.branch.dependents):
        return branch_deltas(walked, reads, keys)
    return consolidated(branch_deltas(walked, reads), core.typed)


def new_core(core: Core, levels: Sequence[Mapping[str, Reached]], reads: Reads) -> str:
    """The core's rows in the new state, as a bag."""
    parts = []
    for branch, level in zip(core.branches, levels, strict=True):
        parts.append(
            branch_sql(
                branch,
                lambda leaf, level=level: reads.bag(leaf, level[leaf.alias].level, State.NEW),  # type: ignore[misc]
            )
        )
    return "\nUNION ALL\n".join(parts)


def repeated(rows: str, columns: Sequence[Column]) -> str:
    """Weighted rows as a bag: each row as often as its weights add up to."""
    times = f"EXPLODE(SEQUENCE(CAST(1 AS bigint), {ident(WEIGHT)}))"
    once = consolidated(rows, columns, "> 0")
    names = [c.name for c in columns]
    return (
        f"SELECT {columns_sql(names)}\n"
        f"FROM (SELECT {columns_sql(names)}, {times} AS `__ivm_i` FROM ({once}) AS `__ivm_once`) AS `__ivm_bag`"
    )
