"""Blocks to branches: trees become text, and what may be walked along is found.

A branch is a function of its leaves. Those in the product at its root (scope 0) it is linear in; each nested
select, outer join or LATERAL item has a scope of its own. An equality restricts the leaves of a scope only if rows
that don't meet it can't matter there: a conjunct of that scope's WHERE or inner ON, the ON of the outer join
that brings the leaf in, or the equality that IN implies. Outer joins' ON never restricts the preserved side.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from sqlglot import exp

from ivm.plan.nodes import Bound, Branch, Edge, Expr, Filter, Leaf, Output, Relation, Text
from ivm.sql.blocks import Block, conjuncts, is_compiled, queries, sql_of
from ivm.sql.calls import decimal_of
from ivm.sql.filters import Comparison, comparisons, typed
from ivm.sql.maps import check_unordered
from ivm.sql.refusals import UnsupportedError
from ivm.sql.unique_keys import branch_key

#: With the digits of the decimal that holds each.
_INTEGERS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_TIMES = ("date", "timestamp", "timestamp_ntz")
_Column = tuple[str, str]
#: A query's output columns in their order, which may share names: where the values of each come from.
_Outs = list[tuple[str, list[_Column]]]
#: Where the characters of private use begin: no language writes them.
_PRIVATE = 0xE000


def to_branch(block: Block, relations: dict[str, Relation]) -> Branch:
    """Freeze a block: leaves with only the columns that are read, and the edges to walk."""
    _check_compiled(block)
    found = _Found(relations)
    found.items(block.items, 0)
    for pred in block.preds:
        found.condition(pred, {a for a, (_, scope) in found.leaves.items() if scope == 0})
    for _, out in block.outs:
        found.nested(out)
    found.resolve()
    _check_maps(block, found, relations)
    reads = _reads(block, found)
    leaves = tuple(
        Leaf(
            alias,
            relation,
            tuple(c.name for c in relations[relation].columns if (alias, c.name) in reads),
            scope,
            tuple(found.filters.get(alias, {})),
        )
        for alias, (relation, scope) in found.leaves.items()
    )
    preds = tuple(_expr(p, found) for p in block.preds)
    outputs = tuple(Output(n, _expr(e, found)) for n, e in block.outs)
    edges = tuple(dict.fromkeys(found.edges))
    plain = all(isinstance(i.this, exp.Table) and not i.side for i in block.items)
    key = branch_key(block, outputs, edges, {a: s for a, (_, s) in found.leaves.items()}, relations)
    bounds = tuple(_bounds(block, {leaf.alias: leaf for leaf in leaves if leaf.scope == 0}, relations))
    return Branch(leaves, preds, outputs, edges, None if plain else _from_text(block), key, bounds)


def _check_compiled(block: Block) -> None:
    """Refuse what is left in a block as the user wrote it: its names may be those of other leaves, or of WITH."""
    for tree in block.trees():
        for node in tree.find_all(exp.Table, exp.Column):
            if is_compiled(node):
                continue
            if isinstance(node, exp.Table):
                raise UnsupportedError("clause", f"a subquery that reads {node.name} where it stands")
            if node.table:
                raise UnsupportedError("clause", f"{node.sql(dialect='spark')}, which none of its FROM items has,")


def _reads(block: Block, found: _Found) -> set[_Column]:
    """The columns of leaves that a block reads. Raises UnsupportedError for a table that the walk has not come to."""
    reads: set[_Column] = set()
    for tree in block.trees():
        for node in tree.find_all(exp.Table, exp.Column):
            if isinstance(node, exp.Table):
                if node.alias not in found.leaves:
                    raise UnsupportedError("clause", f"a subquery that reads {node.name} where it stands")
            elif node.table in found.leaves:
                reads.add((node.table, node.name))
            elif node.table and node.table not in found.derived:
                raise UnsupportedError("clause", f"{node.sql(dialect='spark')}, which none of its FROM items has,")
    return reads


def _check_maps(block: Block, found: _Found, relations: dict[str, Relation]) -> None:
    """Refuse what sees the order of the entries of a map that a unit inside keeps."""

    def kept(column: exp.Column) -> list[str]:
        origins = [(relations[found.leaves[a][0]], c) for a, c in found.origins(column.table, column.name)]
        return [r.type_of(c) for r, c in origins if r.kind == "unit"]

    for tree in block.trees():
        check_unordered(tree, kept)


def _bounds(block: Block, leaves: dict[str, Leaf], relations: dict[str, Relation]) -> Iterator[Bound]:
    """The comparisons that are all that the block reads of one of their sides."""
    reads = Counter(c.table for tree in block.trees() for c in tree.find_all(exp.Column))
    for pred in block.preds:
        part = pred.unnest()
        sides = (
            [part.left.unnest(), part.right.unnest()] if isinstance(part, exp.LT | exp.LTE | exp.GT | exp.GTE) else []
        )
        if (
            not sides
            or not all(isinstance(s, exp.Column) and s.table in leaves for s in sides)
            or sides[0].table == sides[1].table
        ):
            continue
        types = [relations[leaves[s.table].relation].type_of(s.name) for s in sides]
        if _compares_in_order(*types):
            for one, other in (sides, reversed(sides)):
                if reads[one.table] == 1:
                    yield Bound((one.table, one.name), (other.table, other.name))


def _compares_in_order(one: str, other: str) -> bool:
    """Whether values of two types are compared as they are, or as doubles: not as decimals without their last digits.

    >>> _compares_in_order("decimal(15,2)", "bigint"), _compares_in_order("decimal(38,0)", "decimal(10,1)")
    (True, False)
    """
    if one == other:
        return one in (*_INTEGERS, *_TIMES, "double", "float") or one.startswith("decimal(")
    if "double" in (one, other):
        return all(t in (*_INTEGERS, "double", "float") or t.startswith("decimal(") for t in (one, other))
    digits = [_INTEGERS.get(t, 0) for t in (one, other)]
    scales = [0, 0]
    for i, type_ in enumerate((one, other)):
        if type_.startswith("decimal("):
            digits[i], scales[i] = decimal_of(type_)
    return all(digits) and max(d - s for d, s in zip(digits, scales, strict=True)) + max(scales) <= 38


def _expr(node: exp.Expression, found: _Found) -> Expr:
    reads = frozenset((c.table, c.name) for c in node.find_all(exp.Column) if c.table in found.leaves)
    bare = node.unnest()
    plain = (bare.table, bare.name) if isinstance(bare, exp.Column) and bare.table in found.leaves else None
    return Expr(_text(node), reads, plain)


def to_expr(node: exp.Expression) -> Expr:
    """Freeze an expression over the rows of one alias. Raises UnsupportedError for one with a subquery."""
    if node.find(exp.Query):
        raise UnsupportedError("clause", f"a subquery over groups in {sql_of(node)[:60]}")
    bare = node.unnest()
    plain = (bare.table, bare.name) if isinstance(bare, exp.Column) else None
    return Expr(Text.of(sql_of(node)), frozenset((c.table, c.name) for c in node.find_all(exp.Column)), plain)


def _text(node: exp.Expression) -> Text:
    """The SQL of a tree, with a place for each of its tables.

    A character that the tree's own SQL doesn't have marks the places while sqlglot writes, so the text falls apart
    there and nowhere else.

    >>> from sqlglot import parse_one
    >>> _text(parse_one("EXISTS (SELECT '\ue000' FROM t AS u)", read="spark")).parts
    ("EXISTS(SELECT '\ue000' FROM ", 'u', ' AS u)')
    """
    # A root of its own, so that a node that is itself a table can be replaced.
    root = exp.Paren(this=node.copy())
    tables = list(root.find_all(exp.Table))
    sql = sql_of(root.this)
    if not tables:
        return Text.of(sql)
    mark = next(c for c in map(chr, range(_PRIVATE, sys.maxunicode)) if c not in sql)
    for i, table in enumerate(tables):
        table.replace(exp.Table(this=exp.Var(this=f"{mark}{i}{mark}"), alias=table.args["alias"].copy()))
    parts = sql_of(root.this).split(mark)
    return Text(tuple(tables[int(part)].alias if i % 2 else part for i, part in enumerate(parts)))


def _from_text(block: Block) -> Text:
    first, *others = block.items
    text = _text(first.this)
    for item in others:
        text += Text.of("\n") + _text(item)
    return text


class _Found:
    """What a walk over a block's trees finds."""

    def __init__(self, relations: dict[str, Relation]) -> None:
        self.relations = relations
        self.leaves: dict[str, tuple[str, int]] = {}
        self.derived: dict[str, dict[str, list[_Column]]] = {}
        self.edges: list[Edge] = []
        self.filters: dict[str, dict[Filter, None]] = {}
        self._comparisons: list[tuple[Comparison, set[str]]] = []
        self._equalities: list[tuple[exp.Column, list[exp.Column], set[str], bool, bool, frozenset[str]]] = []
        self._scopes = 0
        #: The query that each leaf stands in; None for the block's own FROM clause.
        self._within: dict[str, exp.Expression | None] = {}
        #: Leaves without a partner for some rows of an outer join, whose columns NULLs stand for there.
        self._padded: set[str] = set()

    def items(self, items: Iterable[exp.Join], scope: int, within: exp.Expression | None = None) -> None:
        """Leaves of a FROM clause; outer joins and derived tables open scopes of their own."""
        for item in items:
            this, kind = item.this, f"{item.side} {item.kind}".strip().upper()
            before = set(self.leaves)
            optional = kind not in ("", "INNER", "CROSS")
            if isinstance(this, exp.Table):
                self._leaf(this, self._open() if optional else scope, within)
            elif isinstance(this, exp.Subquery):
                self.derived[this.alias] = dict(self.query(this.this))
            elif isinstance(this, exp.Lateral):
                self.derived[this.alias] = {}
                self.nested(this.this)
            else:
                self.derived[this.alias] = {}
            on = item.args.get("on")
            if on is not None:
                mine = set(self.leaves) - before
                known = mine if optional else mine | {a for a, (_, s) in self.leaves.items() if s == scope}
                self.condition(on, known)
            if optional:
                self._padded |= set(self.leaves) - before

    def _leaf(self, table: exp.Table, scope: int, within: exp.Expression | None) -> None:
        """Take a table in. Only where a value is written twice, with its query, does an alias come again."""
        if table.alias in self.leaves and (within is None or within != self._within[table.alias]):
            raise UnsupportedError("clause", f"reading a second table as {table.alias}")
        self.leaves[table.alias] = (table.name, scope)
        self._within[table.alias] = within

    def query(self, query: exp.Expression) -> _Outs:
        """Visit a nested query; its bare output columns' origins, from all branches of a UNION."""
        if isinstance(query, exp.Subquery):
            return self.query(query.this)
        if isinstance(query, exp.SetOperation):  # correlated ones with a LIMIT are refused (`Subqueries.correlated`)
            left, right = self.query(query.left), self.query(query.right)
            return [(n, [*a, *b] if a and b else []) for (n, a), (_, b) in zip(left, right, strict=True)]
        assert isinstance(query, exp.Select), type(query).__name__
        scope = self._open()
        from_ = query.args.get("from_")
        self.items([exp.Join(this=from_.this, kind="CROSS")] if from_ else [], scope, query)
        self.items(query.args.get("joins") or [], scope, query)
        mine = {a for a, (_, s) in self.leaves.items() if s == scope} | {
            c[0] for alias in _derived_names(query) for columns in self.derived.get(alias, {}).values() for c in columns
        }
        where = query.args.get("where")
        if where:
            self.condition(where.this, mine)
        for name in ("expressions", "group", "having", "order"):
            for node in query.args[name] if isinstance(query.args.get(name), list) else [query.args.get(name)]:
                if node is not None:
                    self.nested(node)
        cut = query.args.get("limit") or query.args.get("offset") or query.find(exp.Window)
        bare = [(e.alias_or_name, e.unalias().unnest()) for e in query.expressions]
        return [(n, [(e.table, e.name)] if isinstance(e, exp.Column) and not cut else []) for n, e in bare]

    def condition(self, condition: exp.Expression, restricted: set[str]) -> None:
        """A condition that all rows that matter meet: its equalities restrict these leaves."""
        for part in conjuncts(condition):
            self._comparisons += [(c, restricted) for c in comparisons(part)]
            for equality in _implied(part):
                left, right = equality.left.unnest(), equality.right.unnest()
                if isinstance(left, exp.Column) and isinstance(right, exp.Column):
                    nulls = isinstance(equality, exp.NullSafeEQ)
                    # <=> is met by the NULLs that stand for a row without a partner: of those nothing can be walked.
                    padded = frozenset(self._padded) if nulls else frozenset()
                    self._equalities.append((left, [right], restricted, nulls, False, padded))
            if isinstance(part, exp.In) and part.args.get("query") is not None:
                self._membership(part, restricted)
            else:
                self.nested(part)

    def _membership(self, node: exp.In, restricted: set[str]) -> None:
        """The equalities that a row of these leaves meets with some row of the query's, if it matters."""
        before = set(self.leaves)
        outs = [origins for _, origins in self.query(node.args["query"])]
        inner = set(self.leaves) - before
        needles = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this.unnest()]
        self.nested(node.this)
        for needle, origins in zip(needles, outs, strict=False):
            if isinstance(needle, exp.Column):
                found = [exp.column(c, table=t) for t, c in origins]
                # Of a UNION it may be a row of any branch.
                member = needle.table in restricted and len(found) == 1
                self._equalities.append((needle, found, inner, False, member, frozenset()))

    def nested(self, node: exp.Expression) -> None:
        """Visit the queries inside an expression."""
        for query in queries(node):
            self.query(query)

    def _open(self) -> int:
        self._scopes += 1
        return self._scopes

    def resolve(self) -> None:
        """Turn equalities into edges between leaves and comparisons into filters.

        It looks through the derived tables in between.
        """
        for comparison, restricted in self._comparisons:
            if not _compared_alike(self.types(*comparison.column)):
                continue
            for alias, column in self.origins(*comparison.column):
                found = typed(comparison, column, self._type(alias, column)) if alias in restricted else None
                if found is not None:
                    self.filters.setdefault(alias, {})[found] = None
        for left, rights, restricted, nulls, member, padded in self._equalities:
            mine, others = (
                self.origins(left.table, left.name),
                [o for r in rights for o in self.origins(r.table, r.name)],
            )
            types = {t for c in (left, *rights) for t in self.types(c.table, c.name)}
            if padded & {alias for alias, _ in (*mine, *others)} or not _compared_alike(types):
                continue
            # A row that doesn't match one branch of a UNION may match another one.
            known = restricted - {a for a, _ in others if len(mine) > 1} - {a for a, _ in mine if len(others) > 1}
            for one in mine:
                for other in others:
                    self._edge(one, other, known, nulls, member and len(others) == 1)

    def origins(self, table: str, column: str) -> list[_Column]:
        if table in self.leaves:
            return [(table, column)]
        return [o for t, c in self._inner(table, column) for o in self.origins(t, c)]

    def types(self, table: str, column: str) -> set[str]:
        """The types that a column's values are stored in: "" where that isn't known of some.

        A UNION casts its branches to one type.
        """
        if table in self.leaves:
            return {self._type(table, column)}
        return {s for t, c in self._inner(table, column) for s in self.types(t, c)} or {""}

    def _type(self, alias: str, column: str) -> str:
        return self.relations[self.leaves[alias][0]].type_of(column)

    def _inner(self, table: str, column: str) -> list[_Column]:
        """What a derived table's column is made of."""
        return next((cs for n, cs in self.derived.get(table, {}).items() if n.lower() == column.lower()), [])

    def _edge(self, one: _Column, other: _Column, restricted: set[str], nulls: bool, member: bool) -> None:
        if one[0] == other[0]:
            return
        for alias, _ in (one, other):
            if alias in restricted:
                self.edges.append(Edge(one, other, self.leaves[alias][1], nulls, member))


def _compared_alike(types: set[str]) -> bool:
    """Whether values stored in these types equal each other as they are, without one being cast to another's type.

    >>> _compared_alike({"string"}), _compared_alike({"int", "bigint"}), _compared_alike({"int", "string"})
    (True, True, False)
    """
    return len(types) == 1 or types <= _INTEGERS.keys()


def _derived_names(select: exp.Select) -> list[str]:
    items = [select.args["from_"].this] if select.args.get("from_") else []
    items += [j.this for j in select.args.get("joins") or [] if not j.side]
    return [i.alias for i in items if isinstance(i, exp.Subquery)]


def _implied(pred: exp.Expression) -> list[exp.EQ | exp.NullSafeEQ]:
    """The equalities that hold wherever the predicate does.

    They are its conjuncts, or those common to all alternatives of an OR.
    """
    pred = pred.unnest()
    if isinstance(pred, exp.EQ | exp.NullSafeEQ):
        return [pred]
    if isinstance(pred, exp.And):
        return [*_implied(pred.left), *_implied(pred.right)]
    if isinstance(pred, exp.Or):
        right = _implied(pred.right)
        return [e for e in _implied(pred.left) if e in right]
    return []
