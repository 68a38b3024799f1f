"""What a view's refresh does, in words and SQL: for people (str) and machines (to_dict).

The strategies are those that a refresh decides on (`ivm.planner.strategy`), for the case that every relation changed
and nobody knows its size; their statements are those that it runs, over telling names in place of datasets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from ivm.names import WEIGHT, ident
from ivm.plan.kinds import Recursion, StrategyKind
from ivm.plan.nodes import IN_NEW, IN_OLD, Column, Leaf, Refusal, Unit
from ivm.planner.lanes import Choice, Lane, reads, writes
from ivm.planner.strategy import FromStored, Incremental, Known, Strategy, decide
from ivm.portable.statement import NotPortableError, Relation, written
from ivm.refresh.arrangements import Arranged, arrangements
from ivm.refresh.context import Context
from ivm.refresh.inputs import relation_facts
from ivm.rewrite.accumulators import accumulator_columns
from ivm.rewrite.delta_join import State
from ivm.rewrite.derivations import CANDIDATES
from ivm.rewrite.iterations import FRONTIER
from ivm.rewrite.slices import DELTA, WHOLE, Facts, Match, Requests
from ivm.rewrite.statements import Sums
from ivm.table.protocol import Verb
from ivm.table.rust import RustTable

#: The name under which an explanation says who publishes.
PUBLISHED = "published"


@dataclass(frozen=True)
class Operator:
    """One operator of a program: its algebraic class, the rule of its delta, what it reads."""

    unit: str
    operator: str
    algebra: str
    rule: str
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """How a view is refreshed.

    `sql` are the statements if every relation changed, by unit and what they are for; `units` are the strategies,
    `clocks` what temporal filters compare with, by the name under which it is read.
    """

    view: str
    strategy: StrategyKind
    columns: tuple[tuple[str, str], ...]
    operators: tuple[Operator, ...]
    refusals: tuple[Refusal, ...]
    sql: dict[str, str]
    rules: tuple[str, ...] = ()
    units: dict[str, str] = field(default_factory=dict)
    #: By unit, what keeps it on Spark: an expression, and why; "" where its statements are portable (`ivm.portable`).
    spark: dict[str, str] = field(default_factory=dict)
    clocks: dict[str, str] = field(default_factory=dict)
    #: Who reads each source, and who publishes the view ("published"), with the reason.
    lanes: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "strategy": self.strategy,
            "columns": [{"name": n, "type": t} for n, t in self.columns],
            "operators": [vars(o) for o in self.operators],
            "refusals": [vars(r) for r in self.refusals],
            "rules": list(self.rules),
            "units": self.units,
            "spark": self.spark,
            "clocks": self.clocks,
            "lanes": self.lanes,
            "sql": self.sql,
        }

    def __str__(self) -> str:
        lines = [f"view {self.view}: {self.strategy}", ""]
        for refusal in self.refusals:
            lines += [
                f"  refreshed in full because {refusal.reason} [{refusal.code}]",
                f"    to mend it: {refusal.mend}",
                "",
            ]
        for o in self.operators:
            lines += [
                f"  {o.unit}: {o.operator} ({o.algebra})",
                f"    rule:  {o.rule}",
                *(f"    reads: {r}" for r in o.reads),
            ]
        if self.clocks:
            lines += ["", *(f"  {name}: one row, {sql} at the epoch's instant" for name, sql in self.clocks.items())]
        lines += ["", *(f"  rule of choice: {r}" for r in self.rules)] if self.rules else []
        for unit, why in self.spark.items():
            what = f"stays with Spark: {why}" if why else "portable: with engine auto it may run in this process"
            lines += [f"  engine of {unit}: {what}"]
        for what, lane in self.lanes.items():
            lines += [f"  {what if what == PUBLISHED else f'{what} is read'} by {lane}"]
        for title, sql in self.sql.items():
            lines += ["", f"-- {title}" + (f" ({self.units[title]})" if title in self.units else ""), sql]
        return "\n".join(lines)


#: When first rows are not taken from those stored.
_OTHERWISE = "of few rows, or where its stored rows are not enough"
#: Relations of a recursion's iterations, in words.
_ITERATED = {FRONTIER: "the rows found last", CANDIDATES: "the rows that lost a derivation"}


class _Named:
    """Reads for show: each dataset by a telling name; every relation is taken to have changed."""

    def __init__(self, requests: Requests, unit: Unit, facts: Mapping[str, Facts]) -> None:
        self._requests = requests
        self._unit = unit
        self._facts = facts
        #: The columns of what each name stands for, as a refresh reads them.
        self.columns: dict[str, tuple[Column, ...]] = {}

    def known(self, table: exp.Table) -> Relation | None:
        """What a name in a statement stands for."""
        found = self.columns.get(table.name)
        return Relation(table.name, found) if found is not None else None

    def _named(self, name: str, relation: str, *flags: str) -> str:
        facts = self._facts.get(relation)
        columns = facts.relation.columns if facts is not None else self._unit.columns
        given = (*self.columns.get(name, ()), *columns, *(Column(f, "int") for f in flags))
        self.columns[name] = tuple(dict.fromkeys(given))
        return ident(name)

    def changed(self, relation: str) -> bool:  # noqa: ARG002 - for show, everything changed
        return True

    def signed(self, leaf: Leaf, level: int) -> str | None:
        if level == DELTA:
            return self.delta(leaf, IN_NEW, IN_OLD)
        name = f"{leaf.relation}, all" if level == WHOLE else f"slice and delta of {leaf.relation}"
        return self._named(name, leaf.relation, IN_NEW, IN_OLD)

    def delta(self, leaf: Leaf, *flags: str) -> str:
        return self._named(_ITERATED.get(leaf.relation) or f"delta of {leaf.relation}", leaf.relation, WEIGHT, *flags)

    def state(self, leaf: Leaf, level: int, state: State) -> tuple[str, bool]:
        what = "all" if level == WHOLE else f"slice {level}"
        return self._named(f"{state.value} {leaf.relation}, {what}", leaf.relation, WEIGHT), state is State.OLD

    def bag(self, leaf: Leaf, level: int, state: State) -> str:
        what = "all" if level == WHOLE else "slice"
        return self._named(f"{state.value} {leaf.relation}, {what}", leaf.relation)

    def stored(self, unit: str) -> str:
        affected = any(relation == unit for relation, _ in self._requests.matches)
        return self._named("stored rows, affected groups" if affected else "stored rows, all", unit)

    def accumulators(self, unit: str) -> Sums:  # noqa: ARG002 - there is one for each unit
        assert self._unit.reduce is not None
        self.columns["accumulators"] = accumulator_columns(self._unit.reduce)
        return Sums(ident("accumulators"))


def explain_view(context: Context, view: str) -> Explanation:
    """Explain a compiled view."""
    program = context.compiled[view].program
    asked = arrangements(context, context.log.manifest())
    operators: list[Operator] = []
    sql: dict[str, str] = {}
    units: dict[str, str] = {}
    spark: dict[str, str] = {}
    for unit in program.units:
        facts = _facts(context, unit)
        strategy = _decided(context, unit, facts)
        units[unit.name] = strategy.name
        statements, spark[unit.name] = _statements(strategy, facts)
        if program.functions:
            spark[unit.name] = "it calls functions of the session's own"
        reads = _reads(strategy, asked)
        if isinstance(strategy, FromStored):
            otherwise = _decided(context, unit, facts, lacking=True)
            more, why = _statements(otherwise, facts)
            spark[unit.name] = spark[unit.name] or why
            reads += [f"{_OTHERWISE}:", *(f"  {r}" for r in _reads(otherwise, asked))]
            statements |= {f"{_OTHERWISE} ({otherwise.name})": s for s in more.values()}
        sql |= {f"{unit.name}, {what}" if what else unit.name: text for what, text in statements.items()}
        operators += _operators(unit, tuple(reads))
    strategy_ = StrategyKind.INCREMENTAL if program.incremental else StrategyKind.FULL
    columns = tuple((c.name, c.type) for c in program.columns)
    return Explanation(
        context.views[view].name,
        strategy_,
        columns,
        tuple(operators),
        program.refusals,
        sql,
        program.rules,
        units,
        spark,
        {c.name: c.sql for c in program.clocks},
        _lanes(context, view),
    )


def _lanes(context: Context, view: str) -> dict[str, str]:
    """Who reads a view's sources, and who merges a small batch into its table, as things are now."""
    program = context.compiled[view].program
    snapshots = context.snapshots({r for r in program.relations if r in context.sources})
    lanes = {
        name: str(Choice(Lane.SPARK, s.by_spark) if s.by_spark else reads(context.lane, ""))
        for name, s in sorted(snapshots.items())
    }
    table, local = RustTable(context.layout.table(view, True), context.limits, ours=True), context.layout.base.local
    alone = next((f"the type of column {c.name!r}" for c in program.columns if "variant" in c.type), "")
    return {**lanes, PUBLISHED: str(writes(context.lane, table.refusal(Verb.MERGE), local, alone))}


def _facts(context: Context, unit: Unit) -> dict[str, Facts]:
    """Of all that a unit reads, and of itself, without sizes."""
    sources = context.snapshots({r for r in unit.reads if r in context.sources})
    return {r: relation_facts(context, r, sources, None) for r in (*unit.reads, unit.name)}


def _decided(context: Context, unit: Unit, facts: Mapping[str, Facts], lacking: bool = False) -> Strategy:
    """The unit's strategy if every relation changed and none has a known size; Unchanged where it reads none."""
    return decide(unit, Known(facts, dict.fromkeys(unit.reads, 0), lacking=lacking, limits=context.limits))


def _statements(strategy: Strategy, facts: Mapping[str, Facts]) -> tuple[dict[str, str], str]:
    """The statements by what they are for, and what keeps the first that isn't portable on Spark; "" if all are."""
    if not isinstance(strategy, Incremental):
        return {}, ""
    named = _Named(strategy.requests, strategy.unit, facts)
    statements = strategy.statements(named)
    for sql in statements.values():
        try:
            written(sql, named.known)
        except NotPortableError as reason:
            return statements, str(reason)
    return statements, ""


def _reads(strategy: Strategy, asked: Sequence[Arranged]) -> list[str]:
    """What is read, slice by slice, in words."""
    requests = strategy.requests if isinstance(strategy, Incremental) else Requests()
    reads = []
    for (relation, level), matches in sorted(requests.matches.items(), key=lambda i: (i[0][1], i[0][0])):
        by = sorted(
            {
                f"{', '.join(m.columns)} from {'the delta' if m.provider.level == 0 else f'slice {m.provider.level}'} "
                f"of {m.provider.relation}{_partners(m)}{', by a range' if m.between else ''}"
                for m in matches
            }
        )
        reads.append(f"{relation}, slice {level}: rows by {'; or by '.join(by)}")
        found = [
            next((a for a in asked if a.relation == relation and set(a.keys) <= set(m.columns)), None) for m in matches
        ]
        if all(found):
            reads.append(f"  searched in {'; '.join(sorted({str(a) for a in found}))}")
    return reads + [f"{relation}: all rows" for relation in sorted(requests.whole)]


def _partners(match: Match) -> str:
    """Which rows provide the keys, in words: those with partners in other relations."""
    names = [p.provider.relation for p in match.provider.partners]
    return f" with partners in {' and '.join(names)}" if names else ""


_PRODUCT = "d(R1 x..x Rk) = sum over i of R1' x..x R(i-1)' x dRi x R(i+1) x..x Rk"
_DEPENDENT = "d f(R; D) = f(R'|K; D'|K) - f(R|K; D|K), K: the rows that a change of {0} touches"
#: Of each kind of reduce: its name, its algebraic class and its rule where it has keys, and where it has none.
_PARTITIONED = {
    "group": ("group by", "d = reduce(new input of affected groups) - stored rows of them"),
    "window": ("window functions by", "d = window(new input of affected partitions) - stored rows of them"),
    "top": ("first rows of", "d = first rows of the new input - stored rows"),
}


_OF_BAG = "dR = F0 + F1 + ..., F0 = the delta of base and step for unchanged R, F(i+1) = step(F(i))"
_OF_SET = (
    "delete what lost a derivation and has none left by ever lower ranks; "
    "add again, and anew, what follows from the rest"
)


def _operators(unit: Unit, reads: tuple[str, ...]) -> list[Operator]:
    found = []
    for branch in unit.core.branches:
        leaves = ", ".join(
            f"{leaf.relation} {leaf.alias}" if leaf.relation != leaf.alias else leaf.relation for leaf in branch.linear
        )
        if len(branch.linear) > 1:
            found.append(Operator(unit.name, f"join of {leaves}", "multilinear", _PRODUCT, ()))
        elif branch.linear:
            found.append(Operator(unit.name, f"filter and project of {leaves}", "linear", "d(f(R)) = f(dR)", ()))
        for leaf in branch.dependents:
            walked = any(e.scope == leaf.scope for e in branch.edges)
            how = "affected rows" if walked else "no equality to walk: all rows"
            rule = _DEPENDENT.format(leaf.relation)
            found.append(
                Operator(
                    unit.name,
                    f"outer join or subquery of {leaf.relation} {leaf.alias}",
                    f"not linear ({how})",
                    rule,
                    (),
                )
            )
    if len(unit.core.branches) > 1:
        found.append(
            Operator(unit.name, f"union all of {len(unit.core.branches)} branches", "linear", "d(R + S) = dR + dS", ())
        )
    if unit.fixpoint:
        how, rule = ("bag", _OF_BAG) if unit.fixpoint is Recursion.BAG else ("set", _OF_SET)
        kept = f", only the least {unit.least}" if unit.least else ""
        found.append(Operator(unit.name, f"fixpoint as a {how}{kept}", "recursive", rule, ()))
    if unit.reduce is not None:
        name, rule = _PARTITIONED[unit.reduce.kind]
        keys = ", ".join(k.name for k in unit.reduce.keys) or "one global partition"
        calls = ", ".join(c.sql for c in unit.reduce.calls) or unit.reduce.tail.replace("\n", " ") or "distinct"
        if unit.reduce.linear:
            rule = "new sums = old sums + sums over the delta; rows of groups that differ are replaced"
        kept = "accumulators" if unit.arranged else "accumulators, a stream: nothing downstream looks up its rows"
        algebra = (
            f"linear ({kept})"
            if unit.reduce.linear
            else "not linear (affected keys)"
            if unit.reduce.keys
            else "not linear (whole input)"
        )
        found.append(Operator(unit.name, f"{name} {keys}: {calls}", algebra, rule, ()))
    last = found[-1]
    found[-1] = Operator(last.unit, last.operator, last.algebra, last.rule, reads)
    return found
