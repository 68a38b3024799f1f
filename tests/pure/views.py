"""Random views: queries of two integer columns x and y, composed of every construct to some depth (hypothesis)."""

from __future__ import annotations

from hypothesis import strategies as st

#: (table, its columns): all integers, with NULLs and duplicates.
TABLES = (("r", "a", "b"), ("s", "b", "c"), ("t", "c", "d"))
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
_CONDITIONS = (
    "l.y = r.x",
    "l.x = r.x",
    "l.x = r.x AND l.y < r.y",
    "l.y <=> r.x",
    "l.y = r.y AND r.x > 1",
    "l.x = r.y AND l.y > 0",
    "l.x < r.y",
)
_FILTERS = ("x > 1", "y IS NULL OR x < 3", "x = y", "x IN (0, 2)", "coalesce(x, 0) <> 1", "y BETWEEN 1 AND 3")
_OUTPUTS = ("x, y", "y AS x, x AS y", "x + 1 AS x, y", "CASE WHEN x > y THEN x ELSE y END AS x, y", "x, 1 AS y")
_CALLS = ("sum(y)", "count(y)", "count(*)", "max(y)", "min(y)", "count(DISTINCT y)", "sum(CASE WHEN y > 1 THEN y END)")
_WINDOWS = (
    "sum(y) OVER (PARTITION BY x)",
    "rank() OVER (PARTITION BY x ORDER BY y)",
    "max(y) OVER (PARTITION BY x)",
    "count(*) OVER ()",
    "dense_rank() OVER (ORDER BY y)",
)
_SUBQUERIES = (
    "EXISTS (SELECT 1 FROM {q} r WHERE r.x = l.x)",
    "NOT EXISTS (SELECT 1 FROM {q} r WHERE r.x = l.x AND r.y > l.y)",
    "l.x IN (SELECT r.x FROM {q} r)",
    "l.x NOT IN (SELECT r.y FROM {q} r)",
    "l.y NOT IN (SELECT r.y FROM {q} r WHERE r.x = l.x)",
    "l.x = 1 OR EXISTS (SELECT 1 FROM {q} r WHERE r.x = l.y)",
    "l.y > (SELECT min(r.y) FROM {q} r)",
    "l.y = (SELECT max(r.y) FROM {q} r WHERE r.x = l.x)",
    "l.x >= (SELECT count(*) FROM {q} r WHERE r.x = l.x)",
    "EXISTS (SELECT 1 FROM {q} r WHERE r.y > 2)",
)
_SETS = ("UNION ALL", "UNION", "INTERSECT", "EXCEPT")


@st.composite
def views(draw: st.DrawFn, depth: int = 3) -> str:
    """A SELECT with columns x and y; each level of depth may nest one or two more."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        name, one, two = draw(st.sampled_from(TABLES))
        return f"SELECT {one} AS x, {two} AS y FROM {name}"
    inner = f"({draw(views(depth - 1))})"
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return f"SELECT {draw(st.sampled_from(_OUTPUTS))} FROM {inner} q WHERE {draw(st.sampled_from(_FILTERS))}"
    if kind in (1, 2):
        other = f"({draw(views(depth - 1))})"
        outputs = draw(st.sampled_from(("l.x, r.y", "r.x, l.y", "coalesce(l.x, r.x) AS x, r.y")))
        return (
            f"SELECT {outputs} FROM {inner} l {draw(st.sampled_from(_JOINS))} {other} r "
            f"ON {draw(st.sampled_from(_CONDITIONS))}"
        )
    if kind in (3, 4):
        other = f"({draw(views(max(depth - 2, 0)))})"
        return f"SELECT l.x, l.y FROM {inner} l WHERE {draw(st.sampled_from(_SUBQUERIES)).format(q=other)}"
    if kind == 5:
        other = f"({draw(views(max(depth - 2, 0)))})"
        aggregate = draw(st.sampled_from(("max(r.y)", "count(r.y)", "sum(r.y)")))
        return f"SELECT l.x, (SELECT {aggregate} FROM {other} r WHERE r.x = l.x) AS y FROM {inner} l"
    if kind == 6:
        having = draw(st.sampled_from(("", " HAVING count(*) > 1", " HAVING max(y) > 1")))
        return f"SELECT x, {draw(st.sampled_from(_CALLS))} AS y FROM {inner} q GROUP BY x{having}"
    if kind == 7:
        return f"SELECT x, {draw(st.sampled_from(_WINDOWS))} AS y FROM {inner} q"
    if kind == 8:
        other = f"({draw(views(depth - 1))})"
        return f"SELECT x, y FROM {inner} q {draw(st.sampled_from(_SETS))} SELECT x, y FROM {other} p"
    cut = draw(st.sampled_from(("DISTINCT", "LIMIT 3", "LIMIT 2 OFFSET 1")))
    if cut == "DISTINCT":
        return f"SELECT DISTINCT x, y FROM {inner} q"
    return f"SELECT x, y FROM {inner} q ORDER BY x, y {cut}"
