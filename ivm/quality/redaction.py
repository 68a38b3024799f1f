"""Results of checks without values of the data.

counts, shares and the arguments that the user wrote stay; values that were observed, and texts that quote them, go
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

#: What an entry of Great Expectations may hold of a result: counts and shares.
_COUNTS = (
    "element_count",
    "missing_count",
    "missing_percent",
    "unexpected_count",
    "unexpected_percent",
    "unexpected_percent_total",
    "unexpected_percent_nonmissing",
)
#: Expectations of which the observed value is a count, a share or a column's name or type.
_OBSERVES_NO_VALUE = re.compile(
    r"expect_(table_|column_unique_value_count_|column_proportion_of_|column_to_exist|column_type_|column_values_to_be_of_)"
)
_QUOTED = re.compile(r"'[^']*'|\d[\d.,:eE+-]*")
HIDDEN = "…"


def observed_may_show(expectation: str) -> bool:
    """Whether what an expectation observes tells no value.

    >>> observed_may_show("expect_table_row_count_to_equal"), observed_may_show("expect_column_max_to_be_between")
    (True, False)
    """
    return _OBSERVES_NO_VALUE.match(expectation) is not None


def masked(text: str) -> str:
    """A text without what is quoted in it, and without numbers.

    >>> masked("could not convert 'secret 7' at row 12")
    'could not convert … at row …'
    """
    return _QUOTED.sub(HIDDEN, text)


def redacted(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an expectation's result (its JSON) without values of the data."""
    found = dict(entry.get("result") or {})
    keep = {k: found[k] for k in _COUNTS if k in found}
    if "observed_value" in found and observed_may_show(entry["expectation_config"]["type"]):
        keep["observed_value"] = found["observed_value"]
    return {**entry, "result": keep, "exception_info": _without_values(entry.get("exception_info"))}


def _without_values(info: Any) -> Any:
    """Exceptions as Great Expectations tells them, at any depth: messages are masked, tracebacks go."""
    if not isinstance(info, Mapping):
        return info
    return {
        k: None
        if k == "exception_traceback"
        else masked(v)
        if k == "exception_message" and isinstance(v, str)
        else _without_values(v)
        for k, v in info.items()
    }
