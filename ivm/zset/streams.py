"""Streams of Z-sets, and operators that turn a stream of deltas into the stream of their result's deltas.

    I (integrate)      out[t] = in[0] + ... + in[t]          D (differentiate)   out[t] = in[t] - in[t-1]
    z (delay)          out[t] = in[t-1]                      lift Q              out[t] = Q(in[t])

    D(I(s)) = I(D(s)) = s;    the incremental form of Q is  D . lift Q . I,  and (chain rule) that of Q1 . Q2 is the
    composition of theirs. For linear Q it is lift Q itself; for bilinear Q (the join)  dA x B + A x dB + dA x dB.

Each operator takes one batch a `step`. Source: Budiu et al., "DBSP", VLDB 2023; `CountTotal`: McSherry, "Specializing
differential dataflow", 2017-05-06.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from ivm.zset.arrays import ZSet
from ivm.zset.spine import Spine


class Batch(Protocol):
    """What the operators need of a Z-set: `ivm.zset.arrays` and `ivm.zset.frames` both have it."""

    def __add__(self, other: Self, /) -> Self: ...
    def __sub__(self, other: Self, /) -> Self: ...
    def zero(self) -> Self: ...
    def consolidated(self) -> Self: ...
    def settled(self) -> Self: ...
    @property
    def empty(self) -> bool: ...
    def keyed(self, keys: Sequence[str], /) -> Self: ...
    def join(self, other: Self, on: Sequence[str], /) -> Self: ...
    def distinct(self) -> Self: ...
    def count(self, names: Sequence[str], /) -> Self: ...


Z = TypeVar("Z", bound=Batch)
#: A trace of batches by key: `append(batch)` and `of_keys(keys)`, None where nothing is accumulated.
Trace = Callable[[Sequence[str]], Any]


class Integrate(Generic[Z]):
    """The sum of all batches so far."""

    def __init__(self) -> None:
        self.total: Z | None = None

    def step(self, batch: Z) -> Z:
        self.total = batch.settled() if self.total is None else (self.total + batch).consolidated().settled()
        return self.total


class Delay(Generic[Z]):
    """The batch before; first the zero."""

    def __init__(self) -> None:
        self.before: Z | None = None

    def step(self, batch: Z) -> Z:
        before, self.before = self.before, batch
        return batch.zero() if before is None else before


class Differentiate(Generic[Z]):
    """Each batch less the one before."""

    def __init__(self) -> None:
        self.delay = Delay[Z]()

    def step(self, batch: Z) -> Z:
        return (batch - self.delay.step(batch)).consolidated()


class Lift(Generic[Z]):
    """A function of Z-sets, batch by batch; of a linear function it is the incremental form as well."""

    def __init__(self, query: Callable[[Z], Z]) -> None:
        self.query = query

    def step(self, batch: Z) -> Z:
        return self.query(batch)


class Slow(Generic[Z]):
    """Any query's incremental form by definition, D . lift Q . I: what every faster one is tested against."""

    def __init__(self, query: Callable[[Z], Z]) -> None:
        self.integrate, self.lift, self.differentiate = Integrate[Z](), Lift(query), Differentiate[Z]()

    def step(self, delta: Z) -> Z:
        return self.differentiate.step(self.lift.step(self.integrate.step(delta)))


class Join(Generic[Z]):
    """The bilinear rule over plain sums: each step sorts both sides anew."""

    def __init__(self, on: Sequence[str]) -> None:
        self.on = tuple(on)
        self.left: Z | None = None
        self.right: Z | None = None

    def step(self, left: Z, right: Z) -> Z:
        parts = [left.join(right, self.on)]
        if self.right is not None:
            parts.append(left.join(self.right, self.on))
        if self.left is not None:
            parts.append(self.left.join(right, self.on))
        self.left = (left if self.left is None else self.left + left).settled()
        self.right = (right if self.right is None else self.right + right).settled()
        return _sum(parts)


class IndexedJoin:
    """The bilinear rule over arranged traces: dA x B' + A x dB, each a search of the delta's keys.

    Where `right` is given, it is the arrangement that the operator before keeps of its output (`Count.output`), and is
    not built again.
    """

    def __init__(self, on: Sequence[str], right: Spine | None = None) -> None:
        self.left, self.right = Spine(on), Spine(on) if right is None else right
        self.shared = right is not None

    def step(self, left: ZSet, right: ZSet) -> ZSet:
        on = self.left.keys
        one, two = left.indexed(on), right.indexed(on)
        if not self.shared:
            self.right.append(right)
        parts = [left.join(right.zero(), on)]
        after = self.right.join(one)
        parts += [after] if after is not None else []
        for batch in self.left.batches:
            parts.append(batch.join_with_index(two))
        self.left.append(left)
        return _sum(parts)


class _Affected(Generic[Z]):
    """The change of a function of the rows with the changed keys, from the arranged input.

    It is the function on new less on old rows.
    """

    def __init__(self, keys: Sequence[str], query: Callable[[Z], Z], trace: Trace = Spine) -> None:
        self.query = query
        self.trace = trace(keys)

    def step(self, delta: Z) -> Z:
        delta = delta.consolidated().settled()
        if delta.empty:
            return self.query(delta)
        old = self.trace.of_keys(delta.keyed(self.trace.keys))
        before = delta.zero() if old is None else old.settled()
        self.trace.append(delta)
        return (self.query(before + delta) - self.query(before)).consolidated()


class CountTotal(_Affected[Z]):
    """(row, accumulated difference) of a stream of rows, for totally ordered times: only the input is arranged.

    For each changed row its old count goes and its new one comes, zeros left out.
    """

    def __init__(self, keys: Sequence[str], names: Sequence[str] = ("count",), trace: Trace = Spine) -> None:
        super().__init__(keys, lambda z: z.count(names), trace)


class Distinct(_Affected[Z]):
    """Weight 1 for rows of a positive accumulated weight, by the change of the sign of the rows that changed."""

    def __init__(self, keys: Sequence[str], trace: Trace = Spine) -> None:
        super().__init__(keys, lambda z: z.distinct(), trace)


class Reduce(_Affected[Z]):
    """Any function of each key's rows (see `ZSet.reduce`): the keys that changed, evaluated on old and new input."""


class General(Generic[Z]):
    """A function of each key's rows as a general reduce does it.

    Input and output are both arranged, and the output is corrected by what was emitted.
    This needs no order of times beyond what the two traces hold; it is what `CountTotal` and `Reduce` save. `output`
    may be shared.
    """

    def __init__(self, keys: Sequence[str], query: Callable[[Z], Z], trace: Trace = Spine) -> None:
        self.query = query
        self.input, self.output = trace(keys), trace(keys)

    def step(self, delta: Z) -> Z:
        delta = delta.consolidated().settled()
        self.input.append(delta)
        if delta.empty:
            return self.query(delta)
        keys = delta.keyed(self.input.keys)
        now = self.input.of_keys(keys)
        emitted = self.output.of_keys(keys)
        wanted = self.query(delta.zero() if now is None else now)
        change = wanted if emitted is None else (wanted - emitted)
        change = change.consolidated().settled()
        self.output.append(change)
        return change


class Count(General[Z]):
    """`CountTotal` with its output arranged."""

    def __init__(self, keys: Sequence[str], names: Sequence[str] = ("count",), trace: Trace = Spine) -> None:
        super().__init__(keys, lambda z: z.count(names), trace)


class IterationLimitError(RuntimeError):
    """A fixpoint was not reached within the given number of iterations."""


def iterate(start: Z, step: Callable[[Z], Z], limit: int = 1000) -> Z:
    """The least fixpoint of x = distinct(start + step(x)), semi-naively: `step` must be linear.

    Raises IterationLimitError.

    >>> edges = ZSet({"a": [1, 2], "b": [2, 3]})
    >>> def longer(paths):
    ...     ahead = edges.map(lambda c: {"m": c["a"], "b": c["b"]})
    ...     pairs = paths.map(lambda c: {"a": c["a"], "m": c["b"]}).join(ahead, ["m"])
    ...     return pairs.map(lambda c: {"a": c["a"], "b": c["b"]})
    >>> sorted(iterate(edges, longer).rows())
    [(1, 2), (1, 3), (2, 3)]
    """
    found = start.distinct().settled()
    fresh = found
    for _ in range(limit):
        reached = step(fresh).distinct()
        # What is new: distinct(found + reached) less found.
        fresh = ((found + reached).distinct() - found).consolidated().settled()
        if fresh.empty:
            return found
        found = (found + fresh).settled()
    raise IterationLimitError(
        f"no fixpoint after {limit} iterations, the last one still found new rows; raise the limit if that is right"
    )


def integrated(batches: Iterable[Z]) -> list[Z]:
    """I of a finite stream."""
    operator = Integrate[Z]()
    return [operator.step(b) for b in batches]


def differentiated(batches: Iterable[Z]) -> list[Z]:
    """D of a finite stream."""
    operator = Differentiate[Z]()
    return [operator.step(b) for b in batches]


def delayed(batches: Iterable[Z]) -> list[Z]:
    """z of a finite stream."""
    operator = Delay[Z]()
    return [operator.step(b) for b in batches]


def _sum(parts: Sequence[Z]) -> Z:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
