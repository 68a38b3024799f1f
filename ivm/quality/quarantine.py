"""What is held back of a view, looked at: the rows for which its expectations fail.

Values are hidden unless they may be shown (`checks.values`, or who asks says so): a row then tells of each column
whether it is NULL, and of what type it is. Nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.errors import StateError
from ivm.names import WEIGHT
from ivm.plan.kinds import Publish
from ivm.quality.catalog import rule_parts
from ivm.quality.expectations import build
from ivm.quality.gate import batch_of, state_of
from ivm.quality.redaction import redacted
from ivm.quality.results import Result, load
from ivm.quality.state_checks import inserted, judged_rows
from ivm.quality.verdicts import UNTOLD
from ivm.refresh.context import Context
from ivm.refresh.records import Held, Outcome
from ivm.refresh.relations import copies_left

#: More rows of one expectation are not shown.
MOST_ROWS = 1_000


@dataclass(frozen=True)
class Failing:
    """An expectation that fails, how many rows it fails for, and some of them; `note` says why there are none."""

    scope: str
    expectation: str
    arguments: Mapping[str, Any]
    severity: str
    message: str
    count: int | None = None
    rows: tuple[Mapping[str, Any], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Quarantine:
    """What is held back of a view. `because`: the view that it waits for, "" where it failed itself."""

    view: str
    epoch: int
    reason: str
    because: str
    releasable: bool
    rows_in: int
    rows_out: int
    failing: tuple[Failing, ...] = ()


def quarantine(context: Context, view: str, limit: int = 20, show: bool = False) -> Quarantine:
    """The expectations for which a view is held back, each with up to `limit` of its failing rows.

    Raises StateError where nothing is held back of the view.
    """
    manifest = context.log.manifest()
    held = manifest.held.get(view)
    if held is None:
        listed = ", ".join(sorted(manifest.held)) or "none"
        raise StateError(f"Nothing of {view!r} is held back.", f"Held back are: {listed}.")
    outcome = next(o for o in context.log.outcomes(held.epoch).values() if o.unit == view)
    name, shown = context.views[view].name, show or context.checking.show
    failed = [r for r in load(context.layout, view=name) if r.epoch == held.epoch and not r.success]
    look = _Look(context, held, outcome, min(limit, MOST_ROWS), shown)
    return Quarantine(
        name,
        held.epoch,
        held.reason,
        held.because,
        not held.final and not held.because,
        sum(w for w in look.batch[WEIGHT].to_pylist() if w > 0),
        -sum(w for w in look.batch[WEIGHT].to_pylist() if w < 0),
        tuple(look.failing(r) for r in failed),
    )


def expectation_of(result: Result, rules: Sequence[Mapping[str, Any]]) -> Any:
    """The expectation that a kept result tells of: as the rules have it, if they still do.

    Results are kept as JSON, in which a date is a text.
    """
    for rule in rules:
        name, arguments = rule_parts(result.view, rule)
        if name == result.expectation:
            (made,) = build([rule], result.view)
            plain = {k: v for k, v in arguments.items() if k not in UNTOLD}
            told = [
                json.loads(json.dumps(a, default=str)) for a in (plain, made.configuration.to_json_dict()["kwargs"])
            ]
            if result.arguments in told:
                return made
    return build([{result.expectation: result.arguments}], result.view)[0]


class _Look:
    """The batch of one view that is held back, and what fails in it."""

    def __init__(self, context: Context, held: Held, outcome: Outcome, limit: int, show: bool) -> None:
        self.context, self.outcome, self.limit, self.show = context, outcome, limit, show
        self.epoch = outcome.stamp or held.epoch
        self.batch = batch_of(context, self.epoch, outcome)

    def failing(self, result: Result) -> Failing:
        """The rows for which one expectation fails."""
        arguments = {k: v for k, v in result.arguments.items() if k != "batch_id"}
        try:
            count, rows, note = self._rows(result)
        except Exception as error:  # noqa: BLE001 - what can't be looked at is said, the others are shown
            first = (str(error).splitlines() or [""])[0] if self.show else ""
            said = f"{type(error).__name__}{': ' if first else ''}{first}"
            count, rows, note = None, None, f"its rows can't be shown ({said})"
        shown = tuple(self._shown(rows)) if rows is not None else ()
        return Failing(result.scope, result.expectation, arguments, result.severity, result.message, count, shown, note)

    def _rows(self, result: Result) -> tuple[int | None, pa.Table | None, str]:
        if result.scope == "built-in":
            return self._deleted_too_often()
        if result.scope == "key":
            return self._repeated_keys()
        if result.scope not in ("delta", "state"):
            return None, None, "the checks themselves failed"
        rows: pa.Table | str = self._inserted() if result.scope == "delta" else self._state()
        note = ""
        if isinstance(rows, str):
            rows, note = self._inserted(), "of the rows that the epoch inserts; the whole view is judged by Spark"
        rules = (self.context.checks.get(result.view) or {}).get(result.scope) or ()
        (found,), _ = judged_rows(rows, [expectation_of(result, rules)], "COMPLETE")
        detail = found.get("result") or {}
        places = detail.get("unexpected_index_list")
        if not places:
            observed = (detail if self.show else redacted(found)["result"]).get("observed_value")
            said = "" if observed is None else f"; observed {observed}"
            return None, None, note or f"it is about the whole view, not about single rows{said}"
        return len(places), rows.take(pa.array([int(p) for p in places[: self.limit]])), note

    def _inserted(self) -> pa.Table:
        return inserted(self.batch)

    def _state(self) -> pa.Table | str:
        return state_of(self.context, self.epoch, self.outcome)

    def _deleted_too_often(self) -> tuple[int, pa.Table, str]:
        assert self.outcome.state is not None
        names = [c for c in self.batch.column_names if c != WEIGHT]
        left = copies_left(self.context, self.outcome, self._gone(), names, "rows_left")
        wrong = left.filter(pc.less(left["rows_left"], 0))
        return self._few(wrong, "rows that are deleted more often than they are there")

    def _repeated_keys(self) -> tuple[int, pa.Table, str]:
        assert self.outcome.state is not None
        keys = list(self.outcome.state.key)
        change = self.batch.group_by(keys, use_threads=False).aggregate([(WEIGHT, "sum")])
        change = change.rename_columns([*keys, WEIGHT])
        if self.outcome.publish == Publish.REPLACE:
            copies = change.rename_columns([*keys, "rows_of_key"])
        else:
            copies = copies_left(self.context, self.outcome, change, keys, "rows_of_key")
        wrong = pc.or_(pc.less(copies["rows_of_key"], 0), pc.greater(copies["rows_of_key"], 1))
        return self._few(copies.filter(wrong), "keys of which there would not be one row")

    def _few(self, rows: pa.Table, note: str) -> tuple[int, pa.Table, str]:
        return rows.num_rows, rows.slice(0, self.limit), note

    def _gone(self) -> pa.Table:
        return self.batch.filter(pc.less(self.batch[WEIGHT], 0))

    def _shown(self, rows: pa.Table) -> Sequence[Mapping[str, Any]]:
        if self.show:
            found: list[dict[str, Any]] = rows.to_pylist()
            return found
        types = {f.name: f"<{f.type}>" for f in rows.schema}
        return [{c: None if v is None else types[c] for c, v in row.items()} for row in rows.to_pylist()]
