"""What a unit's last refreshes tell of the next one: the seconds that a strategy took for about as many rows (pure).

    price(strategy, rows) = lower median seconds of its last refreshes that were expected to read about as many rows

Rows are what was expected then, by the same rule as now, so that what the rule gets wrong for this unit, on this
machine, by this engine, is in the seconds. The seconds of a process's first refreshes are in it, too: where each
refresh is a process, these are what it costs. The lower of two medians is taken, so that one such refresh among others
decides nothing (TPC-H's q22 at SF10: 8.3 s in a new process, 1.2 s before). A first build tells less of the next full
refresh: it comes among those of all units, which have warmed their process up.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from ivm.plan.kinds import StrategyKind
from ivm.planner.limits import Limits

#: What a strategy took before: (rows that it was expected to read, seconds), the newest first.
Actuals = Sequence[tuple[int, float]]

#: Refreshes tell of each other where the rows of one are at most so many times those of the other.
SIMILAR = 4
#: So many incremental ones tell something. Of full ones, which are rare and alike, one does.
ENOUGH = 2
#: Incremental refreshes run beside each other, full ones alone: what one takes is so many times what it costs. Measured
#: on TPC-H at SF1: the seconds of all units are 1.5 to 2.6 times those of their refresh by either engine, in full 1.1.
BESIDE = 2
#: The other strategy is taken where it was so many times quicker.
QUICKER = 1.5
#: The full one only where it was so many times quicker, if all that is known of it is the first build. Measured at SF1
#: from the shell: TPC-H's q01 took 3.5 s among the first builds, 11.7 s among incremental ones, 5.8 s incrementally.
QUICKER_BUILT = 2.0

#: A unit without a refresh to tell is expected to draw so many of the rows that may be met: the median of TPC-H's at
#: SF1 with a hundredth of all rows changed (0.02 to 1.3).
MET = 0.4


@dataclass(frozen=True)
class Past:
    """A unit's refreshes before, and its rows out for each changed row in (None where nobody knows).

    `met` is how often one that is read was drawn for each row that its changed ones were expected to meet (`drawn`;
    None where nobody knows), and `here` says that its statements run in this process, as far as is known. `built` are
    full refreshes that were its first build, `full` the others. An `inner` unit is read by others of its view, which
    are all refreshed in full once it is: what it took alone doesn't tell what that takes. `running` are the seconds of
    incremental ones after what was read for several units.
    """

    incremental: Actuals = ()
    full: Actuals = ()
    built: Actuals = ()
    ratio: float | None = None
    met: float | None = None
    here: bool = False
    inner: bool = False
    running: Sequence[float] = ()

    @property
    def whole(self) -> Actuals:
        """All full refreshes."""
        return (*self.full, *self.built)


def seconds_near(rows: int, actuals: Actuals, enough: int = 1) -> float | None:
    """The lower median of the seconds of refreshes of about so many rows; None where there were not `enough`.

    >>> seconds_near(1_000, [(900, 1.5), (1_100, 3.0), (50, 0.1)], enough=2)
    1.5
    >>> seconds_near(10_000, [(900, 1.0), (1_100, 3.0)]) is None
    True
    """
    near = [s for r, s in actuals if r <= SIMILAR * max(1, rows) and rows <= SIMILAR * max(1, r)]
    return statistics.median_low(near) if len(near) >= enough else None


def reached(drawn: float, rows: int) -> int:
    """How many different ones of so many rows are met by so many draws (Cardenas, CACM 18(5), 1975).

    >>> reached(100, 1_000_000), reached(1_000_000, 1_000_000)
    (100, 632121)
    """
    return round(rows * -math.expm1(-drawn / rows)) if rows else 0


def drawn(read: int, rows: int) -> float:
    """The draws that met so many of the rows; of nearly all of them not more than meet nine tenths.

    >>> round(drawn(632_121, 1_000_000), -3), round(drawn(2_000, 1_000))
    (1000000.0, 2303)
    """
    return -rows * math.log1p(-min(0.9, read / rows)) if rows else 0.0


def better(incremental: int, full: int, past: Past, limits: Limits) -> tuple[StrategyKind, str] | None:
    """The strategy that was clearly quicker for about as many rows, and how that is told; None where none was.

    >>> past = Past(incremental=[(300_000, 9.0), (310_000, 8.0)], full=[(400_000, 2.0)])
    >>> better(305_000, 400_000, past, Limits())
    (<StrategyKind.FULL: 'full'>, 'about as many rows took 8.0 s beside others incrementally and 2.0 s in full')
    >>> better(305_000, 400_000, Past(past.incremental, past.full, inner=True), Limits()) is None
    True
    """
    beside, again = seconds_near(incremental, past.incremental, ENOUGH), seconds_near(full, past.full)
    other = again if again is not None else seconds_near(full, past.built)
    one = None if beside is None else beside / BESIDE
    if one is None or other is None or abs(one - other) <= limits.learned_seconds:
        return None
    enough = QUICKER_BUILT if again is None and other < one else QUICKER
    if max(one, other) <= enough * min(one, other) or (past.inner and other < one):
        return None
    told = f"about as many rows took {beside:.1f} s beside others incrementally and {other:.1f} s in full"
    return (StrategyKind.INCREMENTAL if one < other else StrategyKind.FULL), told
