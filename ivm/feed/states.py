"""The states of a relation as SQL over its rows and its delta, for rows that stay with Spark (pure).

shifted:   rows + moved                as a bag
flagged:   the rows of both states     each with IN_NEW and IN_OLD
ones:      sums of weights             each row as often as its weight says, +1 or -1
"""

from __future__ import annotations

from collections.abc import Sequence

from ivm.names import WEIGHT, ident
from ivm.plan.nodes import IN_NEW, IN_OLD, Column
from ivm.rewrite.delta_join import State
from ivm.rewrite.statements import consolidated, repeated
from ivm.sql.maps import comparable
from ivm.sql.render import columns_sql

_WEIGHT = ident(WEIGHT)


def shifted(columns: Sequence[Column], rows: str, moved: str) -> str:
    """The FROM item `rows` with the weighted rows of the FROM item `moved` added, as a bag.

    Only rows equal to one of those moved are counted; all others are as they were.
    """
    on = " AND ".join(f"{comparable(c, 't')} <=> {comparable(c, 'd')}" for c in columns)
    names = columns_sql([c.name for c in columns])
    mine = columns_sql([c.name for c in columns], "t")
    same = f"SELECT {mine} FROM {rows} AS t LEFT ANTI JOIN {moved} AS d ON {on}"
    there = f"SELECT {mine}, CAST(1 AS bigint) AS {_WEIGHT} FROM {rows} AS t LEFT SEMI JOIN {moved} AS d ON {on}"
    weighted = f"SELECT {names}, CAST({_WEIGHT} AS bigint) AS {_WEIGHT} FROM {moved}"
    return f"{same} UNION ALL {repeated(f'{there} UNION ALL {weighted}', columns)}"


def taken_back(columns: Sequence[Column], delta: str) -> str:
    """The FROM item `delta` with its weights turned round."""
    return f"(SELECT {columns_sql([c.name for c in columns])}, -{_WEIGHT} AS {_WEIGHT} FROM {delta})"


def flagged(columns: Sequence[Column], rows: str | None, base: State, delta: str) -> str:
    """The rows of both states: those of `rows` that did not change, and the delta's.

    `rows` were read in the state `base`; None where there are none.
    """
    names = columns_sql([c.name for c in columns])
    flags = ", ".join(
        f"CAST(CASE WHEN {_WEIGHT} = {w} THEN 1 ELSE 0 END AS int) AS {ident(flag)}"
        for flag, w in ((IN_NEW, 1), (IN_OLD, -1))
    )
    moved = f"SELECT {names}, {flags} FROM {delta}"
    if rows is None:
        return moved
    # The rows were read in one state; the delta's rows of that state carry flags of their own, so they leave it here.
    in_base = f"{_WEIGHT} = {1 if base is State.NEW else -1}"
    there = f"(SELECT {names}, CAST(-1 AS bigint) AS {_WEIGHT} FROM {delta} WHERE {in_base})"
    unchanged = shifted(columns, rows, there)
    both = f"CAST(1 AS int) AS {ident(IN_NEW)}, CAST(1 AS int) AS {ident(IN_OLD)}"
    return f"SELECT {names}, {both} FROM ({unchanged}) AS `__ivm_unchanged` UNION ALL {moved}"


def ones(rows: str, columns: Sequence[Column]) -> str:
    """Weighted rows consolidated: each row as often as its weights add up to, with WEIGHT +1 or -1."""
    names = columns_sql([c.name for c in columns])
    times = f"EXPLODE(SEQUENCE(CAST(1 AS bigint), ABS({_WEIGHT})))"
    inner = f"SELECT {names}, {_WEIGHT}, {times} AS `__ivm_i` FROM ({consolidated(rows, columns)}) AS `__ivm_once`"
    return f"SELECT {names}, CAST(SIGN({_WEIGHT}) AS int) AS {_WEIGHT}\nFROM ({inner}) AS `__ivm_ones`"
