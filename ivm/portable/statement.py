"""A whole statement of Spark's as DuckDB takes it: SELECTs, joins, subqueries, set operations, WITH, first rows.

    written(sql, known) -> Written      what DuckDB runs, the columns with Spark's types, the relations that it reads

Every column is written with the alias of what it comes from, so that no engine's rules for bare names play a part.
Raises NotPortableError for whatever isn't on the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.names import native_ident
from ivm.plan.nodes import Column
from ivm.portable.aggregates import KEYED
from ivm.portable.expressions import Expressions, NotPortableError, refuse
from ivm.portable.grammar import foreign
from ivm.portable.listed import Value, alike
from ivm.portable.types import BIGINT, FAMILIES, TEXT, VOID, Type, type_of
from ivm.sql.dialect import IvmSpark

#: The columns of a relation that a statement names (its text for Spark: a quoted name, or a table's path and version);
#: None where it can't be read by another engine.
Known = Callable[[exp.Table], "Relation | None"]


@dataclass(frozen=True)
class Relation:
    """What a FROM item is called where the statement runs, and its columns with Spark's types."""

    name: str
    columns: Sequence[Column]


@dataclass(frozen=True)
class Written:
    """A portable statement: DuckDB's text, the columns that come out, and the names of the relations that it reads."""

    sql: str
    columns: tuple[Column, ...]
    reads: tuple[str, ...]


def written(sql: str, known: Known) -> Written:
    """A statement of Spark's for DuckDB. Raises NotPortableError."""
    try:
        tree = sqlglot.parse_one(sql, read=IvmSpark)
    except SqlglotError as error:
        raise NotPortableError("the statement", "it can't be parsed here") from error
    strange = foreign(tree)
    if strange is not None:
        raise refuse(strange[0], f"{strange[1]} isn't on the list of what is portable")
    query = _Query(known, {}, None, [])
    text, columns = query.of(tree)
    hidden = next((c for c in columns if c.type in (TEXT, VOID)), None)
    if hidden is not None:
        raise NotPortableError(hidden.name, f"a column that is {hidden.type}")
    listed = tuple(Column(c.name, str(c.type)) for c in columns)
    return Written(text, listed, tuple(dict.fromkeys(query.reads)))


@dataclass(frozen=True)
class _Out:
    """A column of a query: its name and its type."""

    name: str
    type: Type


@dataclass
class _Item:
    """A FROM item in scope: its alias, and its columns by lower-case name.

    Of a column whose type isn't portable, and which nothing may read, the type as Spark writes it.
    """

    alias: str
    columns: dict[str, _Out | str]


@dataclass
class _Scope:
    """What a SELECT's expressions may refer to; what they don't find here they look for outside."""

    within: _Query
    outer: _Scope | None
    items: list[_Item] = field(default_factory=list)

    def column(self, node: exp.Column) -> Value:
        name, alias = node.name.lower(), node.table.lower()
        found = [i for i in self.items if name in i.columns and alias in ("", i.alias.lower())]
        if len(found) > 1:
            raise refuse(node, "it means several columns")
        if not found:
            if self.outer is None:
                raise refuse(node, "it isn't a column of what is read")
            return self.outer.column(node)
        column = found[0].columns[name]
        if isinstance(column, str):
            raise refuse(node, f"type {column} isn't on the list of what is portable")
        return Value(f"{native_ident(found[0].alias)}.{native_ident(column.name)}", column.type)

    def query(self, node: exp.Expression) -> tuple[str, Sequence[Type]]:
        """A subquery, which may refer to all that is in scope here."""
        text, columns = _Query(self.within.known, self.within.ctes, self, self.within.reads).of(node)
        return text, [c.type for c in columns]


_JOINS = {
    ("", ""): "JOIN", ("", "INNER"): "JOIN", ("", "CROSS"): "CROSS JOIN", ("LEFT", ""): "LEFT JOIN",
    ("LEFT", "OUTER"): "LEFT JOIN", ("RIGHT", ""): "RIGHT JOIN", ("RIGHT", "OUTER"): "RIGHT JOIN",
    ("FULL", ""): "FULL JOIN", ("FULL", "OUTER"): "FULL JOIN", ("LEFT", "SEMI"): "SEMI JOIN",
    ("LEFT", "ANTI"): "ANTI JOIN", ("", "SEMI"): "SEMI JOIN", ("", "ANTI"): "ANTI JOIN",
}  # fmt: skip


@dataclass
class _Query:
    """Writes queries; `ctes` are the names that a WITH around them binds."""

    known: Known
    ctes: Mapping[str, tuple[str, Sequence[_Out]]]
    outer: _Scope | None
    reads: list[str]

    def of(self, node: exp.Expression) -> tuple[str, list[_Out]]:
        """A query's text and columns."""
        before, heads = self.ctes, self._bound(node)
        try:
            text, columns = self._body(node)
        finally:
            self.ctes = before
        return (f"WITH {', '.join(heads)}\n{text}" if heads else text), columns

    def _body(self, node: exp.Expression) -> tuple[str, list[_Out]]:
        if isinstance(node, exp.Select):
            return self._select(node)
        if isinstance(node, exp.Subquery) and not node.args.get("alias"):
            return self.of(node.this)
        if isinstance(node, exp.Union | exp.Except | exp.Intersect):
            return self._union(node)
        raise refuse(node, "a query of this kind isn't on the list of what is portable")

    def _bound(self, node: exp.Expression) -> list[str]:
        with_ = node.args.get("with_")
        if with_ is None:
            return []
        heads = []
        for cte in with_.expressions:
            text, columns = _Query(self.known, self.ctes, self.outer, self.reads).of(cte.this)
            self.ctes = {**self.ctes, cte.alias.lower(): (cte.alias, columns)}
            heads.append(f"{native_ident(cte.alias)} AS (\n{text}\n)")
        return heads

    def _union(self, node: exp.SetOperation) -> tuple[str, list[_Out]]:
        """Each side's columns in the wider type of both, under the names of the first."""
        sides = [self.of(n) for n in (node.left, node.right)]
        (left, first), (right, second) = sides
        if len(first) != len(second):
            raise refuse(node, "its sides have different numbers of columns")
        if len({c.name for c in first}) < len(first) or len({c.name for c in second}) < len(second):
            raise refuse(node, "two of its columns have one name")
        columns: list[_Out] = []
        casts: tuple[list[str], list[str]] = ([], [])
        for a, b in zip(first, second, strict=True):
            made = alike([Value(f"u.{native_ident(c.name)}", c.type) for c in (a, b)])
            if made is None:
                raise refuse(node, f"its sides have {a.name} as {a.type} and {b.type}")
            columns.append(_Out(a.name, made[0].type))
            for listed, value in zip(casts, made, strict=True):
                listed.append(f"{value.sql} AS {native_ident(a.name)}")
        if not (isinstance(node, exp.Union) and not node.args.get("distinct")):
            self._told_apart(node, columns)
        if [c.type for c in first] != [c.type for c in second]:
            left, right = (f"SELECT {', '.join(c)} FROM ({t}) AS u" for c, t in zip(casts, (left, right), strict=True))
        word = f"{type(node).__name__.upper()}{'' if node.args.get('distinct') else ' ALL'}"
        return f"({left})\n{word}\n({right})", columns

    @staticmethod
    def _told_apart(node: exp.Expression, columns: Sequence[_Out]) -> None:
        keyed = {name for f in KEYED for name in FAMILIES[f]}
        wrong = next((c for c in columns if c.type.name not in keyed), None)
        if wrong is not None:
            raise refuse(node, f"rows are told apart by {wrong.name}, which is {wrong.type}")

    # -- SELECT -----------------------------------------------------------------------------------

    def _select(self, node: exp.Select) -> tuple[str, list[_Out]]:
        scope = _Scope(self, self.outer)
        source = self._from(node, scope)
        write = Expressions(scope)
        exploded = _exploded(node)
        listed = self._listed(node, scope, write, exploded)
        distinct = node.args.get("distinct")
        columns = [_Out(name, value.type) for name, value in listed]
        if distinct is not None:
            self._told_apart(node, columns)
        sql = f"SELECT {'DISTINCT ' if distinct is not None else ''}" + ", ".join(
            f"{value.sql} AS {native_ident(name)}" for name, value in listed
        )
        sql += f"\nFROM {source}" if source else ""
        where, having = node.args.get("where"), node.args.get("having")
        sql += f"\nWHERE {write.condition(where.this)}" if where is not None else ""
        sql += self._grouped(node, write)
        sql += f"\nHAVING {write.condition(having.this)}" if having is not None else ""
        return sql + self._tail(node, write, listed), columns

    def _listed(
        self, node: exp.Select, scope: _Scope, write: Expressions, exploded: exp.Expression | None
    ) -> list[tuple[str, Value]]:
        found: list[tuple[str, Value]] = []
        for expression in node.expressions:
            star = _star(expression)
            if star is not None:
                items = [i for i in scope.items if star in ("", i.alias.lower())]
                if not items:
                    raise refuse(node, "a star over nothing that is read")
                for item in items:
                    for column in item.columns:
                        named = exp.column(exp.to_identifier(column), table=exp.to_identifier(item.alias))
                        shown = item.columns[column]
                        found.append((shown.name if isinstance(shown, _Out) else column, scope.column(named)))
                continue
            inner = expression.unalias()
            name = expression.alias or (inner.name if isinstance(inner, exp.Column) else "")
            value = self._repeated(exploded, write) if inner is exploded else write.value(inner)
            found.append((name or f"_c{len(found)}", value))
        return found

    @staticmethod
    def _repeated(node: exp.Expression | None, write: Expressions) -> Value:
        """EXPLODE(SEQUENCE(1, n)) as it is written to repeat a row n times."""
        assert node is not None
        first, times = node.expressions[0].expressions
        one, count = write.value(first), write.value(times)
        start = first.this if isinstance(first, exp.Cast) else first
        if (one.type, count.type) != (BIGINT, BIGINT) or start != exp.Literal.number(1):
            raise refuse(node, "a sequence in this form")
        # From 1 down to 0 Spark gives two numbers: less than 1 raises.
        positive = f"CAST(CAST({count.sql} - 1 AS UBIGINT) AS BIGINT) + 1"
        return Value(f"unnest(generate_series(CAST(1 AS BIGINT), {positive}))", count.type)

    def _grouped(self, node: exp.Select, write: Expressions) -> str:
        group = node.args.get("group")
        if group is None:
            return ""
        keys = []
        for key in group.expressions:
            value = write.value(key)
            if value.literal is not None:
                raise refuse(node, "a group key that is a literal")
            self._told_apart(node, [_Out(key.name or "a key", value.type)])
            keys.append(value.sql)
        return f"\nGROUP BY {', '.join(keys)}"

    def _tail(self, node: exp.Select, write: Expressions, listed: Sequence[tuple[str, Value]]) -> str:
        """ORDER BY ... LIMIT; an order without a limit says nothing of a bag."""
        limit, offset, order = (node.args.get(k) for k in ("limit", "offset", "order"))
        if limit is None and offset is None:
            return ""
        bounds = [
            (word, write.value(n.expression)) for word, n in (("LIMIT", limit), ("OFFSET", offset)) if n is not None
        ]
        if not all(isinstance(v.literal, int) for _, v in bounds) or order is None:
            raise refuse(node, "a LIMIT without ORDER BY, or of no plain number")
        names = {name.lower() for name, _ in listed}
        keys = []
        for key in order.expressions:
            bare = isinstance(key.this, exp.Column) and not key.this.table
            text = write.ordered(key)
            if bare and key.this.name.lower() in names:
                # The same column under its own name, or it isn't told which of two is meant.
                shown = next(v for n, v in listed if n.lower() == key.this.name.lower())
                if not text.startswith(shown.sql + " "):
                    raise refuse(key, "a name of two columns")
            keys.append(text)
        cut = " ".join(f"{word} {value.literal}" for word, value in bounds)
        return f"\nORDER BY {', '.join(keys)}\n{cut}"

    # -- FROM -------------------------------------------------------------------------------------

    def _from(self, node: exp.Select, scope: _Scope) -> str:
        from_ = node.args.get("from_")
        if from_ is None:
            return ""
        text = self._item(from_.this, scope)
        for join in node.args.get("joins") or ():
            text = self._joined(text, join, scope)
        return text

    def _joined(self, text: str, join: exp.Join, scope: _Scope) -> str:
        how = (str(join.side or "").upper(), str(join.kind or "").upper())
        if how not in _JOINS:
            raise refuse(join, "a join of this kind isn't on the list of what is portable")
        word, before = _JOINS[how], len(scope.items)
        item = self._item(join.this, scope)
        on = join.args.get("on")
        condition = Expressions(scope).condition(on) if on is not None else ""
        if word in ("SEMI JOIN", "ANTI JOIN"):
            del scope.items[before:]
        if not condition and word == "JOIN":
            word = "CROSS JOIN"
        if bool(condition) == (word == "CROSS JOIN"):
            raise refuse(join, "a join without a condition, or a product with one")
        return f"{text}\n{word} {item}" + (f" ON {condition}" if condition else "")

    def _item(self, node: exp.Expression, scope: _Scope) -> str:
        if isinstance(node, exp.Table):
            return self._table(node, scope)
        if isinstance(node, exp.Subquery):
            if not node.alias:
                raise refuse(node, "a query without a name")
            text, columns = _Query(self.known, self.ctes, self.outer, self.reads).of(node.this)
            self._add(node, scope, node.alias, {c.name.lower(): c for c in columns}, len(columns))
            return f"({text}) AS {native_ident(node.alias)}"
        raise refuse(node, "a FROM item of this kind isn't on the list of what is portable")

    def _table(self, node: exp.Table, scope: _Scope) -> str:
        bound = self.ctes.get(node.name.lower()) if not node.db else None
        if bound is not None:
            name, listed = bound
            columns: dict[str, _Out | str] = {c.name.lower(): c for c in listed}
        else:
            relation = self.known(node)
            if relation is None:
                raise refuse(node, "it can't be read in this process")
            name = relation.name
            self.reads.append(name)
            columns = {}
            for c in relation.columns:
                type_ = type_of(c.type)
                columns[c.name.lower()] = _Out(c.name, type_) if type_ is not None else c.type
        alias = node.alias or node.name
        self._add(node, scope, alias, columns, len(columns))
        return f"{native_ident(name)} AS {native_ident(alias)}"

    @staticmethod
    def _add(node: exp.Expression, scope: _Scope, alias: str, columns: Mapping[str, _Out | str], width: int) -> None:
        if len(columns) != width:
            raise refuse(node, "two of its columns have one name")
        if any(i.alias.lower() == alias.lower() for i in scope.items):
            raise refuse(node, "two FROM items have one name")
        scope.items.append(_Item(alias, dict(columns)))


def _star(node: exp.Expression) -> str | None:
    """The alias of `alias.*` in lower case, "" for `*`, None for anything else."""
    if isinstance(node, exp.Star):
        return ""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return str(node.table).lower()
    return None


def _exploded(node: exp.Select) -> exp.Expression | None:
    """The EXPLODE(SEQUENCE(...)) of a select list."""
    for expression in node.expressions:
        inner = expression.unalias()
        if isinstance(inner, exp.Anonymous) and inner.name.upper() == "EXPLODE" and len(inner.expressions) == 1:
            (sequence,) = inner.expressions
            if (
                isinstance(sequence, exp.Anonymous)
                and sequence.name.upper() == "SEQUENCE"
                and len(sequence.expressions) == 2
            ):
                return inner
    return None


__all__ = ["Known", "NotPortableError", "Relation", "Written", "written"]
