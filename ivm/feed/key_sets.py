"""Key sets as SQL, for those that stay with Spark: what `ivm.lake.keys` does with Arrow tables (pure).

    keys(match)      the distinct values of the provider's columns, called k0, k1, ..., integers as 64-bit ones

Where NULL may be among the keys it equals NULL; otherwise no key is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ivm.names import ident
from ivm.plan.nodes import Filter
from ivm.sql.filters import filter_sql
from ivm.sql.render import columns_sql
from ivm.table.slices import Picked

_INTEGERS = ("tinyint", "smallint", "int")
#: The alias of the rows that provide keys.
_ROWS = "__ivm_p"


def provided(
    rows: str, columns: Sequence[str], types: Mapping[str, str], filters: Sequence[Filter], via: Sequence[Picked] | None
) -> str:
    """These columns, as keys, of the rows of a FROM item that meet all filters and that any of `via` picks, if given.

    `types` are those of its columns by name.
    """
    listed = ", ".join(f"{_wide(c, types[c])} AS {ident(f'k{i}')}" for i, c in enumerate(columns))
    conditions = [filter_sql(f, types[f.column], _ROWS, f.column) for f in filters]
    conditions += [f"({' OR '.join(p.condition(_ROWS) for p in via)})"] if via is not None else []
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {listed} FROM {rows} AS {ident(_ROWS)}{where}"


def key_set(parts: Sequence[str], width: int, nulls: bool) -> str:
    """Each key of the parts once; those with a NULL only with `nulls`."""
    names = [f"k{i}" for i in range(width)]
    some = " AND ".join(f"{ident(n)} IS NOT NULL" for n in names)
    every = "\nUNION ALL\n".join(parts)
    return f"SELECT DISTINCT {columns_sql(names)}\nFROM ({every}) AS `__ivm_keys`" + (
        "" if nulls else f"\nWHERE {some}"
    )


def _wide(column: str, type_: str) -> str:
    name = f"{ident(_ROWS)}.{ident(column)}"
    return f"CAST({name} AS bigint)" if type_ in _INTEGERS else name
