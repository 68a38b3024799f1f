"""In which order units start that run together."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ivm.planner.learned import Past
from ivm.refresh.incremental import longest_first


def job(name: str, rows: int):
    return SimpleNamespace(
        strategy=SimpleNamespace(unit=SimpleNamespace(name=name), choice=SimpleNamespace(cost_incremental=rows))
    )


def test_what_ran_longest_starts_first_then_what_reads_most():
    jobs = [job("new", 10), job("quick", 900), job("slow", 20), job("large", 500)]
    # What was read for several counts for none of them.
    past = {
        "slow": Past(((1, 9.0), (1, 5.0), (1, 7.0)), running=(8.9, 4.9, 6.9)),
        "quick": Past(((1, 9.5), (1, 8.0), (1, 7.5)), running=(0.1, 8.0, 0.2)),
    }
    known = {"new": Past(), "large": Past(), **past}
    assert [j.strategy.unit.name for j in longest_first(jobs, lambda: known)] == ["slow", "quick", "large", "new"]


@pytest.mark.parametrize("jobs", [[], [job("one", 1)]])
def test_nobody_asks_what_was_where_there_is_no_order(jobs):
    def nobody():
        raise AssertionError("asked")

    assert longest_first(jobs, nobody) == jobs
