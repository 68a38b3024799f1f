"""Query blocks: the parser's working form of a `Branch`, with sqlglot trees still in it.

A query is a list of blocks (their UNION ALL). Blocks are combined by product (FROM a, b) and by
substitution (a derived table's columns replaced by its expressions), so nested selects disappear
where they can: what stays nested is what a branch is not linear in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field

from sqlglot import exp

from ivm.names import RESERVED_PREFIX
from ivm.sql.refusals import UnsupportedError

#: Marks the tables and columns that are in terms of a block's leaves.
_COMPILED = f"{RESERVED_PREFIX}_compiled"
#: What (alias, column), both in lower case, means in terms of a block's leaves.
Scope = dict[tuple[str, str], exp.Expression]


@dataclass
class Block:
    """SELECT outs FROM items WHERE preds; each column is qualified with an alias of this block.

    Items are `exp.Join` nodes: a table (CROSS: a linear leaf; LEFT: an outer join), a derived table, VALUES or a
    LATERAL. Every `exp.Table` in any of the trees is a leaf: its name is the relation, its alias is unique in the
    block. So tables and qualified columns are those that `leaf_item` and `leaf_column` make; others are still the
    user's, which name something else (see `is_compiled`).
    """

    items: list[exp.Join] = field(default_factory=list)
    preds: list[exp.Expression] = field(default_factory=list)
    outs: list[tuple[str, exp.Expression]] = field(default_factory=list)

    def trees(self) -> Iterator[exp.Expression]:
        yield from self.items
        yield from self.preds
        yield from (e for _, e in self.outs)

    @property
    def reads(self) -> bool:
        """Whether any table is read; a block of constants never changes."""
        return any(tree.find(exp.Table) for tree in self.trees())

    def only_leaf(self) -> tuple[str, str] | None:
        """(alias, relation) if the block reads a single table and nothing else."""
        if len(self.items) != 1 or not isinstance(self.items[0].this, exp.Table):
            return None
        if any(tree.find(exp.Query) for tree in (*self.preds, *(e for _, e in self.outs))):
            return None
        return self.items[0].this.alias, self.items[0].this.name

    def with_outs(self, outs: Iterable[tuple[str, exp.Expression]]) -> Block:
        return Block(self.items, self.preds, list(outs))

    def called(self, names: Collection[str]) -> Block:
        """The block with its outputs called so. Raises UnsupportedError where these are more or fewer."""
        if len(names) != len(self.outs):
            raise UnsupportedError("schema", f"{len(self.outs)} for {len(names)} ({', '.join(names)})")
        return self.with_outs((n, e) for n, (_, e) in zip(names, self.outs, strict=True))

    def renamed(self, taken: set[str]) -> Block:
        """A copy whose aliases avoid `taken` (and are added to it)."""
        names: dict[str, str] = {}
        for tree in self.trees():
            for alias in tree.find_all(exp.TableAlias):
                if alias.name and alias.name not in names:
                    names[alias.name] = fresh(alias.name, taken)

        def copy(tree: exp.Expression) -> exp.Expression:
            tree = tree.copy()
            for node in tree.find_all(exp.TableAlias, exp.Column):
                if isinstance(node, exp.Column) and node.table in names:
                    node.set("table", exp.to_identifier(names[node.table], quoted=True))
                elif isinstance(node, exp.TableAlias) and node.name in names:
                    node.set("this", exp.to_identifier(names[node.name], quoted=True))
            return tree

        return Block(
            [copy(i) for i in self.items],  # type: ignore[misc]
            [copy(p) for p in self.preds],
            [(n, copy(e)) for n, e in self.outs],
        )


#: Gives an expression's meaning in terms of a block's leaves; subqueries may add items to the block, if there is one.
Inline = Callable[[exp.Expression, Scope, Block | None], exp.Expression]
#: The tables that WITH binds, by lower-case name.
Ctes = dict[str, list[Block]]
#: (alias, column) of each column of a FROM item, in lower case.
Names = list[tuple[str, str]]


@dataclass(frozen=True)
class Extent:
    """How much trees are: all their nodes, and the most of them that lie above each other."""

    nodes: int
    depth: int

    def at_least(self, other: Extent) -> Extent:
        """The larger of both in each."""
        return Extent(max(self.nodes, other.nodes), max(self.depth, other.depth))

    def holds(self, other: Extent) -> bool:
        """Whether the other is larger in nothing."""
        return self.at_least(other) == self


def extent(trees: Iterable[exp.Expression]) -> Extent:
    """How much these trees are together.

    >>> from sqlglot import parse_one
    >>> extent([parse_one("a"), parse_one("a + 1")])
    Extent(nodes=6, depth=3)
    """
    nodes, depth = 0, 0
    todo = [(tree, 1) for tree in trees]
    while todo:
        node, above = todo.pop()
        nodes, depth = nodes + 1, max(depth, above)
        todo += [(child, above + 1) for child in node.iter_expressions()]
    return Extent(nodes, depth)


def fresh(name: str, taken: set[str]) -> str:
    """A name like `name` that isn't taken yet, which it then is."""
    found, n = name, 2
    while found.lower() in taken:
        found, n = f"{name}_{n}", n + 1
    taken.add(found.lower())
    return found


def leaf_column(alias: str, column: str) -> exp.Column:
    """A column reference, quoted on both sides."""
    made = exp.column(exp.to_identifier(column, quoted=True), table=exp.to_identifier(alias, quoted=True))
    made.meta[_COMPILED] = True
    return made


def leaf_item(alias: str, relation: str) -> exp.Join:
    """A table as a FROM item."""
    table = named_table(alias, relation)
    table.meta[_COMPILED] = True
    return exp.Join(this=table, kind="CROSS")


def named_table(alias: str, relation: str) -> exp.Table:
    """A table under an alias, as a statement names it that isn't compiled yet."""
    return exp.Table(this=exp.to_identifier(relation, quoted=True), alias=table_alias(alias))


def is_compiled(node: exp.Table | exp.Column) -> bool:
    """Whether a table is a leaf, and a column one of a block's FROM items.

    One of the user's own names may be that of an entry of WITH or of another alias, and a leaf be called like it.

    >>> from sqlglot import parse_one
    >>> is_compiled(leaf_column("t", "a").copy()), is_compiled(parse_one("t.a"))
    (True, False)
    """
    return bool(node.meta.get(_COMPILED))


def table_alias(alias: str, columns: Iterable[str] = ()) -> exp.TableAlias:
    """`alias(columns)`, quoted."""
    names = [exp.to_identifier(c, quoted=True) for c in columns]
    return exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=names or None)


def select_of(block: Block) -> exp.Select:
    """The block as a SELECT tree, its leaves still named by their relations."""
    outs = [exp.alias_(e.copy(), n, quoted=True) for n, e in block.outs] or [exp.alias_(exp.Literal.number(1), "one")]
    select = exp.Select(expressions=outs)
    set_from(select, block.items)
    if block.preds:
        select.set("where", exp.Where(this=exp.and_(*(exp.Paren(this=p.copy()) for p in block.preds), copy=False)))
    return select


def set_from(select: exp.Select, items: Iterable[exp.Join]) -> None:
    """Make `items` the FROM clause of a select."""
    copies = [i.copy() for i in items]
    select.set("from_", exp.From(this=copies[0].this) if copies else None)
    select.set("joins", copies[1:] or None)


def from_items(select: exp.Select) -> list[exp.Expression]:
    """What a select's FROM clause names: tables, derived tables and LATERALs, those joined included."""
    source = select.args.get("from_")
    items = [source.this] if source else []
    return [*items, *(j.this for j in select.args.get("joins") or []), *(select.args.get("laterals") or [])]


def union_of(selects: list[exp.Select]) -> exp.Query:
    """UNION ALL of selects."""
    tree: exp.Query = selects[0]
    for select in selects[1:]:
        tree = exp.Union(this=tree, expression=select, distinct=False)
    return tree


def sql_of(node: exp.Expression) -> str:
    """Spark SQL of a scalar expression; one spelling for equal trees.

    >>> import sqlglot
    >>> sql_of(sqlglot.parse_one("a+1", read="spark"))
    'a + 1'
    """
    return str(node.sql(dialect="spark", comments=False))


def rewritten(node: exp.Expression, swap: Callable[[exp.Expression], exp.Expression | None]) -> exp.Expression:
    """A copy in which `swap` may replace nodes, from the root down; what it gives back is not looked into again.

    A sort key is never swapped itself, only what it sorts by: its text may be that of a bare column.
    """
    found = None if isinstance(node, exp.Ordered) else swap(node)
    if found is not None:
        return found
    copy = node.copy()
    todo = [copy]
    while todo:
        for child in list(todo.pop().iter_expressions()):
            replacement = None if isinstance(child, exp.Ordered) else swap(child)
            if replacement is None:
                todo.append(child)
            elif replacement is not child:
                child.replace(replacement)
    return copy


def substituted(node: exp.Expression, values: Scope) -> exp.Expression:
    """Replace columns by what they mean; columns that `values` doesn't know stay."""

    def swap(n: exp.Expression) -> exp.Expression | None:
        return value_of(n, values) if isinstance(n, exp.Column) else None

    return rewritten(node, swap)


def plainly(node: exp.Expression, values: Scope, block: Block | None) -> exp.Expression:
    """An `Inline` for expressions of ours, which hold no subqueries."""
    return substituted(node, values)


def value_of(column: exp.Column, values: Scope) -> exp.Expression:
    """What a column means, in parentheses where that could be read otherwise."""
    value = values.get((column.table.lower(), column.name.lower()))
    if value is None:
        return column.copy()
    if (whole := _whole(value)) is not None:
        return whole
    simple = isinstance(value, exp.Column | exp.Literal | exp.Paren | exp.Subquery | exp.Null)
    return value.copy() if simple else exp.Paren(this=value.copy())


def _whole(value: exp.Expression) -> exp.Expression | None:
    """A column's whole number as a value of its type; None for other values.

    As a literal it would be more: a position in ORDER BY, and beside a decimal only as wide as its digits.
    """
    number = value.unnest()
    number = number.this.unnest() if isinstance(number, exp.Neg) else number
    if not (isinstance(number, exp.Literal) and number.is_int):
        return None
    type_ = next((t for t, most in (("INT", 2**31), ("BIGINT", 2**63)) if int(number.name) < most), None)
    return exp.Cast(this=value.unnest().copy(), to=exp.DataType.build(type_)) if type_ else None


def as_type(value: exp.Expression, type_: str) -> exp.Expression:
    """A cast to a type of the engine's. sqlglot's own leaves a cast out over one to a type of the same name.

    Raises UnsupportedError for a type that isn't printed as it was told.

    >>> as_type(exp.cast(exp.column("x"), "decimal(10,2)"), "decimal(20,4)").sql("spark")
    'CAST(CAST(x AS DECIMAL(10, 2)) AS DECIMAL(20, 4))'
    """
    to = exp.DataType.build(type_, dialect="spark")
    if to.sql(dialect="spark").replace(" ", "").lower() != type_.replace(" ", "").lower():
        raise UnsupportedError("clause", f"a cast to {type_}")
    return exp.Cast(this=value.copy(), to=to)


def conjuncts(node: exp.Expression | None) -> Iterable[exp.Expression]:
    """Split a condition at its ANDs."""
    if node is None:
        return
    node = node.unnest()
    if isinstance(node, exp.And):
        yield from conjuncts(node.left)
        yield from conjuncts(node.right)
    else:
        yield node


def queries(node: exp.Expression) -> Iterator[exp.Query]:
    """The outermost queries inside an expression, subquery parentheses left aside."""
    if isinstance(node, exp.Query) and not isinstance(node, exp.Subquery):
        yield node
        return
    for child in node.iter_expressions():
        yield from queries(child)
