"""Groups over a LEFT JOIN whose calls take nothing of rows without a partner: their inner join, beside all left rows.

    SELECT k, f(r.x) FROM l LEFT JOIN r ON c GROUP BY k
      =  SELECT k, f(x) FROM (SELECT k, r.x FROM l JOIN r ON c UNION ALL SELECT k, NULL FROM l) GROUP BY k

for keys of the left side and calls that leave NULLs out (count, sum and avg of a value that is NULL where all of r is).
A left row gives its group a row either way; that it has partners as well changes no call. So the core is linear in
both sides, where of an outer join's right side all rows are read that the left rows of a changed one meet: whether
one of them is the first, or was the last, is nobody's question any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlglot import exp

from ivm.compile.units.made import Units
from ivm.plan.nodes import Call
from ivm.sql.blocks import Block, as_type, conjuncts
from ivm.sql.calls import typed_call

#: What is NULL where one of two operands is.
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul)
#: What conditions are made of that never fail.
_SAFE = (
    exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean, exp.Paren, exp.And, exp.Or, exp.Not, exp.Is,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.In, exp.Between, exp.Like,
)  # fmt: skip


def unpadded(units: Units, blocks: Sequence[Block], keys: int, calls: Iterable[Call]) -> list[Block]:
    """The blocks, each that ends in such a LEFT JOIN as two; their first outputs are the `keys`, the others arguments.

    The calls are all that aggregate them. One without an argument counts rows, as one whose sums can't be kept needs
    them: then the blocks stay as they are.
    """
    called = list(calls)
    if not called or any(call.argument is None for call in called):
        return list(blocks)
    return [part for block in blocks for part in _parts(units, block, keys, called)]


def _parts(units: Units, block: Block, keys: int, calls: Sequence[Call]) -> list[Block]:
    right = _right(block)
    apart = [*block.items[:-1], *block.preds, *(e for _, e in block.outs[:keys])]
    if right is None or any(_reads(tree, right.alias) for tree in apart):
        return [block]
    if not all(_is_null(e, right.alias) for _, e in block.outs[keys:]):
        return [block]
    found = units.types([block])
    types = {name: column.type for (name, _), column in zip(block.outs, found, strict=True)}
    if any(typed_call(call, types, units.analyzer.raises()).function is None for call in calls):
        return [block]
    on = block.items[-1].args["on"]
    met = Block([*block.items[:-1], exp.Join(this=right.copy(), kind="CROSS")], [*block.preds, *conjuncts(on)])
    nothing = [(name, as_type(exp.null(), types[name])) for name, _ in block.outs[keys:]]
    return [met.with_outs(block.outs), Block(block.items[:-1], block.preds, [*block.outs[:keys], *nothing])]


def _right(block: Block) -> exp.Table | None:
    """The table that a block's last item joins, if that is a LEFT JOIN of one on a condition without subqueries."""
    last = block.items[-1] if len(block.items) > 1 else None
    if last is None or last.side != "LEFT" or not isinstance(last.this, exp.Table):
        return None
    on = last.args.get("on")
    return None if on is None or on.find(exp.Query) else last.this


def _reads(tree: exp.Expression, alias: str) -> bool:
    return any(column.table == alias for column in tree.find_all(exp.Column))


def _is_null(node: exp.Expression, alias: str) -> bool:
    """Whether a value is NULL, and nothing that could fail is asked for it, where a table's columns are.

    >>> from sqlglot import parse_one
    >>> [_is_null(parse_one(e), "r") for e in ("r.x", "CAST(r.x AS INT) * 2", "CASE WHEN l.a > 1 THEN -r.x END")]
    [True, True, True]
    >>> [_is_null(parse_one(e), "r") for e in ("l.a", "COALESCE(r.x, 0)", "r.x * l.a", "r.x IS NULL")]
    [False, False, False, False]
    >>> _is_null(parse_one("CASE WHEN 1 / l.a > 1 THEN r.x END"), "r")
    False
    """
    if isinstance(node, exp.Column):
        return bool(node.table == alias)
    if isinstance(node, exp.Paren | exp.Neg | exp.Cast):
        return _is_null(node.this, alias)
    if isinstance(node, exp.Case):
        no_other = node.args.get("default") is None and node.this is None
        return no_other and all(
            _is_null(branch.args["true"], alias) and all(isinstance(n, _SAFE) for n in branch.this.walk())
            for branch in node.args["ifs"]
        )
    if isinstance(node, _ARITHMETIC):
        sides = node.left, node.right
        return any(_is_null(s, alias) for s in sides) and all(s.is_number or _is_null(s, alias) for s in sides)
    return False
