r"""The delta of a branch, by telescoping over its leaves.

    d(R1 x..x Rk)  =  sum over i of  R1' x..x R(i-1)'  x  dRi  x  R(i+1) x..x Rk

R is the old state, R' = R + dR the new one. Every other part of a branch (filter, projection) is
linear, so it applies to each term as it is. Leaves of a relation that didn't change have one state.
Source: multilinearity, as in DBSP and differential dataflow's delta queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ivm.plan.nodes import Branch


class State(Enum):
    """Which state of its relation a leaf contributes to a term."""

    OLD = "old"
    NEW = "new"
    SAME = "same"
    DELTA = "delta"


@dataclass(frozen=True)
class Term:
    """One product of the sum: `states` gives a state for each leaf of `branch`, in order."""

    branch: Branch
    states: tuple[State, ...]

    @property
    def delta_alias(self) -> str:
        return self.branch.leaves[self.states.index(State.DELTA)].alias


def delta_terms(branch: Branch, changed: frozenset[str]) -> tuple[Term, ...]:
    """The terms whose delta is not empty; none at all where no leaf's relation changed.

    >>> from ivm.plan.nodes import Leaf
    >>> b = Branch((Leaf("a", "r", ()), Leaf("b", "s", ()), Leaf("c", "r", ())), (), ())
    >>> for term in delta_terms(b, frozenset({"r"})): print([s.value for s in term.states])
    ['delta', 'same', 'old']
    ['new', 'same', 'delta']
    """
    terms = []
    for i, leaf in enumerate(branch.leaves):
        if leaf.relation not in changed:
            continue
        states = tuple(
            State.DELTA
            if j == i
            else State.SAME
            if other.relation not in changed
            else State.NEW
            if j < i
            else State.OLD
            for j, other in enumerate(branch.leaves)
        )
        terms.append(Term(branch, states))
    return tuple(terms)
