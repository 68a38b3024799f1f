"""Great Expectations, as far as the gate needs it: build expectations from checks.yml, validate a frame.

Frames of pandas are judged in this process, those of Spark by Spark (never persisted: a batch would stay cached).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from ivm.errors import ConfigError
from ivm.quality.catalog import check_rules, classes, rule_parts
from ivm.quality.results import Result
from ivm.storage.location import Location

_local = threading.local()


def _context() -> Any:
    """An ephemeral GX context, one a thread."""
    if not hasattr(_local, "context"):
        import os

        os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
        import great_expectations as gx
        from great_expectations.data_context.types.base import ProgressBarsConfig

        logging.getLogger("great_expectations").setLevel(logging.ERROR)
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = ProgressBarsConfig(globally=False)
        _local.context = context
    return _local.context


def build(rules: Sequence[Mapping[str, Any]], view: str) -> list[Any]:
    """Expectations from `{expect_...: {arguments}}` entries. Raises ConfigError for an unknown name or argument."""
    import great_expectations.expectations as gxe

    check_rules(view, list(rules), f"the checks of view {view!r}")
    expectations = []
    for rule in rules:
        name, arguments = rule_parts(view, rule)
        try:
            expectations.append(getattr(gxe, classes()[name])(**arguments))
        except Exception as error:
            raise ConfigError(
                f"The check {name} of view {view!r} is not right: {_complaint(error)}.", "Look at its arguments."
            ) from error
    return expectations


def _complaint(error: Exception) -> str:
    """What pydantic says of each argument, in one line.

    >>> _complaint(ValueError("2 validation errors for X\\ncolumn\\n  field required\\nmostly\\n  not a number"))
    'column: field required; mostly: not a number'
    """
    lines = str(error).splitlines()
    if len(lines) < 3:
        return lines[0] if lines else type(error).__name__
    return "; ".join(f"{where.strip()}: {what.strip()}" for where, what in zip(lines[1::2], lines[2::2], strict=False))


def validate(
    folder: Location, view: str, epoch: int, scope: str, frame: Any, expectations: Sequence[Any]
) -> list[Result]:
    """Judge a frame; one result an expectation. An expectation that raises has failed.

    The suite's result is kept in `folder` for Data Docs where the user wrote the suite, or where it failed.
    """
    context = _context()
    import pandas as pd

    kind = "pandas" if isinstance(frame, pd.DataFrame) else "spark"
    definition = _definition(context, kind)
    outcome = definition.get_batch(batch_parameters={"dataframe": frame}).validate(
        _suite(f"{view}, {scope}, epoch {epoch}", expectations), result_format="SUMMARY"
    )
    document = ""
    if scope in ("delta", "state") or not outcome.success:
        document = f"{epoch:010d}-{view}-{scope}.json"
        (folder / document).write(json.dumps(outcome.to_json_dict(), default=str).encode())
    return [_result(view, epoch, scope, r, document) for r in outcome.results]


def _suite(name: str, expectations: Sequence[Any]) -> Any:
    import great_expectations as gx

    return gx.ExpectationSuite(
        name=name, expectations=[e.model_copy() if hasattr(e, "model_copy") else e.copy() for e in expectations]
    )


def _definition(context: Any, kind: str) -> Any:
    cache: dict[str, Any] = _local.__dict__.setdefault("definitions", {})
    if kind not in cache:
        sources = context.data_sources
        source = (
            sources.add_pandas(f"ivm_{kind}") if kind == "pandas" else sources.add_spark(f"ivm_{kind}", persist=False)
        )
        cache[kind] = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    return cache[kind]


def _result(view: str, epoch: int, scope: str, result: Any, document: str) -> Result:
    config = result.expectation_config
    arguments = {k: v for k, v in config.kwargs.items() if k not in ("batch_id",)}
    raised = (result.exception_info or {}).get("raised_exception")
    detail = result.result or {}
    message = ""
    if not result.success:
        info = result.exception_info or {}
        first = next((v for v in info.values() if isinstance(v, dict) and v.get("exception_message")), None)
        if raised or first:
            message = str(info.get("exception_message") or (first or {}).get("exception_message", "")).splitlines()[0]
        else:
            counts = (
                f"{detail.get('unexpected_count')} of {detail.get('element_count')} rows"
                if "unexpected_count" in detail
                else f"observed {detail.get('observed_value')}"
            )
            some = detail.get("partial_unexpected_list") or []
            message = counts + (f", e.g. {some[:3]}" if some else "")
    return Result(
        view,
        epoch,
        scope,
        config.type,
        {k: _plain(v) for k, v in arguments.items()},
        bool(result.success),
        message,
        document,
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | dict | type(None)) else str(value)
