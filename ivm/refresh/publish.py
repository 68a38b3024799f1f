"""Steps 4 and 5, publish and commit: merge each unit's batch into its table, then write the manifest.

Every write carries the epoch as its transaction version, so a second run of this step changes nothing. Units that don't
read each other are published at the same time, in threads. A view that is held back stays as it was published last,
and so does one whose table can't be written, with what reads it: the manifest is a consistent snapshot of the others,
and names both.

    rows after = rows before + sum of the batch's weights            or the unit counts as failed, and is built anew
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from graphlib import TopologicalSorter

import pyarrow.compute as pc

from ivm.errors import StateError
from ivm.lake.log import since
from ivm.lake.shapes import arrow_schema
from ivm.names import WEIGHT
from ivm.plan.kinds import Publish, StrategyKind
from ivm.planner.lanes import Publishing, publishing
from ivm.refresh.accounts import settled
from ivm.refresh.context import Context
from ivm.refresh.integrity import TABLE, base, heads_of, referenced, with_own_commits
from ivm.refresh.large import batch_rows, write_anew
from ivm.refresh.planning import rebuild_due
from ivm.refresh.published_table import PublishedTable
from ivm.refresh.records import Cursor, EpochPlan, Failure, Held, Manifest, Outcome, UnitState, to_json
from ivm.refresh.replacement import replace_rows
from ivm.session import error_text
from ivm.table.protocol import Commit, Verb
from ivm.times.ranges import with_epoch
from ivm.trace.store import gained, read_batch

_log = logging.getLogger(__name__)


def publish_epoch(context: Context, plan: EpochPlan, outcomes: dict[str, Outcome]) -> Manifest:
    """Publish the outcomes of an epoch and commit it. Returns the committed manifest."""
    before = base(context, plan)
    held = held_back(context, plan.epoch)
    # A view's units are published together: those inside would be ahead of what it shows.
    failed = {o.view for o in outcomes.values() if o.error}
    good = [
        o
        for o in outcomes.values()
        if not o.error and o.state is not None and o.view not in held and o.view not in failed
    ]
    published, trouble = _publish_units(context, plan.epoch, good, before)
    done = [o for o in good if o.view not in trouble]
    units = before.units | {o.unit: published[o.unit] for o in done}
    for outcome in done:
        state = with_upstream_versions(units[outcome.unit], units)
        units[outcome.unit] = replace(state, batches=with_epoch(state.batches, plan.epoch, before.epoch))
    left = {o.unit: o.view for o in outcomes.values() if o.unit in before.units and o not in done}
    for unit, view in left.items():
        units[unit] = with_own_commits(context, view, unit, before.units[unit])
    manifest = Manifest(
        plan.epoch,
        plan.sources,
        units,
        _held(plan, before, held),
        _failing(plan, outcomes, before, trouble),
        before.compacted,
        settled(context, before, outcomes),
    )
    manifest = _with_rebuilds_due(plan, before, manifest, {o.view for o in done})
    context.log.record(plan.epoch, "committed", detail=to_json(manifest))
    context.layout.sweep(set(referenced(context, manifest)))
    return manifest


def held_back(context: Context, epoch: int) -> dict[str, Held]:
    """The views that the check of an epoch holds back."""
    detail = context.log.detail(epoch, "checked")
    found = json.loads(detail).get("held", {}) if detail else {}
    return {view: Held(**held) for view, held in found.items()}


def warned(context: Context, epoch: int) -> dict[str, str]:
    """By view, the failed expectations of an epoch's check for which nothing is held back, in words."""
    detail = context.log.detail(epoch, "checked")
    return {str(v): str(text) for v, text in (json.loads(detail).get("warned") or {}).items()} if detail else {}


def _publish_units(
    context: Context, epoch: int, good: list[Outcome], before: Manifest
) -> tuple[dict[str, UnitState], dict[str, str]]:
    """The published units' states, and why some views could not be published: those that read them aren't either."""
    units, trouble = dict[str, UnitState](), dict[str, str]()
    views = {o.unit: o.view for o in good}

    def published(outcome: Outcome) -> UnitState | str:
        assert outcome.state is not None
        behind = next((r for r in outcome.state.cursors if views.get(r) in trouble), None)
        try:
            if behind is not None:
                raise _behind(behind)
            last = before.units.get(outcome.unit)
            state = _publish_unit(context, epoch, outcome, last)
            return _as_it_lies(context, outcome.unit, state, last)
        except Exception as error:  # noqa: BLE001 - one view's failure must not stop the others
            return _unpublished(error)

    todo, order = {o.unit: o for o in good}, _order(good)
    order.prepare()
    done, running = 0, dict[Future[UnitState | str], Outcome]()
    with ThreadPoolExecutor(context.limits.threads) as pool:
        while order.is_active():
            # Large batches first: none is left for the end.
            ready = sorted((todo[u] for u in order.get_ready()), key=lambda o: o.rows_out, reverse=True)
            running |= {pool.submit(published, outcome): outcome for outcome in ready}
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                outcome, found = running.pop(future), future.result()
                if isinstance(found, str):
                    trouble.setdefault(outcome.view, found)
                    _log.warning("view %s, epoch %s: %s", outcome.view, epoch, found)
                else:
                    units[outcome.unit] = found
                done += 1
                context.progress("publish", done, len(good))
                order.done(outcome.unit)
    return units, trouble


def _order(outcomes: Collection[Outcome]) -> TopologicalSorter[str]:
    """Units after those that they read; readers of a view after all its units, since each of them may fail."""
    units, views = dict[str, list[str]](), {o.unit: o.view for o in outcomes}
    for unit, view in views.items():
        units.setdefault(view, []).append(unit)
    order = TopologicalSorter[str]()
    for outcome in outcomes:
        assert outcome.state is not None
        read = outcome.state.cursors.keys() & views.keys()
        others = {views[r] for r in read} - {outcome.view}
        order.add(outcome.unit, *read, *(unit for view in others for unit in units[view]))
    return order


def _behind(unit: str) -> StateError:
    return StateError(f"{unit} could not be published, which it reads.", "Both are tried again by the next refresh.")


def _unpublished(error: Exception) -> str:
    return f"it could not be published: {error_text(error) or type(error).__name__}"


def _as_it_lies(context: Context, unit: str, state: UnitState, before: UnitState | None) -> UnitState:
    """A published unit's state with its tables' heads.

    The version is the head's: where others moved the rows between files since (this epoch may have been planned days
    ago), the files of the older one may be gone. Raises StateError where they changed rows.
    """
    heads = heads_of(context, unit, state, before.heads if before is not None else {})
    return replace(state, heads=heads, version=heads[TABLE].version if TABLE in heads else state.version)


def _held(plan: EpochPlan, before: Manifest, held: dict[str, Held]) -> dict[str, Held]:
    """Those held now, and those held before that this epoch did not plan anew."""
    return {v: h for v, h in before.held.items() if v not in plan.tasks} | held


def _failing(
    plan: EpochPlan, outcomes: dict[str, Outcome], before: Manifest, trouble: dict[str, str]
) -> dict[str, Failure]:
    """What views fail with, until they succeed."""
    failing = {v: f for v, f in before.failing.items() if v not in {o.view for o in outcomes.values()}}
    for outcome in outcomes.values():
        if outcome.error and outcome.code != "upstream_failed":
            known = before.failing.get(outcome.view)
            if (
                outcome.strategy == StrategyKind.INCREMENTAL
            ):  # the full refresh was left out, since it had failed likewise
                failing[outcome.view] = Failure(plan.epoch, outcome.error, known.full if known is not None else "")
            else:
                failing[outcome.view] = Failure(plan.epoch, outcome.first_error, outcome.error)
        elif outcome.view in trouble:
            failing[outcome.view] = Failure(plan.epoch, trouble[outcome.view])
    return failing


def _with_rebuilds_due(plan: EpochPlan, before: Manifest, after: Manifest, published: set[str]) -> Manifest:
    """The manifest, where rebuilds that were due before, and came to nothing, are due still."""
    due = {v: f for v in plan.tasks.keys() - published if (f := rebuild_due(before, v)) is not None}
    forgotten = {v: f for v, f in due.items() if rebuild_due(after, v) is None}
    kept = {v: replace(after.failing.get(v, f), incremental=f.incremental) for v, f in forgotten.items()}
    return replace(after, failing=after.failing | kept)


def _publish_unit(context: Context, epoch: int, outcome: Outcome, before: UnitState | None) -> UnitState:
    state = outcome.state
    assert state is not None
    stamp = outcome.stamp or epoch
    context.log.ask()
    # The unit's state stands in the table's own log: it can be known again where the epoch log is lost
    # (see `ivm.refresh.repair`).
    commit = Commit(context.app(outcome.unit, "table"), epoch, to_json(state))
    path, folder = context.layout.table(outcome.unit, state.public), context.layout.scratch(epoch, secrets.token_hex(4))
    table = PublishedTable.of(context, path, folder / outcome.unit)
    trace = context.layout.output_trace(outcome.unit, state.output_generation)
    if not state.arranged:
        if outcome.publish != Publish.MERGE or before is None:
            return state
        return replace(state, rows=before.rows + gained(trace, stamp))
    if outcome.publish == Publish.NONE:
        return replace(state, version=before.version, rows=before.rows) if before is not None else state
    _not_ahead(table, commit)
    if outcome.publish == Publish.REPLACE:
        replace_rows(context, table, outcome, commit)
        expected = state.rows
    else:
        assert before is not None
        _unchanged_since(context, path, before)
        expected = before.rows + _merge(context, table, outcome, before, commit, stamp, trace)
    version = table.rust.snapshot().version
    rows = table.rust.count(version)
    if rows != expected:
        raise StateError(
            f"The table {path} holds {rows:,} rows after epoch {epoch}, expected were {expected:,}.",
            "It is built anew by the next refresh.",
        )
    return replace(state, version=version, rows=rows)


def _merge(
    context: Context,
    table: PublishedTable,
    outcome: Outcome,
    before: UnitState,
    commit: Commit,
    stamp: int,
    trace: str,
) -> int:
    """Merge a batch of an output trace into its table; returns by how many rows that grows.

    Raises StateError where nobody may write there.
    """
    state = outcome.state
    assert state is not None
    refused = table.rust.refusal(Verb.MERGE)
    how, why = publishing(outcome.rows_out, before.rows, table.local, context.limits, refused, context.lane)
    if how is None:
        raise table.unwritable(why)
    if how is Publishing.NATIVE:
        batch = read_batch(trace, arrow_schema(state.schema), stamp)
        # Nobody reads the feed of a table of our own, but its files are read at each refresh.
        anew = not state.public and table.rust.merge_anew(batch, commit, table.spark.place())
        if not anew:
            table.rust.merge(batch, state.key, commit)
        return int(pc.sum(batch[WEIGHT]).as_py() or 0)
    done = table.rust.transaction(commit.app)
    if done is None or done < commit.version:
        if how is Publishing.MERGE:
            table.spark.merge(batch_rows(context, outcome.unit, state, stamp), state.key, commit)
        else:
            write_anew(context, table, outcome, before, commit, stamp)
    return gained(trace, stamp)


def _not_ahead(table: PublishedTable, commit: Commit) -> None:
    """Raises StateError where a later epoch was published to a table: the log was put back from a backup.

    What is written under a commit's number would be taken for done.
    """
    last = table.rust.transaction(commit.app) or 0
    if last > commit.version:
        raise StateError(
            f"The published table {table.rust.path} holds what the later epoch {last} published.",
            "It is built anew by the next refresh.",
        )


def _unchanged_since(context: Context, path: str, before: UnitState) -> None:
    """Raises StateError where somebody else changed a published table's rows since it was planned to merge into it."""
    head = before.heads.get(TABLE)
    found = since(path, head, context.log.identity) if head is not None else None
    if found is not None and found.foreign:
        raise StateError(
            f"The published table {path} was changed meanwhile: {found.foreign}.",
            "It is built anew by the next refresh.",
        )


def with_upstream_versions(state: UnitState, units: dict[str, UnitState]) -> UnitState:
    """Cursors on other units get the table version that the commit gave them."""
    cursors = {
        r: Cursor(units[r].version, epoch=units[r].epoch)
        if r in units and c.version is None and c.epoch == units[r].epoch
        else c
        for r, c in state.cursors.items()
    }
    return replace(state, cursors=cursors)
