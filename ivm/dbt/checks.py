"""Tests of views as checks, judged before a view is published instead of after.

    not_null, unique, accepted_values    an expectation of the view's state
    relationships                        a view of the rows without a counterpart, of which there must be none
    anything else                        stays with dbt, by name and with the reason

Invariant: no test is lost; each is a check, or named with the reason why it is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ivm.dbt.manifest import Model, Project, Test, reached
from ivm.dbt.views import NO_TABLES, Left, called
from ivm.errors import ConfigError, ViewError
from ivm.names import check_name

Rule = dict[str, dict[str, Any]]
_COLUMN = re.compile(r"\w+\Z")
#: What dbt writes where a test says nothing of its own.
_PLAIN = {"where": None, "limit": None, "fail_calc": "count(*)", "warn_if": "!= 0", "error_if": "!= 0"}
_NO_ROWS = "expect_table_row_count_to_equal"


def checks(
    project: Project, models: Sequence[Model]
) -> tuple[dict[str, dict[str, list[Rule]]], dict[str, str], list[Left]]:
    """Checks by view, the views that are made for them, and the tests that are not taken over.

    Raises ConfigError for a view that would be called as another.
    """
    found: dict[str, dict[str, list[Rule]]] = {}
    made: dict[str, str] = {}
    left = []
    by_id = {m.id: m for m in models}
    for test in project.tests:
        if reason := _reason(test, by_id) or _missing(test, by_id, project):
            left.append(Left(test.name, reason))
            continue
        if test.kind == "relationships":
            view, rule = re.sub(r"\W", "_", test.name), _rule(_NO_ROWS, {"value": 0}, test)
            if view.lower() in {v.lower() for v in (*made, *(m.name for m in models))}:
                raise ConfigError(f"The test {test.name} is called as another test or a model.", "Rename it.")
            try:
                made[check_name(view, "view")] = called("it", test.sql, models)
            except (ConfigError, ViewError) as error:
                left.append(Left(test.name, error.message))
                continue
        else:
            view, rule = by_id[test.of].name, expectation(test)
        found.setdefault(view, {}).setdefault("state", []).append(rule)
    return found, made, left


def expectation(test: Test) -> Rule:
    """The expectation that a test of one column is."""
    if test.kind == "accepted_values":
        return _rule(
            "expect_column_values_to_be_in_set", {"column": test.column, "value_set": test.arguments["values"]}, test
        )
    names = {"not_null": "expect_column_values_to_not_be_null", "unique": "expect_column_values_to_be_unique"}
    return _rule(names[test.kind], {"column": test.column}, test)


def _rule(name: str, arguments: Mapping[str, Any], test: Test) -> Rule:
    """An expectation; one of dbt's errors holds the view back, as where no severity is named."""
    warns = str(test.settings["severity"]).lower() == "warn"
    return {name: {**arguments, **({"severity": "warn"} if warns else {})}}


def _reason(test: Test, models: Mapping[str, Model]) -> str:
    """Why a test stays with dbt; "" where it doesn't."""
    if not test.kind:
        return "a query of its own: `dbt test` goes on running it"
    if test.of not in models:
        return "it tests what is no view of the pipeline"
    if test.kind == "relationships":
        own = [k for k, v in _PLAIN.items() if k not in ("where", "limit") and test.settings[k] != v]
        return _thresholds(own) or ("" if test.sql else "it is not compiled in this manifest")
    if test.kind not in ("not_null", "unique", "accepted_values"):
        return f"{test.kind} has no expectation in its place"
    if own := [k for k, v in _PLAIN.items() if test.settings[k] != v]:
        return _thresholds(own)
    if not _COLUMN.match(test.column):
        return f"{test.column or 'what it tests'} is no column's name"
    return _values(test) if test.kind == "accepted_values" else ""


def _missing(test: Test, models: Mapping[str, Model], project: Project) -> str:
    """Why what a query of a test reads is neither a view nor a table; "" where it is."""
    if test.kind != "relationships":
        return ""
    known = project.models
    # An ephemeral model is in the test's SQL, with what it reads.
    inlined = {i: m.reads for i, m in known.items() if m.ephemeral}
    read = [known[i] for i in sorted(reached(test.reads, inlined)) if i in known and i not in models]
    lacking = [m.name for m in read if m.materialized in NO_TABLES and not m.ephemeral]
    return f"it reads the model {lacking[0]}, which has no table and is no view of the pipeline" if lacking else ""


def _values(test: Test) -> str:
    """Why the values that a test accepts are no plain list of values; "" where they are."""
    values = test.arguments.get("values")
    if not isinstance(values, list) or any(isinstance(v, str) and "{{" in v for v in values):
        return "its values are made when dbt runs"
    if test.arguments.get("quote") is False and any(isinstance(v, str) for v in values):
        return "its values are expressions (quote: false)"
    return ""


def _thresholds(own: Sequence[str]) -> str:
    return f"its {', '.join(own)} has no counterpart in an expectation" if own else ""
