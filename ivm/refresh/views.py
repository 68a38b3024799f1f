"""Declared views and their compiled programs, in dependency order.

A program depends on the view's text and its relations' columns only, so it is kept under the root and read back
without Spark; tasks that only plan, check or publish start no JVM.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from ivm.errors import RefusedError, StorageError, ViewError
from ivm.plan.anchors import keyable
from ivm.plan.nodes import Program, Relation
from ivm.refresh.records import from_json, program_json
from ivm.rewrite.arranged import with_streams
from ivm.rewrite.least import with_least
from ivm.rewrite.timed import with_companion
from ivm.sql.analyzer import Analyzer
from ivm.sql.functions import definitions
from ivm.sql.parse import parse_view
from ivm.sql.rules import BEYOND_SPARK
from ivm.sql.support import refusal
from ivm.sql.text import arrange_hints, relation_tables
from ivm.storage.location import Location
from ivm.trace.arranged import TIME

#: What decides how a view's text is understood, besides our own compiler: Spark may come in any of its distributions.
_READERS = ("sqlglot", "pyspark", "pyspark-connect", "pyspark-client")


@dataclass(frozen=True)
class View:
    """A declared view. `file` is where its SQL came from, for messages."""

    name: str
    sql: str
    mode: str = "auto"
    file: str = ""

    @property
    def where(self) -> str:
        return f" ({self.file})" if self.file else ""


@dataclass(frozen=True)
class Compiled:
    """A view with its program; `definition` changes whenever state built by another one can't be used."""

    view: View
    program: Program
    definition: str
    #: The arrangements it asks for: (relation, keys).
    arranged: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def incremental(self) -> bool:
        return self.program.incremental

    @property
    def unit_names(self) -> tuple[str, ...]:
        """Its units in order; a view without a program is one of its own name."""
        return tuple(u.name for u in self.program.units) or (self.program.view,)


def in_order(views: Mapping[str, View], roots: Iterable[str] | None = None) -> list[View]:
    """Views before those that read them, all or those that `roots` need.

    Raises ViewError for a cycle, naming its members.
    """
    done: dict[str, View] = {}
    path: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        if name in path:
            cycle = [*path[path.index(name) :], name]
            raise ViewError(
                f"Views read each other in a cycle: {' -> '.join(cycle)}.",
                "Break it: a view can only read sources and views that don't lead back to it.",
            )
        path.append(name)
        for table, *_ in relation_tables(views[name].sql):
            if table.lower() in views:
                visit(table.lower())
        path.pop()
        done[name] = views[name]

    for name in views if roots is None else roots:
        visit(name)
    return list(done.values())


@functools.cache
def compiler_fingerprint() -> str:
    """A hash of the compiler's own text and of the versions of its readers.

    Programs that others made are not reused.
    """
    digest = hashlib.sha256()
    for name in _READERS:
        with suppress(metadata.PackageNotFoundError):
            digest.update(f"{name} {metadata.version(name)}\n".encode())
    for package in ("plan", "sql", "rewrite"):
        for file in sorted((Path(__file__).parent.parent / package).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


@functools.lru_cache(maxsize=1024)
def _program(text: str) -> Program:
    return from_json(Program, text)


def _kept(file: Location) -> Program | None:
    """The program in a file of the cache; None where there is no such file, or it isn't as it was written."""
    try:
        digest, _, text = file.read().partition(b"\n")
    except OSError:
        return None
    return _program(text.decode()) if digest.decode("ascii", "replace") == hashlib.sha256(text).hexdigest() else None


def _keep(file: Location, program: Program) -> None:
    """Write a program into the cache, whole or not at all; what can't be kept is compiled again next time."""
    text = program_json(program).encode()
    with suppress(OSError, StorageError):
        file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def compile_view(
    view: View, relations: dict[str, Relation], analyzer: Callable[[], Analyzer], cache: Location
) -> Compiled:
    """Compile a view over its relations, or read the kept program.

    Raises ViewError (with the view's file) for SQL that can't be a view, RefusedError for `mode="incremental"`
    where there is only a full refresh.
    """
    tables = {t.lower() for t, *_ in relation_tables(view.sql)}
    read = {n: r for n, r in relations.items() if n in tables}
    facts = json.dumps(
        [
            view.name,
            view.sql,
            {
                n: [[c.name, c.type] for c in r.columns]
                + [list(r.key), r.kind, r.effective, *([[c.name, c.type] for c in r.padded])]
                for n, r in sorted(read.items())
            },
        ]
    )
    definition = hashlib.sha256(facts.encode()).hexdigest()[:16]
    kept = cache / f"{view.name}-{definition}-{compiler_fingerprint()}.json"
    program = _kept(kept)
    if (
        program is not None
        and program.functions
        and program.functions != definitions(analyzer().functions([n for n, _ in program.functions]))
    ):
        program = None
    if program is None:
        try:
            program = with_companion(
                with_streams(with_least(parse_view(view.name.lower(), view.sql, relations, analyzer()))), relations
            )
        except ViewError as error:
            raise ViewError(f"View {view.name!r}{view.where}: {error.message}", error.hint) from error
        _keep(kept, program)
    if program.units:
        # What Spark pads differently now was stored by another definition.
        declared = "".join(f"{n}.{c.name} {c.type}" for n, r in sorted(read.items()) for c in r.padded)
        definition = hashlib.sha256((program_json(program) + declared).encode()).hexdigest()[:16]
    elif program.functions:
        definition = hashlib.sha256(f"{definition}/{program.functions}".encode()).hexdigest()[:16]
    if view.mode == "incremental" and not program.incremental:
        reasons = "; ".join(f"{r.reason} [{r.code}]" for r in program.refusals)
        raise RefusedError(
            f"View {view.name!r}{view.where} has mode incremental but can only be refreshed in full: {reasons}.",
            f"To mend it: {program.refusals[0].mend}; or set mode auto.",
        )
    if view.mode == "full" and program.incremental:
        # Spark runs the view's own text, if it can.
        units = program.units if set(program.rules) & set(BEYOND_SPARK) else ()
        program = replace(program, units=units, rules=program.rules if units else (), refusals=(refusal("mode_full"),))
        definition = hashlib.sha256(f"{definition}/full".encode()).hexdigest()[:16]
    return Compiled(view, program, definition, _arranged(view, read))


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
