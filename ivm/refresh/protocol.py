"""The protocol's steps, in order, each resumable: what Pipeline, backfill, release and the Airflow DAG go through.

    STEPS = plan -> apply -> check -> publish -> compact

Invariant: whatever step a process dies in, going through the steps again from `plan` brings the same tables. Nothing
heavy is imported before a step runs: the DAG processor reads the order from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ivm.refresh.context import Context
    from ivm.refresh.records import EpochPlan, Held, Manifest, Outcome
    from ivm.refresh.run import Gate


@dataclass
class Run:
    """One epoch on its way: what is asked for, and what the steps made of it so far."""

    context: Context
    gate: Gate
    #: The views to refresh, all by default, and those to build anew whatever has changed.
    views: Iterable[str] | None = None
    rebuild: frozenset[str] = frozenset()
    #: None before the first step, and where nothing changed.
    plan: EpochPlan | None = None
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    manifest: Manifest | None = None
    #: Whether the next step follows in this process.
    goes_on: bool = False

    @property
    def planned(self) -> EpochPlan:
        """The plan, once there is one."""
        assert self.plan is not None
        return self.plan


def plan(run: Run) -> None:
    """Freeze the versions and decide for each view; the run ends here where nothing changed."""
    from ivm.refresh.run import step_plan

    run.plan = step_plan(run.context, run.views, run.rebuild)


def apply(run: Run) -> None:
    """Compute the batches."""
    from ivm.refresh.run import step_apply

    run.outcomes = step_apply(run.context, run.planned, run.goes_on)


def check(run: Run) -> None:
    """Judge them; what fails is held back."""
    from ivm.refresh.run import step_check

    run.held = step_check(run.context, run.planned, run.outcomes, run.gate)


def publish(run: Run) -> None:
    """Merge the batches into the outputs and commit the epoch."""
    from ivm.refresh.run import step_publish

    run.manifest = step_publish(run.context, run.planned, run.outcomes)


def compact(run: Run) -> None:
    """Rewrite what has grown, where that is due."""
    from ivm.refresh.run import step_compact

    step_compact(run.context)


#: The order of the protocol.
STEPS: tuple[Callable[[Run], None], ...] = (plan, apply, check, publish, compact)
NAMES = tuple(step.__name__ for step in STEPS)


def advance(run: Run, first: str = NAMES[0], last: str = NAMES[-1]) -> None:
    """Go through the steps from one to another; ends early where there is nothing to do."""
    for step in STEPS[NAMES.index(first) : NAMES.index(last) + 1]:
        run.goes_on = step.__name__ != last
        step(run)
        if run.plan is None:
            return
