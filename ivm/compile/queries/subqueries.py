"""Subqueries in expressions: those that read outer columns stay where they are, the others become units.

A correlated subquery is left as the user wrote it, with its tables as leaves of a scope of their own; it is
evaluated by Spark for the affected rows only (see rewrite.statements). One that reads no outer column is maintained by
itself: a scalar aggregate is a table of one row joined to the block, so that it can be walked from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ivm.compile.units.one_row import flags, is_one_row
from ivm.compile.units.stored import as_unit, stored
from ivm.names import RESERVED_PREFIX
from ivm.plan.nodes import Column
from ivm.sql.blocks import (
    Block,
    Ctes,
    Inline,
    Scope,
    conjuncts,
    from_items,
    queries,
    rewritten,
    select_of,
    set_from,
    sql_of,
    value_of,
)
from ivm.sql.calls import find_calls, has_calls
from ivm.sql.clauses import SELECT_ARGS, only, with_windows
from ivm.sql.dialect import GENERATORS, function_name, is_aggregate
from ivm.sql.first_rows import first_rows
from ivm.sql.maps import has_map
from ivm.sql.refusals import UnsupportedError
from ivm.sql.rules import chooses, is_text, settled, settled_window, ties_matter

if TYPE_CHECKING:
    from ivm.compile.queries.compiler import Compiler

#: Names of the columns that break ties, until they are replaced.
_TIE = f"{RESERVED_PREFIX}_tie_"


def is_correlated(node: exp.Expression, bound: frozenset[str] = frozenset()) -> bool:
    """Whether a query reads columns of tables that are not in it."""
    if isinstance(node, exp.SetOperation):
        return is_correlated(node.left, bound) or is_correlated(node.right, bound)
    if isinstance(node, exp.Subquery):
        return is_correlated(node.this, bound)
    if not isinstance(node, exp.Select):
        return False
    own = bound | {i.alias_or_name.lower() for i in from_items(node)}
    nested = [c.this for c in (node.args["with_"].expressions if node.args.get("with_") else [])]
    if any(is_correlated(q, bound) for q in nested):
        return True

    def free(n: exp.Expression, known: frozenset[str]) -> bool:
        if isinstance(n, exp.With):
            return False
        if isinstance(n, exp.Query):
            return is_correlated(n, known)
        if isinstance(n, exp.Column) and n.table and n.table.lower() not in known:
            return True
        return any(free(c, known) for c in n.iter_expressions())

    return any(free(c, own) for c in node.iter_expressions())


def _only_rows(query: exp.Query) -> exp.Query:
    """EXISTS needs no columns: SELECT 1, unless the select list decides which rows there are.

    Raises UnsupportedError for a generator in it, which the rows of a correlated query aren't told apart by.
    """
    if isinstance(query, exp.Select) and any(
        function_name(n) in GENERATORS for e in query.expressions for n in e.walk()
    ):
        raise UnsupportedError("clause", "a generator in the select list of a correlated EXISTS")
    if not isinstance(query, exp.Select) or any(
        query.args.get(k) for k in ("group", "having", "distinct", "limit", "offset")
    ):
        return query
    if not any(is_aggregate(n) for e in query.expressions for n in e.walk()):
        query.set("expressions", [exp.alias_(exp.Literal.number(1), "one")])
    return query


def _listed(value: list[exp.Expression] | exp.Expression | None) -> list[exp.Expression]:
    return value if isinstance(value, list) else [value] if value is not None else []


class Subqueries:
    """Brings subqueries to the compiler's terms."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler

    def inliner(self, ctes: Ctes) -> Inline:
        return lambda node, values, block: self.inline(node, values, ctes, block)

    def inline(self, node: exp.Expression, values: Scope, ctes: Ctes, block: Block | None) -> exp.Expression:
        """An expression's meaning: columns replaced, subqueries compiled."""

        def swap(n: exp.Expression) -> exp.Expression | None:
            if isinstance(n, exp.Column):
                return value_of(n, values)
            if isinstance(n, exp.Exists) and isinstance(n.this, exp.Query):
                if block is not None and not is_correlated(n.this):
                    return self._flags(n.this, ctes, block)[0]
                return exp.Exists(this=_only_rows(self._tree(n.this, values, ctes)))
            if isinstance(n, exp.In) and n.args.get("query") is not None:
                tree = exp.Subquery(this=self._tree(n.args["query"], values, ctes))
                return exp.In(this=self.inline(n.this, values, ctes, block), query=tree)
            if isinstance(n, exp.All | exp.Any):
                raise UnsupportedError("clause", f"a comparison with {type(n).__name__.upper()}")
            if isinstance(n, exp.Subquery):
                if is_correlated(n):
                    return exp.Subquery(this=self.correlated(n.this, values, ctes))
                return self._scalar(n, ctes, block)
            if isinstance(n, exp.Query):
                raise UnsupportedError("clause", f"a subquery in {sql_of(n)[:60]}")
            return None

        return rewritten(node, swap)

    def predicate(self, part: exp.Expression, values: Scope, ctes: Ctes, block: Block) -> exp.Expression:
        """A conjunct of a WHERE: rows for which it isn't TRUE go, so NOT IN can be taken apart."""
        inner = part.this.unnest() if isinstance(part, exp.Not) else None
        if isinstance(inner, exp.In) and inner.args.get("query") is not None and not isinstance(inner.this, exp.Tuple):
            query = inner.args["query"]
            if not is_correlated(query):
                return self._not_in(inner.this, query, values, ctes, block)
        return self.inline(part, values, ctes, block)

    def _not_in(
        self, needle: exp.Expression, query: exp.Expression, values: Scope, ctes: Ctes, block: Block
    ) -> exp.Expression:
        """x NOT IN S is TRUE where S is empty, or x and all of S are not NULL and none of S equals x."""
        not_empty, has_null = self._flags(query, ctes, block)
        value = self.inline(needle, values, ctes, block)
        source = self._one_block(query, ctes)
        (_, out), *_ = source.outs
        found = Block(
            source.items, [*source.preds, exp.EQ(this=exp.Paren(this=out), expression=exp.Paren(this=value.copy()))]
        )
        known = exp.and_(
            exp.not_(has_null),
            exp.not_(exp.Is(this=exp.Paren(this=value), expression=exp.null())),
            exp.not_(exp.Exists(this=select_of(found))),
        )
        return exp.Paren(this=exp.or_(exp.not_(not_empty), exp.Paren(this=known)))

    def _one_block(self, query: exp.Expression, ctes: Ctes) -> Block:
        blocks = self.compiler.query(query, ctes)
        # Stored, an inner query with dependents of its own is maintained by its own rows,
        # not by all that the outer ones meet.
        nested = any(True for p in (*blocks[0].preds, *(e for _, e in blocks[0].outs)) for _ in queries(p))
        if len(blocks) > 1 or nested or any(i.side for i in blocks[0].items):
            blocks = stored(self.compiler.units, blocks, self.compiler.taken)
        return blocks[0].renamed(self.compiler.taken)

    def _tree(self, query: exp.Expression, values: Scope, ctes: Ctes) -> exp.Query:
        if is_correlated(query):
            return self.correlated(query, values, ctes)
        return select_of(self._one_block(query, ctes))

    def _flags(self, query: exp.Expression, ctes: Ctes, block: Block) -> tuple[exp.Expression, exp.Expression]:
        """(it has rows, its first column has NULLs) of a query, as columns of a one-row unit joined to the block."""
        found = flags(self.compiler.units, self.compiler.query(query, ctes), self.compiler.taken)
        block.items += found.items
        (_, not_empty), (_, has_null) = found.outs
        return not_empty, has_null

    def _scalar(self, node: exp.Subquery, ctes: Ctes, block: Block | None) -> exp.Expression:
        inner = self._one_block(node, ctes)
        units = self.compiler.units
        if block is not None and is_one_row(units, inner):
            block.items += inner.items
            return exp.Paren(this=inner.outs[0][1])
        if inner.only_leaf() is None:
            inner = stored(units, [inner], self.compiler.taken)[0]
        return exp.Subquery(this=select_of(inner))

    def _settled(self, node: exp.Expression) -> exp.Expression:
        """Aggregate calls that have one value for each bag of rows.

        Both states are evaluated, and must not differ by chance.
        """

        def swap(n: exp.Expression) -> exp.Expression | None:
            if isinstance(n, exp.Query):
                return n.copy()
            if isinstance(n, exp.Window):
                # Its function sees rows in an order of their own; calls stand in what it is applied to.
                window, function = n.copy(), None
                while function is None or isinstance(function, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
                    function = window.this if function is None else function.this
                for part in [
                    *function.iter_expressions(),
                    *(p for k in ("partition_by", "order") for p in _listed(window.args.get(k))),
                ]:
                    part.replace(self._settled(part))
                return window
            if next(find_calls(n), None) is not n:
                return None
            call, rule = settled(n, self._joined_type(n))
            self.compiler.units.rules |= {rule} if rule else set()
            return call.copy()

        return rewritten(node, swap)

    def _joined_type(self, call: exp.Expression) -> str:
        """The type of what listagg() joins, if it may be binary: what a correlated query computes has no type yet."""
        columns = (c for r in self.compiler.units.relations.values() for c in r.columns)
        return "binary" if any(c.type == "binary" for c in columns) or not is_text(call) else ""

    def _without_ties(self, node: exp.Select, block: Block, scope: Scope) -> exp.Select:
        """The query with window functions that have one value for each bag of rows.

        Rows that tie are ordered by all columns that it reads of its own tables.
        """
        windows = [w for e in node.expressions for w in e.find_all(exp.Window) if ties_matter(w) or chooses(w)]
        if not windows:
            return node
        read = {(c.table.lower(), c.name.lower()): c for e in node.expressions for c in e.find_all(exp.Column)}
        own = {k: c for k, c in read.items() if k in scope}
        types = (
            self.compiler.units.types([block.with_outs((f"c{i}", scope[k]) for i, k in enumerate(own))]) if own else ()
        )
        ties = {f"{_TIE}{i}": c for i, c in enumerate(own.values())}
        columns = [Column(name, t.type) for name, t in zip(ties, types, strict=True)]
        grouped = node.args.get("group") or any(has_calls(e) for e in node.expressions)
        if grouped or (any(chooses(w) for w in windows) and any(has_map(c.type) for c in columns)):
            raise UnsupportedError(
                "clause", "a correlated subquery with a window function over groups or maps, whose order may tie,"
            )

        def named(n: exp.Expression) -> exp.Expression | None:
            return ties[n.name].copy() if isinstance(n, exp.Column) and n.name in ties else None

        for window in windows:
            made, rules = settled_window(window, columns, self._joined_type(window.this))
            self.compiler.units.rules |= rules
            if made is None:
                raise UnsupportedError(
                    "clause", f"{sql_of(window.this)} over a RANGE frame, whose rows may tie (give it a ROWS frame),"
                )
            window.replace(rewritten(made, named))
        return node

    def correlated(self, node: exp.Expression, values: Scope, ctes: Ctes) -> exp.Query:
        """A query that reads outer columns, its tables as leaves; it stays a query."""
        if isinstance(node, exp.Subquery | exp.SetOperation) and any(node.args.get(k) for k in ("limit", "offset")):
            raise UnsupportedError("clause", "LIMIT of a correlated query in parentheses, or of several,")
        if isinstance(node, exp.Subquery):
            return self.correlated(node.this, values, ctes)
        with_ = node.args.get("with_")
        if any(is_correlated(c.this) for c in (with_.expressions if with_ else [])):
            raise UnsupportedError("clause", "WITH of a query that reads columns of enclosing ones")
        ctes = self.compiler.with_ctes(node, ctes)
        if isinstance(node, exp.SetOperation):
            copy = node.copy()
            copy.set("with_", None)
            copy.set("this", self._tree(node.left, values, ctes))
            copy.set("expression", self._tree(node.right, values, ctes))
            return copy
        if not isinstance(node, exp.Select):
            raise UnsupportedError("clause", f"a correlated {type(node).__name__}")
        only(node, SELECT_ARGS - {"qualify"}, "a correlated subquery")
        node = with_windows(node.copy())
        blocks, scopes = self.compiler.sources(node, ctes, values)
        if len(blocks) > 1:
            blocks, scopes = as_unit(self.compiler.units, blocks, scopes, self.compiler.taken)
        block, merged = blocks[0], values | scopes[0]
        node = self._without_ties(node, block, scopes[0])
        preds = list(block.preds)
        where = node.args.get("where")
        preds += [self.inline(part, merged, ctes, None) for part in conjuncts(where.this if where else None)]
        result = exp.Select(
            expressions=[
                exp.alias_(
                    self.inline(self._settled(e.unalias()), merged, ctes, None), e.alias_or_name or f"c{i}", quoted=True
                )
                for i, e in enumerate(node.expressions)
            ]
        )
        set_from(result, block.items)
        if preds:
            result.set("where", exp.Where(this=exp.and_(*(exp.Paren(this=p) for p in preds), copy=False)))
        for name in ("group", "having", "order"):
            if node.args.get(name) is not None:
                result.set(name, self.inline(self._settled(node.args[name]), merged, ctes, None))
        for name in ("distinct", "limit", "offset"):
            if node.args.get(name) is not None:
                result.set(name, node.args[name].copy())
        if result.args.get("limit") or result.args.get("offset"):
            result = first_rows(result)
            self.compiler.units.rules.add(
                "rows that tie in a LIMIT of a correlated subquery are ordered by its own columns"
            )
        return result
