"""Step 3, check: expectations on each view's delta and on the state that would result.

Built in, on rows the delta touches: no row is taken more often than it is there (weights never go negative), and
the view's key stays unique where it is known to be. The user's expectations come from checks.yml: under `delta`
they judge the rows an epoch inserts, under `state` the whole view as it would be.
"""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute

from ivm.errors import ConfigError, IvmError
from ivm.lake import parquet
from ivm.lake.intact import read_through
from ivm.lake.shapes import arrow_schema, plain
from ivm.lake.types import beyond_arrow
from ivm.names import WEIGHT, ident, parquet_ref
from ivm.plan.kinds import Publish
from ivm.quality.actions import notify
from ivm.quality.expectations import build, recorded
from ivm.quality.fact_store import FactStore
from ivm.quality.large import BUILT_IN, KEY_COPIES, RESULTING, check_large, is_large
from ivm.quality.plain import met
from ivm.quality.results import Result, store
from ivm.quality.severity import GATE, WARN, severest
from ivm.quality.state_checks import check_state, inserted, judged_rows
from ivm.refresh.context import Context
from ivm.refresh.records import EpochPlan, Outcome
from ivm.refresh.relations import after_batch, copies_left, published_table
from ivm.refresh.run import Verdict
from ivm.session import error_text
from ivm.storage.location import Location
from ivm.trace.store import read_batch
from ivm.zset.weighted import consolidate


def run_gate(context: Context, plan: EpochPlan, outcomes: dict[str, Outcome]) -> dict[str, list[str]]:
    """Validate every view that would be published; keep the results; return the failures in words, by view.

    A check that can't be run is a failed one: of its view, not of the others, and as severe as the view's severest, for
    it may be that one. Where it can't since the published rows are lost, no later batch's could be either, so that the
    view is built anew.
    """
    results: list[Result] = []
    verdicts: dict[str, list[str]] = {}
    facts = FactStore(context)
    todo = [
        o
        for o in outcomes.values()
        if not o.error and o.state is not None and o.state.public and o.publish != Publish.NONE
    ]
    unknown = sorted(set(context.checks) - {v.name for v in context.views.values()})
    if unknown:
        raise ConfigError(
            f"checks.yml has checks for {', '.join(unknown)}, which is no view.",
            f"There are: {', '.join(v.name for v in context.views.values())}.",
        )
    for i, (outcome, touched) in enumerate(_looked_into(context, plan.epoch, todo)):
        lost, found = False, list[Result]()
        try:
            for suite in _check_view(context, plan.epoch, outcome, facts, touched):
                found += suite
        except Exception as error:  # noqa: BLE001 - one view's trouble must not stop the others
            may_show = context.checking.show or isinstance(error, IvmError)
            why = (error_text(error) if may_show else "") or type(error).__name__
            lost = not isinstance(error, IvmError) and _are_lost(context, outcome)
            what = "the published rows can't be read" if lost else "its checks could not be run"
            said = f"{what}: {why}"
            name = context.views[outcome.view].name
            severity = severest(context.checks.get(name))
            found.append(Result(name, plan.epoch, "all", "checks", {}, False, said, severity=severity))
        results += found
        verdicts[outcome.view] = _verdict(found, lost)
        context.progress("check", i + 1, len(todo))
    units = context.log.manifest().units
    for outcome in outcomes.values():
        published = units.get(outcome.unit)
        if (
            outcome.publish == Publish.NONE
            and outcome.state is not None
            and outcome.state.public
            and published is not None
        ):
            facts.carry(outcome.view, published, outcome.state.epoch)
    store(context.layout, plan.epoch, {context.views[o.view].name for o in todo}, results)
    facts.write(plan.epoch)
    notify(context, plan.epoch, results)
    return verdicts


def _are_lost(context: Context, outcome: Outcome) -> bool:
    """Whether a batch would be merged into rows that can't be read."""
    return outcome.publish == Publish.MERGE and not read_through(context.layout.table(outcome.unit, True))


def _verdict(results: list[Result], lost: bool) -> Verdict:
    """What follows from a view's results, and from its published rows being lost.

    A check that could not be run is told by its message alone.
    """
    failed = [(r, r.message if r.scope == "all" else r.sentence) for r in results if not r.success]
    return Verdict(
        [said for r, said in failed if r.holds],
        [said for r, said in failed if r.severity == WARN],
        final=any(r.severity == GATE for r, _ in failed),
        impossible=lost or any(r.scope == BUILT_IN for r, _ in failed),
    )


class _Touched(NamedTuple):
    """What a batch (rows and WEIGHT) touches: copies that would be left of its rows, and rows of its keys.

    RESULTING and KEY_COPIES are their columns; None where that isn't asked.
    """

    batch: pa.Table
    left: pa.Table | None
    keys: pa.Table | None


def _looked_into(
    context: Context, epoch: int, outcomes: Sequence[Outcome]
) -> Iterator[tuple[Outcome, Callable[[], _Touched]]]:
    """Each outcome, and what gives what its batch touches: looked up beside each other, a few ahead of who asks.

    Only what is merged, of which nothing is asked of Spark; Great Expectations then judges in one thread.
    """
    with ThreadPoolExecutor(context.limits.threads) as pool:
        ahead = deque[tuple[Outcome, Callable[[], _Touched]]]()
        for outcome in outcomes:
            look = functools.partial(_touched, context, epoch, outcome)
            merged = outcome.publish == Publish.MERGE and not is_large(context, outcome)
            ahead.append((outcome, pool.submit(look).result if merged else look))
            if len(ahead) > context.limits.threads:
                yield ahead.popleft()
        yield from ahead


def _touched(context: Context, epoch: int, outcome: Outcome) -> _Touched:
    batch = batch_of(context, epoch, outcome)
    left = _left(context, outcome, batch) if outcome.publish == Publish.MERGE else None
    keyed = outcome.state is not None and outcome.state.key and batch.num_rows
    return _Touched(batch, left, _key_copies(context, outcome, batch) if keyed else None)


def _check_view(
    context: Context, epoch: int, outcome: Outcome, facts: FactStore, touched: Callable[[], _Touched]
) -> Iterator[list[Result]]:
    """The results of one suite after the other: what is found stands, whatever becomes of the next ones."""
    view = context.views[outcome.view]
    user: dict[str, Any] = context.checks.get(view.name) or {}
    if is_large(context, outcome):
        yield from check_large(context, epoch, outcome, user)
        if user.get("state"):
            state = functools.partial(state_of, context, epoch, outcome)
            yield check_state(context, epoch, outcome, user["state"], facts, state)
        return
    batch, left, keys = touched()
    if left is not None:
        rules = [{"expect_column_values_to_be_between": {"column": RESULTING, "min_value": 0}}]
        yield _judged(context, view.name, epoch, BUILT_IN, left, rules)
    if keys is not None:
        rules = [{"expect_column_values_to_be_between": {"column": KEY_COPIES, "min_value": 0, "max_value": 1}}]
        yield _judged(context, view.name, epoch, "key", keys, rules)
    if user.get("delta"):
        rows = inserted(batch)
        yield _judged(context, view.name, epoch, "delta", rows, user["delta"], context.checking.show)
    if user.get("state"):
        merged = batch if outcome.publish == Publish.MERGE else None
        yield check_state(
            context, epoch, outcome, user["state"], facts, lambda: state_of(context, epoch, outcome), merged
        )


def _judged(
    context: Context,
    view: str,
    epoch: int,
    scope: str,
    rows: pa.Table,
    rules: Sequence[Mapping[str, Any]],
    show: bool = False,
) -> list[Result]:
    """The results of a suite over rows: by plain counts where these tell that all is met, else Great Expectations'."""
    started, folder = time.perf_counter(), context.layout.checks
    entries = met(view, rules, rows)
    if entries is None:
        entries, _ = judged_rows(rows, build(rules, view))
    return recorded(folder, view, epoch, scope, entries, time.perf_counter() - started, show)


def batch_of(context: Context, epoch: int, outcome: Outcome) -> pa.Table:
    """The rows the epoch inserts and deletes, with WEIGHT; for a replaced table all its new rows.

    There are none where nothing is published, as of a view that only waits for another one.
    """
    state = outcome.state
    assert state is not None
    schema = arrow_schema(state.schema)
    if outcome.publish == Publish.MERGE:
        return read_batch(context.layout.output_trace(outcome.unit, state.output_generation), schema, epoch)
    if outcome.publish == Publish.NONE:
        return pa.schema([*schema, pa.field(WEIGHT, pa.int64())]).empty_table()
    rows, schema = _staged(context, outcome)
    return rows.cast(schema).append_column(WEIGHT, pa.array([1] * rows.num_rows, pa.int64()))


def _staged(context: Context, outcome: Outcome) -> tuple[pa.Table, pa.Schema]:
    """The staged rows and their schema; what Arrow can't hold (VARIANT) as JSON."""
    assert outcome.state is not None
    schema = arrow_schema(outcome.state.schema)
    staging = outcome.staging
    strange = beyond_arrow(outcome.state.schema)
    if not strange:
        return plain(parquet.dataset(Location.of(staging)).to_table()), schema
    columns = [f"to_json({ident(c)}) AS {ident(c)}" if c in strange else ident(c) for c in schema.names]
    schema = pa.schema([f.with_type(pa.string()) if f.name in strange else f for f in schema])
    return plain(context.spark().sql(f"SELECT {', '.join(columns)} FROM {parquet_ref(staging)}").toArrow()), schema


def _left(context: Context, outcome: Outcome, batch: pa.Table) -> pa.Table:
    """Each deleted row with the copies that would be left of it."""
    negative = batch.filter(pa.compute.less(batch[WEIGHT], 0))
    columns = [c for c in batch.column_names if c != WEIGHT]
    if negative.num_rows == 0:
        return pa.table({RESULTING: pa.array([], pa.int64())})
    return copies_left(context, outcome, negative, columns, RESULTING).select([RESULTING])


def _key_copies(context: Context, outcome: Outcome, batch: pa.Table) -> pa.Table:
    """Each key that the delta touches with the rows it would have."""
    state = outcome.state
    assert state is not None
    keys = list(state.key)
    change = batch.group_by(keys, use_threads=False).aggregate([(WEIGHT, "sum")])
    change = change.rename_columns([*keys, WEIGHT])
    if outcome.publish == Publish.REPLACE:
        return change.select([WEIGHT]).rename_columns([KEY_COPIES])
    return copies_left(context, outcome, change, keys, KEY_COPIES).select([KEY_COPIES])


def state_of(context: Context, epoch: int, outcome: Outcome) -> pa.Table | str:
    """The view as it would be after publishing; as a SELECT where there are too many rows for this process."""
    state = outcome.state
    assert state is not None
    schema = arrow_schema(state.schema)
    if outcome.publish == Publish.REPLACE:
        if state.rows <= context.limits.judged_rows:
            return _staged(context, outcome)[0]
        return f"SELECT * FROM {parquet_ref(outcome.staging)}"
    if state.rows + outcome.rows_out <= context.limits.judged_rows and not any(
        pa.types.is_nested(t) for t in schema.types
    ):
        old = published_table(context, outcome.unit, state).read(schema.names, version=state.version).cast(schema)
        weighted = pa.concat_tables(
            [old.append_column(WEIGHT, pa.array([1] * old.num_rows, pa.int64())), batch_of(context, epoch, outcome)]
        )
        return consolidate(weighted, schema.names).drop_columns([WEIGHT])
    return after_batch(context, outcome.unit, state, context.compiled[outcome.view].program.columns, epoch)
