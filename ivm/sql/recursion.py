"""WITH RECURSIVE: which entries read themselves, their parts, and whether they are meant as sets (pure)."""

from __future__ import annotations

import itertools

import sqlglot
from sqlglot import exp
from sqlglot.tokens import TokenType

from ivm.sql.dialect import IvmSpark
from ivm.sql.refusals import UnsupportedError


def names_table(node: exp.Expression, name: str) -> bool:
    """Whether a query names a table."""
    return any(len(t.parts) == 1 and t.name.lower() == name for t in node.find_all(exp.Table))


def reads_itself(cte: exp.CTE) -> bool:
    return names_table(cte.this, cte.alias.lower())


def union_parts(cte: exp.CTE) -> tuple[list[exp.Expression], bool]:
    """The queries that a recursive entry unites, and whether as a set. Raises UnsupportedError for other shapes."""
    parts: list[exp.Expression] = []
    kinds: set[bool] = set()

    def visit(node: exp.Expression) -> None:
        node = node.unnest() if isinstance(node, exp.Subquery) and not node.alias else node
        if isinstance(node, exp.Union) and not any(
            node.args.get(k) for k in ("with_", "order", "limit", "offset", "by_name")
        ):
            kinds.add(bool(node.args.get("distinct")))
            visit(node.left)
            visit(node.right)
        else:
            parts.append(node)

    visit(cte.this)
    if len(kinds) != 1:
        raise UnsupportedError("recursion", f"{cte.alias} is not a UNION or a UNION ALL of queries")
    return parts, kinds.pop()


def has_set_recursion(tree: exp.Expression) -> bool:
    """Whether a recursive entry of a statement is a UNION, which Spark itself refuses."""
    for with_ in tree.find_all(exp.With):
        for cte in with_.expressions if with_.args.get("recursive") else []:
            if reads_itself(cte) and any(u.args.get("distinct") for u in cte.this.find_all(exp.Union)):
                return True
    return False


def union_all(sql: str) -> str:
    """Each UNION as UNION ALL: another bag of rows with the same columns.

    >>> union_all("SELECT 1 UNION SELECT 2 UNION DISTINCT SELECT 3")
    'SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3'
    """
    tokens = sqlglot.tokenize(sql, read=IvmSpark)
    for token, after in reversed(list(itertools.pairwise(tokens))):
        if token.token_type is TokenType.UNION and after.token_type is not TokenType.ALL:
            end = after.end if after.token_type is TokenType.DISTINCT else token.end
            sql = f"{sql[: token.start]}UNION ALL{sql[end + 1 :]}"
    return sql
