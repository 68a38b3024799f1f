"""The column that USING and NATURAL make of two, as Spark means it (pure).

    a JOIN b USING (k), a LEFT JOIN b USING (k)     k is a.k
    a RIGHT JOIN b USING (k)                        k is b.k
    a FULL JOIN b USING (k)                         k is coalesce(a.k, b.k)

The next join by k compares that one. sqlglot compares the first table's, and has COALESCE of all of them in each place.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.refusals import UnsupportedError

#: Marks joins that merge columns, and calls of COALESCE that aren't sqlglot's.
_MERGES, _MEANT = "ivm_merges", "ivm_meant"


def mark(tree: exp.Expression) -> None:
    """Note in the tree what to look at once its columns are qualified.

    Raises UnsupportedError for joins in parentheses or after a comma, whose columns aren't those of what stands before.
    """
    for call in tree.find_all(exp.Coalesce):
        call.meta[_MEANT] = True
    for join in tree.find_all(exp.Join):
        if not join.args.get("using") and join.method != "NATURAL":
            continue
        join.meta[_MERGES] = True
        before = join.parent.args["joins"][: join.index] if isinstance(join.parent, exp.Select) else None
        if before is None or any(_is_comma(j) for j in before):
            raise UnsupportedError("clause", "USING or NATURAL in parentheses or after a comma")


def _is_comma(join: exp.Join) -> bool:
    # sqlglot reads a comma as CROSS JOIN, and leaves out `pivots`.
    return join.args.get("kind") == "CROSS" and "pivots" not in join.args


def with_merged_columns(tree: exp.Expression) -> exp.Expression:
    """The qualified tree, marked before, with the columns that its joins merge.

    >>> from sqlglot import parse_one
    >>> from sqlglot.optimizer.qualify import qualify
    >>> query = parse_one("SELECT k FROM a FULL JOIN b USING (k) RIGHT JOIN c USING (k)")
    >>> mark(query)
    >>> schema = {t: {"k": "int"} for t in "abc"}
    >>> with_merged_columns(qualify(query, schema=schema, quote_identifiers=False)).sql()
    'SELECT c.k AS k FROM a AS a FULL JOIN b AS b ON a.k = b.k RIGHT JOIN c AS c ON COALESCE(a.k, b.k) = c.k'
    """
    for select in reversed(list(tree.find_all(exp.Select))):  # inner ones first: their tables may be called alike
        joins = select.args.get("joins") or []
        if not any(j.meta.get(_MERGES) for j in joins):
            continue
        merged: dict[str, exp.Expression] = {}
        for join in joins:
            _replace(join, merged)
            on = join.args.get("on")
            for equality in on.flatten() if join.meta.get(_MERGES) and isinstance(on, exp.And) else [on]:
                if join.meta.get(_MERGES) and isinstance(equality, exp.EQ):
                    _merge(join, equality, merged)
        _replace(select, merged)
    return tree


def _merge(join: exp.Join, equality: exp.EQ, merged: dict[str, exp.Expression]) -> None:
    """Compare what was merged so far with the joined table's column, and say what comes of the two."""
    name = equality.right.name
    left = merged.get(name, equality.left).copy()
    equality.set("this", left)
    if join.side == "RIGHT":
        merged[name] = equality.right.copy()
    elif join.side == "FULL":
        merged[name] = exp.Coalesce(this=left.copy(), expressions=[equality.right.copy()])
        merged[name].meta[_MEANT] = True
    else:
        merged[name] = left.copy()


def _replace(node: exp.Expression, merged: dict[str, exp.Expression]) -> None:
    for call in list(node.find_all(exp.Coalesce)):
        if not call.meta.get(_MEANT) and isinstance(call.this, exp.Column) and call.this.name in merged:
            call.replace(merged[call.this.name].copy())
