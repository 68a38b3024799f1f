"""Declared views and their compiled programs, in dependency order.

A program depends on the view's text and its relations' columns only, so it is kept under the root and read back
without Spark; tasks that only plan, check or publish start no JVM.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from ivm.errors import RefusedError, ViewError
from ivm.plan.anchors import keyable
from ivm.plan.nodes import Program, Relation
from ivm.refresh import programs
from ivm.rewrite.identity import definition
from ivm.sql.analyzer import Analyzer
from ivm.sql.calls import wide_sums
from ivm.sql.functions import definitions
from ivm.sql.refusals import refusal
from ivm.sql.rules import BEYOND_SPARK
from ivm.sql.substitution import check_written_out
from ivm.sql.text import arrange_hints, relation_tables
from ivm.storage.location import Location
from ivm.trace.arranged import TIME


@dataclass(frozen=True)
class View:
    """A declared view. `file` is where its SQL came from, for messages."""

    name: str
    sql: str
    mode: str = "auto"
    file: str = ""
    #: How far it may be behind its sources; None for no target.
    freshness: timedelta | None = None

    @property
    def where(self) -> str:
        return f" ({self.file})" if self.file else ""


@dataclass(frozen=True)
class Compiled:
    """A view with its program, in its mode; `definition` is the identity of its state (see `ivm.rewrite.identity`).

    `facts` is a hash of what it was compiled from: its text, and the relations it `reads`.
    """

    view: View
    program: Program
    definition: str
    facts: str = ""
    reads: Mapping[str, Relation] = field(default_factory=dict)
    #: The arrangements it asks for: (relation, keys).
    arranged: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def incremental(self) -> bool:
        return self.program.incremental

    @property
    def unit_names(self) -> tuple[str, ...]:
        """Its units in order; a view without a program is one of its own name."""
        return tuple(u.name for u in self.program.units) or (self.program.view,)


def in_order(
    views: Mapping[str, View], roots: Iterable[str] | None = None, broken: dict[str, str] | None = None
) -> list[View]:
    """Views before those that read them, all or those that `roots` need.

    Raises ViewError for a text that isn't one query, or in which Spark would replace something first, and for a cycle,
    naming its members; with `broken`, these views are left out and noted there, with the reason.
    """
    done: dict[str, View] = {}
    path: list[str] = []

    def fail(names: Iterable[str], error: ViewError) -> None:
        if broken is None:
            raise error
        broken.update(dict.fromkeys(names, str(error)))

    def visit(name: str) -> None:
        if name in done or (broken and name in broken):
            return
        if name in path:
            cycle = [*path[path.index(name) :], name]
            named = " -> ".join(views[n].name for n in cycle)
            fail(
                cycle,
                ViewError(
                    f"Views read each other in a cycle: {named}.",
                    "Break it: a view can only read sources and views that don't lead back to it.",
                ),
            )
            return
        path.append(name)
        for table in _tables(name):
            if table in views:
                visit(table)
        path.pop()
        if not (broken and name in broken):
            done[name] = views[name]

    def _tables(name: str) -> list[str]:
        try:
            check_written_out(views[name].sql, "Its SQL")
            return [table.lower() for table, *_ in relation_tables(views[name].sql)]
        except ViewError as error:
            view = views[name]
            fail([name], ViewError(f"View {view.name!r}{view.where}: {error.message}", error.hint))
            return []

    for name in views if roots is None else roots:
        visit(name)
    return list(done.values())


def compile_view(
    view: View,
    relations: dict[str, Relation],
    analyzer: Callable[[], Analyzer],
    cache: Location,
    raises: Callable[[], bool] = lambda: True,
    known: Compiled | None = None,
) -> Compiled:
    """Compile a view over its relations, or read the kept program; `raises` as the analyzer's, but it starts nothing.

    What is `known` from an earlier call is given back where the same would come out.
    Raises ViewError (with the view's file) for SQL that can't be a view, RefusedError for `mode="incremental"`
    where there is only a full refresh.
    """
    tables = {t.lower() for t, *_ in relation_tables(view.sql)}
    read = {n: r for n, r in relations.items() if n in tables}
    facts = _facts(view, read)
    file = programs.place(cache, view.name, facts)
    program = programs.read(file)
    if (
        program is not None
        and program.functions
        and program.functions != definitions(analyzer().functions([n for n, _ in program.functions]))
    ):
        program = None
    if program is not None and any(map(wide_sums, program.units)) and not raises():
        program = None
    if program is None:
        from ivm.compile.passes import compile_sql  # a program that is kept needs no compiler

        try:
            program = compile_sql(view.name.lower(), view.sql, relations, analyzer())
        except ViewError as error:
            raise ViewError(f"View {view.name!r}{view.where}: {error.message}", error.hint) from error
        programs.keep(file, program, {definition(in_mode(program, m), view.sql, read) for m in ("auto", "full")})
    if view.mode == "incremental" and not program.incremental:
        reasons = "; ".join(f"{r.reason} [{r.code}]" for r in program.refusals)
        raise RefusedError(
            f"View {view.name!r}{view.where} has mode incremental but can only be refreshed in full: {reasons}.",
            f"To mend it: {program.refusals[0].mend}; or set mode auto.",
        )
    if known is not None and (known.view, known.facts) == (view, facts) and known.program is program:
        return known
    program = in_mode(program, view.mode)
    return Compiled(view, program, definition(program, view.sql, read), facts, read, _arranged(view, read))


def in_mode(program: Program, mode: str) -> Program:
    """A view's program in a mode: with `full`, Spark runs the view's own text, if it can."""
    if mode != "full" or not program.incremental:
        return program
    units = program.units if set(program.rules) & set(BEYOND_SPARK) else ()
    return replace(program, units=units, rules=program.rules if units else (), refusals=(refusal("mode_full"),))


def _facts(view: View, read: Mapping[str, Relation]) -> str:
    """A hash of all that a program is compiled from: the view's text, and what is known of the relations it reads."""
    known: dict[str, list[object]] = {
        n: [
            *([c.name, c.type] for c in r.columns),
            *(list(r.key), r.kind, r.effective),
            *([c.name, c.type] for c in r.padded),
        ]
        for n, r in sorted(read.items())
    }
    return hashlib.sha256(json.dumps([view.name, view.sql, known]).encode()).hexdigest()[:16]


def _arranged(view: View, relations: Mapping[str, Relation]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The arrangements that a view's hints ask for.

    Raises ViewError for what it doesn't read, or can't be looked up by.
    """
    found = []
    for name, keys in arrange_hints(view.sql):
        if name not in relations:
            raise ViewError(
                f"View {view.name!r}{view.where}: its hint ARRANGE names {name!r}, which it doesn't read.",
                f"It reads: {', '.join(relations)}.",
            )
        columns = {c.name.lower(): c for c in relations[name].columns}
        for key in keys:
            if key not in columns or not keyable(columns[key].type):
                fitting = ", ".join(c.name for c in columns.values() if keyable(c.type))
                raise ViewError(
                    f"View {view.name!r}{view.where}: {name!r} can't be arranged by {key!r}.",
                    f"It can be arranged by: {fitting}.",
                )
        if TIME in columns:
            raise ViewError(
                (
                    f"View {view.name!r}{view.where}: {name!r} has a column {TIME!r}, "
                    "a name that arrangements use themselves."
                ),
                "Rename it.",
            )
        if not keys:
            raise ViewError(
                f"View {view.name!r}{view.where}: its hint ARRANGE({name}) names no key.",
                "Write ARRANGE(relation, key, ...).",
            )
        found.append((name, tuple(columns[k].name for k in keys)))
    return tuple(found)
