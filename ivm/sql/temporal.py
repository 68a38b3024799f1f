"""Temporal filters: comparisons of a row with the time, as joins with a clock (pure).

    WHERE ts > now() - INTERVAL 7 DAYS
      =   FROM ..., (SELECT now() - INTERVAL 7 DAYS AS at) AS clock  WHERE ts > clock.at

A clock has one row, which changes as time passes. As a relation its delta between two instants is -1 for the old value
and +1 for the new one, so the rules of joins say which rows leave and enter: those between the two values.
The idea of such filters: Materialize, "Temporal filters"; there each row is given the times of its entry and its exit.

Invariant: only a conjunct of a WHERE is taken, one side of which is made of the time and constants alone; any other use
of the time leaves the view as it is.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.tokens import Token, TokenType

from ivm.names import RESERVED_PREFIX, ident
from ivm.plan.nodes import CLOCK_VALUE, Clock, Relation
from ivm.sql.analyzer import Analyzer
from ivm.sql.blocks import as_type, conjuncts, named_table, sql_of
from ivm.sql.dialect import IvmSpark, is_aggregate
from ivm.sql.refusals import UnsupportedError
from ivm.sql.volatile import volatile

#: What stands for each function of the time once the instant is fixed.
_AT = {
    "now": "{0}",
    "current_timestamp": "{0}",
    "localtimestamp": "CAST({0} AS TIMESTAMP_NTZ)",
    "current_date": "CAST({0} AS DATE)",
    "curdate": "CAST({0} AS DATE)",
    "unix_timestamp": "UNIX_TIMESTAMP({0})",
}
#: Those that change once a day.
_OF_THE_DAY = ("current_date", "curdate")
#: Those that are written without parentheses as well.
_BARE = ("current_date", "current_timestamp")
#: What they are called where they are read as a table; one of the day changes at midnight only.
_CLOCK, _DAY = f"{RESERVED_PREFIX}_clock", f"{RESERVED_PREFIX}_day"
#: Each comparison as it reads from the other side.
_TURNED: dict[type[exp.Expression], type[exp.Expression]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_clock(relation: str) -> bool:
    """Whether a relation is a clock.

    >>> is_clock("__ivm_clock_0123456789ab"), is_clock("orders")
    (True, False)
    """
    return relation.startswith((f"{_CLOCK}_", f"{_DAY}_"))


def is_daily(clock: str) -> bool:
    """Whether a clock, by its name, changes at midnight only."""
    return clock.startswith(f"{_DAY}_")


def without_filters(tree: exp.Expression, relations: Mapping[str, Relation]) -> exp.Expression:
    """The statement with NULL for what its temporal filters compare with.

    >>> tree = sqlglot.parse_one("SELECT a FROM t WHERE b >= current_date() AND a = 1", read=IvmSpark)
    >>> without_filters(tree, {}).sql(IvmSpark)
    'SELECT a FROM t WHERE b >= NULL AND a = 1'
    """
    tree = tree.copy()
    for select in list(_selects(tree, relations)):
        for _, side in list(_sides(select)):
            side.replace(exp.null())
    return tree


def with_clocks(tree: exp.Expression, relations: Mapping[str, Relation], analyzer: Analyzer) -> exp.Expression:
    """A qualified statement whose temporal filters compare with the one row of a derived table, a clock.

    What is compared with a bare column of a table gets the column's type, if both are dates or times, so that the
    comparison is one of two bare columns (see `_fitted`).
    Raises UnsupportedError where the time is asked for elsewhere.

    >>> from types import SimpleNamespace
    >>> from ivm.plan.nodes import Column
    >>> engine = SimpleNamespace(schema=lambda sql: (Column("at", "timestamp"),))
    >>> tree = sqlglot.parse_one("SELECT t.a AS a FROM t AS t WHERE t.b > NOW()", read=IvmSpark)
    >>> with_clocks(tree, {"t": Relation("t", "source", (Column("b", "timestamp"),))}, engine).sql(IvmSpark)
    'SELECT t.a AS a FROM t AS t, (SELECT NOW() AS at) AS __ivm_clock_1 WHERE t.b > __ivm_clock_1.at'
    """
    if any(a.name.startswith(f"{_CLOCK}_") for a in tree.find_all(exp.TableAlias)):
        raise UnsupportedError("clause", f"an alias that begins with {_CLOCK}, which is ours,")
    if not _asks(tree):
        return tree
    tree = tree.copy()
    scopes = {id(s.expression): s for s in traverse_scope(tree)}
    numbers = itertools.count(1)
    for select in list(_selects(tree, relations)):
        for comparison, side in list(_sides(select)):
            alias = f"{_CLOCK}_{next(numbers)}"
            other = comparison.expression if side is comparison.this else comparison.this
            kind = type(comparison) if side is comparison.expression else _TURNED[type(comparison)]
            type_ = _type_of(other, scopes.get(id(select)), relations)
            value = _fitted(side.copy(), _type(side, analyzer), type_, kind)
            side.replace(exp.column(CLOCK_VALUE, table=alias))
            query = exp.select(exp.alias_(value, CLOCK_VALUE)).subquery(alias, copy=False)
            select.append("joins", exp.Join(this=query))
    if other := next((n for n in tree.walk() if _is_now(n) and not _in_clock(n)), None):
        raise UnsupportedError("nondeterministic", f"{_now_name(other)}()")
    return tree


def as_relations(tree: exp.Expression, analyzer: Analyzer) -> tuple[exp.Expression, tuple[Clock, ...]]:
    """A statement with tables for the derived tables of `with_clocks`, and what they are.

    A clock is named by what it is, so that all views that compare with the same value read the same one.
    """
    clocks: dict[str, Clock] = {}

    def lifted(node: exp.Expression) -> exp.Expression:
        if not isinstance(node, exp.Subquery) or not node.alias.startswith(f"{_CLOCK}_"):
            return node
        value = node.this.selects[0].unalias()
        clock = _clock(value, _type(value, analyzer))
        clocks[clock.name] = clock
        return named_table(node.alias, clock.name)

    return tree.transform(lifted, copy=False), tuple(clocks.values())


def instant_sql(instant: int) -> str:
    """Microseconds since 1970 as a literal of Spark's.

    >>> instant_sql(1_000_001)
    "TIMESTAMP '1970-01-01 00:00:01.000001Z'"
    """
    return f"TIMESTAMP '{_EPOCH + timedelta(microseconds=instant):%Y-%m-%d %H:%M:%S.%f}Z'"


def at_instant(sql: str, instant: int) -> str:
    """A text with the time fixed, in microseconds since 1970; nothing else of it is touched.

    Only for statements whose every use of the time is in a temporal filter, and for clocks.

    >>> at_instant("a > now() -- now()", 0)
    "a > TIMESTAMP '1970-01-01 00:00:00.000000Z' -- now()"
    >>> at_instant("a = current_date AND t.current_date = 'now()'", 0)
    "a = CAST(TIMESTAMP '1970-01-01 00:00:00.000000Z' AS DATE) AND t.current_date = 'now()'"
    """
    fixed = instant_sql(instant)
    for name, start, end in reversed(list(_calls(sql))):
        sql = sql[:start] + _AT[name].format(fixed) + sql[end:]
    return sql


def _calls(sql: str) -> Iterator[tuple[str, int, int]]:
    """Name, start and end of each call of a function of the time in a text."""
    tokens = sqlglot.tokenize(sql, read=IvmSpark)
    nothing = Token(TokenType.SEMICOLON, "")
    for before, token, one, two in zip(
        [nothing, *tokens], tokens, [*tokens[1:], nothing], [*tokens[2:], nothing, nothing], strict=False
    ):
        name = token.text.lower()
        if name not in _AT or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        called = one.token_type is TokenType.L_PAREN and two.token_type is TokenType.R_PAREN
        bare = name in _BARE and TokenType.DOT not in (before.token_type, one.token_type)
        if called or (bare and one.token_type is not TokenType.L_PAREN):
            yield name, token.start, (two if called else token).end + 1


def _selects(tree: exp.Expression, relations: Mapping[str, Relation]) -> Iterator[exp.Select]:
    """The SELECTs with FROM and WHERE; none where a column or an alias is called like a function of the time."""
    names = {i.name.lower() for i in tree.find_all(exp.Identifier)}
    names |= {c.name.lower() for r in relations.values() for c in r.columns}
    if names.isdisjoint(_BARE):
        yield from (s for s in tree.find_all(exp.Select) if s.args.get("from_") and s.args.get("where"))


def _sides(select: exp.Select) -> Iterator[tuple[exp.Expression, exp.Expression]]:
    """Each conjunct of a WHERE that compares with the time, and its side that is made of the time alone.

    A BETWEEN that asks for the time becomes its two comparisons.
    """
    for part in list(conjuncts(select.args["where"].this)):
        if isinstance(part, exp.Between) and not part.args.get("symmetric") and _asks(part):
            this, low, high = part.this, part.args["low"], part.args["high"]
            part.replace(
                exp.And(
                    this=exp.GTE(this=this.copy(), expression=low.copy()),
                    expression=exp.LTE(this=this.copy(), expression=high.copy()),
                )
            )
    for part in conjuncts(select.args["where"].this):
        if type(part) in _TURNED:
            for side, other in ((part.this, part.expression), (part.expression, part.this)):
                if _of_time_alone(side) and other.find(exp.Column) and not _asks(other):
                    yield part, side
                    break


def _of_time_alone(node: exp.Expression) -> bool:
    if node.find(exp.Column, exp.Query, exp.Window) or any(is_aggregate(n) for n in node.walk()):
        return False
    if not _asks(node):
        return False
    rest = exp.select(node.copy()).transform(lambda n: exp.null() if _is_now(n) else n)
    return volatile(rest, {}) is None


def _asks(node: exp.Expression) -> bool:
    """Whether the time is asked for anywhere in a tree."""
    return any(_is_now(n) for n in node.walk())


def _is_now(node: exp.Expression) -> bool:
    """Whether a node is a call of a function of the time."""
    return _now_name(node) in _AT


def _now_name(node: exp.Expression) -> str:
    if isinstance(node, exp.Anonymous) and not node.expressions and isinstance(node.this, str):
        return node.this.lower()
    if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp) and not node.this:
        return "current_date" if isinstance(node, exp.CurrentDate) else "current_timestamp"
    return ""


def _in_clock(node: exp.Expression) -> bool:
    query = node.find_ancestor(exp.Subquery)
    return query is not None and query.alias.startswith(f"{_CLOCK}_")


def _type(value: exp.Expression, analyzer: Analyzer) -> str:
    return analyzer.schema(f"SELECT {sql_of(value)} AS {ident(CLOCK_VALUE)}")[0].type


def _clock(value: exp.Expression, type_: str) -> Clock:
    daily = {_now_name(n) for n in value.walk() if _is_now(n)} <= set(_OF_THE_DAY)
    sql = sql_of(value)
    digest = hashlib.sha256(f"{type_} {sql}".encode()).hexdigest()[:12]
    return Clock(f"{_DAY if daily else _CLOCK}_{digest}", sql, type_)


def _type_of(node: exp.Expression, scope: Scope | None, relations: Mapping[str, Relation]) -> str:
    """The type of a bare column, followed to the table it comes from; "" where that can't be told."""
    node = node.unnest()
    source = scope.sources.get(node.table) if isinstance(node, exp.Column) and scope is not None else None
    if isinstance(source, exp.Table) and source.name.lower() in relations:
        columns = {c.name.lower(): c.type for c in relations[source.name.lower()].columns}
        return columns.get(node.name.lower(), "")
    inner = source.expression if isinstance(source, Scope) else None
    if isinstance(inner, exp.Select):
        chosen = next((s.unalias() for s in inner.selects if s.alias_or_name.lower() == node.name.lower()), None)
        return _type_of(chosen, source, relations) if chosen is not None else ""
    return ""


def _fitted(value: exp.Expression, type_: str, column: str, kind: type[exp.Expression]) -> exp.Expression:
    """What a column is compared with, in the column's type, where the comparison then means the same.

    time  op date      Spark compares with the date's midnight                 CAST(date AS time)
    day   >, <= time   the day's midnight is later than a time if the day is later than the time's
    day   >=, < time   likewise, but at midnight sharp
    """
    if type_ == "date" and column in ("timestamp", "timestamp_ntz"):
        return as_type(value, column)
    if type_ in ("timestamp", "timestamp_ntz") and column == "date" and kind is not exp.EQ:
        day = as_type(value, "date")
        if kind in (exp.GT, exp.LTE):
            return day
        after = exp.Anonymous(this="DATE_ADD", expressions=[day.copy(), exp.Literal.number(1)])
        sharp = exp.EQ(this=exp.Paren(this=value.copy()), expression=day.copy())
        return exp.If(this=sharp, true=day, false=after)
    return value


def clock_sql(clock: Clock, instant: int) -> str:
    """A clock's one row at an instant."""
    return f"SELECT {at_instant(clock.sql, instant)} AS {ident(CLOCK_VALUE)}"
