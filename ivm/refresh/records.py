"""What the protocol writes down: plain data, stored as JSON in the epoch log.

Invariant: whatever state relies on is named by more than its version (`Cursor.fingerprint`, `Head`), and what counts in
a trace is listed (`UnitState.batches`): rows that a failed or dead attempt left there are in no list.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar

from ivm.errors import StateError
from ivm.lake.log import Head
from ivm.plan.kinds import Publish, StrategyKind
from ivm.planner.arranging import Account, KeyedRead
from ivm.planner.estimate import Estimate
from ivm.times.ranges import Ranges

T = TypeVar("T")

#: The form of these records. A newer one is refused; of an older one, what it lacks has its default.
FORMAT = 2

#: What ran a unit's statements, where it wasn't Spark.
EMBEDDED = "embedded"


@dataclass(frozen=True)
class Cursor:
    """How far a unit has read a relation: a source's version and id, or an upstream unit's epoch and version.

    A clock's version is an instant (see `ivm.refresh.instants`).
    """

    version: int | None
    table_id: str = ""
    epoch: int = 0
    #: Identifies a source's commit of that version; empty in the state of an ivm that kept none.
    fingerprint: str = ""


@dataclass(frozen=True)
class UnitState:
    """A unit as of a committed epoch: where its state lies and what it has read.

    A generation is the name (epoch and attempt) of the folder that a full build made for its accumulators
    (`generation`) and for its output trace (`output_generation`).
    """

    definition: str
    public: bool
    generation: str
    output_generation: str
    since: int
    epoch: int
    version: int | None
    rows: int
    schema: str
    key: tuple[str, ...]
    cursors: dict[str, Cursor]
    #: Whether its rows are kept as a table; `version` is None if not.
    arranged: bool = True
    #: The epochs whose batches count in its traces. Empty (a state of an older ivm): all.
    batches: Ranges = ()
    #: Its tables as they were left: "table", "output", "accumulators", as far as they are there.
    heads: dict[str, Head] = field(default_factory=dict)
    #: The session's settings under which it was built (see `settings`). Empty (a state of an older ivm): not known.
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """A view whose batches of an epoch wait, unpublished.

    `because` is the view upstream that is held, "" for its own failure; `impossible`: whatever the data, its batch is
    wrong, or it is the rebuild that followed one, so that the view is built anew until that is published.
    """

    epoch: int
    reason: str
    because: str = ""
    impossible: bool = False
    #: Whether it can't be released: an expectation of the severity `gate` failed.
    final: bool = False


@dataclass(frozen=True)
class Failure:
    """What a view failed with: incrementally, and in the full refresh that followed ("" where there was none)."""

    epoch: int
    incremental: str = ""
    full: str = ""


@dataclass(frozen=True)
class Manifest:
    """A committed epoch: the version of every source and the state of every unit, a consistent snapshot.

    Views that are `held` back or `failing` are in it as they were published last.
    """

    epoch: int = 0
    sources: dict[str, Cursor] = field(default_factory=dict)
    units: dict[str, UnitState] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    failing: dict[str, Failure] = field(default_factory=dict)
    #: The epoch in which the state was compacted last.
    compacted: int = 0
    #: What speaks for arrangements that nobody asked for, and those that are made for it.
    accounts: tuple[Account, ...] = ()


@dataclass(frozen=True)
class ViewTask:
    """What the plan decided for a view: incremental, full, unchanged, or failed (with the reason).

    Apply may still find an empty delta, or that a full refresh is cheaper; `estimate` says what is to be expected.
    """

    strategy: StrategyKind
    code: str
    reason: str
    definition: str
    estimate: Estimate | None = None


@dataclass(frozen=True)
class EpochPlan:
    """A frozen epoch: the versions to read up to and a task for each view, in dependency order.

    `adopted` are published tables that others maintained (rows moved between files) since the last epoch: their heads
    now.
    """

    epoch: int
    sources: dict[str, Cursor]
    tasks: dict[str, ViewTask]
    note: str = ""
    adopted: dict[str, Head] = field(default_factory=dict)
    #: Views that can't be planned, and why.
    broken: dict[str, str] = field(default_factory=dict)
    #: What may go wrong soon: a source that forgets faster than a view reads it, a table that was damaged.
    warnings: tuple[str, ...] = ()
    #: By unit, the definition of its state as this version says it, where an older one said it (see `definitions`).
    accepted: dict[str, str] = field(default_factory=dict)
    #: The instant at which temporal filters are evaluated, in microseconds since 1970.
    now: int = 0
    #: The session's settings by which results go; {} where they weren't known.
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What apply did for a unit. `publish` is none, merge (the trace's batch) or replace (the rows in `staging`).

    `error` says why there is no result; `first_error` what an incremental try failed with before the full refresh that
    came instead.
    """

    unit: str
    view: str
    strategy: StrategyKind
    code: str
    reason: str
    publish: Publish
    state: UnitState | None
    rows_in: int = 0
    rows_read: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    #: Of these its share of what reading for several units took.
    shared_seconds: float = 0.0
    cost_incremental: int = 0
    cost_full: int = 0
    error: str = ""
    warning: str = ""
    staging: str = ""
    first_error: str = ""
    #: The epoch that its batch is stamped with, where it is published in a later one; 0 for its own.
    stamp: int = 0
    #: What ran its statements where both engines may: "embedded", or "spark: " and why; "" where only Spark may.
    engine: str = ""
    #: Keyed reads of large relations that no outcome before it told of; they were made for several units.
    reads: tuple[KeyedRead, ...] = ()


def to_json(record: Any) -> str:
    """A record as JSON text."""
    return json.dumps({**vars(record), "format": FORMAT}, sort_keys=True, default=vars)


def from_json(kind: type[T], text: str) -> T:
    """The record of a kind from its JSON text.

    Raises StateError for one of a newer ivm, and for one that is damaged.
    """
    try:
        value = json.loads(text)
        if value.get("format", 1) > FORMAT:
            raise StateError(
                f"This state was written by a newer ivm (format {value['format']}, this one knows {FORMAT}).",
                "Upgrade ivm.",
            )
        return typing.cast(T, _decode(kind, value))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StateError(f"A stored {kind.__name__} can't be read ({error}).", "Run `ivm repair`.") from error


def _decode(kind: Any, value: Any) -> Any:
    return None if value is None else _decoder(kind)(value)


@functools.cache
def _decoder(kind: Any) -> Callable[[Any], Any]:
    """How a value of a kind that isn't None is made of what JSON has for it."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _decoder(next(a for a in inner if a is not type(None)))
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(typing.cast(type, kind))
        known = {f.name: hints[f.name] for f in dataclasses.fields(kind)}
        return lambda value: kind(**{k: _decode(known[k], v) for k, v in value.items() if k in known})  # type: ignore[operator]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return lambda value: tuple(_decode(inner[0], v) for v in value)
        return lambda value: tuple(_decode(k, v) for k, v in zip(inner, value, strict=True))
    if origin is frozenset:
        return lambda value: frozenset(_decode(inner[0], v) for v in value)
    if origin is dict:
        return lambda value: {k: _decode(inner[1], v) for k, v in value.items()}
    return lambda value: value


def program_json(program: Any) -> str:
    """A compiled program as JSON (frozensets become sorted lists)."""
    return json.dumps(vars(program), sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    """Dataclasses as their fields, without the deep copies that `asdict` makes."""
    if isinstance(value, frozenset):
        return sorted(value)
    return vars(value) if dataclasses.is_dataclass(value) else str(value)
