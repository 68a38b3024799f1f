"""struct(a, b) with its fields' names: Spark names them after what they read, which we rename (pure)."""

from __future__ import annotations

from sqlglot import exp


def with_field_names(tree: exp.Expression) -> exp.Expression:
    """Each struct(a, b + 1 AS c) as named_struct('a', a, 'c', b + 1).

    >>> from sqlglot import parse_one
    >>> from ivm.sql.dialect import IvmSpark
    >>> with_field_names(parse_one("SELECT struct(t.a, 1) AS s FROM t", read=IvmSpark)).sql(IvmSpark)
    "SELECT NAMED_STRUCT('a', t.a, 'col2', 1) AS s FROM t"
    """
    return tree.transform(_named)


def _named(node: exp.Expression) -> exp.Expression:
    if not isinstance(node, exp.Struct | exp.Anonymous) or (
        isinstance(node, exp.Anonymous) and node.name.lower() != "struct"
    ):
        return node
    if any(isinstance(e, exp.Star) or e.find(exp.Star) for e in node.expressions):
        return node
    fields: list[exp.Expression] = []
    for i, e in enumerate(node.expressions, 1):
        name = e.alias if isinstance(e, exp.Alias) else e.name if isinstance(e, exp.Column | exp.Dot) else ""
        fields += [exp.Literal.string(name or f"col{i}"), e.unalias().copy()]
    return exp.Anonymous(this="NAMED_STRUCT", expressions=fields)
