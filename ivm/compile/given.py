"""What a view is compiled from: its statement, the relations it may read, and what the engine says of them (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from ivm.errors import ViewError
from ivm.plan.nodes import Column, Program, Refusal, Relation
from ivm.sql.analyzer import Analyzer, Function
from ivm.sql.functions import definitions, own_functions
from ivm.sql.recursion import has_set_recursion, union_all
from ivm.sql.refusals import refusal
from ivm.sql.render import typed_nulls
from ivm.sql.rules import MUTUAL_RECURSION, SET_RECURSION
from ivm.sql.text import query_tree, relation_tables, splice
from ivm.sql.volatile import volatile


@dataclass(frozen=True)
class Asked:
    """A view by name, the relations there are (by lower-case name), and the engine that is asked."""

    view: str
    relations: dict[str, Relation]
    analyzer: Analyzer

    @cached_property
    def nulls(self) -> dict[str, str]:
        """Each relation as one row of typed NULLs."""
        return {name: typed_nulls(r.columns) for name, r in self.relations.items()}

    @property
    def columns_of(self) -> dict[str, tuple[Column, ...]]:
        """The columns of each relation."""
        return {name: r.columns for name, r in self.relations.items()}

    def schema(self, sql: str) -> tuple[Column, ...]:
        """The columns of a statement over the relations. Raises ViewError with the engine's own message."""
        return self.analyzer.schema(splice(sql, self.nulls))


@dataclass(frozen=True)
class Given(Asked):
    """A statement after the passes over its text.

    `tree` is what is compiled, `sql` the same as the engine can be asked; `columns` are the engine's own, `reads` the
    relations that are named, `called` the user's own functions. `beyond` says what Spark itself can't run of it.
    """

    sql: str
    tree: exp.Expression
    columns: tuple[Column, ...]
    reads: tuple[str, ...]
    called: tuple[Function, ...]
    beyond: str | None

    @property
    def functions(self) -> tuple[tuple[str, str], ...]:
        """The user's own functions as a program keeps them."""
        return definitions(self.called)

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """The session's variables that the statement reads. The compiler takes none for a column, and refuses it."""
        return self.analyzer.variables(splice(self.sql, self.nulls))

    def refused(self, why: Refusal) -> Program:
        """The view refreshed in full by Spark. Raises ViewError where Spark can't run it."""
        if self.beyond:
            raise ViewError(f"{self.beyond}, and {why.reason}.", why.mend)
        # What has no program has no clocks: whatever refuses it, a statement that asks for the time is due each time.
        # So is one that reads a variable, which anybody may set.
        read = (refusal("nondeterministic", f"the session variable {name}") for name in self.variables)
        whys = (why,) if why.code == "nondeterministic" else (*read, why)
        deterministic = whys[0].code != "nondeterministic" and volatile(self.tree, self.relations) is None
        return Program(self.view, self.columns, self.reads, (), whys, deterministic, functions=self.functions)


def given(asked: Asked, written: str, sql: str) -> Given:
    """What is known of a statement that was `written` so, and is `sql` after the passes over its text.

    Raises ViewError for unknown tables, for what the engine itself refuses, and for columns that can't be stored.
    """
    tree = query_tree(sql)
    as_set = has_set_recursion(tree)
    tables = relation_tables(sql)
    unknown = sorted({name for name, *_ in tables if name.lower() not in asked.relations})
    if unknown:
        raise ViewError(
            f"It reads {', '.join(unknown)}, which is neither a source nor a view of this pipeline.",
            f"There are: {', '.join(sorted(r.name for r in asked.relations.values())) or 'none yet'}.",
        )
    # Spark refuses UNION in a recursion; the columns are those of UNION ALL.
    plain = union_all(sql) if as_set else sql
    columns = asked.schema(plain)
    check_storable(columns)
    return Given(
        asked.view,
        asked.relations,
        asked.analyzer,
        plain,
        tree,
        columns,
        tuple(dict.fromkeys(name.lower() for name, *_ in tables)),
        own_functions(tree, asked.analyzer),
        MUTUAL_RECURSION if sql != written else SET_RECURSION if as_set else None,
    )


def check_storable(columns: tuple[Column, ...]) -> None:
    """Raises ViewError for a column that Delta can't store.

    >>> check_storable((Column("a", "int"), Column("A", "int")))
    Traceback (most recent call last):
    ivm.errors.ViewError: It has two columns named 'A'. Give one of them an alias with AS.
    """
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise ViewError(f"It has two columns named {column.name!r}.", "Give one of them an alias with AS.")
        seen.add(column.name.lower())
        if set(column.name) & set(" ,;{}()\n\t="):
            raise ViewError(
                f"It has a column named {column.name!r}, which Delta can't store.", "Give it an alias with AS."
            )
        if "void" in column.type or "interval" in column.type:
            raise ViewError(
                f"Column {column.name!r} has the type {column.type}, which Delta can't store.",
                "Cast it to a type that Delta has.",
            )
