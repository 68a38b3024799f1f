"""ORDER BY ... LIMIT in a subquery that reads outer columns, written so that Spark keeps the order.

Spark makes such a LIMIT a row_number() for each set of outer values. It takes the order along only where the sort
stands right below the LIMIT; where a term of the order is no column of the output it puts a projection between the two,
and numbers the rows as they come (seen in Spark 4.2: with one shuffle partition other rows than the first are kept).
"""

from __future__ import annotations

from sqlglot import exp

from ivm.names import RESERVED_PREFIX
from ivm.sql.blocks import rewritten
from ivm.sql.refusals import UnsupportedError

_OUT, _TERM = f"{RESERVED_PREFIX}_out_", f"{RESERVED_PREFIX}_term_"


def first_rows(query: exp.Select) -> exp.Select:
    """The query with a LIMIT or OFFSET, ordered by its terms and then by all its columns, each a column of its own.

    Terms may be columns of the output by name, without a table, by expression or by number. Raises UnsupportedError for
    SELECT DISTINCT by a term that is none.

    >>> import sqlglot
    >>> made = first_rows(sqlglot.parse_one("SELECT a.x AS x FROM a ORDER BY x DESC LIMIT 1"))
    >>> made.sql()
    'SELECT a.x AS x FROM a ORDER BY x DESC, "x" NULLS LAST LIMIT 1'
    >>> made = first_rows(sqlglot.parse_one("SELECT a.x AS x FROM a ORDER BY a.y LIMIT 1"))
    >>> print(made.sql(pretty=True).replace('"', ""))
    SELECT
      __ivm_out_0 AS x
    FROM (
      SELECT
        a.x AS __ivm_out_0,
        a.y AS __ivm_term_0
      FROM a
      ORDER BY
        __ivm_term_0,
        __ivm_out_0 NULLS LAST
      LIMIT 1
    ) AS __ivm_first
    """
    query = query.copy()
    outs = [e.unalias() for e in query.expressions]
    names = [e.alias_or_name for e in query.expressions]
    given = query.args["order"].expressions if query.args.get("order") is not None else []
    places = [_place(ordered.this, outs, names) for ordered in given]
    plain = len({n.lower() for n in names}) == len(names) and None not in places
    added: list[exp.Expression] = []
    terms = []
    for ordered, place in zip(given, places, strict=True):
        term = ordered.copy()
        if place is None:
            if query.args.get("distinct") is not None:
                raise UnsupportedError("clause", "a correlated SELECT DISTINCT with a LIMIT, ordered by another value,")
            name = f"{_TERM}{len(added)}"
            added.append(exp.alias_(_of_outputs(ordered.this, outs, names), name, quoted=True))
            term.set("this", exp.column(exp.to_identifier(name, quoted=True)))
        elif not plain:
            term.set("this", _out(place))
        elif not isinstance(ordered.this, exp.Column) or ordered.this.table:
            term.set("this", exp.column(exp.to_identifier(names[place], quoted=True)))
        terms.append(term)
    every = [exp.column(exp.to_identifier(n, quoted=True)) if plain else _out(i) for i, n in enumerate(names)]
    query.set("order", exp.Order(expressions=[*terms, *(exp.Ordered(this=e) for e in every)]))
    if plain:
        return query
    query.set("expressions", [*(exp.alias_(e.copy(), f"{_OUT}{i}", quoted=True) for i, e in enumerate(outs)), *added])
    around = exp.Select(expressions=[exp.alias_(_out(i), n, quoted=True) for i, n in enumerate(names)])
    return around.from_(query.subquery(f"{RESERVED_PREFIX}_first", copy=False), copy=False)


def _out(place: int) -> exp.Column:
    return exp.column(exp.to_identifier(f"{_OUT}{place}", quoted=True))


def _place(term: exp.Expression, outs: list[exp.Expression], names: list[str]) -> int | None:
    """Which column of the output a term is; None for another value."""
    if isinstance(term, exp.Literal) and term.is_int:
        return int(term.name) - 1
    if isinstance(term, exp.Column) and not term.table:
        return next((i for i, n in enumerate(names) if n.lower() == term.name.lower()), None)
    return next((i for i, out in enumerate(outs) if out == term), None)


def _of_outputs(term: exp.Expression, outs: list[exp.Expression], names: list[str]) -> exp.Expression:
    """A term with the output's columns by what they are."""

    def swap(n: exp.Expression) -> exp.Expression | None:
        place = _place(n, [], names) if isinstance(n, exp.Column) else None
        return exp.Paren(this=outs[place].copy()) if place is not None else None

    return rewritten(term.copy(), swap)
