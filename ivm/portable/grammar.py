"""Which nodes of sqlglot's trees a portable statement may have, and which of their parts.

A part that isn't here would be left out by what writes the statement (`NOT LIKE` is a LIKE with `negate`), so that a
newer sqlglot's way to say something keeps a statement on Spark, and never changes what it means.
"""

from __future__ import annotations

from sqlglot import exp

_TWO = frozenset({"this", "expression"})
_ONE = frozenset({"this"})
_LIST = frozenset({"expressions"})

#: The parts that each class of nodes may have. What each may hold is the writers' business.
PARTS: dict[type[exp.Expression], frozenset[str]] = {
    **dict.fromkeys(
        (
            exp.Add,
            exp.Sub,
            exp.Mul,
            exp.Mod,
            exp.IntDiv,
            exp.EQ,
            exp.NEQ,
            exp.LT,
            exp.LTE,
            exp.GT,
            exp.GTE,
            exp.NullSafeEQ,
            exp.NullSafeNEQ,
            exp.And,
            exp.Or,
            exp.Is,
            exp.Extract,
            exp.Filter,
        ),
        _TWO,
    ),
    # `safe` says that NULL makes NULL.
    exp.DPipe: _TWO | {"safe"},
    # `safe` says that it divides as Spark writes it.
    exp.Div: _TWO | {"safe"},
    exp.Like: _TWO | {"negate"},
    **dict.fromkeys(
        (
            exp.Not,
            exp.Neg,
            exp.Paren,
            exp.Exists,
            exp.Sum,
            exp.Avg,
            exp.Min,
            exp.Max,
            exp.From,
            exp.Where,
            exp.Having,
            exp.DataTypeParam,
            exp.Var,
            exp.Boolean,
        ),
        _ONE,
    ),
    **dict.fromkeys((exp.Null, exp.Star), frozenset()),
    **dict.fromkeys((exp.Order, exp.Distinct, exp.Group, exp.With, exp.Hint), _LIST),
    exp.Alias: frozenset({"this", "alias"}),
    exp.Anonymous: _ONE | _LIST,
    exp.Between: frozenset({"this", "low", "high"}),
    exp.Case: frozenset({"this", "ifs", "default"}),
    exp.Cast: frozenset({"this", "to"}),
    exp.Coalesce: _ONE | _LIST,
    exp.Column: frozenset({"this", "table"}),
    exp.Count: frozenset({"this", "big_int"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.DataType: _ONE | _LIST,
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.If: frozenset({"this", "true", "false"}),
    exp.In: frozenset({"this", "expressions", "query"}),
    exp.Interval: frozenset({"this", "unit"}),
    exp.Join: frozenset({"this", "kind", "side", "on"}),
    exp.JoinHint: _ONE | _LIST,
    **dict.fromkeys((exp.Limit, exp.Offset), frozenset({"expression"})),
    exp.Literal: frozenset({"this", "is_string"}),
    exp.Ordered: frozenset({"this", "desc", "nulls_first"}),
    # A hint says how to join, and nothing of what comes out.
    exp.Select: frozenset(
        {
            "expressions",
            "from_",
            "joins",
            "where",
            "group",
            "having",
            "distinct",
            "order",
            "limit",
            "offset",
            "with_",
            "hint",
        }
    ),
    exp.Subquery: frozenset({"this", "alias", "with_"}),
    exp.Substring: frozenset({"this", "start", "length"}),
    exp.Table: frozenset({"this", "db", "alias", "version"}),
    exp.TableAlias: _ONE,
    exp.Trim: frozenset({"this", "position"}),
    exp.TryCast: frozenset({"this", "to"}),
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), frozenset({"this", "expression", "distinct", "with_"})),
    exp.Version: frozenset({"this", "kind", "expression"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "over"}),
    exp.WindowSpec: frozenset({"kind", "start", "start_side", "end", "end_side"}),
}


def foreign(tree: exp.Expression) -> tuple[exp.Expression, str] | None:
    """The first node that a portable statement may not have, and what of it; None where there is none.

    >>> import sqlglot
    >>> foreign(sqlglot.parse_one("SELECT a FROM t TABLESAMPLE (1 ROWS)", read="spark"))[1]
    'sample'
    """
    for node in tree.walk():
        parts = PARTS.get(type(node))
        if parts is None:
            return node, type(node).__name__.lower()
        strange = next((k for k, v in node.args.items() if v not in (None, False, []) and k not in parts), None)
        if strange is not None:
            return node, strange
    return None
