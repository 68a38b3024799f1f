"""The properties of a definition that are ours: how a view is kept, as its author says where it is defined."""

from __future__ import annotations

from typing import Any

from ivm.config import view_setting
from ivm.durations import written
from ivm.errors import ConfigError
from ivm.parameters import columns
from ivm.sdp.datasets import Dataset, Kind

PREFIX = "ivm."
SETTINGS = ("mode", "freshness")
KEY = "primary_key"
_ALLOWED = {Kind.MATERIALIZED: (*SETTINGS, KEY), Kind.STREAMING: (KEY,)}


def declared(dataset: Dataset) -> dict[str, Any]:
    """The properties that are ours, by name. Raises ConfigError for one that doesn't belong there."""
    allowed = _ALLOWED.get(dataset.kind, ())
    found: dict[str, Any] = {}
    for key, value in dataset.properties.items():
        if not key.startswith(PREFIX):
            continue
        name, where = key.removeprefix(PREFIX), f"{key} of {dataset.name} ({dataset.where})"
        if name not in allowed:
            listed = ", ".join(f"{PREFIX}{a}" for a in allowed) or "none"
            raise ConfigError(f"{where} is no property of a {dataset.kind.value}.", f"There are: {listed}.")
        if name == KEY:
            found[name] = columns([c.strip() for c in value.split(",")], where)
        else:
            checked = view_setting(name, value, where)
            found[name] = checked if isinstance(checked, str) else written(checked)
    return found


def key_checks(key: tuple[str, ...]) -> dict[str, Any]:
    """A declared key is checked, not trusted."""
    unique: dict[str, Any] = (
        {"expect_column_values_to_be_unique": {"column": key[0]}}
        if len(key) == 1
        else {"expect_compound_columns_to_be_unique": {"column_list": list(key)}}
    )
    return {"state": [unique, *({"expect_column_values_to_not_be_null": {"column": c}} for c in key)]}
