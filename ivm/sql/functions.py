"""The user's own functions (pure).

How they are defined is part of a view's definition, and what they read or ask for is the view's.
Spark inlines SQL functions when it analyses a statement; nothing tells the view's text that another body was given to
one. Of a function in another language (Python, Java) only its name is known.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.sql.analyzer import Analyzer, Function
from ivm.sql.dialect import AGGREGATES, IvmSpark
from ivm.sql.substitution import check_written_out
from ivm.sql.volatile import volatile


def own_functions(tree: exp.Expression, analyzer: Analyzer) -> tuple[Function, ...]:
    """The user's own functions that a statement calls, and those that they call.

    Raises ViewError for a body that holds `${`, which Spark replaces at each use.
    """
    names = {f.name.lower() for f in tree.find_all(exp.Anonymous)} - AGGREGATES
    found = analyzer.functions(sorted(names)) if names else ()
    for function in found:
        check_written_out(function.body, f"The body of the function {function.name}")
    return found


def definitions(functions: Iterable[Function]) -> tuple[tuple[str, str], ...]:
    """What a program keeps of them: each name with all by which its results go."""
    return tuple((f.name, f"{f.signature} {f.body}".strip()) for f in functions)


def volatile_function(functions: Iterable[Function]) -> str | None:
    """Which of these functions gives other answers by itself, in words; None if none is known to.

    >>> volatile_function([Function("since", "", "datediff(current_date(), d)", ("d",))])
    'since(), with its current_date(),'
    >>> volatile_function([Function("n", "", "(SELECT count(*) FROM t)", ())])
    'n(), which reads tables of its own,'
    >>> volatile_function([Function("over", "", "x - highest", ("x",))])
    'over(), which reads highest (none of its parameters),'
    >>> volatile_function([Function("plus", "", "x + plus.y.a", ("x", "y")), Function("py", "", "", ())])
    """
    for function in functions:
        if not function.body:
            continue
        body = (
            function.body
            if function.body.upper().startswith(("SELECT", "WITH", "(SELECT", "(WITH", "FROM"))
            else f"SELECT {function.body}"
        )
        try:
            tree = sqlglot.parse_one(body, read=IvmSpark)
        except SqlglotError:
            return f"{function.name}(), whose body can't be parsed,"
        ctes = {c.alias.lower() for c in tree.find_all(exp.CTE)}
        if any(t.name.lower() not in ctes and not isinstance(t.this, exp.Func) for t in tree.find_all(exp.Table)):
            return f"{function.name}(), which reads tables of its own,"
        if why := volatile(tree, {}):
            return f"{function.name}(), with its {why},"
        if strange := _beyond(tree, function):
            return f"{function.name}(), which reads {strange} (none of its parameters),"
    return None


def _beyond(tree: exp.Expression, function: Function) -> str:
    """What a body calls by name that isn't a parameter or made in the body: a variable of the session; else empty."""
    made = {n.alias_or_name.lower() for n in tree.find_all(exp.Alias, exp.TableAlias, exp.CTE)}
    made |= {c.name.lower() for a in tree.find_all(exp.TableAlias) for c in a.columns}
    known = made | {p.lower() for p in function.parameters} | {function.name}
    named = [next(iter(c.parts)).name for c in tree.find_all(exp.Column) if not isinstance(c.this, exp.Star)]
    return next((n for n in named if n.lower() not in known), "")
