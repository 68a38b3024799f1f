"""What a view's refresh does, in words and SQL: for people (str) and machines (to_dict)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ivm.names import ident
from ivm.plan.nodes import Leaf, Program, Refusal, Unit
from ivm.refresh.arrange import arrangements
from ivm.refresh.context import Context
from ivm.rewrite.delta_join import State, delta_terms
from ivm.rewrite.slices import DELTA, WHOLE, Facts, Requests, walk_groups, walk_term
from ivm.rewrite.statements import accumulated_delta, group_delta, linear_delta


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
    """How a view is refreshed. `sql` is each unit's statement if every relation changed."""

    view: str
    strategy: str
    columns: tuple[tuple[str, str], ...]
    operators: tuple[Operator, ...]
    refusals: tuple[Refusal, ...]
    sql: dict[str, str]
    rules: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "strategy": self.strategy,
            "columns": [{"name": n, "type": t} for n, t in self.columns],
            "operators": [vars(o) for o in self.operators],
            "refusals": [vars(r) for r in self.refusals],
            "rules": list(self.rules),
            "sql": self.sql,
        }

    def __str__(self) -> str:
        lines = [f"view {self.view}: {self.strategy}", ""]
        for refusal in self.refusals:
            lines += [f"  refreshed in full because {refusal.reason} [{refusal.code}]", f"    to mend it: {refusal.mend}", ""]
        for o in self.operators:
            lines += [f"  {o.unit}: {o.operator} ({o.algebra})", f"    rule:  {o.rule}", *(f"    reads: {r}" for r in o.reads)]
        lines += ["", *(f"  rule of choice: {r}" for r in self.rules)] if self.rules else []
        for unit, sql in self.sql.items():
            lines += ["", f"-- {unit}", sql]
        return "\n".join(lines)


class _Named:
    """Reads for show: each dataset by a telling name; every relation is taken to have changed."""

    def changed(self, relation: str) -> bool:  # noqa: ARG002 - for show, everything changed
        return True

    def signed(self, leaf: Leaf, level: int) -> str | None:
        if level == WHOLE:
            return ident(f"{leaf.relation}, all")
        return ident(f"delta of {leaf.relation}") if level == DELTA else ident(f"slice and delta of {leaf.relation}")

    def delta(self, leaf: Leaf) -> str:
        return ident(f"delta of {leaf.relation}")

    def state(self, leaf: Leaf, level: int, state: State) -> tuple[str, bool]:
        what = "all" if level == WHOLE else f"slice {level}"
        return ident(f"{state.value} {leaf.relation}, {what}"), state is State.OLD

    def bag(self, leaf: Leaf, level: int, state: State) -> str:
        what = "all" if level == WHOLE else "slice"
        return ident(f"{state.value} {leaf.relation}, {what}")


def explain_view(context: Context, view: str) -> Explanation:
    """Explain a compiled view."""
    program = context.compiled[view].program
    asked = arrangements(context)
    operators: list[Operator] = []
    sql: dict[str, str] = {}
    for unit in program.units:
        facts = {r: _facts(context, program, r) for r in (*unit.reads, unit.name)}
        requests = Requests()
        walked = [(t, walk_term(t, facts, requests)) for b in unit.core.branches for t in delta_terms(b, frozenset(unit.reads))]
        reads = []
        named = _Named()
        if unit.reduce is None:
            sql[unit.name] = linear_delta(unit, walked, named)
        elif unit.reduce.linear:
            sql[unit.name] = accumulated_delta(unit, walked, named, ident("accumulators"))
        else:
            levels, own = walk_groups(unit, walked, facts, requests)
            sql[unit.name] = group_delta(unit, walked, levels, named, ident("stored rows, all" if own == WHOLE else "stored rows, affected groups"))
        for (relation, level), matches in sorted(requests.matches.items(), key=lambda i: (i[0][1], i[0][0])):
            by = sorted(
                {
                    f"{', '.join(m.columns)} from {'the delta' if m.provider.level == 0 else f'slice {m.provider.level}'} of {m.provider.relation}"
                    for m in matches
                }
            )
            reads.append(f"{relation}, slice {level}: rows by {'; or by '.join(by)}")
            found = [next((a for a in asked if a.relation == relation and set(a.keys) <= set(m.columns)), None) for m in matches]
            if all(found):
                reads.append(f"  searched in {'; '.join(sorted({str(a) for a in found}))}")
        reads += [f"{relation}: all rows" for relation in sorted(requests.whole)]
        operators += _operators(unit, tuple(reads))
    strategy = "incremental" if program.incremental else "full"
    return Explanation(
        context.views[view].name, strategy, tuple((c.name, c.type) for c in program.columns), tuple(operators), program.refusals, sql, program.rules
    )


def _facts(context: Context, program: Program, relation: str) -> Facts:
    from ivm.plan.nodes import Relation

    if relation in context.sources:
        source = context.sources[relation]
        snapshot = context.snapshots({relation})[relation]
        actual = {c.name.lower(): c.name for c in snapshot.columns}
        return Facts(Relation(relation, "source", snapshot.columns, tuple(actual[k.lower()] for k in source.primary_key)), None, source.foreign_keys)
    unit = next((u for u in program.units if u.name == relation), None)
    columns = unit.columns if unit else context.compiled[relation].program.columns
    return Facts(Relation(relation, "unit", columns, unit.key if unit else ()), None)


_PRODUCT = "d(R1 x..x Rk) = sum over i of R1' x..x R(i-1)' x dRi x R(i+1) x..x Rk"
_DEPENDENT = "d f(R; D) = f(R'|K; D'|K) - f(R|K; D|K), K: the rows that a change of {0} touches"
#: Of each kind of reduce: its name, its algebraic class and its rule where it has keys, and where it has none.
_PARTITIONED = {
    "group": ("group by", "d = reduce(new input of affected groups) - stored rows of them"),
    "window": ("window functions by", "d = window(new input of affected partitions) - stored rows of them"),
    "top": ("first rows of", "d = first rows of the new input - stored rows"),
}


_OF_BAG = "dR = F0 + F1 + ..., F0 = the delta of base and step for unchanged R, F(i+1) = step(F(i))"
_OF_SET = "delete what lost a derivation and has none left by ever lower ranks; add again, and anew, what follows from the rest"


def _operators(unit: Unit, reads: tuple[str, ...]) -> list[Operator]:
    found = []
    for branch in unit.core.branches:
        leaves = ", ".join(f"{leaf.relation} {leaf.alias}" if leaf.relation != leaf.alias else leaf.relation for leaf in branch.linear)
        if len(branch.linear) > 1:
            found.append(Operator(unit.name, f"join of {leaves}", "multilinear", _PRODUCT, ()))
        elif branch.linear:
            found.append(Operator(unit.name, f"filter and project of {leaves}", "linear", "d(f(R)) = f(dR)", ()))
        for leaf in branch.dependents:
            walked = any(e.scope == leaf.scope for e in branch.edges)
            how = "affected rows" if walked else "no equality to walk: all rows"
            rule = _DEPENDENT.format(leaf.relation)
            found.append(Operator(unit.name, f"outer join or subquery of {leaf.relation} {leaf.alias}", f"not linear ({how})", rule, ()))
    if len(unit.core.branches) > 1:
        found.append(Operator(unit.name, f"union all of {len(unit.core.branches)} branches", "linear", "d(R + S) = dR + dS", ()))
    if unit.fixpoint:
        how, rule = ("bag", _OF_BAG) if unit.fixpoint == "all" else ("set", _OF_SET)
        kept = f", only the least {unit.least}" if unit.least else ""
        found.append(Operator(unit.name, f"fixpoint as a {how}{kept}", "recursive", rule, ()))
    if unit.reduce is not None:
        name, rule = _PARTITIONED[unit.reduce.kind]
        keys = ", ".join(k.name for k in unit.reduce.keys) or "one global partition"
        calls = ", ".join(c.sql for c in unit.reduce.calls) or unit.reduce.tail.replace("\n", " ") or "distinct"
        if unit.reduce.linear:
            rule = "new sums = old sums + sums over the delta; rows of groups that differ are replaced"
        kept = "accumulators" if unit.arranged else "accumulators, a stream: nothing downstream looks up its rows"
        algebra = f"linear ({kept})" if unit.reduce.linear else "not linear (affected keys)" if unit.reduce.keys else "not linear (whole input)"
        found.append(Operator(unit.name, f"{name} {keys}: {calls}", algebra, rule, ()))
    last = found[-1]
    found[-1] = Operator(last.unit, last.operator, last.algebra, last.rule, reads)
    return found
