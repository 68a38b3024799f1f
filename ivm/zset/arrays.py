"""Z-sets in one process, over arrays: columns of one length and a difference for each row.

    A Z-set is a map from rows to an Abelian group, zero for all but finitely many rows.

A difference is an integer (the weight) or a tuple of numbers (sums and counts): `diffs` has one axis or two. A Z-set
may hold a row several times; its meaning is the sum, and `consolidated` has each row once and no zeros. Every operator
here is a function of the meaning. Operators by class (DBSP, Budiu et al., VLDB 2023):

    linear       map, filter, flat_map, explode, concat, negated              Q(a + b) = Q(a) + Q(b)
    bilinear     join, semijoin (in both arguments' weights)                  Q(a + b, c) = Q(a, c) + Q(b, c)
    neither      distinct, threshold, antijoin, count, reduce, top_k
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ivm.zset.backend import to_host, xp

Columns = Mapping[str, Any]
#: Doubles hold all integers below.
_EXACT = 2**53


class UnknownColumnError(KeyError):
    """A column was named that the Z-set doesn't have."""

    def __str__(self) -> str:
        return str(self.args[0])


class ZSet:
    """Rows as `columns` (name to array, all of one length) with `diffs`, of shape (rows,) or (rows, k).

    Raises ValueError for a list of values that an array would take for others.

    >>> edges = ZSet({"src": [1, 1, 2], "dst": [2, 3, 3]})
    >>> edges.map(lambda c: {"src": c["src"]}).count().rows()
    {(1, 2): 1, (2, 1): 1}
    """

    def __init__(self, columns: Mapping[str, Any], diffs: Any = None) -> None:
        a = xp()
        self.columns = {n: a.asarray(v) if hasattr(v, "dtype") else _exactly(n, v) for n, v in columns.items()}
        sizes = {n: len(v) for n, v in self.columns.items()}
        length = len(diffs) if diffs is not None else next(iter(sizes.values()), 0)
        if any(n != length for n in sizes.values()):
            raise ValueError(f"columns and differences must be of one length, not {sizes} and {length}")
        self.diffs = a.ones(length, dtype="int64") if diffs is None else a.asarray(diffs)

    # -- the group -------------------------------------------------------------------------------

    @classmethod
    def of(cls, names: Sequence[str], rows: Mapping[tuple[Any, ...], Any]) -> ZSet:
        """From a mapping of rows to differences.

        >>> ZSet.of(["a"], {(1,): 2, (5,): -1}).rows()
        {(1,): 2, (5,): -1}
        """
        listed = list(rows)
        columns: dict[str, Any] = {n: [r[i] for r in listed] for i, n in enumerate(names)}
        if not listed:
            columns = {n: xp().zeros(0, dtype="int64") for n in names}
        return cls(
            columns, xp().asarray([rows[r] for r in listed], dtype="int64") if listed else xp().zeros(0, dtype="int64")
        )

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def __len__(self) -> int:
        return len(self.diffs)

    def zero(self) -> ZSet:
        """The neutral element, with the same columns."""
        return self.taken(xp().zeros(0, dtype="int64"))

    def __add__(self, other: ZSet) -> ZSet:
        if len(other) == 0:
            return self
        if len(self) == 0:
            return other
        if self.names != other.names:
            raise ValueError(f"Z-sets of different columns can't be added: {self.names} and {other.names}")
        a = xp()
        return ZSet(
            {n: a.concatenate([v, other.columns[n]]) for n, v in self.columns.items()},
            a.concatenate([self.diffs, other.diffs]),
        )

    def __neg__(self) -> ZSet:
        return ZSet(self.columns, -self.diffs)

    def __sub__(self, other: ZSet) -> ZSet:
        return self + (-other)

    def __eq__(self, other: object) -> bool:
        """Whether both mean the same."""
        return isinstance(other, ZSet) and self.rows() == other.rows()

    __hash__ = None  # type: ignore[assignment]

    def taken(self, places: Any) -> ZSet:
        return ZSet({n: v[places] for n, v in self.columns.items()}, self.diffs[places])

    def consolidated(self) -> ZSet:
        """Each row once, no zero differences."""
        if len(self) == 0:
            return self
        a = xp()
        order, starts = grouped(list(self.columns.values()), len(self))
        sums = a.add.reduceat(self.diffs[order], starts, axis=0)
        nonzero = sums != 0 if sums.ndim == 1 else (sums != 0).any(axis=1)
        kept = order[starts][nonzero]
        return ZSet({n: v[kept] for n, v in self.columns.items()}, sums[nonzero])

    def settled(self) -> ZSet:
        """Itself: arrays are computed already (see `ivm.zset.frames`)."""
        return self

    @property
    def empty(self) -> bool:
        """Whether it lists no rows at all."""
        return len(self) == 0

    def keyed(self, keys: Sequence[str]) -> ZSet:
        """Each key that any row has, listed once whatever the differences."""
        self._check(keys)
        return ZSet({k: self.columns[k] for k in keys}, xp().ones(len(self), dtype="int64")).distinct()

    def rows(self) -> dict[tuple[Any, ...], Any]:
        """The meaning, as a mapping from rows to differences."""
        z = self.consolidated()
        columns = [to_host(v).tolist() for v in z.columns.values()]
        diffs = to_host(z.diffs).tolist()
        keys = zip(*columns, strict=True) if columns else ((),) * len(diffs)
        return {k: tuple(d) if isinstance(d, list) else d for k, d in zip(keys, diffs, strict=True)}

    # -- linear ----------------------------------------------------------------------------------

    def map(self, function: Callable[[Columns], Mapping[str, Any]]) -> ZSet:
        """New columns from the columns, row by row."""
        return ZSet(function(self.columns), self.diffs)

    def filter(self, predicate: Callable[[Columns], Any]) -> ZSet:
        """The rows for which a boolean array is true."""
        return self.taken(xp().nonzero(predicate(self.columns))[0])

    def flat_map(self, function: Callable[[Columns], tuple[Any, Mapping[str, Any]]]) -> ZSet:
        """Any number of rows from each: the function gives (place of the row it comes from, new columns)."""
        places, columns = function(self.columns)
        return ZSet(columns, self.diffs[places])

    def explode(self, keys: Sequence[str], values: Sequence[str] = ()) -> ZSet:
        """Move values into the difference: rows of `keys`, whose differences are (the values' sums ..., the weight).

        >>> z = ZSet({"k": [1, 1, 2], "v": [10, 5, 7]}, [1, -1, 1])
        >>> z.explode(["k"], ["v"]).rows()
        {(1,): (5, 0), (2,): (7, 1)}
        """
        self._check(keys, values)
        a = xp()
        moved = a.stack([*(self.columns[v] * self.diffs for v in values), self.diffs], axis=1)
        return ZSet({k: self.columns[k] for k in keys}, moved)

    def indexed(self, keys: Sequence[str]) -> Indexed:
        """Sorted by key, for `join_with_index`."""
        self._check(keys)
        return Indexed(self, tuple(keys))

    # -- bilinear --------------------------------------------------------------------------------

    def join(self, other: ZSet, on: Sequence[str]) -> ZSet:
        """Pairs of rows with equal keys; weights multiply.

        Columns: the keys, the rest of this one's, the rest of the other's.
        """
        return self.indexed(on).join_with_index(other.indexed(on))

    def semijoin(self, other: ZSet, on: Sequence[str]) -> ZSet:
        """The rows whose key the other has, weights multiplied by the key's."""
        other._check(on)
        keys = ZSet({k: other.columns[k] for k in on}, other.diffs).consolidated()
        return self.join(keys, on).map(lambda c: {n: c[n] for n in self.names})

    def antijoin(self, other: ZSet, on: Sequence[str]) -> ZSet:
        """The rows whose key the other doesn't have: this less its semijoin with the other's distinct keys."""
        other._check(on)
        keys = ZSet({k: other.columns[k] for k in on}, other.diffs).distinct()
        return self - self.semijoin(keys, on)

    # -- neither ---------------------------------------------------------------------------------

    def distinct(self) -> ZSet:
        """Weight 1 for every row of a positive weight."""
        return self.threshold(lambda w: (w > 0).astype("int64"))

    def threshold(self, function: Callable[[Any], Any]) -> ZSet:
        """Each row's weight through a function (of the array of weights)."""
        z = self.consolidated()
        return ZSet(z.columns, function(z.diffs)).consolidated() if len(z) else z

    def count(self, names: Sequence[str] = ("count",)) -> ZSet:
        """Each row with its difference as data, weight 1: the accumulated difference moves into columns `names`."""
        z = self.consolidated()
        parts = [z.diffs] if z.diffs.ndim == 1 else [z.diffs[:, i] for i in range(z.diffs.shape[1])]
        if len(names) != len(parts):
            raise ValueError(f"{len(parts)} names are needed for differences of {len(parts)} parts, not {list(names)}")
        return ZSet({**z.columns, **dict(zip(names, parts, strict=True))}, xp().ones(len(z), dtype="int64"))

    def reduce(
        self,
        keys: Sequence[str],
        logic: Callable[[tuple[Any, ...], dict[tuple[Any, ...], int]], Mapping[tuple[Any, ...], int]],
        names: Sequence[str],
    ) -> ZSet:
        """For each key any function of its rows: (values to weights) to (new values to weights).

        Columns: the keys and `names`.
        """
        return self.cogroup(self.zero(), keys, lambda k, mine, _: logic(k, mine), names)

    def cogroup(
        self,
        other: ZSet,
        keys: Sequence[str],
        logic: Callable[
            [tuple[Any, ...], dict[tuple[Any, ...], int], dict[tuple[Any, ...], int]], Mapping[tuple[Any, ...], int]
        ],
        names: Sequence[str],
    ) -> ZSet:
        """Like `reduce`, of two Z-sets at once."""
        sides = [z._by_key(keys) for z in (self, other)]
        result: dict[tuple[Any, ...], int] = {}
        for key in dict.fromkeys([*sides[0], *sides[1]]):
            for values, weight in logic(key, sides[0].get(key, {}), sides[1].get(key, {})).items():
                result[(*key, *values)] = result.get((*key, *values), 0) + weight
        return ZSet.of([*keys, *names], {r: w for r, w in result.items() if w})

    def top_k(self, keys: Sequence[str], by: Sequence[str], k: int) -> ZSet:
        """The first k rows (with their multiplicity) of each key, by `by` and then by all columns."""
        self._check(keys, by)
        rest = [n for n in self.names if n not in by]
        ordered = [*by, *(n for n in rest if n not in keys)]
        back = [n for n in self.names if n not in keys]

        def first(_: tuple[Any, ...], rows: dict[tuple[Any, ...], int]) -> dict[tuple[Any, ...], int]:
            left, kept = k, {}
            for row in sorted(rows, key=lambda r: tuple(r[back.index(n)] for n in ordered if n in back)):
                kept[row] = min(left, max(rows[row], 0))
                left -= kept[row]
            return kept

        return self.reduce(keys, first, back).map(lambda c: {n: c[n] for n in self.names})

    def _by_key(self, keys: Sequence[str]) -> dict[tuple[Any, ...], dict[tuple[Any, ...], int]]:
        self._check(keys)
        places = [self.names.index(k) for k in keys]
        found: dict[tuple[Any, ...], dict[tuple[Any, ...], int]] = {}
        for row, weight in self.rows().items():
            values = tuple(v for i, v in enumerate(row) if i not in places)
            found.setdefault(tuple(row[i] for i in places), {})[values] = weight
        return found

    def _check(self, *named: Iterable[str]) -> None:
        for names in named:
            missing = [n for n in names if n not in self.columns]
            if missing:
                raise UnknownColumnError(
                    f"there is no column {', '.join(missing)}; the Z-set has {', '.join(self.names)}"
                )


def _exactly(name: str, values: Sequence[Any]) -> Any:
    """Values as an array of the type that NumPy finds for them.

    That of texts and bytes ends each before its trailing NULs and makes texts of numbers; that of integers too large
    for 64 bits is of doubles. An array that came as one is what it is.
    """
    made = xp().asarray(values)
    kind = made.dtype.kind
    doubtful = range(len(values)) if kind in "SU" else []
    if kind == "f":
        doubtful = to_host(xp().nonzero(abs(made) >= _EXACT)[0])
    if any(values[i] != made[i].item() for i in doubtful):
        raise ValueError(
            f"column {name!r} would hold other values as an array of {made.dtype}; "
            "give it as an array of a type that holds them, such as object"
        )
    return made


class Indexed:
    """A Z-set sorted by key. Index building is linear, so a stream of batches is indexed batch by batch."""

    def __init__(self, rows: ZSet, keys: tuple[str, ...]) -> None:
        self.keys = keys
        codes = key_codes([rows.columns[k] for k in keys])
        order = xp().argsort(codes, kind="stable") if codes is not None else None
        self.rows = rows if order is None else rows.taken(order)
        self.codes = None if codes is None else codes[order]

    def join_with_index(self, other: Indexed) -> ZSet:
        """Pairs of rows with equal keys by one search of the smaller side's keys in the larger side's."""
        if self.keys != other.keys:
            raise ValueError(f"indexes by different keys can't be joined: {self.keys} and {other.keys}")
        a = xp()
        mine, theirs = self.codes, other.codes
        if mine is None or theirs is None:
            both = key_codes(
                [a.concatenate([self.rows.columns[k], other.rows.columns[k]]) for k in self.keys], always=True
            )
            mine, theirs = both[: len(self.rows)], both[len(self.rows) :]
            order = a.argsort(theirs, kind="stable")
            right = other.rows.taken(order)
            theirs = theirs[order]
        else:
            right = other.rows
        low, high = a.searchsorted(theirs, mine, side="left"), a.searchsorted(theirs, mine, side="right")
        matches = high - low
        left_places = a.repeat(a.arange(len(mine)), matches)
        ends = a.cumsum(matches)
        right_places = a.arange(len(left_places)) - a.repeat(ends - matches, matches) + a.repeat(low, matches)
        columns = {n: v[left_places] for n, v in self.rows.columns.items()}
        for n, v in right.columns.items():
            if n not in self.keys:
                if n in columns:
                    raise ValueError(f"both sides of the join have a column {n!r} that is no key; rename one by map")
                columns[n] = v[right_places]
        return ZSet(columns, self.rows.diffs[left_places] * right.diffs[right_places])


def key_codes(arrays: Sequence[Any], always: bool = False) -> Any:
    """One sortable array for the key columns.

    It is a single integer column itself; else None, or dense codes where `always`.
    """
    if len(arrays) == 1 and arrays[0].dtype.kind in "iu":
        return arrays[0]
    if not always:
        return None
    a = xp()
    codes = a.zeros(len(arrays[0]) if arrays else 0, dtype="int64")
    for array in arrays:
        _, inverse = a.unique(array, return_inverse=True)
        codes = codes * (int(inverse.max()) + 1 if len(inverse) else 1) + inverse
        _, codes = a.unique(codes, return_inverse=True)
    return codes


def grouped(arrays: Sequence[Any], length: int) -> tuple[Any, Any]:
    """An order that puts equal rows together, and where each group starts in it."""
    a = xp()
    codes = key_codes(arrays, always=True) if arrays else a.zeros(length, dtype="int64")
    order = a.argsort(codes, kind="stable")
    ordered = codes[order]
    first = a.ones(length, dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return order, a.nonzero(first)[0]
