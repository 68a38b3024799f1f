"""A view's SQL to its program: every pass of the compiler stands in `PASSES`, in order (pure).

    text -> text          the statement as it is written
    tree -> tree          its syntax tree, over columns that Spark knows
    tree -> program       normal form: the units
    program -> program    which units keep rows, and which rows

Invariant: each pass keeps the meaning of what it takes. The program's columns are exactly Spark's own columns of the
view (names and types), and the statement that sqlglot understood means to Spark what the user wrote; else the view is
refused. A pass is one public function with a doctest; `tests/pure/golden/` has a file of examples for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ivm.compile.checks import (
    CHECKS,
    read_as_written,
    resolved_as_written,
    without_hidden_columns,
    without_session_windows,
    without_variants,
)
from ivm.compile.given import Asked, Given, given
from ivm.compile.normal_form import normal_form
from ivm.errors import ViewError
from ivm.plan.nodes import PlanError, Program, Relation
from ivm.rewrite.least import with_least
from ivm.rewrite.pushed_filters import with_pushed_filters
from ivm.rewrite.stream_units import with_streams
from ivm.rewrite.timed import with_companion
from ivm.sql.aggregates import with_aggregates
from ivm.sql.analyzer import Analyzer
from ivm.sql.expand import with_function_columns, with_generated_names, with_struct_fields, with_time_windows
from ivm.sql.field_names import with_field_names
from ivm.sql.mutual import merged
from ivm.sql.qualified import qualified
from ivm.sql.refusals import UnsupportedError, refusal
from ivm.sql.temporal import with_clocks
from ivm.sql.text import first_line


class Stage(Enum):
    """What a pass works on."""

    TEXT = "text"
    TREE = "tree"
    UNITS = "units"
    PROGRAM = "program"


@dataclass(frozen=True)
class Pass:
    """One step: a function of what the one before made and of what is given (`Asked` for a text, else `Given`)."""

    name: str
    stage: Stage
    run: Callable[[Any, Any], Any]


PASSES: tuple[Pass, ...] = (
    Pass("mutual", Stage.TEXT, lambda sql, asked: merged(sql, asked.columns_of, asked.analyzer.schema)),
    Pass("session_windows", Stage.TREE, lambda tree, _: without_session_windows(tree)),
    Pass("round_trip", Stage.TREE, read_as_written),
    Pass("field_names", Stage.TREE, lambda tree, _: with_field_names(tree)),
    Pass("time_windows", Stage.TREE, lambda tree, _: with_time_windows(tree)),
    Pass("function_columns", Stage.TREE, lambda tree, given: with_function_columns(tree, given.schema)),
    Pass("struct_fields", Stage.TREE, lambda tree, given: with_struct_fields(tree, given.schema)),
    Pass("generated_names", Stage.TREE, lambda tree, given: with_generated_names(tree, given.schema)),
    Pass("aggregates", Stage.TREE, lambda tree, given: with_aggregates(tree, given.analyzer)),
    Pass("qualified", Stage.TREE, lambda tree, given: qualified(tree, given.relations)),
    Pass("hidden_columns", Stage.TREE, lambda tree, _: without_hidden_columns(tree)),
    Pass("resolved", Stage.TREE, resolved_as_written),
    Pass("clocks", Stage.TREE, lambda tree, given: with_clocks(tree, given.relations, given.analyzer)),
    Pass("units", Stage.UNITS, normal_form),
    Pass("variants", Stage.PROGRAM, without_variants),
    Pass("pushed_filters", Stage.PROGRAM, lambda program, _: with_pushed_filters(program)),
    Pass("least", Stage.PROGRAM, lambda program, given: with_least(program, given.relations)),
    Pass("streams", Stage.PROGRAM, lambda program, _: with_streams(program)),
    Pass("companion", Stage.PROGRAM, lambda program, given: with_companion(program, given.relations)),
)


def compile_sql(view: str, sql: str, relations: dict[str, Relation], analyzer: Analyzer, upto: str = "") -> Program:
    """Compile a view over `relations` (by lower-case name); with `upto` only through the pass of that name.

    Raises ViewError for unknown tables, for what the engine itself refuses, and for output columns that can't
    be stored. What can't be maintained is not an error: the program then has refusals and no units.
    """
    last = next((i for i, p in enumerate(PASSES) if p.name == upto), len(PASSES) - 1)
    passes = PASSES[: last + 1]
    asked = Asked(view, relations, analyzer)
    text = sql
    for each in _of(passes, Stage.TEXT):
        text = each.run(text, asked)
    known = given(asked, sql, text)
    for check in CHECKS:
        if why := check(known):
            return known.refused(why)
    try:
        program = _program(passes, known)
        for each in _of(passes, Stage.PROGRAM):
            program = each.run(program, known)
    except UnsupportedError as unsupported:
        return known.refused(unsupported.refusal)
    return program


def parse_view(view: str, sql: str, relations: dict[str, Relation], analyzer: Analyzer) -> Program:
    """The program in normal form, before the passes that say which rows its units keep. Raises as `compile_sql`."""
    return compile_sql(view, sql, relations, analyzer, "variants")


def _program(passes: tuple[Pass, ...], known: Given) -> Program:
    """The program in normal form, or refused. Raises UnsupportedError for what has no delta rule."""
    made: Any = known.tree
    try:
        for each in _of(passes, Stage.TREE, Stage.UNITS):
            made = each.run(made, known)
    except UnsupportedError:
        raise
    except (PlanError, ViewError) as error:
        # What we made of the query, Spark or the plan's own rules refuse: then the query itself is what is run.
        return known.refused(refusal("compiled", first_line(error)))
    except Exception as error:  # noqa: BLE001 - a defect of the compiler must not keep a view from being refreshed
        return known.refused(refusal("defect", f"{type(error).__name__}: {first_line(error)}"))
    assert isinstance(made, Program)
    return made


def _of(passes: tuple[Pass, ...], *stages: Stage) -> tuple[Pass, ...]:
    return tuple(p for p in passes if p.stage in stages)
