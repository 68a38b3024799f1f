"""What follows from an expectation that fails.

    warn         the view is published; the failure is recorded and shown
    gate         the view is held back; it can't be released, the next refresh plans it anew
    quarantine   the view is held back until it is released, discarded or planned anew; what holds where none is named

Great Expectations' own severities (critical, warning, info) stay labels of its results: they hold a view back as none
would. Ours are told to it as the nearest of its own, by which its actions can choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ivm.errors import ConfigError
from ivm.parameters import shown

WARN, GATE, QUARANTINE = "warn", "gate", "quarantine"
SEVERITIES = (WARN, GATE, QUARANTINE)
LABELS = ("critical", "warning", "info")


def check_severity(value: Any, where: str) -> None:
    """Raises ConfigError for what is no severity, ours or Great Expectations'."""
    if not isinstance(value, str) or value not in (*SEVERITIES, *LABELS):
        raise ConfigError(f"The severity of {where} is {shown(value)}.", f"Choose one of: {', '.join(SEVERITIES)}.")


def severity_of(arguments: Mapping[str, Any]) -> str:
    """The severity that an expectation's arguments name.

    >>> severity_of({"severity": "warn"}), severity_of({"column": "a", "severity": "info"})
    ('warn', 'quarantine')
    """
    named = arguments.get("severity")
    return str(named) if named in SEVERITIES else QUARANTINE


def severest(checks: Any) -> str:
    """What follows where a view's checks can't be run: what is strictest of theirs, which may be what wasn't judged.

    They are taken as they are, for what is wrong with them may be why. Nor were our own judged: so it is never `warn`.

    >>> severest({"state": [{"expect_a": {"severity": "warn"}}], "delta": [{"expect_b": {"severity": "gate"}}]})
    'gate'
    >>> severest({"state": [{"expect_a": {"severity": "warn"}}]}), severest(None)
    ('quarantine', 'quarantine')
    """
    suites = checks.values() if isinstance(checks, Mapping) else ()
    rules = [rule for suite in suites if isinstance(suite, list) for rule in suite if isinstance(rule, Mapping)]
    found = [severity_of(arguments) for rule in rules for arguments in rule.values() if isinstance(arguments, Mapping)]
    return GATE if GATE in found else QUARANTINE


def labelled(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as Great Expectations takes them.

    >>> labelled({"severity": "warn"}), labelled({"severity": "gate"}), labelled({"column": "a"})
    ({'severity': 'warning'}, {'severity': 'critical'}, {'column': 'a'})
    """
    if arguments.get("severity") not in SEVERITIES:
        return dict(arguments)
    return {**arguments, "severity": "warning" if arguments["severity"] == WARN else "critical"}
