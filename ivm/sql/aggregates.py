"""The user's own aggregates: only the engine knows them from scalar functions (pure)."""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.analyzer import Analyzer
from ivm.sql.dialect import AGGREGATES


def with_aggregates(tree: exp.Expression, analyzer: Analyzer) -> exp.Expression:
    """The calls of user-defined aggregates marked as such; their SQL stays as it is.

    >>> from types import SimpleNamespace
    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT plus(a), mine(a) FROM t", read="spark")
    >>> marked = with_aggregates(tree, SimpleNamespace(aggregates=lambda calls: {"mine"} & calls.keys()))
    >>> [c.name for c in marked.find_all(exp.AnonymousAggFunc)], marked.sql("spark") == tree.sql("spark")
    (['mine'], True)
    """
    unknown = {
        f.name.lower(): len(f.expressions) for f in tree.find_all(exp.Anonymous) if f.name.lower() not in AGGREGATES
    }
    found = analyzer.aggregates(unknown) if unknown else frozenset()

    def marked(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Anonymous) and node.name.lower() in found and not isinstance(node.parent, exp.Dot):
            return exp.AnonymousAggFunc(this=node.this, expressions=node.expressions)
        return node

    return tree.transform(marked) if found else tree
