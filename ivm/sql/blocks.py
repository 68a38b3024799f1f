"""Query blocks: the parser's working form of a `Branch`, with sqlglot trees still in it.

A query is a list of blocks (their UNION ALL). Blocks are combined by product (FROM a, b) and by
substitution (a derived table's columns replaced by its expressions), so nested selects disappear.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from ivm.plan.nodes import Branch, Edge, Expr, Leaf, Output, Relation


@dataclass
class Block:
    """SELECT outs FROM leaves WHERE preds; each column is qualified with a leaf alias of this block."""

    leaves: list[tuple[str, str]] = field(default_factory=list)
    preds: list[exp.Expression] = field(default_factory=list)
    outs: list[tuple[str, exp.Expression]] = field(default_factory=list)

    def renamed(self, taken: set[str]) -> Block:
        """A copy whose leaf aliases avoid `taken` (and are added to it)."""
        names: dict[str, str] = {}
        for alias, _ in self.leaves:
            fresh, n = alias, 2
            while fresh.lower() in taken:
                fresh, n = f"{alias}_{n}", n + 1
            taken.add(fresh.lower())
            names[alias] = fresh

        def rename(node: exp.Expression) -> exp.Expression:
            return leaf_column(names[node.table], node.name) if isinstance(node, exp.Column) else node

        return Block(
            [(names[a], r) for a, r in self.leaves],
            [p.transform(rename) for p in self.preds],
            [(n, e.transform(rename)) for n, e in self.outs],
        )


def leaf_column(alias: str, column: str) -> exp.Column:
    """A column reference, quoted on both sides."""
    return exp.column(exp.to_identifier(column, quoted=True), table=exp.to_identifier(alias, quoted=True))


def sql_of(node: exp.Expression) -> str:
    """Spark SQL of a scalar expression; one spelling for equal trees.

    >>> import sqlglot
    >>> sql_of(sqlglot.parse_one("a+1", read="spark"))
    'a + 1'
    """
    return str(node.sql(dialect="spark", comments=False))


def substituted(node: exp.Expression, values: dict[tuple[str, str], exp.Expression]) -> exp.Expression:
    """Replace columns by expressions; `values` is keyed by (alias, column), lower case.

    Raises KeyError with the column's text where it isn't known.
    """

    def swap(n: exp.Expression) -> exp.Expression:
        if not isinstance(n, exp.Column):
            return n
        value = values[(n.table.lower(), n.name.lower())]
        simple = isinstance(value, exp.Column | exp.Literal | exp.Paren)
        return value.copy() if simple else exp.Paren(this=value.copy())

    return node.transform(swap)


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


def to_expr(node: exp.Expression) -> Expr:
    """Freeze a tree to text plus the columns it reads."""
    reads = frozenset((c.table, c.name) for c in node.find_all(exp.Column))
    bare = node.unnest()
    plain = (bare.table, bare.name) if isinstance(bare, exp.Column) else None
    return Expr(sql_of(node), reads, plain)


def to_branch(block: Block, relations: dict[str, Relation]) -> Branch:
    """Freeze a block: leaves with only the columns that are read, and the edges to walk."""
    preds = tuple(to_expr(p) for p in block.preds)
    outputs = tuple(Output(n, to_expr(e)) for n, e in block.outs)
    reads = frozenset[tuple[str, str]]().union(*(p.reads for p in preds), *(o.expr.reads for o in outputs))
    leaves = tuple(Leaf(alias, relation, tuple(c.name for c in relations[relation].columns if (alias, c.name) in reads)) for alias, relation in block.leaves)
    return Branch(leaves, preds, outputs, tuple(_edges(block, relations)))


def _edges(block: Block, relations: dict[str, Relation]) -> Iterable[Edge]:
    of = dict(block.leaves)
    for equality in dict.fromkeys(e for p in block.preds for e in _implied(p)):
        left, right = equality.left.unnest(), equality.right.unnest()
        if isinstance(left, exp.Column) and isinstance(right, exp.Column) and left.table != right.table:
            types = {relations[of[c.table]].type_of(c.name) for c in (left, right)}
            if len(types) == 1:
                yield Edge((left.table, left.name), (right.table, right.name))


def _implied(pred: exp.Expression) -> list[exp.EQ]:
    """The equalities that hold wherever the predicate does: its conjuncts, or those common to all alternatives of an OR."""
    pred = pred.unnest()
    if isinstance(pred, exp.EQ):
        return [pred]
    if isinstance(pred, exp.And):
        return [*_implied(pred.left), *_implied(pred.right)]
    if isinstance(pred, exp.Or):
        right = _implied(pred.right)
        return [e for e in _implied(pred.left) if e in right]
    return []
