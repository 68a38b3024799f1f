"""Results of checks without values of the data.

counts, shares and the arguments that the user wrote stay; values that were observed, and texts that may quote them, go
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
    r"expect_(table_|column_unique_value_count_|column_proportion_of_|column_to_exist|column_type_|column_values_to_be_of_|column_values_to_be_in_type_)"
)
#: A message of Great Expectations' own that quotes nothing but an argument.
_QUOTES_NO_VALUE = re.compile(r'(Error: )?The column "[^"\n]*" in BatchData does not exist\.?')
_CLASS = re.compile(r"[\w.]+")


def observed_may_show(expectation: str) -> bool:
    """Whether what an expectation observes tells no value.

    >>> observed_may_show("expect_table_row_count_to_equal"), observed_may_show("expect_column_max_to_be_between")
    (True, False)
    """
    return _OBSERVES_NO_VALUE.match(expectation) is not None


def redacted(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of an expectation's result (its JSON) without values of the data."""
    found = dict(entry.get("result") or {})
    keep = {k: found[k] for k in _COUNTS if k in found}
    if "observed_value" in found and observed_may_show(entry["expectation_config"]["type"]):
        keep["observed_value"] = found["observed_value"]
    return {**entry, "result": keep, "exception_info": _without_values(entry.get("exception_info"))}


def _without_values(info: Any) -> Any:
    """Exceptions as Great Expectations tells them, at any depth: of messages their class stays, tracebacks go."""
    if not isinstance(info, Mapping):
        return info
    told = {k: _without_values(v) for k, v in info.items()}
    if "exception_traceback" in told:
        told["exception_traceback"] = "" if info.get("raised_exception") else None  # pages need a text
    message, traceback = info.get("exception_message"), info.get("exception_traceback")
    redacted_before = not traceback and _CLASS.fullmatch(str(message))
    if isinstance(message, str) and not redacted_before and not _QUOTES_NO_VALUE.fullmatch(message):
        told["exception_message"] = _exception_class(str(traceback or ""))
    return told


def _exception_class(traceback: str) -> str:
    """The class of the exception that a traceback begins with, its cause; a message may quote any value in any way.

    >>> _exception_class("Traceback (most recent call last):\\n  File ...\\na.ReadError: it's 'x'")
    'ReadError'
    """
    lines = traceback.splitlines()[1:]  # those of the stack are indented
    said = next((line.partition(":")[0] for line in lines if line and not line[0].isspace()), "")
    return said.rpartition(".")[2] if _CLASS.fullmatch(said) else "an exception"
