r"""The statements of a recursion's iterations (pure).

    step(F)     =  the branches that read the unit, with F (the rows that were found last) in that place,
                   in the new state
    support(C)  =  the derivations of the candidates C from what is left, see `ivm.rewrite.derivations`

A branch that reads the unit more than once has one step for each time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ivm.names import RESERVED_PREFIX
from ivm.plan.nodes import RANK, Branch, Leaf, Relation, Unit
from ivm.rewrite.delta_join import State, Term
from ivm.rewrite.derivations import CANDIDATES, support
from ivm.rewrite.slices import Facts, Requests, walk_term
from ivm.rewrite.statements import Reads, Walked, term_sql
from ivm.sql.render import branch_sql

#: The relation of the rows that were found last.
FRONTIER = f"{RESERVED_PREFIX}_frontier"


def reads_itself(branch: Branch, unit: Unit) -> bool:
    """Whether a branch of a recursion is a step, not a base."""
    return any(leaf.relation == unit.name for leaf in branch.leaves)


def steps(unit: Unit) -> list[Branch]:
    """The branches that read the unit, once for each time they do, with the frontier in that place."""
    found = []
    for branch in unit.core.branches:
        for own in (leaf for leaf in branch.leaves if leaf.relation == unit.name):
            found.append(
                replace(
                    branch,
                    leaves=tuple(replace(leaf, relation=FRONTIER) if leaf is own else leaf for leaf in branch.leaves),
                )
            )
    return found


@dataclass(frozen=True)
class Look:
    """A look for derivations of candidates, as `support` is told; `what` for, in words."""

    what: str
    on: tuple[str, ...]
    ranked: bool


def identity(unit: Unit) -> list[str]:
    """The columns by which a set's rows are told apart."""
    return [c.name for c in unit.columns if c.name not in (RANK, unit.least)]


def looks(unit: Unit) -> tuple[Look, Look]:
    """How a set's rows are looked at that lost a derivation, and then those of them that are gone, with what is new.

    Of a least value, the first look is for the stored one, the second for any.
    """
    values = tuple(c.name for c in unit.columns if c.name != RANK)
    return (
        Look("what is left of lost rows", values, ranked=True),
        Look("what gives rows that are gone anew", tuple(identity(unit)), ranked=False),
    )


def given(unit: Unit, name: str, facts: Mapping[str, Facts], rows: int | None) -> dict[str, Facts]:
    """The facts with one more relation of the unit's columns: the frontier, or the candidates."""
    return {**facts, name: Facts(Relation(name, "unit", unit.columns), rows)}


def walk_steps(unit: Unit, facts: Mapping[str, Facts], changed: Collection[str], requests: Requests) -> Walked:
    """Ask for what one step from the frontier reads (`facts` as `given` with it)."""
    return [(term, walk_term(term, facts, requests)) for term in (_term(b, FRONTIER, changed) for b in steps(unit))]


def step_sql(walked: Walked, reads: Reads) -> str:
    """The weighted rows that follow from the frontier in one step."""
    return "\nUNION ALL\n".join(term_sql(term, term.branch, reached, reads) for term, reached in walked)


def walk_support(
    unit: Unit,
    facts: Mapping[str, Facts],
    changed: Collection[str],
    look: Look,
    requests: Requests,
) -> Walked:
    """Ask for what the derivations of the candidates read (`facts` as `given` with them)."""
    relations = {name: fact.relation for name, fact in facts.items()}
    terms = (_term(support(b, unit, relations, look.ranked, look.on), CANDIDATES, changed) for b in unit.core.branches)
    return [(term, walk_term(term, facts, requests)) for term in terms]


def support_sql(walked: Walked, reads: Reads) -> str:
    """The candidates' derivations, with the ranks they give: rows, not weighted."""
    parts = []
    for term, reached in walked:
        states = dict(zip((leaf.alias for leaf in term.branch.leaves), term.states, strict=True))

        def leaf_sql(leaf: Leaf, states=states, reached=reached) -> str:  # type: ignore[no-untyped-def]
            return (
                reads.delta(leaf)
                if leaf.relation == CANDIDATES
                else reads.bag(leaf, reached[leaf.alias].level, states[leaf.alias])
            )

        parts.append(branch_sql(term.branch, leaf_sql))
    return "\nUNION ALL\n".join(parts)


def _term(branch: Branch, start: str, changed: Collection[str]) -> Term:
    """The branch in the new state, from the rows of one relation."""

    def state(relation: str) -> State:
        return State.DELTA if relation == start else State.NEW if relation in changed else State.SAME

    return Term(branch, tuple(state(leaf.relation) for leaf in branch.leaves))
