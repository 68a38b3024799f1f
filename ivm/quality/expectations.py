"""Great Expectations, as far as the gate needs it: build expectations from checks.yml, validate a frame.

Frames of pandas are judged in this process, those of Spark by Spark (never persisted: a batch would stay cached).
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from ivm.errors import ConfigError, StateError
from ivm.quality.catalog import check_rules, classes, rule_parts
from ivm.quality.redaction import redacted
from ivm.quality.results import Result
from ivm.quality.severity import QUARANTINE, labelled, severity_of
from ivm.storage.location import Location

_local = threading.local()
#: What we note in an expectation's meta: its place in the suite, its severity, and by what it was judged.
_PLACE, _SEVERITY, JUDGED = "ivm_place", "ivm_severity", "ivm_judged"


def gx_context() -> Any:
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
            expectations.append(getattr(gxe, classes()[name])(**noted(arguments)))
        except Exception as error:
            raise ConfigError(
                f"The check {name} of view {view!r} is not right: {_complaint(error)}.", "Look at its arguments."
            ) from error
    return expectations


def noted(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """An expectation's arguments as Great Expectations takes them, with its severity in the meta."""
    meta = arguments.get("meta")
    return {
        **labelled(arguments),
        "meta": {**(meta if isinstance(meta, Mapping) else {}), _SEVERITY: severity_of(arguments)},
    }


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
    folder: Location, view: str, epoch: int, scope: str, frame: Any, expectations: Sequence[Any], show: bool = False
) -> list[Result]:
    """Judge a frame; one result an expectation. An expectation that raises has failed.

    Values of the data are in no result unless they may be shown. The suite's result is kept in `folder` for Data Docs
    where the user wrote the suite, or where it failed.
    """
    started = time.perf_counter()
    entries = judged(frame, expectations)
    return recorded(folder, view, epoch, scope, entries, time.perf_counter() - started, show)


def judged(frame: Any, expectations: Sequence[Any], result_format: str = "SUMMARY") -> list[dict[str, Any]]:
    """Great Expectations' own result (its JSON) of each expectation, in their order."""
    import pandas as pd

    if not expectations:
        return []
    context = gx_context()
    definition = _definition(context, "pandas" if isinstance(frame, pd.DataFrame) else "spark")
    placed = [_placed(e, i) for i, e in enumerate(expectations)]
    outcome = definition.get_batch(batch_parameters={"dataframe": frame}).validate(
        _suite("ivm", placed), result_format=result_format
    )
    entries = sorted((r.to_json_dict() for r in outcome.results), key=_place)
    if len(entries) != len(expectations):
        raise StateError(
            f"Great Expectations judged {len(entries)} of {len(expectations)} expectations.", "Look at the suite."
        )
    return entries


def raised(entry: Mapping[str, Any]) -> bool:
    """Whether Great Expectations could not judge, by its own result."""
    info = entry.get("exception_info") or {}
    told = [info, *(v for v in info.values() if isinstance(v, Mapping))]
    return any(t.get("raised_exception") for t in told)


def _placed(expectation: Any, place: int) -> Any:
    """A copy that says where it stands: results come in another order."""
    copied = expectation.model_copy() if hasattr(expectation, "model_copy") else expectation.copy()
    copied.meta = {**(copied.meta or {}), _PLACE: place}
    return copied


def _place(entry: Mapping[str, Any]) -> int:
    return int(entry["expectation_config"]["meta"][_PLACE])


def recorded(
    folder: Location,
    view: str,
    epoch: int,
    scope: str,
    entries: Sequence[Mapping[str, Any]],
    seconds: float,
    show: bool = False,
) -> list[Result]:
    """The results of a suite's entries, which took so long together; their document is kept for Data Docs."""
    told = [dict(e) if show else redacted(e) for e in entries]
    success = all(e["success"] for e in told)
    document = ""
    if scope in ("delta", "state") or not success:
        document = f"{epoch:010d}-{view}-{scope}.json"
        (folder / document).write(json.dumps(_document(f"{view}, {scope}, epoch {epoch}", told), default=str).encode())
    return [_result(view, epoch, scope, e, document, seconds) for e in told]


def _document(name: str, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A suite's result as Great Expectations stores it."""
    passed, all_ = sum(bool(e["success"]) for e in entries), len(entries)
    statistics = {
        "evaluated_expectations": all_,
        "successful_expectations": passed,
        "unsuccessful_expectations": all_ - passed,
        "success_percent": 100 * passed / all_ if all_ else None,
    }
    return {
        "success": passed == all_,
        "results": list(entries),
        "suite_name": name,
        "suite_parameters": {},
        "statistics": statistics,
        "meta": {"validation_time": datetime.now(UTC).isoformat()},
        "id": None,
    }


def _suite(name: str, expectations: Sequence[Any]) -> Any:
    import great_expectations as gx

    return gx.ExpectationSuite(name=name, expectations=list(expectations))


def _definition(context: Any, kind: str) -> Any:
    cache: dict[str, Any] = _local.__dict__.setdefault("definitions", {})
    if kind not in cache:
        sources = context.data_sources
        source = (
            sources.add_pandas(f"ivm_{kind}") if kind == "pandas" else sources.add_spark(f"ivm_{kind}", persist=False)
        )
        cache[kind] = source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    return cache[kind]


def _result(view: str, epoch: int, scope: str, entry: Mapping[str, Any], document: str, seconds: float) -> Result:
    config, detail = entry["expectation_config"], entry.get("result") or {}
    meta = config.get("meta") or {}
    return Result(
        view,
        epoch,
        scope,
        config["type"],
        {k: v for k, v in config["kwargs"].items() if k != "batch_id"},
        bool(entry["success"]),
        "" if entry["success"] else _message(entry),
        document,
        str(meta.get(_SEVERITY, QUARANTINE)),
        detail.get("observed_value"),
        detail.get("unexpected_count"),
        detail.get("element_count"),
        round(seconds, 3),
        str(meta.get(JUDGED, "rows")),
    )


def _message(entry: Mapping[str, Any]) -> str:
    """Why an expectation failed, in words."""
    info, detail = entry.get("exception_info") or {}, entry.get("result") or {}
    raised = [info, *(v for v in info.values() if isinstance(v, Mapping))]
    said = next((str(i["exception_message"]) for i in raised if i.get("exception_message")), "")
    if said:
        return said.splitlines()[0]
    if "element_count" in detail:
        some = detail.get("partial_unexpected_list") or []
        counts = f"{detail.get('unexpected_count')} of {detail['element_count']} rows"
        return counts + (f", e.g. {some[:3]}" if some else "")
    return f"observed {detail['observed_value']}" if "observed_value" in detail else "what was observed is not shown"
