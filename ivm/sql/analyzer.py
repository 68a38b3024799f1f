"""What the compiler must ask Spark: types, equality of two statements, whether an expression is plain.

The compiler is pure; it asks through this protocol. `ivm.session` answers with Spark, the pure tests with DuckDB.
No statement given to an analyzer reads a table: leaves are typed NULL rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ivm.plan.nodes import Column


@dataclass(frozen=True)
class Function:
    """A function of the user's own.

    `body` is what a SQL function returns, "" of one in another language, which nobody can look into; `parameters` are
    what the body may call by name.
    """

    name: str
    signature: str
    body: str
    parameters: tuple[str, ...]


class Analyzer(Protocol):
    def schema(self, sql: str) -> tuple[Column, ...]:
        """The output columns of a statement. Raises ViewError with the engine's own message."""

    def same(self, one: str, other: str) -> bool:
        """Whether two statements mean the same to the engine; they don't where it refuses one of them."""

    def alike(self, one: str, other: str) -> bool:
        """Whether the engine makes one plan of two statements, names aside; not where it refuses one of them."""

    def aggregates(self, calls: Mapping[str, int]) -> frozenset[str]:
        """Which of these functions (name in lower case, number of arguments) are user-defined aggregates."""

    def functions(self, names: Collection[str]) -> tuple[Function, ...]:
        """Which of these names (lower case) are the user's own functions, and those that their bodies call, by name."""

    def chance(self, sql: str) -> str | None:
        """None if the engine calls every expression of a query deterministic, else its complaint.

        What is constant within one statement counts as such.
        """

    def as_time(self, sql: str, text: str) -> bool:
        """Whether a query takes the string literal `text` for a date or a time, or may do so."""

    def variables(self, sql: str) -> tuple[str, ...]:
        """The names of the session's variables that a query reads."""

    def scalar(self, expressions: Sequence[str], from_sql: str) -> str | None:
        """None if all are deterministic scalar expressions over `from_sql`, else the engine's complaint."""

    def raises(self) -> bool:
        """Whether arithmetic that overflows raises an error (ANSI), or gives NULL."""
