"""The normal form every maintained query is compiled to.

A query is a chain of *units*. A unit is ``post(reduce(core))``; `reduce` and `post` may be absent:

- `Branch`  SELECT outputs FROM leaf x leaf ... WHERE predicates     (multilinear in its leaves of scope 0)
- `Core`    UNION ALL of branches                                    (so its delta is a sum of terms)
- `Reduce`  GROUP BY, window functions or ORDER BY ... LIMIT         (linear calls keep accumulators)
- `Post`    SELECT outputs ... WHERE predicates over the reduced rows (HAVING and the select list)

Scalar expressions are opaque SQL text that Spark evaluates; only the columns they read are known.
A leaf reads a source, a view, or another unit of the same view, all of them alike. Leaves of a scope other
than 0 are read inside an outer join, a subquery or a LATERAL item: a branch is a function of them, row by row
of its product of scope 0, but not linear in them. Where such leaves stand in a text is part of its structure, see
`Text`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

from ivm.plan.kinds import BY_ITS_SOURCES, NOT_GIVEN, Recursion, ReduceKind, RelationKind

#: Column names of ours inside deltas, traces and statements.
IN_NEW = "__ivm_in_new"
IN_OLD = "__ivm_in_old"
EPOCH = "__ivm_epoch"
COUNT = "__ivm_count"
#: The last column of a set recursion's unit: 0 for a row that the base gives,
#: else one more than that of a row it was derived from.
RANK = "__ivm_rank"
#: The one column of a clock.
CLOCK_VALUE = "at"


class PlanError(ValueError):
    """A node that would make no sense was about to be built: a defect of the compiler."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise PlanError(message)


@dataclass(frozen=True)
class Column:
    """A column with Spark's own type name, e.g. ``decimal(15,2)``."""

    name: str
    type: str


@dataclass(frozen=True)
class Relation:
    """Something a leaf can read. `kind` is source, view, unit or clock; `key` is unique if declared or known.

    `effective` is the column of the day from which a source's rows hold, BY_ITS_SOURCES for a view over such sources,
    "" where there is none. `padded` are the columns that Spark pads, with what declares it (a CHAR in their type).
    """

    name: str
    kind: RelationKind
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    effective: str = ""
    padded: tuple[Column, ...] = ()

    def __post_init__(self) -> None:
        _require(self.kind in get_args(RelationKind), f"relation kind {self.kind!r}, not {get_args(RelationKind)}")
        names = {c.name.lower() for c in self.columns}
        missing = [k for k in self.key if k.lower() not in names]
        _require(not missing, f"{self.name}: key columns {missing} are not among {sorted(names)}")
        of_view = self.effective == BY_ITS_SOURCES
        dated = self.kind == "view" if of_view else self.effective.lower() in names or not self.effective
        _require(dated, f"{self.name}: a {self.kind} has no day {self.effective!r}, only {sorted(names)}")

    @cached_property
    def _types(self) -> dict[str, str]:
        return {c.name.lower(): c.type for c in reversed(self.columns)}

    def type_of(self, column: str) -> str:
        found = self._types.get(column.lower())
        if found is None:
            raise PlanError(f"{self.name} has no column {column!r}; it has {[c.name for c in self.columns]}")
        return found


@dataclass(frozen=True)
class Text:
    """SQL text with places for leaves: text, alias of a leaf, text, alias, ..., text.

    A place is known by its position alone, so nothing in a text (a literal, a quoted name) can be taken for one.

    >>> (Text.of("EXISTS (SELECT 1 FROM ") + Text.leaf("t") + Text.of(" AS `t`)")).filled(lambda alias: f"{alias}_now")
    'EXISTS (SELECT 1 FROM t_now AS `t`)'
    """

    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        _require(len(self.parts) % 2 == 1, f"a text begins and ends with text: {self.parts}")

    @classmethod
    def of(cls, sql: str) -> Text:
        """Text without leaves."""
        return cls((sql,))

    @classmethod
    def leaf(cls, alias: str) -> Text:
        """The FROM item of a leaf, whatever it will be."""
        return cls(("", alias, ""))

    def __add__(self, other: Text) -> Text:
        return Text((*self.parts[:-1], self.parts[-1] + other.parts[0], *other.parts[1:]))

    @property
    def leaves(self) -> tuple[str, ...]:
        """The aliases of the leaves that stand in it, in order."""
        return self.parts[1::2]

    def filled(self, item: Callable[[str], str]) -> str:
        """The SQL, with the FROM item that `item` gives for each leaf's alias."""
        return "".join(item(part) if i % 2 else part for i, part in enumerate(self.parts))


@dataclass(frozen=True)
class Expr:
    """Spark SQL text and the (leaf alias, column) pairs it reads. `plain` if it is one bare column."""

    text: Text
    reads: frozenset[tuple[str, str]] = frozenset()
    plain: tuple[str, str] | None = None

    @property
    def sql(self) -> str:
        """The text of an expression without subqueries.

        Raises PlanError for others: how their leaves are read isn't known here.
        """
        _require(not self.text.leaves, f"{self.text} reads {self.text.leaves}")
        return self.text.parts[0]


@dataclass(frozen=True)
class Output:
    """A named expression; in a core with its type in Spark."""

    name: str
    expr: Expr
    type: str = ""


@dataclass(frozen=True)
class Filter:
    """A comparison of a bare column with constants that means the same in every engine.

    For example ``c >= DATE '2024-01-01'``.
    `op` is one of =, <>, <, <=, >, >=, in, prefix, suffix, contains; `values` are spelled as Spark casts them from
    text. NULLs never meet it.
    """

    column: str
    op: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Leaf:
    """One occurrence of a relation in a branch; a self-join has two leaves of one relation."""

    alias: str
    relation: str
    columns: tuple[str, ...]
    scope: int = 0
    #: What its rows meet wherever they matter: a walk need not go on from others.
    filters: tuple[Filter, ...] = ()


@dataclass(frozen=True)
class Edge:
    """An equality of two bare columns of different leaves: a way to walk.

    It holds wherever the leaf (or leaves) of `scope` matter, so these may be restricted to the rows that match
    the other side. With `nulls`, NULL equals NULL. With `member` it is of an IN that rows of the left side must meet:
    those that match none of the right side can't matter either.
    """

    left: tuple[str, str]
    right: tuple[str, str]
    scope: int = 0
    nulls: bool = False
    member: bool = False

    def from_side(self, alias: str) -> tuple[str, tuple[str, str]] | None:
        """The column on `alias`'s side and the (alias, column) across, or None if it isn't touched."""
        if self.left[0] == alias:
            return self.left[1], self.right
        if self.right[0] == alias:
            return self.right[1], self.left
        return None


@dataclass(frozen=True)
class Bound:
    """A comparison of two bare columns (numbers, or times of one type), all that a branch reads of `bounding`'s leaf.

    For example ``c.balance > a.average``.
    When one row of that leaf changes, only rows of the `bounded` leaf between its old and its new value meet the
    comparison otherwise than before; for all others what is added and what is taken away are equal.
    """

    bounding: tuple[str, str]
    bounded: tuple[str, str]


@dataclass(frozen=True)
class Branch:
    leaves: tuple[Leaf, ...]
    predicates: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    edges: tuple[Edge, ...] = ()
    #: The FROM clause; None for the plain product of all leaves.
    source: Text | None = None
    #: Output columns that are unique, where known.
    key: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()

    def __post_init__(self) -> None:
        aliases = [leaf.alias for leaf in self.leaves]
        _require(len(set(aliases)) == len(aliases), f"leaf aliases repeat: {aliases}")
        known = {(leaf.alias, c) for leaf in self.leaves for c in leaf.columns}
        for expr in (*self.predicates, *(o.expr for o in self.outputs)):
            _require(expr.reads <= known, f"{expr.text} reads {sorted(expr.reads - known)}, which no leaf has")
        texts = [e.text for e in (*self.predicates, *(o.expr for o in self.outputs))] + (
            [self.source] if self.source else []
        )
        strangers = {a for t in texts for a in t.leaves} - set(aliases)
        _require(not strangers, f"there are no leaves {sorted(strangers)}, only {aliases}")

    @cached_property
    def _by_alias(self) -> dict[str, Leaf]:
        return {leaf.alias: leaf for leaf in self.leaves}

    def leaf(self, alias: str) -> Leaf:
        return self._by_alias[alias]

    @cached_property
    def _across(self) -> dict[tuple[str, str, int], list[tuple[str, str, bool]]]:
        found: dict[tuple[str, str, int], list[tuple[str, str, bool]]] = {}
        for edge in self.edges:
            for alias in dict.fromkeys((edge.left[0], edge.right[0])):
                if side := edge.from_side(alias):
                    mine, (other, theirs) = side
                    found.setdefault((alias, other, edge.scope), []).append((mine, theirs, edge.nulls))
        return found

    def across(self, alias: str, other: str, scope: int) -> Sequence[tuple[str, str, bool]]:
        """The equalities of a scope between two leaves: (alias's column, other's column, whether NULL equals NULL)."""
        return self._across.get((alias, other, scope), ())

    @property
    def linear(self) -> tuple[Leaf, ...]:
        """The leaves whose product the branch is linear in."""
        return tuple(leaf for leaf in self.leaves if leaf.scope == 0)

    @property
    def dependents(self) -> tuple[Leaf, ...]:
        """The leaves read inside outer joins, subqueries and LATERAL items."""
        return tuple(leaf for leaf in self.leaves if leaf.scope)


@dataclass(frozen=True)
class Core:
    branches: tuple[Branch, ...]

    def __post_init__(self) -> None:
        _require(bool(self.branches), "a core has at least one branch")
        names = [tuple(o.name for o in b.outputs) for b in self.branches]
        _require(len(set(names)) == 1, f"branches differ in their columns: {names}")

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(o.name for o in self.branches[0].outputs)

    @property
    def typed(self) -> tuple[Column, ...]:
        """The columns with their types."""
        return tuple(Column(o.name, o.type) for o in self.branches[0].outputs)

    @property
    def relations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(leaf.relation for b in self.branches for leaf in b.leaves))


@dataclass(frozen=True)
class Call:
    """One aggregate call over core columns.

    `function` and `argument` (a core column, None for count(*)) are set for the calls that are group
    homomorphisms over an exact type (count, sum, avg); `sql` is what Spark evaluates otherwise.
    """

    name: str
    sql: str
    function: str | None = None
    argument: str | None = None
    argument_type: str | None = None


@dataclass(frozen=True)
class Reduce:
    """A function of the core's rows that share `keys` (core columns; none of them means one global partition).

    `kind` group: GROUP BY keys with aggregate `calls`; the result has keys and calls.
    `kind` window: window functions `calls`, each partitioned by at least the keys; the result has all core columns
    and calls.
    `kind` top: the rows in `order` from `offset` up to `limit` of them (or NOT_GIVEN); the result has all core columns.
    """

    keys: tuple[Column, ...]
    calls: tuple[Call, ...]
    kind: ReduceKind = ReduceKind.GROUP
    order: str = ""
    limit: int = NOT_GIVEN
    offset: int = NOT_GIVEN

    def __post_init__(self) -> None:
        _require(isinstance(self.kind, ReduceKind), f"reduce kind {self.kind!r}, not one of {list(ReduceKind)}")
        _require(bool(self.order) == (self.kind is ReduceKind.TOP), f"{self.kind} with the order {self.order!r}")

    @property
    def tail(self) -> str:
        """The clauses after FROM, "" but for `top`."""
        limits = (f"\nLIMIT {self.limit}" if self.limit >= 0 else "") + (
            f"\nOFFSET {self.offset}" if self.offset > 0 else ""
        )
        return f"ORDER BY {self.order}{limits}" if self.kind is ReduceKind.TOP else ""

    @property
    def linear(self) -> bool:
        """Whether every call has accumulators, so that the groups' inputs need not be read again."""
        return self.kind is ReduceKind.GROUP and all(call.function for call in self.calls)


@dataclass(frozen=True)
class Post:
    """The select list and HAVING over the reduced rows, which are called `alias`."""

    alias: str
    predicates: tuple[Expr, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Unit:
    """One maintained collection. The last unit of a program is the view; the others are internal."""

    name: str
    core: Core
    reduce: Reduce | None
    post: Post | None
    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    #: "all" or "distinct" for a fixpoint: the least collection with  unit = core(unit), as a bag or as a set.
    #: The core then has branches that read the unit itself in plain products; as a bag each once.
    fixpoint: Recursion = Recursion.NONE
    #: Of a set: the column of which only the least value is kept for each value of the others
    #: (see `ivm.rewrite.least`).
    least: str = ""
    #: Whether its rows are kept as a table. If not, it is a stream of deltas, with accumulators for its old rows.
    arranged: bool = True

    def __post_init__(self) -> None:
        _require(
            self.arranged or (self.reduce is not None and self.reduce.linear),
            f"{self.name}: only accumulators can do without stored rows",
        )
        _require(
            not self.least or self.fixpoint is Recursion.SET,
            f"{self.name}: only the rows of a set may be the least ones",
        )
        _require(isinstance(self.fixpoint, Recursion), f"fixpoint {self.fixpoint!r}, not one of {list(Recursion)}")
        _require(
            bool(self.fixpoint) == (self.name in self.core.relations),
            f"{self.name}: a fixpoint reads itself, and nothing else does",
        )
        _require((self.reduce is None) == (self.post is None), "a post stage belongs to a reduce")
        if self.reduce and not self.reduce.linear:
            _require(self.stores_keys, f"{self.name} must store its group keys to find its old rows")

    @property
    def reads(self) -> tuple[str, ...]:
        """The relations it reads, itself left out."""
        return tuple(r for r in self.core.relations if r != self.name)

    @property
    def stores_keys(self) -> bool:
        """Whether each group key is a bare output column of the stored rows."""
        return self.reduce is not None and None not in self.key_outputs()

    def key_outputs(self) -> tuple[str | None, ...]:
        """For each group key the output column that carries it, None where it was projected away."""
        if self.reduce is None or self.post is None:
            return ()
        carried = {o.expr.plain[1]: o.name for o in reversed(self.post.outputs) if o.expr.plain}
        return tuple(carried.get(k.name) for k in self.reduce.keys)


@dataclass(frozen=True)
class Clock:
    """A relation of one row, `CLOCK_VALUE`, of a value that the time alone makes: `sql`, of this type.

    Two of one name have one value at each instant.
    """

    name: str
    sql: str
    type: str

    @property
    def relation(self) -> Relation:
        """As leaves read it."""
        return Relation(self.name, "clock", (Column(CLOCK_VALUE, self.type),))


@dataclass(frozen=True)
class Refusal:
    """Why a view is refreshed in full: a stable code, a plain sentence, what would mend it."""

    code: str
    reason: str
    mend: str


@dataclass(frozen=True)
class Program:
    """What a view compiles to: its units in dependency order, or the reasons why it is refreshed in full.

    It has both where it shall be refreshed in full and only its units can be run.
    """

    view: str
    columns: tuple[Column, ...]
    relations: tuple[str, ...]
    units: tuple[Unit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    deterministic: bool = True
    #: Where Spark may choose among several results, the rules by which we choose one.
    rules: tuple[str, ...] = ()
    #: The user's own functions that it calls, and how each is defined: (name, definition).
    functions: tuple[tuple[str, str], ...] = ()
    #: What its temporal filters compare with; units read them as relations of these names.
    clocks: tuple[Clock, ...] = ()

    @property
    def incremental(self) -> bool:
        return bool(self.units) and not self.refusals
