"""Rows that are looked for, as Spark's SQL (pure).

    slice = rows that any of the conditions picks, and that none of an earlier level's picked

Where NULL may be among the keys it equals NULL; otherwise no key is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime

from ivm.names import ident, literal
from ivm.sql.render import columns_sql

#: Where a range of numbers, days or times ends.
End = float | date


@dataclass(frozen=True)
class Picked:
    """Rows whose columns are among the rows of the FROM item `keys`, or whose one column lies between two `ends`."""

    columns: tuple[str, ...]
    keys: str = ""
    nulls: bool = False
    ends: tuple[End, End] | None = None

    def condition(self, alias: str) -> str:
        """The SQL condition on an alias's rows."""
        if self.ends is not None:
            low, high = map(_end, self.ends)
            column = f"{ident(alias)}.{ident(self.columns[0])}"
            return (
                f"{f'CAST({column} AS double)' if isinstance(self.ends[0], float) else column} BETWEEN {low} AND {high}"
            )
        equal = "<=>" if self.nulls else "="
        on = " AND ".join(
            f"`__ivm_k`.{ident(f'k{i}')} {equal} {ident(alias)}.{ident(c)}" for i, c in enumerate(self.columns)
        )
        return f"EXISTS (SELECT 1 FROM {self.keys} AS `__ivm_k` WHERE {on})"

    def negation(self, alias: str) -> str:
        """The condition on all other rows."""
        picked = self.condition(alias)
        return f"NOT {picked}" if self.ends is None else f"NOT COALESCE({picked}, FALSE)"


def _end(value: End) -> str:
    """An end of a range as a literal of Spark's.

    >>> from datetime import UTC
    >>> _end(1.5), _end(date(2024, 1, 1)), _end(datetime(2024, 1, 1)), _end(datetime(2024, 1, 1, tzinfo=UTC))
    ('1.5D', "DATE '2024-01-01'", "TIMESTAMP_NTZ '2024-01-01 00:00:00'", "TIMESTAMP '2024-01-01 00:00:00+00:00'")
    """
    if isinstance(value, datetime):
        return f"{'TIMESTAMP' if value.tzinfo else 'TIMESTAMP_NTZ'} {literal(value.isoformat(' '))}"
    return f"DATE {literal(value.isoformat())}" if isinstance(value, date) else f"{value!r}D"


def slice_sql(table: str, columns: Sequence[str], picked: Sequence[Picked], earlier: Sequence[Picked]) -> str:
    """The rows of a table that one of `picked` means and none of `earlier`."""
    some = " OR ".join(p.condition("t") for p in picked)
    none = "".join(f"\nAND {p.negation('t')}" for p in earlier)
    return f"SELECT {columns_sql(columns, 't')}\nFROM {table} AS t\nWHERE ({some}){none}"
