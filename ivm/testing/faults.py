"""The fault injector: a process dies, or writes fail, at chosen writes under the pipeline's root.

It wraps the primitives that write (delta-rs, Spark's writers and statements, files and folders), not the protocol's
own functions, so that it knows nothing of the protocol that it tests. Each write under the roots is a *point*:

    with Injector([root]) as counted:              # counts the points of a run
        pipe.refresh()
    with Injector([root], [Fault(Effect.DIE, Moment.AFTER, counted.points[17])]):
        pipe.refresh()                             # raises Killed once that write is done

Invariant: without a fault, a wrapped write does what the plain one does; points are named by what they write, so that
the same work has the same points in whatever order its threads run.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from ivm.errors import ConfigError
from ivm.storage.location import Location
from ivm.testing.primitives import PRIMITIVES, Kind, Primitive

#: What differs from run to run in a path: ids of attempts, hashes,
#: and the epoch where it names what is only there for a while.
_RANDOM = re.compile(r"[0-9a-f]{8,}(-[0-9a-f]{4,})*|(?<=scratch/)\d+|(?<=staging/)\d+")


class Killed(BaseException):
    """The process is dead: this write and all later ones of it don't happen.

    Not an Exception, so that nobody handles it.
    """


class Moment(Enum):
    """When, seen from the write, the fault strikes."""

    BEFORE = "before"
    #: A part was written: a data file without its commit, half of a file, half of a folder removed.
    AMID = "amid"
    AFTER = "after"


class Effect(Enum):
    #: The process ends: as an exception, or truly (SIGKILL) where the injector is `real`.
    DIE = "die"
    #: The write raises, once. AFTER means that it was done and nobody learns of it, as a lost answer of a store does.
    FAIL = "fail"


class Trouble(Enum):
    """Why a write fails."""

    DISK = "disk full"
    PERMISSION = "permission denied"
    COMMIT = "commit failed"


@dataclass(frozen=True)
class Point:
    """A write: its kind, the path relative to its root, and which of the equally named ones it is."""

    kind: str
    path: str
    nth: int = 1
    #: Whether the write has a middle, where it may end half done.
    divisible: bool = False

    @property
    def moments(self) -> tuple[Moment, ...]:
        """The moments that differ for this write."""
        return (Moment.BEFORE, Moment.AMID, Moment.AFTER) if self.divisible else (Moment.BEFORE, Moment.AFTER)

    def __str__(self) -> str:
        return f"{self.kind} {self.path}" + (f" #{self.nth}" if self.nth > 1 else "")


@dataclass(frozen=True)
class Fault:
    """What happens, when and where: `at` is a point, or the number (from 1) of the write in order of time."""

    effect: Effect
    moment: Moment
    at: Point | int
    trouble: Trouble = Trouble.DISK

    def __str__(self) -> str:
        why = f" ({self.trouble.value})" if self.effect is Effect.FAIL else ""
        return f"{self.effect.value} {self.moment.value} {self.at}{why}"

    @classmethod
    def parse(cls, text: str) -> Fault:
        """A fault from text, as an environment variable holds it.

        >>> str(Fault.parse("die_after:17")), str(Fault.parse("fail_before:3:commit"))
        ('die after 17', 'fail before 3 (commit failed)')
        """
        found = re.fullmatch(r"(die|fail)_(before|amid|after):(\d+)(?::(disk|permission|commit))?", text)
        if found is None:
            raise ConfigError(
                f"{text!r} is no fault.",
                "Write die_before:17, die_amid:17, die_after:17 or fail_before:17:disk (permission, commit).",
            )
        effect, moment, number, trouble = found.groups()
        return cls(Effect(effect), Moment(moment), int(number), Trouble[(trouble or "disk").upper()])


@dataclass
class Injector:
    """Wraps the primitives while it is entered. One at a time in a process; without faults it only counts.

    Each fault strikes once, and at a write at most one: the first that is for it. No more than `most` strike.
    """

    roots: Sequence[str | Path]
    faults: Sequence[Fault] = ()
    most: int = 1
    real: bool = False
    #: Writes of engines that tests put in Spark's place.
    more: Sequence[Primitive] = ()
    points: list[Point] = field(default_factory=list)
    #: Where the faults that struck did, and whether the process counts as dead since.
    struck: dict[Fault, Point] = field(default_factory=dict)
    dead: bool = False

    def __post_init__(self) -> None:
        self._roots = [Location.of(str(r)).url for r in self.roots]
        self._seen: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()
        self._inside = threading.local()
        self._undo: list[Callable[[], None]] = []
        #: Functions of modules with their wrappers: they are bound by name elsewhere too.
        self._bound: list[tuple[Any, Any]] = []

    def __enter__(self) -> Injector:
        for primitive in (*PRIMITIVES, *self.more):
            owner, plain = primitive.found()
            if plain is None:
                continue
            self._set(owner, primitive.name, plain, self._wrapped(primitive, plain))
        _rebind(self._bound)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for undo in reversed(self._undo):
            undo()
        # A module that was imported meanwhile has bound a wrapper.
        _rebind([(wrapped, plain) for plain, wrapped in self._bound])
        self._undo.clear()
        self._bound.clear()

    # -- wrapping ---------------------------------------------------------------------------------

    def _set(self, owner: Any, name: str, plain: Any, wrapped: Any) -> None:
        setattr(owner, name, wrapped)
        self._undo.append(lambda: setattr(owner, name, plain))
        if not isinstance(owner, type):
            self._bound.append((plain, wrapped))

    def _wrapped(self, primitive: Primitive, plain: Any) -> Any:
        is_class_method = isinstance(plain, classmethod)
        function = plain.__func__ if is_class_method else plain

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "active", False):
                return function(*args, **kwargs)
            kind, path = primitive.target(args, kwargs)
            relative = self._relative(path) if kind else None
            if relative is None:
                return function(*args, **kwargs)
            self._inside.active = True
            try:
                return self._write(primitive.kind, kind, relative, path, lambda: function(*args, **kwargs), kwargs)
            finally:
                self._inside.active = False

        return classmethod(wrapper) if is_class_method else wrapper

    def _relative(self, path: str) -> str | None:
        """The path below a root, or for a statement what it says of it; None for a write elsewhere."""
        for root in self._roots:
            if path == root or path.startswith(f"{root}/"):
                return path[len(root) + 1 :] or "."
            if " " in path and root in path:
                return " ".join(path.replace(root, "").split())[:120]
        return None

    # -- one write --------------------------------------------------------------------------------

    def _write(
        self, kind: Kind, label: str, relative: str, path: str, act: Callable[[], Any], kwargs: dict[str, Any]
    ) -> Any:
        fault = self._arrive(label, relative, kind.divisible)
        if fault is None:
            result = act()
            self._check_alive()
            return result
        fails = fault.effect is Effect.FAIL
        if fails and kind is Kind.REMOVE and kwargs.get("ignore_errors"):
            return None  # it would have swallowed the error: the folder stays
        if fault.moment is Moment.AMID:
            kind.amid(act, path)
        if fault.moment is Moment.AFTER:
            act()
        if fails:
            raise kind.error(fault.trouble.name, path)
        return self._die()

    def _arrive(self, label: str, relative: str, divisible: bool) -> Fault | None:
        """Count the write; returns the fault that strikes it, if one does."""
        with self._lock:
            if self.dead:
                raise Killed
            named = (label, _RANDOM.sub("*", relative))
            self._seen[named] += 1
            point = Point(*named, self._seen[named], divisible)
            self.points.append(point)
            here = (f for f in self.faults if f not in self.struck and f.at in (point, len(self.points)))
            fault = next(here, None)
            if fault is None or len(self.struck) >= self.most:
                return None
            self.struck[fault] = point
            if fault.effect is Effect.DIE and fault.moment is not Moment.AFTER:
                self.dead = True  # other threads write nothing from now on
            return fault

    def _check_alive(self) -> None:
        if self.dead:
            raise Killed

    def _die(self) -> NoReturn:
        if self.real:
            os.kill(os.getpid(), signal.SIGKILL)
        self.dead = True
        raise Killed


def _rebind(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Let every module of ours that binds the first of a pair by name bind the second: one look at all modules."""
    new = {id(old): (old, other) for old, other in pairs}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "ivm" and not name.startswith("ivm.testing"):
            for attribute, value in list(vars(module).items()):
                if id(value) in new:
                    setattr(module, attribute, new[id(value)][1])
