"""Which expectations Great Expectations has, and their arguments, without importing it (which takes seconds).

The names stand in the text of its package, the arguments in the JSON schemas that it ships.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ivm.errors import ConfigError
from ivm.parameters import shown
from ivm.quality.severity import check_severity
from ivm.sql.substitution import reference

#: Arguments that Spark reads as SQL.
_SQL = ("row_condition", "base_query", "comparison_query")
_IMPORT = re.compile(r"^from \.(expect_\w+) import \(?\s*(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Arguments:
    """What an expectation takes; nothing is known where `allowed` is empty."""

    allowed: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()


def check_rules(view: str, rules: Any, where: str) -> None:
    """Raises ConfigError for what is no list of `expect_...: {arguments}`.

    So it does for unknown expectations, for unknown or missing arguments, and for `${` in one that is SQL.
    What values an argument takes only Great Expectations itself can tell, when it judges an epoch. Where it isn't
    installed only the form is checked.
    """
    if not isinstance(rules, list):
        raise ConfigError(
            f"{where} must be a list of expectations, found {shown(rules)}.", "Write `- expect_...: {column: ...}`."
        )
    for rule in rules:
        name, arguments = rule_parts(view, rule)
        known = classes()
        if known and name not in known:
            close = get_close_matches(name, known, 3, 0.5)
            raise ConfigError(
                f"View {view!r} has a check {shown(name)}, which Great Expectations does not know.",
                f"Close to it: {', '.join(close) or 'see its gallery'}.",
            )
        taken = arguments_of(name)
        unknown = sorted(str(a) for a in arguments if taken.allowed and a not in taken.allowed)
        if unknown:
            raise ConfigError(
                f"The check {name} of view {view!r} takes no {shown(unknown[0])}.",
                f"It takes: {', '.join(sorted(taken.allowed))}.",
            )
        held = (reference(arguments[a]) for a in _SQL if isinstance(arguments.get(a), str))
        if found := next(filter(None, held), ""):
            raise ConfigError(
                f"The check {name} of view {view!r} holds {found}, which Spark would replace by a setting.",
                "Write the value itself.",
            )
        if "severity" in arguments:
            check_severity(arguments["severity"], f"the check {name} of view {view!r}")
        missing = [a for a in taken.required if a not in arguments]
        if missing:
            raise ConfigError(
                f"The check {name} of view {view!r} lacks {', '.join(missing)}.",
                f"Write `- {name}: {{{missing[0]}: ...}}`.",
            )


def rule_parts(view: str, rule: Any) -> tuple[str, Mapping[str, Any]]:
    """The name and the arguments of `{expect_...: {arguments}}`. Raises ConfigError for anything else."""
    if not isinstance(rule, Mapping) or len(rule) != 1:
        raise ConfigError(f"A check of view {view!r} is {shown(rule)}.", "Write it as `- expect_...: {column: ...}`.")
    ((name, arguments),) = rule.items()
    arguments = {} if arguments is None else arguments
    if (
        not isinstance(name, str)
        or not isinstance(arguments, Mapping)
        or not all(isinstance(a, str) for a in arguments)
    ):
        raise ConfigError(f"A check of view {view!r} is {shown(rule)}.", "Write it as `- expect_...: {column: ...}`.")
    return name, arguments


@functools.cache
def classes() -> Mapping[str, str]:
    """Expectations by name, with their class; empty where Great Expectations is not installed.

    >>> classes().get("expect_column_values_to_be_unique", "ExpectColumnValuesToBeUnique")
    'ExpectColumnValuesToBeUnique'
    """
    folder = _core()
    try:
        return dict(_IMPORT.findall((folder / "__init__.py").read_text(encoding="utf-8"))) if folder else {}
    except OSError:
        return {}


@functools.cache
def arguments_of(name: str) -> Arguments:
    """The arguments of an expectation, as far as they are known without asking itself."""
    folder = _core()
    if folder is None or name not in classes():
        return Arguments()
    try:
        schema = json.loads((folder / "schemas" / f"{classes()[name]}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return Arguments()
    closed = schema.get("additionalProperties") is False
    return Arguments(
        frozenset(schema.get("properties", {})) - {"metadata"} if closed else frozenset(),
        tuple(schema.get("required", ())),
    )


def _core() -> Path | None:
    spec = importlib.util.find_spec("great_expectations")  # of a package at the top this imports nothing
    return Path(spec.origin).parent / "expectations" / "core" if spec is not None and spec.origin else None
