r"""How a unit is refreshed, as data: `decide` says it from the unit and what is known, nothing else does (pure).

    Unchanged     nothing that it reads has changed
    Linear        no reduce                        dOut = d core
    Accumulated   a reduce of linear calls         sums' = sums + sums over d core
    FromStored    few first rows of many           candidates = stored rows + d core
    Regroup       any other reduce                 dOut = reduce(new input of affected keys) - stored rows of them
    Fixpoint      a recursion                      d core, then step by step what follows from it
    Full          computed anew as a whole

Each has one handler, which acts: `ivm.execute` for those that apply a delta, `ivm.refresh.full` for the last. An
incremental one knows what it must read (`requests`) and its statements over any `Reads`: Spark runs them over an
epoch's datasets, `ivm.explain` shows them over names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from ivm.plan.kinds import Recursion, StrategyKind
from ivm.plan.nodes import Unit
from ivm.planner.choose import Choice, choose, met_rows
from ivm.planner.learned import Past
from ivm.planner.limits import EMBEDDED, Limits
from ivm.rewrite.delta_join import delta_terms
from ivm.rewrite.derivations import CANDIDATES
from ivm.rewrite.iterations import FRONTIER, given, looks, step_sql, support_sql, walk_steps, walk_support
from ivm.rewrite.slices import Facts, Reached, Requests, walk_groups, walk_term
from ivm.rewrite.statements import (
    Reads,
    Walked,
    accumulated_changes,
    accumulated_delta,
    branch_deltas,
    group_delta,
    linear_delta,
)
from ivm.rewrite.top import from_stored, top_candidates

#: The code of a full refresh of a recursion whose changes are too many for iterations in this process.
LARGE_RECURSION = "large_recursion"


@dataclass(frozen=True)
class Known:
    """What is known when a unit's strategy is decided.

    `facts` are of all that it reads and of itself, `deltas` the changed rows of each relation that did change, `stored`
    the rows that it has. `strict` forbids a full refresh by cost; `lacking` says that the stored rows of a LIMIT were
    not enough, `large` of which relation it asks for more rows than this process may hold; `past` gives what its
    refreshes took.
    """

    facts: Mapping[str, Facts]
    deltas: Mapping[str, int]
    stored: int = 0
    strict: bool = False
    lacking: bool = False
    large: str = ""
    limits: Limits = EMBEDDED
    past: Callable[[], Past] = Past


@dataclass(frozen=True)
class Full:
    """Everything is computed anew, for a reason with a stable code."""

    code: str
    reason: str
    name: ClassVar[StrategyKind] = StrategyKind.FULL


@dataclass(frozen=True)
class Unchanged:
    """Only cursors move."""

    code: str = "empty_delta"
    reason: str = "the changes don't touch any column that the view reads"
    name: ClassVar[StrategyKind] = StrategyKind.UNCHANGED


@dataclass(frozen=True)
class Incremental(ABC):
    """What all that apply a delta have.

    The terms of the core's delta with how each leaf is reached, what must be read, and the cost.
    """

    unit: Unit
    walked: Walked
    requests: Requests
    choice: Choice
    name: ClassVar[str]

    @abstractmethod
    def statements(self, reads: Reads) -> dict[str, str]:
        """What Spark runs, by what it is for; the first is "" where there is one."""


@dataclass(frozen=True)
class Linear(Incremental):
    """The core's delta is the unit's."""

    name = "linear"

    def statements(self, reads: Reads) -> dict[str, str]:
        return {"": linear_delta(self.unit, self.walked, reads)}


#: What the statement is for whose rows tell which accumulators to find.
CHANGES = "changes"


@dataclass(frozen=True)
class Accumulated(Incremental):
    """Sums are added to; the rows of groups whose sums changed are replaced.

    Of many sums those are found that the CHANGES of the epoch meet, which are computed first.
    """

    name = "accumulated"

    def statements(self, reads: Reads) -> dict[str, str]:
        sums = reads.accumulators(self.unit.name)
        changes = accumulated_changes(self.unit, self.walked, reads)
        if not sums.changes:
            return {"": accumulated_delta(self.unit, changes, sums.trace, sums.large)}
        return {"": accumulated_delta(self.unit, f"SELECT * FROM {sums.changes}", sums.trace), CHANGES: changes}


@dataclass(frozen=True)
class FromStored(Incremental):
    """The first rows from the stored ones and the delta.

    Where these turn out not to be enough, it is decided again (`Known.lacking`).
    """

    name = "from stored rows"

    def statements(self, reads: Reads) -> dict[str, str]:
        return {"": top_candidates(self.unit, self.walked, reads, reads.stored(self.unit.name))}


@dataclass(frozen=True)
class Regroup(Incremental):
    """The affected groups are evaluated anew; `levels` say for each branch how its leaves are reached for them."""

    levels: tuple[Mapping[str, Reached], ...]
    name = "regrouped"

    def statements(self, reads: Reads) -> dict[str, str]:
        return {"": group_delta(self.unit, self.walked, self.levels, reads, reads.stored(self.unit.name))}


@dataclass(frozen=True)
class Fixpoint(Incremental):
    """The core's delta, then iterations over the rows found last.

    As a set also the derivations that lost rows have left.
    Iterations walk from their own rows, by the `facts` of the relations and which of them `changed`.
    """

    facts: Mapping[str, Facts]
    changed: frozenset[str]
    name = "fixpoint"

    def first(self, reads: Reads) -> str:
        """The weighted rows that what it reads changes at once, the unit's own rows as they were."""
        return branch_deltas(self.walked, reads)

    def statements(self, reads: Reads) -> dict[str, str]:
        found = {"": self.first(reads)}
        if self.unit.fixpoint is Recursion.SET:
            facts = given(self.unit, CANDIDATES, self.facts, None)
            lost, gone = looks(self.unit)
            for look, changed in ((lost, self.changed), (gone, self.changed | {self.unit.name})):
                walked = walk_support(self.unit, facts, changed, look, Requests())
                found[look.what] = support_sql(walked, reads)
        found["each iteration"] = step_sql(
            walk_steps(self.unit, given(self.unit, FRONTIER, self.facts, None), self.changed, Requests()), reads
        )
        return found


Strategy = Full | Unchanged | Incremental


def decide(unit: Unit, known: Known) -> Strategy:
    """How a unit is refreshed whose earlier result still holds."""
    if not known.deltas:
        return Unchanged()
    large = next((r for r, n in known.deltas.items() if unit.fixpoint and n > known.limits.delta_rows), None)
    if large is not None:
        return Full(LARGE_RECURSION, f"{known.deltas[large]:,} rows of {large!r} changed")
    rows = {r: known.facts[r].rows for r in unit.reads}
    found = _incremental(unit, known, rows)
    return Full("cost", found.choice.reason) if found.choice.strategy == StrategyKind.FULL else found


def surely_full(unit: Unit, known: Known) -> Full | None:
    """The full refresh of a unit, where it is cheaper by what is expected of its deltas (`known.deltas`), unread.

    It is cheaper for half as many changed rows, too.
    """
    rows = {r: known.facts[r].rows for r in unit.reads}
    choice = _incremental(unit, known, rows).choice
    in_full = choice.cost_full + known.limits.small_input
    if choice.strategy != StrategyKind.FULL or choice.weighed < 2 * in_full:
        return None
    told = (
        f"by the logs about {sum(known.deltas.values()):,} rows changed, and a full refresh reads {choice.cost_full:,}"
    )
    return Full("cost", f"{told}, so it is cheaper")


def _incremental(unit: Unit, known: Known, rows: Mapping[str, int | None]) -> Incremental:
    requests, changed = Requests(), frozenset(known.deltas)
    walked = [(t, walk_term(t, known.facts, requests)) for b in unit.core.branches for t in delta_terms(b, changed)]
    limits = known.limits
    few = all((n := rows[r]) is not None and n <= limits.few_first_rows for r in unit.reads)
    stored = from_stored(unit, limits.stored_first_rows) and not known.lacking and not few
    regrouped = unit.reduce is not None and not unit.reduce.linear and not stored
    levels = walk_groups(unit, walked, known.facts, requests)[0] if regrouped else ()
    whole = [r for r in unit.reads if r in requests.whole and (rows[r] or 0) > limits.native_whole_rows]
    moved = {r for r in changed if known.facts[r].moved}
    met = met_rows(unit, rows, known.deltas, known.stored, stored, moved)
    choice = choose(rows, known.deltas, known.strict, whole, met, limits, known.past, known.large)
    if unit.fixpoint:
        return Fixpoint(unit, walked, requests, choice, known.facts, changed)
    if unit.reduce is None:
        return Linear(unit, walked, requests, choice)
    if unit.reduce.linear:
        return Accumulated(unit, walked, requests, choice)
    if stored:
        return FromStored(unit, walked, requests, choice)
    return Regroup(unit, walked, requests, choice, levels)
