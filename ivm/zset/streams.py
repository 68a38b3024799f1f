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

from ivm.zset.arrays import ZSet
from ivm.zset.backend import xp
from ivm.zset.spine import Spine

Query = Callable[[ZSet], ZSet]


class Integrate:
    """The sum of all batches so far."""

    def __init__(self) -> None:
        self.total: ZSet | None = None

    def step(self, batch: ZSet) -> ZSet:
        self.total = batch if self.total is None else (self.total + batch).consolidated()
        return self.total


class Delay:
    """The batch before; first the zero."""

    def __init__(self) -> None:
        self.before: ZSet | None = None

    def step(self, batch: ZSet) -> ZSet:
        before, self.before = self.before, batch
        return batch.zero() if before is None else before


class Differentiate:
    """Each batch less the one before."""

    def __init__(self) -> None:
        self.delay = Delay()

    def step(self, batch: ZSet) -> ZSet:
        return (batch - self.delay.step(batch)).consolidated()


class Lift:
    """A function of Z-sets, batch by batch; of a linear function it is the incremental form as well."""

    def __init__(self, query: Query) -> None:
        self.query = query

    def step(self, batch: ZSet) -> ZSet:
        return self.query(batch)


class Slow:
    """Any query's incremental form by definition, D . lift Q . I: what every faster one is tested against."""

    def __init__(self, query: Query) -> None:
        self.integrate, self.lift, self.differentiate = Integrate(), Lift(query), Differentiate()

    def step(self, delta: ZSet) -> ZSet:
        return self.differentiate.step(self.lift.step(self.integrate.step(delta)))


class Join:
    """The bilinear rule over plain sums: each step sorts both sides anew."""

    def __init__(self, on: Sequence[str]) -> None:
        self.on = tuple(on)
        self.left: ZSet | None = None
        self.right: ZSet | None = None

    def step(self, left: ZSet, right: ZSet) -> ZSet:
        parts = [left.join(right, self.on)]
        if self.right is not None:
            parts.append(left.join(self.right, self.on))
        if self.left is not None:
            parts.append(self.left.join(right, self.on))
        self.left = left if self.left is None else self.left + left
        self.right = right if self.right is None else self.right + right
        return _sum(parts)


class IndexedJoin:
    """The bilinear rule over arranged traces: dA x B' + A x dB, each a search of the delta's keys."""

    def __init__(self, on: Sequence[str]) -> None:
        self.left, self.right = Spine(on), Spine(on)

    def step(self, left: ZSet, right: ZSet) -> ZSet:
        on = self.left.keys
        one, two = left.indexed(on), right.indexed(on)
        self.right.append(right)
        parts = [left.join(right.zero(), on)]
        after = self.right.join(one)
        parts += [after] if after is not None else []
        for batch in self.left.batches:
            parts.append(batch.join_with_index(two))
        self.left.append(left)
        return _sum(parts)


class CountTotal:
    """(row, accumulated difference) of a stream of rows, for totally ordered times: only the input is arranged.

    For each changed row its old count goes and its new one comes, zeros left out.
    """

    def __init__(self, keys: Sequence[str], names: Sequence[str] = ("count",)) -> None:
        self.names = tuple(names)
        self.trace = Spine(keys)

    def step(self, delta: ZSet) -> ZSet:
        delta = delta.consolidated()
        old = self.trace.of_keys(_keys(delta, self.trace.keys)) if len(delta) else None
        self.trace.append(delta)
        before = delta.zero() if old is None else old.consolidated()
        return ((before + delta).count(self.names) - before.count(self.names)).consolidated()


class Count:
    """The same as a general reduce does it: input and output are both arranged, and the output is corrected by what was emitted.

    This needs no order of times beyond what the two traces hold; it is what `CountTotal` saves.
    """

    def __init__(self, keys: Sequence[str], names: Sequence[str] = ("count",)) -> None:
        self.names = tuple(names)
        self.input, self.output = Spine(keys), Spine(keys)

    def step(self, delta: ZSet) -> ZSet:
        self.input.append(delta.consolidated())
        if len(delta) == 0:
            return delta.zero().count(self.names)
        keys = _keys(delta, self.input.keys)
        now = self.input.of_keys(keys)
        emitted = self.output.of_keys(keys)
        wanted = (delta.zero() if now is None else now).count(self.names)
        change = wanted if emitted is None else (wanted - emitted)
        change = change.consolidated()
        self.output.append(change)
        return change


class Distinct:
    """Weight 1 for rows of a positive accumulated weight, by the change of the sign of the rows that changed."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.trace = Spine(keys)

    def step(self, delta: ZSet) -> ZSet:
        delta = delta.consolidated()
        old = self.trace.of_keys(_keys(delta, self.trace.keys)) if len(delta) else None
        self.trace.append(delta)
        before = delta.zero() if old is None else old.consolidated()
        return ((before + delta).distinct() - before.distinct()).consolidated()


class Reduce:
    """Any function of each key's rows (see `ZSet.reduce`): the keys that changed, evaluated on old and new input."""

    def __init__(self, keys: Sequence[str], query: Query) -> None:
        self.trace = Spine(keys)
        self.query = query

    def step(self, delta: ZSet) -> ZSet:
        delta = delta.consolidated()
        if len(delta) == 0:
            return self.query(delta)
        old = self.trace.of_keys(_keys(delta, self.trace.keys))
        self.trace.append(delta)
        before = delta.zero() if old is None else old
        return (self.query(before + delta) - self.query(before)).consolidated()


class IterationLimitError(RuntimeError):
    """A fixpoint was not reached within the given number of iterations."""


def iterate(start: ZSet, step: Query, limit: int = 1000) -> ZSet:
    """The least fixpoint of x = distinct(start + step(x)), semi-naively: `step` must be linear. Raises IterationLimitError.

    >>> edges = ZSet({"a": [1, 2], "b": [2, 3]})
    >>> def longer(paths):
    ...     pairs = paths.map(lambda c: {"a": c["a"], "m": c["b"]}).join(edges.map(lambda c: {"m": c["a"], "b": c["b"]}), ["m"])
    ...     return pairs.map(lambda c: {"a": c["a"], "b": c["b"]})
    >>> sorted(iterate(edges, longer).rows())
    [(1, 2), (1, 3), (2, 3)]
    """
    found = start.distinct()
    fresh = found
    for _ in range(limit):
        reached = step(fresh).distinct()
        # What is new: distinct(found + reached) less found.
        fresh = ((found + reached).distinct() - found).consolidated()
        if len(fresh) == 0:
            return found
        found = found + fresh
    raise IterationLimitError(f"no fixpoint after {limit} iterations, {len(fresh):,} rows were still new in the last one; raise the limit if that is right")


def integrated(batches: Iterable[ZSet]) -> list[ZSet]:
    """I of a finite stream."""
    operator = Integrate()
    return [operator.step(b) for b in batches]


def differentiated(batches: Iterable[ZSet]) -> list[ZSet]:
    """D of a finite stream."""
    operator = Differentiate()
    return [operator.step(b) for b in batches]


def delayed(batches: Iterable[ZSet]) -> list[ZSet]:
    """z of a finite stream."""
    operator = Delay()
    return [operator.step(b) for b in batches]


def _keys(delta: ZSet, keys: Sequence[str]) -> ZSet:
    ones = xp().ones(len(delta), dtype="int64")
    return ZSet({k: delta.columns[k] for k in keys}, ones).distinct()


def _sum(parts: Sequence[ZSet]) -> ZSet:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
