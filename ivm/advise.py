"""What would make a pipeline cheaper, derived from its records, from sizes and from counting; nothing is changed.

    advice = what to do, what says so (records, sizes or a count), and what it would save as far as that is recorded

    full refreshes    of the last epochs, by reason: what mends it; saves mean full less mean incremental seconds
    reads             large relations that were read whole, or searched by columns they may not be sorted by
    keys              of a source without one: a column, or two, that counting confirms
    layout            tables of many small files
    retention         sources that forget faster than a view reads them

There is no advice without one of these: an unknown is left out.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from deltalake.exceptions import DeltaError

from ivm.adopt import counted_key
from ivm.errors import IvmError
from ivm.feed.source import Snapshot
from ivm.pipeline import Pipeline
from ivm.plan.kinds import StrategyKind
from ivm.plan.nodes import Program
from ivm.refresh.history import PUBLISHED, SAME, Refreshed
from ivm.refresh.modes import EXPECTED
from ivm.refresh.reasons import mend
from ivm.session import error_text
from ivm.table.rust import RustTable

_log = logging.getLogger(__name__)
T = TypeVar("T")

#: Epochs that are looked at.
EPOCHS = 30
#: Fewer files are no trouble, and larger ones neither; what OPTIMIZE makes of them.
MANY_FILES, SMALL_FILE, GOOD_FILE = 50, 16 * 2**20, 128 * 2**20


@dataclass(frozen=True)
class Advice:
    """`about` a view or source: what to `do`, `because` of what; `saves` seconds a refresh, None where not recorded."""

    about: str
    kind: str
    do: str
    because: str
    saves: float | None = None


def advise(pipe: Pipeline) -> list[Advice]:
    """All advice, that which saves most first. Starts no Spark; raises StateError where the log can't be read."""
    epochs = pipe.history(limit=EPOCHS)
    refreshed = [v for e in epochs for v in e.views if v.result in (PUBLISHED, SAME)]
    snapshots, _ = pipe.context.survey()
    found = [
        *_full(pipe, refreshed),
        *_reads(refreshed),
        *_keys(pipe, snapshots),
        *_layout(pipe, snapshots),
        *(Advice("sources", "retention", "refresh more often, or keep the source's log and files longer", w)
          for w in pipe.status()["warnings"]),
    ]  # fmt: skip
    return sorted(found, key=lambda a: -(a.saves or 0.0))


def _by_view(refreshed: Sequence[Refreshed]) -> dict[str, list[Refreshed]]:
    found: dict[str, list[Refreshed]] = {}
    for one in refreshed:
        found.setdefault(one.view, []).append(one)
    return found


def _full(pipe: Pipeline, refreshed: Sequence[Refreshed]) -> Iterator[Advice]:
    """Of each view and reason that its full refreshes had, where something mends it."""
    programs = _programs(pipe)
    for view, all_of in _by_view(refreshed).items():
        incremental = [v.seconds for v in all_of if v.strategy == StrategyKind.INCREMENTAL]
        by_code: dict[str, list[Refreshed]] = {}
        for v in all_of:
            if v.strategy == StrategyKind.FULL and v.code not in EXPECTED:
                by_code.setdefault(v.code, []).append(v)
        for code, some in by_code.items():
            text = mend(code, programs.get(view.lower()))
            if text:
                mean = sum(v.seconds for v in some) / len(some)
                saves = round(mean - sum(incremental) / len(incremental), 3) if incremental else None
                yield Advice(
                    view, "full refresh", text,
                    f"{len(some)} of its last {len(all_of)} refreshes were full [{code}]: {some[0].reason}", saves,
                )  # fmt: skip


def _programs(pipe: Pipeline) -> dict[str, Program]:
    """The views' programs, as far as they are known without Spark."""
    try:
        pipe.context.compile(*pipe.context.survey())
    except IvmError:
        return {}
    return {name: c.program for name, c in pipe.context.compiled.items()}


def _reads(refreshed: Sequence[Refreshed]) -> Iterator[Advice]:
    """What the newest estimate of each view says of large reads, and in how many epochs one said so."""
    for view, all_of in _by_view(refreshed).items():
        told = [v.estimate for v in all_of if v.estimate is not None]
        for reading in told[0].readings if told else ():
            times = sum(any((r.relation, r.how) == (reading.relation, reading.how) for r in e.readings) for e in told)
            yield Advice(
                view, "reading", reading.mend,
                f"{reading.relation} ({reading.rows:,} rows) was {reading.how} "
                f"in {times} of its last {len(told)} epochs",
            )  # fmt: skip


def _keys(pipe: Pipeline, snapshots: dict[str, Snapshot]) -> Iterator[Advice]:
    for name, snapshot in snapshots.items():
        source = pipe.context.sources[name]
        if source.primary_key or snapshot.by_spark:
            continue
        counted = _known(functools.partial(counted_key, RustTable(snapshot.path), snapshot.columns))
        rows, key = counted or (0, ())
        if key:
            named = ", ".join(key)
            yield Advice(
                source.name, "key", f"declare primary_key: [{named}], if that stays so",
                f"counted: each of its {rows:,} rows at version {snapshot.version} has another {named}, "
                "and none is NULL",
            )  # fmt: skip


def _layout(pipe: Pipeline, snapshots: dict[str, Snapshot]) -> Iterator[Advice]:
    """Sources and published tables of many small files."""
    places = {pipe.context.sources[n].name: s.path for n, s in snapshots.items()}
    for name, state in pipe.context.log.manifest().units.items():
        if state.public and state.version is not None and name in pipe.context.views:
            places[pipe.context.views[name].name] = pipe.context.layout.table(name, True)
    for name, path in places.items():
        found = _known(RustTable(path).snapshot)
        files, size = (found.files, found.bytes) if found is not None else (0, 0)
        if files > MANY_FILES and size / files < SMALL_FILE:
            yield Advice(
                name, "layout", "run OPTIMIZE on it, or `ivm compact` where it is a view",
                f"{files:,} files of {size // files:,} bytes on average, "
                f"where {math.ceil(size / GOOD_FILE):,} would do",
            )  # fmt: skip


def _known(asked: Callable[[], T]) -> T | None:
    """What a table tells; None where it, or a file of it, is lost or can't be read."""
    try:
        return asked()
    except (IvmError, DeltaError, pa.ArrowException, OSError) as error:
        _log.info("no advice by what can't be read: %s", error_text(error))
        return None
