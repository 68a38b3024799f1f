"""Expectations on the state that would result: by kept sums and the change where they can be, else over all rows.

kept sums + what the batch adds to them  ->  verdict          cost: the change
no kept sums of what is published        ->  counted anew over all rows, and kept
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.lake.shapes import arrow_schema, plain
from ivm.names import WEIGHT, ident
from ivm.plan.kinds import Publish
from ivm.quality.expectations import JUDGED, build, judged, raised, recorded
from ivm.quality.fact_store import Facts, FactStore
from ivm.quality.facts import (
    ROWS_KEY,
    Kept,
    Kind,
    Numbers,
    added,
    by_sql,
    keepable,
    moved,
    nan_missing,
    of_entry,
    of_rows,
    of_sql,
    possible,
    same_in_spark,
)
from ivm.quality.plain import counts
from ivm.quality.results import Result
from ivm.quality.typed import by_schema, typed
from ivm.quality.verdicts import entry_of, result_of
from ivm.refresh.context import Context
from ivm.refresh.records import Outcome
from ivm.refresh.relations import copies_left

#: All rows of the resulting state: as a table, or as the SELECT that gives them where Spark shall judge.
Rows = Callable[[], pa.Table | str]
Entry = dict[str, Any]
_LEFT = "__ivm_left"


def check_state(
    context: Context,
    epoch: int,
    outcome: Outcome,
    rules: Sequence[Mapping[str, Any]],
    store: FactStore,
    rows: Rows,
    batch: pa.Table | None = None,
) -> list[Result]:
    """Judge the state that an outcome leads to; `batch` is what it merges (rows and WEIGHT).

    None for a table anew, and for a batch that is not held by this process. The sums of that state are put into the
    store, if its size is known.
    """
    started = time.perf_counter()
    state, view = outcome.state, context.views[outcome.view].name
    assert state is not None
    # Where sums answer all, Great Expectations isn't asked, nor imported.
    expectations, schema = functools.cache(lambda: build(rules, view)), arrow_schema(state.schema)
    kept = [k for i, rule in enumerate(rules) if (k := keepable(i, view, rule, schema)) is not None]
    published = context.log.manifest().units.get(outcome.unit)
    facts: dict[str, Numbers] = {}
    why, size = "the table is written anew", state.rows if outcome.publish == Publish.REPLACE else None
    if batch is None and outcome.publish != Publish.REPLACE:
        why = "the batch is too large for this process"
    if batch is not None and published is not None:
        before, why = store.published(outcome.view, published)
        size = published.rows + int(pc.sum(batch[WEIGHT]).as_py() or 0)
        facts = _carried(context, outcome, kept, {**before, ROWS_KEY: {"rows": published.rows}}, expectations, batch)
    entries = _by_sums(kept, facts, "counts")
    left = [i for i in range(len(rules)) if i not in entries]
    if left:
        entries |= _by_rows(context, kept, left, expectations(), schema, rows(), facts, why)
    if size is not None:
        store.put(outcome.view, epoch, size, facts)
    ordered = [entries[i] for i in range(len(rules))]
    seconds = time.perf_counter() - started
    return recorded(context.layout.checks, view, epoch, "state", ordered, seconds, context.checking.show)


def _carried(
    context: Context,
    outcome: Outcome,
    kept: Sequence[Kept],
    before: Facts,
    expectations: Callable[[], Sequence[Any]],
    batch: pa.Table,
) -> dict[str, Numbers]:
    """By key, the sums of those that were known before, with the batch; without those that can't be."""
    assert outcome.state is not None
    rows, weights = batch.drop_columns([WEIGHT]), batch[WEIGHT].combine_chunks()
    known = [k for k in kept if k.key in before]
    facts: dict[str, Numbers] = {}
    for k in known:
        if k.kind is Kind.REPEATED:
            facts[k.key] = _repeated(context, outcome, k, before[k.key], rows, weights)
        elif k.kind is not Kind.JUDGED:
            facts[k.key] = added(before[k.key], of_rows(k, rows, weights))
    judging = []
    for k in (k for k in known if k.kind is Kind.JUDGED):
        change = _plain_change(k, batch)
        if change is None:
            judging.append(k)
        else:
            facts[k.key] = added(before[k.key], change)
    if judging:
        changes = _judged_change([expectations()[k.place] for k in judging], batch)
        facts |= {k.key: added(before[k.key], c) for k, c in zip(judging, changes, strict=True) if c is not None}
    return {key: numbers for key, numbers in facts.items() if possible(numbers)}


def _sides(batch: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """What comes (1) and what goes (-1), each row as often as it does."""
    for sign in (1, -1):
        yield sign, _side(batch, sign)


def inserted(batch: pa.Table) -> pa.Table:
    """The rows that a batch (rows and WEIGHT) inserts, each as often as its weight says; without WEIGHT."""
    return _side(batch, 1)


def _side(batch: pa.Table, sign: int) -> pa.Table:
    side = batch.filter(pc.greater(pc.multiply(batch[WEIGHT], sign), 0))
    copies = np.repeat(np.arange(side.num_rows), np.abs(side[WEIGHT].to_numpy()))
    return side.drop_columns([WEIGHT]).take(pa.array(copies, pa.int64()))


def _plain_change(kept: Kept, batch: pa.Table) -> Numbers | None:
    """What a batch adds to the counts of a judgement that is told plainly; None for others."""
    total: Numbers = {"rows": 0, "missing": 0, "unexpected": 0}
    for sign, rows in _sides(batch):
        told = counts(kept, rows)
        if told is None:
            return None
        total = added(total, {k: sign * n for k, n in told.items()})
    return total


def _judged_change(expectations: Sequence[Any], batch: pa.Table) -> list[Numbers | None]:
    """What a batch adds to the counts of Great Expectations' judgement of each row; None where it can't judge."""
    totals: list[Numbers | None] = [{"rows": 0, "missing": 0, "unexpected": 0} for _ in expectations]
    for sign, rows in _sides(batch):
        if not rows.num_rows or not expectations:
            continue
        for i, entry in enumerate(judged(exact_frame(rows), expectations)):
            told, so_far = of_entry(entry), totals[i]
            signed = {k: sign * n for k, n in told.items()}
            totals[i] = added(so_far, signed) if so_far is not None and told else None
    return totals


def _repeated(
    context: Context, outcome: Outcome, kept: Kept, before: Numbers, rows: pa.Table, weights: pa.Array
) -> Numbers:
    """The sums of repeated values: how often those that the batch touches are there, a scan of one column tells."""
    assert outcome.state is not None
    change = pa.table({kept.column: rows[kept.column], WEIGHT: weights}).filter(pc.is_valid(rows[kept.column]))
    change = change.group_by(kept.column, use_threads=False).aggregate([(WEIGHT, "sum")])
    change = change.rename_columns([kept.column, WEIGHT]).filter(pc.not_equal(change[f"{WEIGHT}_sum"], 0))
    gained = int(pc.sum(weights).as_py() or 0)
    if not change.num_rows:
        return moved(before, gained, [], [])
    found = copies_left(context, outcome, change, [kept.column], _LEFT)
    new = found[_LEFT].to_pylist()
    by_value = dict(zip(change[kept.column].to_pylist(), change[WEIGHT].to_pylist(), strict=True))
    old = [n - by_value[v] for v, n in zip(found[kept.column].to_pylist(), new, strict=True)]
    return moved(before, gained, old, new)


def _by_sums(kept: Sequence[Kept], facts: Facts, how: str) -> dict[int, Entry]:
    """By place, the results of the expectations that the sums answer."""
    entries = {}
    for k in kept:
        told = result_of(k, facts[k.key]) if facts.get(k.key) else None
        if told is not None:
            entries[k.place] = entry_of(k, *told, how)
    return entries


def _by_rows(
    context: Context,
    kept: Sequence[Kept],
    left: Sequence[int],
    expectations: Sequence[Any],
    schema: pa.Schema,
    rows: pa.Table | str,
    facts: dict[str, Numbers],
    why: str,
) -> dict[int, Entry]:
    """By place, the results of the expectations that are left, over all rows; their sums join the facts."""
    mine = {k.place: k for k in kept if k.place in left}
    how = f"rows: {why}" if why else "rows"
    for k in mine.values():
        if k.kind is not Kind.JUDGED:
            facts[k.key] = _counted(context, k, rows, schema)
    entries = _by_sums([k for k in mine.values() if k.kind is not Kind.JUDGED], facts, how)
    places = [i for i in left if i not in entries]
    asked = [expectations[i] for i in places]
    if isinstance(rows, str):
        told, exact = judged_in_spark(context, rows, schema, asked), [True] * len(asked)
    else:
        told, exact = judged_rows(rows, asked)
    found = dict(zip(places, told, strict=True))
    carried = {i for i, is_exact in zip(places, exact, strict=True) if is_exact and i in mine}
    for i, entry in found.items():
        entry["expectation_config"]["meta"][JUDGED] = how if i in carried else "rows"
        if i in carried and (not isinstance(rows, str) or same_in_spark(mine[i], schema)) and (n := of_entry(entry)):
            facts[mine[i].key] = n
    return entries | found


def judged_rows(
    rows: pa.Table, expectations: Sequence[Any], result_format: str = "SUMMARY"
) -> tuple[list[Entry], list[bool]]:
    """Great Expectations' own results over a table, and whether each is of its exact values.

    Those that it can't judge, and what names pandas' types of some rows, are judged as suites know numbers.
    """
    told = by_schema(rows.schema, expectations)
    places = [i for i, e in enumerate(expectations) if i not in told and not isinstance(e, typed())]
    exactly = judged(exact_frame(rows), [expectations[i] for i in places], result_format) if places else []
    found = told | {i: entry for i, entry in zip(places, exactly, strict=True) if not raised(entry)}
    again = [i for i in range(len(expectations)) if i not in found]
    plainly = judged(plain_frame(rows), [expectations[i] for i in again], result_format) if again else []
    both = found | dict(zip(again, plainly, strict=True))
    return [both[i] for i in range(len(expectations))], [i in found for i in range(len(expectations))]


def judged_in_spark(context: Context, rows: str, schema: pa.Schema, expectations: Sequence[Any]) -> list[Entry]:
    """Great Expectations' own results over the rows of a SELECT, which Spark judges."""
    told = by_schema(schema, expectations)
    places = [i for i in range(len(expectations)) if i not in told]
    if places:
        frame = context.spark().sql(nan_missing(rows, schema))
        told |= dict(zip(places, judged(frame, [expectations[i] for i in places]), strict=True))
    return [told[i] for i in range(len(expectations))]


def _counted(context: Context, kept: Kept, rows: pa.Table | str, schema: pa.Schema) -> Numbers:
    if not isinstance(rows, str):
        return of_rows(kept, rows)
    type_ = schema.field(kept.column).type if kept.column else pa.null()
    return of_sql(kept, plain(context.spark().sql(by_sql(kept, rows, ident(kept.column), type_)).toArrow()))


def exact_frame(rows: pa.Table) -> Any:
    """Rows as pandas has them, integers beside NULLs as they are: floats would round them."""
    return rows.to_pandas(date_as_object=True, integer_object_nulls=True)


def plain_frame(rows: pa.Table) -> Any:
    """Rows as pandas has them by itself: numbers beside NULLs are floats, as suites know them."""
    return rows.to_pandas(date_as_object=True)
