"""Views written with operators: a collection is a query that grows one operator at a time (pure).

    @pipe.view
    def degrees(edges):
        return edges.map(src="src").count()

A parameter names a source or a view. What comes back is Spark SQL, compiled like any other view: the same traces,
epochs, checks and explain. Scalars are SQL text that Spark evaluates. Each operator states its class (DBSP):
linear (its delta is itself of the delta), bilinear, or by affected key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ivm.errors import ViewError
from ivm.names import RESERVED_PREFIX, ident

_JOINS = ("inner", "left", "right", "full", "semi", "anti")
#: Bound on the iterations of `iterate`, as Spark's own for WITH RECURSIVE.
ITERATIONS = 100


@dataclass(frozen=True)
class Collection:
    """A query and its columns."""

    sql: str
    columns: tuple[str, ...]

    @classmethod
    def relation(cls, name: str, columns: Sequence[str]) -> Collection:
        """A source or view, whole.

        >>> Collection.relation("edges", ["src", "dst"]).map(src="src").count().sql
        'SELECT `src`, count(*) AS `count` FROM (SELECT src AS `src` FROM `edges`) AS `c` GROUP BY `src`'
        """
        return cls(ident(name), tuple(columns))

    @property
    def _from(self) -> str:
        return self.sql if self.sql.startswith("`") else f"({self.sql}) AS `c`"

    def _known(self, *names: str) -> None:
        missing = [n for n in names if n.lower() not in {c.lower() for c in self.columns}]
        if missing:
            raise ViewError(f"There is no column {', '.join(missing)} here.", f"There are: {', '.join(self.columns)}.")

    # -- linear ----------------------------------------------------------------------------------

    def map(self, **outputs: str) -> Collection:
        """New columns by SQL expressions. Linear."""
        if not outputs:
            raise ViewError("map needs at least one column.", 'Write map(name="expression").')
        return Collection(
            f"SELECT {', '.join(f'{e} AS {ident(n)}' for n, e in outputs.items())} FROM {self._from}", tuple(outputs)
        )

    def filter(self, condition: str) -> Collection:
        """The rows that meet an SQL condition. Linear."""
        return Collection(f"SELECT {_listed(self.columns)} FROM {self._from} WHERE {condition}", self.columns)

    def flat_map(self, generator: str, names: Sequence[str]) -> Collection:
        """Each row as often as a table-generating function says, with its columns `names`. Linear.

        Such functions are explode, posexplode, inline and stack.
        """
        taken = [n for n in names if n in self.columns]
        if taken:
            raise ViewError(f"flat_map would make the column {taken[0]} twice.", "Give its columns other names.")
        inner = f"SELECT * FROM {self._from} LATERAL VIEW {generator} `g` AS {_listed(names)}"
        return Collection(f"SELECT {_listed([*self.columns, *names])} FROM ({inner}) AS `c`", (*self.columns, *names))

    def concat(self, other: Collection) -> Collection:
        """All rows of both (the sum of two bags). Linear."""
        other._known(*self.columns)
        return Collection(
            (
                f"SELECT {_listed(self.columns)} FROM {self._from} "
                f"UNION ALL SELECT {_listed(self.columns)} FROM {other._from}"
            ),
            self.columns,
        )

    def explode(self, keys: Sequence[str] = (), **values: str) -> Exploded:
        """Move values into the difference: rows of `keys`, whose differences are tuples of sums, to be counted.

        Linear.
        """
        self._known(*keys)
        return Exploded(self, tuple(keys), dict(values))

    # -- bilinear --------------------------------------------------------------------------------

    def join(self, other: Collection, on: Sequence[str] | Mapping[str, str], how: str = "inner") -> Collection:
        """Pairs of rows with equal keys (`on`: shared names, or this one's to the other's).

        Bilinear; outer joins by affected key.
        Columns: this one's, then the other's that are no keys.
        """
        return self._joined(other, on, how, "")

    def _joined(self, other: Collection, on: Sequence[str] | Mapping[str, str], how: str, hint: str) -> Collection:
        if how not in _JOINS:
            raise ViewError(f"There is no join {how!r}.", f"Choose one of: {', '.join(_JOINS)}.")
        pairs = dict(on) if isinstance(on, Mapping) else {n: n for n in on}
        self._known(*pairs)
        other._known(*pairs.values())
        met = " AND ".join(f"`l`.{ident(a)} = `r`.{ident(b)}" for a, b in pairs.items()) or "true"
        mine = [f"`l`.{ident(c)} AS {ident(c)}" for c in self.columns]
        if how in ("semi", "anti"):
            return Collection(
                (
                    f"SELECT {', '.join(mine)} FROM {self._named('l')} "
                    f"LEFT {how.upper()} JOIN {other._named('r')} ON {met}"
                ),
                self.columns,
            )
        rest = [c for c in other.columns if c not in pairs.values()]
        twice = [c for c in rest if c in self.columns]
        if twice:
            raise ViewError(f"Both sides of the join have a column {twice[0]}.", "Rename one by map, or join on it.")
        if how in ("right", "full"):
            mine = [
                f"coalesce(`l`.{ident(c)}, `r`.{ident(pairs[c])}) AS {ident(c)}"
                if c in pairs
                else f"`l`.{ident(c)} AS {ident(c)}"
                for c in self.columns
            ]
        word = "JOIN" if how == "inner" else f"{how.upper()} JOIN"
        outs = [*mine, *(f"`r`.{ident(c)} AS {ident(c)}" for c in rest)]
        return Collection(
            f"SELECT {hint}{', '.join(outs)} FROM {self._named('l')} {word} {other._named('r')} ON {met}",
            (*self.columns, *rest),
        )

    def join_with_index(self, other: Collection, on: Sequence[str] | Mapping[str, str]) -> Collection:
        """The same join, bilinear.

        A side that is a source or view is kept arranged by its keys, once for all views that ask for it.
        """
        mine, others = (list(on), list(on.values())) if isinstance(on, Mapping) else (list(on), list(on))
        sides = [(c.sql, keys) for c, keys in ((self, mine), (other, others)) if c.sql.startswith("`")]
        hints = ", ".join(f"ARRANGE({relation}, {_listed(keys)})" for relation, keys in sides)
        return self._joined(other, on, "inner", f"/*+ {hints} */ " if hints else "")

    def _named(self, alias: str) -> str:
        return f"{self.sql} AS `{alias}`" if self.sql.startswith("`") else f"({self.sql}) AS `{alias}`"

    # -- by affected key -------------------------------------------------------------------------

    def semijoin(self, other: Collection, on: Sequence[str] | Mapping[str, str]) -> Collection:
        """The rows whose key the other has. By the change of support."""
        return self.join(other, on, "semi")

    def antijoin(self, other: Collection, on: Sequence[str] | Mapping[str, str]) -> Collection:
        """The rows whose key the other doesn't have. By the change of support."""
        return self.join(other, on, "anti")

    def distinct(self) -> Collection:
        """Each row once. By threshold."""
        return Collection(f"SELECT DISTINCT {_listed(self.columns)} FROM {self._from}", self.columns)

    def threshold(self, weight: str) -> Collection:
        """Each row as often as an SQL expression over its number `n` of occurrences says.

        Not at all where that is not positive.
        """
        counted = f"SELECT {_listed(self.columns)}, count(*) AS `n` FROM {self._from} GROUP BY {_listed(self.columns)}"
        times = (
            f"SELECT {_listed(self.columns)}, CAST({weight} AS bigint) AS `{RESERVED_PREFIX}_times` "
            f"FROM ({counted}) AS `c`"
        )
        copies = (
            f"LATERAL VIEW explode(sequence(1L, greatest(`{RESERVED_PREFIX}_times`, 1L))) `g` AS `{RESERVED_PREFIX}_i`"
        )
        repeated = f"SELECT * FROM ({times}) AS `c` {copies} WHERE `{RESERVED_PREFIX}_times` > 0"
        return Collection(f"SELECT {_listed(self.columns)} FROM ({repeated}) AS `c`", self.columns)

    def count(self, name: str = "count") -> Collection:
        """Each different row with the number of its occurrences. Its accumulators are kept; see `count_total`."""
        return self.reduce(self.columns, **{name: "count(*)"})

    def count_total(self, name: str = "count") -> Collection:
        """`count` where times are totally ordered, as a pipeline's epochs are.

        Old rows come from the accumulators, no output is arranged.
        """
        return self.count(name)

    def count_u(self, name: str = "count") -> Collection:
        """`count` of rows of one integer column."""
        return self._unsigned("count_u").count(name)

    def count_total_u(self, name: str = "count") -> Collection:
        """`count_total` of rows of one integer column."""
        return self._unsigned("count_total_u").count_total(name)

    def _unsigned(self, what: str) -> Collection:
        if len(self.columns) != 1:
            raise ViewError(
                f"{what} counts rows of one integer column, and here are {len(self.columns)}.",
                "Use count, or map to one column.",
            )
        return self

    def reduce(self, keys: Sequence[str], **calls: str) -> Collection:
        """One row a key, with SQL aggregate calls. Sums and counts by accumulators, anything else by affected key."""
        self._known(*keys)
        outs = [ident(k) for k in keys] + [f"{e} AS {ident(n)}" for n, e in calls.items()]
        group = f" GROUP BY {_listed(keys)}" if keys else ""
        return Collection(f"SELECT {', '.join(outs)} FROM {self._from}{group}", (*keys, *calls))

    def cogroup(
        self, other: Collection, on: Sequence[str], mine: Mapping[str, str], others: Mapping[str, str]
    ) -> Collection:
        """One row for each key of either side, with aggregate calls over each side's rows.

        They are NULL where a side has no rows.
        """
        return self.reduce(on, **dict(mine)).join(other.reduce(on, **dict(others)), on, "full")

    def top_k(self, keys: Sequence[str], order: str, k: int) -> Collection:
        """The first k rows of each key, by an SQL sort order; rows that tie are ordered by all columns."""
        self._known(*keys)
        part = f"PARTITION BY {_listed(keys)} " if keys else ""
        ranked = (
            f"SELECT {_listed(self.columns)} FROM {self._from} "
            f"QUALIFY row_number() OVER ({part}ORDER BY {order}, {_listed(self.columns)}) <= {int(k)}"
        )
        return Collection(ranked, self.columns)

    def iterate(self, step: Callable[[Collection], Collection]) -> Collection:
        """The least fixpoint of  x = distinct(this + step(x))."""
        name = f"{RESERVED_PREFIX}_fixpoint"
        again = step(Collection.relation(name, self.columns))
        again._known(*self.columns)
        body = (
            f"SELECT {_listed(self.columns)} FROM {self._from} UNION SELECT {_listed(self.columns)} FROM {again._from}"
        )
        return Collection(
            (
                f"WITH RECURSIVE `{name}` ({_listed(self.columns)}) AS ({body}) "
                f"SELECT {_listed(self.columns)} FROM `{name}`"
            ),
            self.columns,
        )


@dataclass(frozen=True)
class Exploded:
    """Rows of `keys` with tuples of sums as differences."""

    base: Collection
    keys: tuple[str, ...]
    values: dict[str, str]

    def count(self, name: str = "count") -> Collection:
        """The accumulated differences as data: each key with its sums and, as `name`, its weight."""
        return self.base.reduce(self.keys, **{n: f"sum({e})" for n, e in self.values.items()}, **{name: "count(*)"})

    count_total = count


def _listed(names: Sequence[str]) -> str:
    return ", ".join(ident(n) for n in names)
