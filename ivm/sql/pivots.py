"""PIVOT and UNPIVOT as the plain queries they stand for (pure).

PIVOT    groups by all other columns and the pivot columns, then puts each listed value's row into columns of its own
UNPIVOT  is a UNION ALL of one query for each listed column
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql.refusals import UnsupportedError

#: The name under which the pivoted table is bound.
BASE = "__ivm_pivoted"


def pivoted(pivot: exp.Pivot, columns: Sequence[str]) -> tuple[exp.Query, str]:
    """The query over BASE, and BASE."""
    return (_unpivot(pivot, columns) if pivot.args.get("unpivot") else _pivot(pivot, columns)), BASE


def _column(name: str, table: str = BASE) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def _pivot(pivot: exp.Pivot, columns: Sequence[str]) -> exp.Query:
    (field,) = pivot.args["fields"]
    on = [c.name for c in (field.this.expressions if isinstance(field.this, exp.Tuple) else [field.this])]
    calls = [(e.alias, e.unalias()) for e in pivot.expressions]
    read = {c.name.lower() for _, e in calls for c in e.find_all(exp.Column)} | {c.lower() for c in on}
    rest = [c for c in columns if c.lower() not in read]
    names = [c.name for c in pivot.args.get("columns") or []]

    def based(node: exp.Expression) -> exp.Expression:
        return _column(node.name) if isinstance(node, exp.Column) else node

    inner = exp.select(
        *(_column(c) for c in [*rest, *on]),
        *(exp.alias_(e.copy().transform(based), f"__ivm_a{i}", quoted=True) for i, (_, e) in enumerate(calls)),
    )
    inner = inner.from_(
        exp.Table(this=exp.to_identifier(BASE), alias=exp.TableAlias(this=exp.to_identifier(BASE)))
    ).group_by(*(_column(c) for c in [*rest, *on]))
    outs: list[exp.Expression] = [_column(c, "__ivm_p") for c in rest]
    for value in field.expressions:
        literal = value.this if isinstance(value, exp.PivotAlias) else value
        wanted = literal.expressions if isinstance(literal, exp.Tuple) else [literal]
        met = exp.and_(
            *(exp.NullSafeEQ(this=_column(c, "__ivm_p"), expression=w.copy()) for c, w in zip(on, wanted, strict=True))
        )
        for i, _ in enumerate(calls):
            call = exp.Filter(
                this=exp.Min(this=_column(f"__ivm_a{i}", "__ivm_p")), expression=exp.Where(this=met.copy())
            )
            if len(outs) - len(rest) >= len(names):
                raise UnsupportedError("clause", "PIVOT with columns of unknown names")
            outs.append(exp.alias_(call, names[len(outs) - len(rest)], quoted=True))
    outer = exp.select(*outs).from_(inner.subquery("__ivm_p"))
    return outer.group_by(*(_column(c, "__ivm_p") for c in rest)) if rest else outer


def _unpivot(pivot: exp.Pivot, columns: Sequence[str]) -> exp.Query:
    (field,) = pivot.args["fields"]
    values = [v.name for e in pivot.expressions for v in (e.expressions if isinstance(e, exp.Tuple) else [e])]
    listed = []
    for e in field.expressions:
        inner, alias = (e.this, e.args["alias"].name) if isinstance(e, exp.PivotAlias) else (e, "")
        parts = [c.name for c in (inner.expressions if isinstance(inner, exp.Tuple) else [inner.unnest()])]
        listed.append((parts, alias or "_".join(parts)))
    used = {c.lower() for parts, _ in listed for c in parts}
    rest = [c for c in columns if c.lower() not in used]
    selects = []
    for parts, label in listed:
        outs: list[exp.Expression] = [_column(c) for c in rest]
        outs.append(exp.alias_(exp.Literal.string(label), field.this.name, quoted=True))
        outs += [exp.alias_(_column(p), v, quoted=True) for p, v in zip(parts, values, strict=True)]
        select = exp.select(*outs).from_(
            exp.Table(this=exp.to_identifier(BASE), alias=exp.TableAlias(this=exp.to_identifier(BASE)))
        )
        if not pivot.args.get("include_nulls"):
            select = select.where(exp.or_(*(exp.not_(exp.Is(this=_column(p), expression=exp.null())) for p in parts)))
        selects.append(select)
    tree: exp.Query = selects[0]
    for select in selects[1:]:
        tree = exp.Union(this=tree, expression=select, distinct=False)
    return tree
