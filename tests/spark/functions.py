"""Spark's own list of functions as views: each documented example, with its literals as columns of a table.

    SELECT regexp_replace('100-200', '(\\d+)', 'num')    becomes    SELECT regexp_replace(t.c0, t.c1, t.c2) AS v0 FROM t

where row by row `t` holds these constants. An example over VALUES is joined with `t`, so that its rows come and go with
those of `t`. A literal that Spark wants to be constant (a format, a schema, a count) stays one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.errors import ViewError
from ivm.names import ident
from ivm.plan.nodes import Column, Relation
from ivm.session import SparkAnalyzer
from ivm.sql.dialect import IvmSpark, is_aggregate
from ivm.sql.render import typed_nulls
from ivm.sql.text import splice


@dataclass(frozen=True)
class Example:
    """The n-th example that Spark documents for a function."""

    function: str
    number: int
    sql: str

    @property
    def name(self) -> str:
        plain = (
            self.function if self.function.isidentifier() else "op_" + "_".join(f"{ord(c):x}" for c in self.function)
        )
        return f"f_{plain}_{self.number}"


def documented(spark, every: int = 1) -> Iterator[Example]:
    """The examples of all functions, or of every n-th; what has no example there has one of ours."""
    for (function,) in spark.sql("SHOW SYSTEM FUNCTIONS").collect()[::every]:
        text = "\n".join(r[0] for r in spark.sql(f"DESCRIBE FUNCTION EXTENDED {ident(function)}").collect())
        for number, sql in enumerate(examples(text)):
            yield Example(function, number, sql)
    for number, (function, sql) in enumerate(UNDOCUMENTED[::every]):
        yield Example(function, 100 + number, sql)


#: What has no example there.
UNDOCUMENTED = [
    ("!=", "SELECT 1 != 2, true != NULL"),
    ("<>", "SELECT 1 <> 2, true <> NULL"),
    ("||", "SELECT 'Spark' || 'SQL', array(1, 2) || array(3)"),
    ("between", "SELECT 3 BETWEEN 1 AND 5, 'c' NOT BETWEEN 'a' AND 'b'"),
    ("case", "SELECT CASE WHEN 1 > 0 THEN 'a' ELSE 'b' END, CASE 1 WHEN 2 THEN 'x' WHEN 1 THEN 'y' END"),
    *(
        (t, f"SELECT {t}('1')")
        for t in ("bigint", "boolean", "decimal", "double", "float", "int", "smallint", "string", "tinyint", "binary")
    ),
    *((t, f"SELECT {t}('2024-02-29 12:30:00')") for t in ("date", "timestamp")),
    ("time", "SELECT time('12:30:00')"),
    *(
        (f, f"SELECT {f}({unit}, 2, TIMESTAMP'2024-02-29 12:30:00')")
        for f in ("dateadd", "date_add", "timestampadd")
        for unit in (
            "YEAR",
            "quarter",
            "MONTH",
            "WEEK",
            "DAY",
            "DAYOFYEAR",
            "HOUR",
            "minute",
            "SECOND",
            "MILLISECOND",
            "MICROSECOND",
        )
    ),
    *(
        (f, f"SELECT {f}({unit}, DATE'2023-01-31', TIMESTAMP'2024-02-29 12:30:00')")
        for f in ("datediff", "date_diff", "timestampdiff", "timediff")
        for unit in (
            "YEAR",
            "quarter",
            "MONTH",
            "WEEK",
            "DAY",
            "HOUR",
            "minute",
            "SECOND",
            "MILLISECOND",
            "MICROSECOND",
        )
    ),
]


def examples(text: str) -> list[str]:
    """The statements in the text of DESCRIBE FUNCTION EXTENDED; those between SET name=true and =false are of another
    session, in which the same text means something else.

    >>> examples('Usage: f(x)\\nExamples:\\n > SELECT f(1);\\n  1\\n > SELECT f(\\n 2);\\n  2')
    ['SELECT f(1)', 'SELECT f(\\n2)']
    >>> examples('Examples:\\n > SET a.b=true;\\n > SELECT f(1);\\n > SET a.b=false;\\n > SELECT f(2);')
    ['SELECT f(2)']
    """
    found: list[str] = []
    statement: list[str] | None = None
    other = False
    for line in (raw.strip() for raw in text.rsplit("Examples:", maxsplit=1)[-1].splitlines()):
        statement = [line[2:]] if line.startswith("> ") else [*statement, line] if statement is not None else None
        if statement and statement[-1].endswith(";"):
            sql = "\n".join(statement).rstrip("; ")
            if sql.upper().startswith("SET "):
                other = sql.lower().endswith("=true")
            elif not other:
                found.append(sql)
            statement = None
    return found


@dataclass
class Constants:
    """The columns that literals have become: SQL of each literal to its column."""

    analyzer: SparkAnalyzer
    columns: dict[str, Column] = field(default_factory=dict)

    def add(self, literals: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(literals) if text not in self.columns]
        if new:
            types = self.analyzer.schema("SELECT " + ", ".join(f"{text} AS c{i}" for i, text in enumerate(new)))
            start = len(self.columns)
            self.columns |= {
                text: Column(f"c{start + i}", c.type) for i, (text, c) in enumerate(zip(new, types, strict=True))
            }

    @property
    def relation(self) -> Relation:
        return Relation("t", "source", (Column("id", "int"), *self.columns.values()))


@dataclass(frozen=True)
class Made:
    """An example as a view over `t`.

    `outs` are its expressions where it gives one row for each row of `t`, so that several can be one view.
    """

    example: Example
    sql: str
    outs: tuple[str, ...] = ()


def made(example: Example, constants: Constants) -> Made:
    """An example as a view. Raises ViewError where Spark refuses it in any form."""
    try:
        tree = sqlglot.parse_one(example.sql, read=IvmSpark)
    except SqlglotError:
        tree = None
    if not isinstance(tree, exp.Select) or any(
        e.find(exp.Star) for e in tree.expressions if not isinstance(e, exp.Func)
    ):
        return Made(example, _storable(f"SELECT q.* FROM t CROSS JOIN ({example.sql}) AS q", constants))
    literals = [n for e in tree.expressions for n in e.find_all(exp.Literal) if _is_value(n)]
    constants.add(n.sql(dialect=IvmSpark) for n in literals)
    chosen = set(map(id, literals))
    if not _accepted(_over(tree, constants, chosen), constants):
        chosen = set()
        for literal in literals:
            if _accepted(_over(tree, constants, chosen | {id(literal)}), constants):
                chosen.add(id(literal))
    select = _over(tree, constants, chosen)
    sql = _storable(select.sql(dialect=IvmSpark), constants)
    if tree.args.get("from_") or not _accepted(
        f"SELECT 1 AS one FROM t ORDER BY {', '.join(e.unalias().sql(dialect=IvmSpark) for e in select.expressions)}",
        constants,
    ):
        return Made(example, sql)
    types = constants.analyzer.schema(_typed(select.sql(dialect=IvmSpark), constants))
    return Made(
        example,
        sql,
        tuple(
            _stored(e.unalias().sql(dialect=IvmSpark), c.type) for e, c in zip(select.expressions, types, strict=True)
        ),
    )


def _is_value(literal: exp.Literal) -> bool:
    """Whether a literal is a value, not part of a type, an interval or a frame, nor a parameter of an aggregate.

    Sketches want that constant only as they run.
    """
    place = literal.find_ancestor(exp.DataType, exp.DataTypeParam, exp.Interval, exp.WindowSpec, exp.Query)
    argument: exp.Expression = literal
    while argument.parent is not place and argument.parent is not None and not is_aggregate(argument.parent):
        argument = argument.parent
    return isinstance(place, exp.Select) and not (argument.parent is not place and argument.index)


def _over(tree: exp.Select, constants: Constants, chosen: set[int]) -> exp.Select:
    """The statement over `t`, the `chosen` literals replaced by its columns."""
    copy = tree.copy()
    pairs = [
        pair
        for one, other in zip(tree.expressions, copy.expressions, strict=True)
        for pair in zip(one.find_all(exp.Literal), other.find_all(exp.Literal), strict=True)
    ]
    for original, literal in pairs:
        if id(original) in chosen:
            literal.replace(exp.column(constants.columns[original.sql(dialect=IvmSpark)].name, table="t"))
    table = exp.Table(this=exp.to_identifier("t"))
    if copy.args.get("from_"):
        copy.append("joins", exp.Join(this=table, kind="CROSS"))
    else:
        copy.set("from_", exp.From(this=table))
    return copy


def together(views: Iterable[Made]) -> str:
    """Views of one row for each row of `t` as one."""
    outs = [f"{out} AS {view.example.name}_{i}" for view in views for i, out in enumerate(view.outs)]
    return f"SELECT t.id, {', '.join(outs)} FROM t"


def _accepted(sql: exp.Select | str, constants: Constants) -> bool:
    try:
        constants.analyzer.schema(_typed(sql if isinstance(sql, str) else sql.sql(dialect=IvmSpark), constants))
    except ViewError:
        return False
    return True


def _typed(sql: str, constants: Constants) -> str:
    return splice(sql, {"t": typed_nulls(constants.relation.columns)})


def _storable(sql: str, constants: Constants) -> str:
    """The statement with columns of names and types that Delta stores."""
    columns = constants.analyzer.schema(_typed(sql, constants))
    names = [f"v{i}" for i in range(len(columns))]
    outs = [f"{_stored(n, c.type)} AS {n}" for n, c in zip(names, columns, strict=True)]
    return f"SELECT {', '.join(outs)} FROM ({sql}) AS r({', '.join(names)})"


def _stored(value: str, type_: str) -> str:
    if "geo" in type_:
        return f"st_asbinary({value})"
    if "interval" in type_:
        return f"CAST({value} AS string)"
    if "variant" in type_:
        return f"to_json({value})"
    return f"({value}) IS NULL" if "void" in type_ else value
