"""Plans to Spark SQL text. One function a node; how a leaf is read is the caller's choice.

Invariant: a rendered branch reads as the user's own query would, with each table replaced by what
the leaf was given (a snapshot, a slice, a delta).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ivm.names import ident
from ivm.plan.kinds import ReduceKind
from ivm.plan.nodes import Branch, Column, Core, Leaf, Post, Reduce, Relation, Text, Unit

#: Gives a leaf's FROM item without its alias, e.g. a table, or a subselect in parentheses.
LeafSql = Callable[[Leaf], str]


def columns_sql(names: Sequence[str], alias: str = "") -> str:
    """List columns, qualified where an alias is given.

    >>> columns_sql(["a", "b"], "t")
    '`t`.`a`, `t`.`b`'
    """
    prefix = ident(alias) + "." if alias else ""
    return ", ".join(prefix + ident(n) for n in names)


def branch_source(branch: Branch, leaf_sql: LeafSql) -> str:
    """The branch's FROM items, "" where it has none."""
    if branch.source is not None:
        return _filled(branch.source, branch, leaf_sql)
    return ", ".join(f"{leaf_sql(leaf)} AS {ident(leaf.alias)}" for leaf in branch.linear)


def _filled(text: Text, branch: Branch, leaf_sql: LeafSql) -> str:
    return text.filled(lambda alias: leaf_sql(branch.leaf(alias)))


def branch_sql(branch: Branch, leaf_sql: LeafSql, extra: Sequence[str] = (), where: Sequence[str] = ()) -> str:
    """SELECT the branch's outputs and `extra`, with `where` added to its predicates."""
    outputs = [f"{_filled(o.expr.text, branch, leaf_sql)} AS {ident(o.name)}" for o in branch.outputs]
    sql = f"SELECT {', '.join([*outputs, *extra]) or '1 AS `__ivm_one`'}"
    source = branch_source(branch, leaf_sql)
    conditions = [f"({_filled(p.text, branch, leaf_sql)})" for p in branch.predicates] + list(where)
    sql += f"\nFROM {source}" if source else ""
    return sql + (f"\nWHERE {' AND '.join(conditions)}" if conditions else "")


def core_sql(core: Core, leaf_sql: LeafSql) -> str:
    """UNION ALL of the branches."""
    return "\nUNION ALL\n".join(branch_sql(b, leaf_sql) for b in core.branches)


def post_sql(post: Post, rows: str, extra: Sequence[str] = ()) -> str:
    """The select list and HAVING over `rows`, a subselect of reduced rows."""
    outputs = [f"{o.expr.sql} AS {ident(o.name)}" for o in post.outputs]
    sql = f"SELECT {', '.join([*outputs, *extra])}\nFROM ({rows}) AS {ident(post.alias)}"
    return sql + (f"\nWHERE {' AND '.join(f'({p.sql})' for p in post.predicates)}" if post.predicates else "")


def group_by(names: Sequence[str]) -> str:
    """A GROUP BY clause; none for a global aggregate."""
    return f"\nGROUP BY {columns_sql(names)}" if names else ""


def reduce_sql(reduce: Reduce, rows: str) -> str:
    """Evaluate a reduce by Spark's own aggregates, window functions or sort over `rows` (core columns)."""
    keys = [k.name for k in reduce.keys]
    calls = [f"{c.sql} AS {ident(c.name)}" for c in reduce.calls]
    if reduce.kind is ReduceKind.GROUP:
        return (
            f"SELECT {', '.join([ident(k) for k in keys] + calls) or '1 AS `__ivm_one`'}\n"
            f"FROM ({rows}) AS `__ivm_core`{group_by(keys)}"
        )
    return f"SELECT {', '.join(['*', *calls])}\nFROM ({rows}) AS `__ivm_core`" + (
        f"\n{reduce.tail}" if reduce.tail else ""
    )


def unit_sql(unit: Unit, leaf_sql: LeafSql) -> str:
    """All rows of a unit, from all rows of what it reads."""
    rows = core_sql(unit.core, leaf_sql)
    return post_sql(unit.post, reduce_sql(unit.reduce, rows)) if unit.reduce and unit.post else rows


def typed_nulls(columns: Sequence[Column]) -> str:
    """A row of typed NULLs: enough for Spark to analyse a statement without touching a table.

    >>> typed_nulls([Column("a", "int")])
    '(SELECT CAST(NULL AS int) AS `a`)'
    """
    return "(SELECT " + ", ".join(f"CAST(NULL AS {c.type}) AS {ident(c.name)}" for c in columns) + ")"


def rows_of_nulls(columns: Sequence[Column], many: int) -> str:
    """So many rows of typed NULLs: a table that an optimizer doesn't take apart.

    >>> rows_of_nulls([Column("a", "int")], 2)
    '(SELECT * FROM VALUES (CAST(NULL AS int)), (CAST(NULL AS int)) AS `__ivm_rows`(`a`))'
    """
    row = "(" + ", ".join(f"CAST(NULL AS {c.type})" for c in columns) + ")"
    names = ", ".join(ident(c.name) for c in columns)
    return f"(SELECT * FROM VALUES {', '.join([row] * many)} AS {ident('__ivm_rows')}({names}))"


def schema_leaf(relations: dict[str, Relation]) -> LeafSql:
    """Read every leaf as typed NULLs of its needed columns."""

    def leaf_sql(leaf: Leaf) -> str:
        relation = relations[leaf.relation]
        wanted = [Column(c, relation.type_of(c)) for c in leaf.columns] or [Column("__ivm_none", "int")]
        return typed_nulls(wanted)

    return leaf_sql
