"""Judgements of rows that need no Great Expectations: plain counts over a column.

    unexpected = rows that are not NULL and not as expected

Only where values and bounds are of one exact type, so that there is one way to compare them; anything else, and
whatever fails, is Great Expectations' to judge and to tell (importing it takes longer than a small refresh).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.quality.facts import Kept, Kind, Numbers, keepable
from ivm.quality.verdicts import entry_of, result_of


def counts(kept: Kept, rows: pa.Table) -> Numbers | None:
    """How many rows there are, how many lack a value, how many are unexpected; None where that isn't told plainly."""
    wanted = _expected(kept, rows[kept.column]) if kept.kind is Kind.JUDGED else None
    if wanted is None:
        return None
    values, (missing, met) = rows[kept.column], wanted
    return {"rows": len(values), "missing": missing, "unexpected": len(values) - missing - met}


def _expected(kept: Kept, values: pa.ChunkedArray) -> tuple[int, int] | None:
    """The rows that are left out, and those that are as expected."""
    name = kept.name
    nulls = int(pc.sum(pc.is_null(values, nan_is_null=True)).as_py() or 0)  # NaN is missing, as pandas has it
    if name == "expect_column_values_to_not_be_null":
        return 0, len(values) - nulls
    if name == "expect_column_values_to_be_null":
        return 0, nulls
    if name == "expect_column_values_to_be_between" and pa.types.is_integer(values.type):
        ends = kept.arguments.get("min_value"), kept.arguments.get("max_value")
        if any(end is not None and (type(end) is not int or abs(end) >= 2**63) for end in ends) or ends == (None, None):
            return None
        strict = [bool(kept.arguments.get(f"strict_{end}")) for end in ("min", "max")]
        for end, apart, compare in (
            (ends[0], strict[0], (pc.greater_equal, pc.greater)),
            (ends[1], strict[1], (pc.less_equal, pc.less)),
        ):
            if end is not None:
                values = values.filter(compare[apart](values, pa.scalar(end, pa.int64())))
        return nulls, len(values) - values.null_count
    if name == "expect_column_values_to_be_in_set":
        members, kind = kept.arguments.get("value_set"), int if pa.types.is_integer(values.type) else str
        exact = pa.types.is_integer(values.type) or pa.types.is_string(values.type)
        if exact and isinstance(members, list) and members and all(type(m) is kind for m in members):
            held = pa.array([m for m in members if _is_held(m, values.type)], values.type)
            return nulls, int(pc.sum(pc.is_in(values, held)).as_py() or 0)
    return None


def _is_held(member: int | str, type_: pa.DataType) -> bool:
    """Whether a column of this type (a signed integer, or text) may hold a member of a set; no row has another one."""
    return isinstance(member, str) or -(2 ** (type_.bit_width - 1)) <= member < 2 ** (type_.bit_width - 1)


def met(view: str, rules: Sequence[Mapping[str, Any]], rows: pa.Table) -> list[dict[str, Any]] | None:
    """The results of a suite, as Great Expectations tells them, where all are plain and met; None otherwise."""
    entries = []
    for place, rule in enumerate(rules):
        kept = keepable(place, view, rule, rows.schema)
        numbers = counts(kept, rows) if kept is not None else None
        told = result_of(kept, numbers) if kept is not None and numbers is not None else None
        if kept is None or told is None or not told[0]:
            return None
        entries.append(entry_of(kept, *told, "rows"))
    return entries
