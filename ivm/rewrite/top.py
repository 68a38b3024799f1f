r"""ORDER BY ... LIMIT k from its own stored rows and the delta, where these are enough.

    candidates  =  stored + dCore,  rows with a positive count

Every input row that isn't stored sorts after the last stored one. So the first k candidates are the new result if k of
them sort no later than that row did, or if fewer than k rows are stored (then all input is). Otherwise rows that
were cut off may come up, and the whole input must be read.
"""

from __future__ import annotations

from ivm.names import WEIGHT, ident
from ivm.plan.kinds import ReduceKind
from ivm.plan.nodes import Unit
from ivm.rewrite.statements import Reads, Walked, branch_deltas, repeated
from ivm.sql.render import columns_sql

PLACE, MARK = "__ivm_place", "__ivm_mark"


def from_stored(unit: Unit, most: int) -> bool:
    """Whether a unit is a plain LIMIT (without OFFSET) of at most so many rows.

    Its stored rows must have all that they are sorted by.
    """
    if unit.reduce is None or unit.post is None or unit.reduce.kind is not ReduceKind.TOP or unit.post.predicates:
        return False
    plain = {o.expr.plain[1] for o in unit.post.outputs if o.expr.plain}
    known = set(unit.core.columns) <= plain and all(o.expr.plain for o in unit.post.outputs)
    return known and 0 <= unit.reduce.limit <= most and unit.reduce.offset <= 0


def top_candidates(unit: Unit, walked: Walked, reads: Reads, stored: str) -> str:
    """The first k candidates, or one more, and the last stored row.

    Columns: the unit's, PLACE in the order, and MARK, which is 1 for the stored row.
    """
    assert unit.reduce is not None
    assert unit.post is not None
    core = list(unit.core.columns)
    order = unit.reduce.order
    held = {o.expr.plain[1]: o.name for o in reversed(unit.post.outputs) if o.expr.plain}
    mine = f"SELECT {', '.join(f'{ident(held[c])} AS {ident(c)}' for c in core)} FROM {stored}"
    deltas = (
        f"SELECT {columns_sql(core)}, CAST({ident(WEIGHT)} AS bigint) AS {ident(WEIGHT)} "
        f"FROM ({branch_deltas(walked, reads)}) AS `__ivm_terms`"
    )
    rows = f"SELECT {columns_sql(core)}, 1L AS {ident(WEIGHT)} FROM ({mine}) AS `__ivm_stored` UNION ALL {deltas}"
    last = (
        f"SELECT *, row_number() OVER (ORDER BY {order}) AS `__ivm_i`, count(*) OVER () AS `__ivm_n` "
        f"FROM ({mine}) AS `__ivm_stored`"
    )
    both = (
        f"SELECT {columns_sql(core)}, 0 AS {ident(MARK)} "
        f"FROM ({repeated(rows, unit.core.typed)}) AS `__ivm_candidates`\n"
        f"UNION ALL SELECT {columns_sql(core)}, 1 AS {ident(MARK)} "
        f"FROM ({last}) AS `__ivm_last` WHERE `__ivm_i` = `__ivm_n`"
    )
    placed = (
        f"SELECT *, row_number() OVER (ORDER BY {order}, {ident(MARK)}) AS {ident(PLACE)} FROM ({both}) AS `__ivm_both`"
    )
    outs = [f"{ident(str(o.expr.plain[1]))} AS {ident(o.name)}" for o in unit.post.outputs if o.expr.plain]
    # One more than the limit: the stored row that is marked takes a place too.
    most = unit.reduce.limit + 1
    return (
        f"SELECT {', '.join(outs)}, {ident(PLACE)}, {ident(MARK)}\n"
        f"FROM ({placed}) AS `__ivm_placed` WHERE {ident(PLACE)} <= {most} OR {ident(MARK)} = 1"
    )
