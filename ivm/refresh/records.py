"""What the protocol writes down: plain data, stored as JSON in the epoch log (pure)."""

from __future__ import annotations

import dataclasses
import functools
import json
import types
import typing
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Cursor:
    """How far a unit has read a relation: a source's version and id, or an upstream unit's epoch and version."""

    version: int | None
    table_id: str = ""
    epoch: int = 0


@dataclass(frozen=True)
class UnitState:
    """A unit as of a committed epoch: where its state lies and what it has read."""

    definition: str
    public: bool
    generation: int
    output_generation: int
    since: int
    epoch: int
    version: int | None
    rows: int
    schema: str
    key: tuple[str, ...]
    cursors: dict[str, Cursor]
    #: Whether its rows are kept as a table; `version` is None if not.
    arranged: bool = True


@dataclass(frozen=True)
class Manifest:
    """A committed epoch: the version of every source and the state of every unit, a consistent snapshot."""

    epoch: int = 0
    sources: dict[str, Cursor] = field(default_factory=dict)
    units: dict[str, UnitState] = field(default_factory=dict)


@dataclass(frozen=True)
class ViewTask:
    """What the plan decided for a view: incremental, full or unchanged; apply may still find an empty delta."""

    strategy: str
    code: str
    reason: str
    definition: str


@dataclass(frozen=True)
class EpochPlan:
    """A frozen epoch: the versions to read up to and a task for each view, in dependency order."""

    epoch: int
    sources: dict[str, Cursor]
    tasks: dict[str, ViewTask]
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """What apply did for a unit. `publish` is none, merge (the trace's batch) or replace (the staged rows)."""

    unit: str
    view: str
    strategy: str
    code: str
    reason: str
    publish: str
    state: UnitState | None
    rows_in: int = 0
    rows_read: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    cost_incremental: int = 0
    cost_full: int = 0
    error: str = ""
    warning: str = ""


def to_json(record: Any) -> str:
    """A record as JSON text."""
    return json.dumps(dataclasses.asdict(record), sort_keys=True)


def from_json(kind: type[T], text: str) -> T:
    """The record of a kind from its JSON text."""
    return typing.cast(T, _decode(kind, json.loads(text)))


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _decode(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if value is None:
        return None
    if origin in (typing.Union, types.UnionType):
        return _decode(next(a for a in typing.get_args(kind) if a is not type(None)), value)
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast(type, kind))
        known = {f.name for f in dataclasses.fields(kind)}
        return kind(**{k: _decode(hints[k], v) for k, v in value.items() if k in known})  # type: ignore[operator]
    if origin is tuple:
        inner = typing.get_args(kind)
        if len(inner) == 2 and inner[1] is Ellipsis:
            return tuple(_decode(inner[0], v) for v in value)
        return tuple(_decode(k, v) for k, v in zip(inner, value, strict=True))
    if origin is frozenset:
        return frozenset(_decode(typing.get_args(kind)[0], v) for v in value)
    if origin is dict:
        return {k: _decode(typing.get_args(kind)[1], v) for k, v in value.items()}
    return value


def program_json(program: Any) -> str:
    """A compiled program as JSON (frozensets become sorted lists)."""
    return json.dumps(dataclasses.asdict(program), sort_keys=True, default=lambda v: sorted(v) if isinstance(v, frozenset) else str(v))
