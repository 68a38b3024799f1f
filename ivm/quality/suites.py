"""Suites of Great Expectations' own objects, as the rules that checks.yml would have for them.

    ExpectationSuite, or a list with Expectations      ->  [{expect_...: {arguments}}, ...]

An expectation's `meta={"severity": "gate"}` is ours (warn, gate, quarantine), which its own field doesn't take.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from ivm.quality.severity import SEVERITIES

#: What JSON would turn into texts and floats.
_TYPED = (date, time, timedelta, Decimal)


def as_rules(checks: Mapping[str, Any]) -> dict[str, Any]:
    """The checks by view and kind, as plain rules. What is no object of Great Expectations' stays as it is.

    >>> as_rules({"v": {"state": [{"expect_column_to_exist": {"column": "a"}}]}, "w": None})
    {'v': {'state': [{'expect_column_to_exist': {'column': 'a'}}]}, 'w': None}
    """
    return {v: {k: _rules(s) for k, s in of.items()} if isinstance(of, Mapping) else of for v, of in checks.items()}


def _rules(suite: Any) -> Any:
    # Told by what they have, since importing Great Expectations takes longer than a small refresh.
    listed = getattr(suite, "expectations", suite)
    return [_rule(e) if hasattr(e, "configuration") else e for e in listed] if isinstance(listed, list) else listed


def _rule(expectation: Any) -> dict[str, Any]:
    configuration = expectation.configuration
    told = configuration.to_json_dict()
    meta = dict(told.get("meta") or {})
    named = meta.pop("severity") if meta.get("severity") in SEVERITIES else told.get("severity")
    kwargs = {k: _with_types(configuration.kwargs.get(k), v) for k, v in told["kwargs"].items()}
    arguments = {**kwargs, **({"meta": meta} if meta else {}), **({"severity": named} if named else {})}
    return {told["type"]: arguments}


def _with_types(value: Any, told: Any) -> Any:
    """An argument as JSON tells it, but for dates and decimals, which stay what they are.

    >>> _with_types([date(2024, 1, 1)], ["2024-01-01"]), _with_types({1}, [1])
    ([datetime.date(2024, 1, 1)], [1])
    """
    if isinstance(value, list | tuple | set | frozenset):
        return list(value) if any(isinstance(v, _TYPED) for v in value) else told
    return value if isinstance(value, _TYPED) else told
