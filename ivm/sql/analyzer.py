"""What the compiler must ask Spark: types, equality of two statements, whether an expression is plain.

The compiler is pure; it asks through this protocol. `ivm.session` answers with Spark, the pure tests with DuckDB.
No statement given to an analyzer reads a table: leaves are typed NULL rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ivm.plan.nodes import Column


class Analyzer(Protocol):
    def schema(self, sql: str) -> tuple[Column, ...]:
        """The output columns of a statement. Raises ViewError with the engine's own message."""

    def same(self, one: str, other: str) -> bool:
        """Whether two statements mean the same to the engine."""

    def aggregates(self, calls: Mapping[str, int]) -> frozenset[str]:
        """Which of these functions (name in lower case, number of arguments) are user-defined aggregates."""

    def chance(self, sql: str) -> str | None:
        """None if the engine calls every expression of a query deterministic, else its complaint. What is constant within one statement counts as such."""

    def as_time(self, sql: str, text: str) -> bool:
        """Whether a query takes the string literal `text` for a date or a time, or may do so."""

    def scalar(self, expressions: Sequence[str], from_sql: str) -> str | None:
        """None if all are deterministic scalar expressions over `from_sql`, else the engine's complaint."""
