"""How the results of checks are shown and told: the `checks` block of pipeline.yml.

checks: {values: hidden, actions: [{type: slack, name: ..., slack_webhook: "${SLACK_WEBHOOK}"}]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ivm.errors import ConfigError
from ivm.parameters import shown

HIDDEN, SHOWN = "hidden", "shown"
_KEYS = ("actions", "values")


@dataclass(frozen=True)
class Checking:
    """`values` says whether results, Data Docs and messages may hold values of the data (`shown`) or not (`hidden`).

    `actions` are Great Expectations' own: instances of its ValidationAction, or mappings with its `type`.
    Raises ConfigError for anything else.
    """

    values: str = HIDDEN
    actions: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.values not in (HIDDEN, SHOWN):
            raise ConfigError(f"checks.values is {shown(self.values)}.", f"Choose one of: {HIDDEN}, {SHOWN}.")
        for action in self.actions:
            if isinstance(action, Mapping):
                _check_action(action)
            elif not callable(getattr(action, "run", None)):
                raise ConfigError(
                    f"An action of the checks is {shown(action)}.",
                    "Give a mapping with Great Expectations' `type`, or an instance of its ValidationAction.",
                )

    @property
    def show(self) -> bool:
        """Whether values may be shown."""
        return self.values == SHOWN


def _check_action(action: Mapping[str, Any]) -> None:
    for key in ("type", "name"):
        if not isinstance(action.get(key), str) or not action[key]:
            raise ConfigError(
                f"An action of the checks has the {key} {shown(action.get(key))}.",
                "Write `{type: slack, name: to_the_team, ...}` with the arguments of Great Expectations' action.",
            )


def checking_of(data: Any) -> Checking:
    """The `checks` block of a pipeline's file (None where there is none). Raises ConfigError for what is no such block.

    >>> checking_of({"values": "shown"}).show, checking_of(None).show
    (True, False)
    """
    if data is None:
        return Checking()
    if not isinstance(data, Mapping) or any(k not in _KEYS for k in data):
        raise ConfigError(f"checks is {shown(data)}.", f"Write a mapping with: {', '.join(_KEYS)}.")
    actions = data.get("actions")
    if not isinstance(actions, list | type(None)):
        raise ConfigError(f"checks.actions is {shown(actions)}.", "Write a list of `{type: ..., name: ...}`.")
    return Checking(data.get("values", HIDDEN), tuple(actions or ()))
