"""Structs with their fields' names: Spark names them after what they read, which we rename (pure).

struct(a, b), (a, b)    named_struct('a', a, 'b', b)
arrays_zip(a, b)        the same for each place of the arrays
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.dialect import function_name


def with_field_names(tree: exp.Expression) -> exp.Expression:
    """Each struct(a, b + 1 AS c) as named_struct('a', a, 'c', b + 1).

    >>> from sqlglot import parse_one
    >>> from ivm.sql.dialect import IvmSpark
    >>> with_field_names(parse_one("SELECT struct(t.a, 1) AS s FROM t", read=IvmSpark)).sql(IvmSpark)
    "SELECT NAMED_STRUCT('a', t.a, 'col2', 1) AS s FROM t"
    >>> with_field_names(parse_one("SELECT to_json((t.a, 1)) AS s FROM t", read=IvmSpark)).sql(IvmSpark)
    "SELECT TO_JSON(NAMED_STRUCT('a', t.a, 'col2', 1)) AS s FROM t"
    """
    return tree.transform(_named)


def _named(node: exp.Expression) -> exp.Expression:
    if function_name(node) == "arrays_zip" and node.expressions:
        return _zipped(node)
    if (isinstance(node, exp.Struct) or function_name(node) == "struct" or _is_row(node)) and not _has_stars(node):
        return _struct([(_name(e) or f"col{i}", e.unalias()) for i, e in enumerate(node.expressions, 1)])
    return node


def _has_stars(node: exp.Expression) -> bool:
    """Whether something stands for several columns."""
    return any(not isinstance(star.parent, exp.Count) for star in node.find_all(exp.Star))


def _is_row(node: exp.Expression) -> bool:
    """Whether (a, b) is a value, and not a list of several: of IN, of VALUES, of keys to group by or to pivot."""
    listing = (exp.In, exp.Values, exp.Group, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Pivot, exp.PivotAlias)
    return isinstance(node, exp.Tuple) and not isinstance(node.parent, (*listing, exp.Tuple))


def _name(node: exp.Expression) -> str:
    if isinstance(node, exp.Alias):
        return str(node.alias)
    bare = node.unnest()
    if isinstance(bare, exp.Bracket):  # the value of a key, if that is a text
        key = bare.expressions[0]
        return str(key.name) if isinstance(key, exp.Literal) and key.is_string else ""
    return str(bare.name) if isinstance(bare, exp.Column | exp.Dot | exp.Identifier) else ""


def _struct(fields: Sequence[tuple[str, exp.Expression]]) -> exp.Expression:
    listed = [e for name, value in fields for e in (exp.Literal.string(name), value.copy())]
    return exp.Anonymous(this="NAMED_STRUCT", expressions=listed)


def _zipped(call: exp.Expression) -> exp.Expression:
    """arrays_zip() of arguments without names of their own, whose places are numbered, and its fields renamed."""
    bare = [exp.Anonymous(this="COALESCE", expressions=[e.unalias().copy()]) for e in call.expressions]
    row = "ivm_zipped"
    fields = [
        (_name(e) or str(i), exp.Dot(this=exp.to_identifier(row), expression=exp.to_identifier(str(i), quoted=True)))
        for i, e in enumerate(call.expressions)
    ]
    renamed = exp.Lambda(this=_struct(fields), expressions=[exp.to_identifier(row)])
    return exp.Anonymous(this="TRANSFORM", expressions=[exp.Anonymous(this="ARRAYS_ZIP", expressions=bare), renamed])
