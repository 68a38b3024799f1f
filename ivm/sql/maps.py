"""Values in one comparable form, so that rows are equal where, and only where, their values are (pure).

Spark keeps a map's entries in the order in which they were made and compares no maps; a delta must tell rows apart.

    encoded(m) = array_sort(map_entries(m))     comparable: an array of (key, value)
    decoded(encoded(m)) = m, its entries sorted by key

Where rows are told apart (`exact`) floats are their texts: Spark's GROUP BY and <=> take -0.0 for 0.0, and give back
0.0, which is another value to CAST(x AS string) and to the row that has to be deleted.

Both go through arrays and structs to any depth.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from ivm.names import RESERVED_PREFIX
from ivm.plan.nodes import Column
from ivm.sql.blocks import as_type, sql_of
from ivm.sql.dialect import IvmSpark, function_name
from ivm.sql.refusals import UnsupportedError

#: Marks a column with its maps' entries sorted, and nothing around it.
_SORTED = "ivm_sorted"
_Made = Callable[[exp.Expression], exp.Expression]
_Leaf = Callable[[exp.Expression, exp.DataType], exp.Expression]


def has_map(type_: str) -> bool:
    """Whether a value of a Spark type holds maps.

    >>> has_map("array<map<string,int>>"), has_map("struct<map:int>")
    (True, False)
    """
    return "map<" in type_


def has_float(type_: str) -> bool:
    """Whether a value of a Spark type holds floats.

    >>> has_float("array<double>"), has_float("struct<float:int>")
    (True, False)
    """
    return bool(re.search(r"\b(float|double)\b(?!:)", type_))


def check_comparable(columns: Iterable[Column]) -> None:
    """Raises UnsupportedError where rows can't be told apart.

    Spark compares variants with nothing, and takes texts of a collation for equal that aren't the same.
    """
    for column in columns:
        if "variant" in column.type or " collate " in column.type:
            raise UnsupportedError("unorderable", column.type)


def canonical(node: exp.Expression, type_: str) -> exp.Expression:
    """The same value with every map's entries sorted; `node` itself where its type holds no map."""
    sorted_ = decoded(encoded(node, type_), type_)
    if isinstance(node, exp.Column) and sorted_ is not node:
        sorted_.meta[_SORTED] = True
    return sorted_


def encoded(node: exp.Expression, type_: str, exact: bool = False, as_float: _Leaf | None = None) -> exp.Expression:
    """A value with its maps as sorted arrays of entries.

    If `exact`, its floats are texts; or they are what `as_float` makes of them.

    >>> encoded(exp.column("m"), "map<string,int>").sql("spark")
    'ARRAY_SORT(MAP_ENTRIES(m))'
    >>> encoded(exp.column("x"), "double", exact=True).sql("spark")
    'CAST(x AS STRING)'
    """
    leaf = as_float or ((lambda value, _: as_type(value, "string")) if exact else None)
    if not has_map(type_) and not (leaf and has_float(type_)):
        return node
    return _coded(node, exp.DataType.build(type_, dialect=IvmSpark), 0, _Codec(_entries, leaf))


def told_apart(node: exp.Expression, type_: str, as_float: _Leaf) -> list[exp.Expression]:
    """Values by whose hash Spark tells this one from all others of its type; its maps and floats as in `encoded`.

    Spark's hash goes from one value to the next at any depth, passes over NULLs, and knows no lengths. So it is told of
    each value whether it is NULL, and of each array how many elements it has.

    >>> def hashed(type_): return ", ".join(e.sql("spark") for e in told_apart(exp.column("x"), type_, as_float=str))
    >>> hashed("int")
    '(x) IS NULL, x'
    >>> hashed("array<int>")
    '(x) IS NULL, ARRAY_SIZE(x), TRANSFORM(x, __ivm_e0 -> STRUCT((__ivm_e0) IS NULL, __ivm_e0))'
    >>> hashed("struct<a:int>")
    '(x) IS NULL, ((x).`a`) IS NULL, (x).`a`'
    """
    return _told_apart(node, exp.DataType.build(type_, dialect=IvmSpark), 0, as_float)


def sort_key(column: Column, exact: bool = False) -> exp.Expression:
    """A bare column as something Spark can sort by."""
    return encoded(exp.column(exp.to_identifier(column.name, quoted=True)), column.type, exact)


def comparable(column: Column, alias: str) -> str:
    """SQL of an alias's column as something Spark can compare, exactly.

    >>> comparable(Column("m", "map<int,int>"), "t"), comparable(Column("n", "int"), "t")
    ('ARRAY_SORT(MAP_ENTRIES(`t`.`m`))', '`t`.`n`')
    """
    return sql_of(
        encoded(
            exp.column(exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(alias, quoted=True)),
            column.type,
            exact=True,
        )
    )


def decoded(node: exp.Expression, type_: str, exact: bool = False) -> exp.Expression:
    """A value of `encoded` back in its own type.

    >>> decoded(exp.column("m"), "map<string,int>").sql("spark")
    'MAP_FROM_ENTRIES(m)'
    """
    if not has_map(type_) and not (exact and has_float(type_)):
        return node
    leaf = (lambda text, kind: exp.Cast(this=text.copy(), to=kind.copy())) if exact else None
    return _coded(node, exp.DataType.build(type_, dialect=IvmSpark), 0, _Codec(_map, leaf))


def _call(name: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _entries(node: exp.Expression, value: _Made | None, depth: int) -> exp.Expression:
    listed = _call("MAP_ENTRIES", node)
    return _call("ARRAY_SORT", _each(listed, lambda e: _pair(e, value), depth) if value else listed)


def _map(node: exp.Expression, value: _Made | None, depth: int) -> exp.Expression:
    return _call("MAP_FROM_ENTRIES", _each(node, lambda e: _pair(e, value), depth) if value else node)


def _pair(entry: exp.Expression, value: _Made) -> exp.Expression:
    return _call(
        "NAMED_STRUCT",
        exp.Literal.string("key"),
        _field(entry, "key"),
        exp.Literal.string("value"),
        value(_field(entry, "value")),
    )


def _field(node: exp.Expression, name: str) -> exp.Expression:
    return exp.Dot(this=exp.Paren(this=node.copy()), expression=exp.to_identifier(name, quoted=True))


def _each(node: exp.Expression, made: _Made, depth: int) -> exp.Expression:
    name = f"{RESERVED_PREFIX}_e{depth}"
    return _call("TRANSFORM", node, exp.Lambda(this=made(exp.column(name)), expressions=[exp.to_identifier(name)]))


@dataclass(frozen=True)
class _Codec:
    """How a map is written, and a float (None: as it is)."""

    as_map: Callable[[exp.Expression, _Made | None, int], exp.Expression]
    as_float: _Leaf | None

    def changes(self, type_: exp.DataType) -> bool:
        return any(
            t.is_type("map") or (self.as_float and t.is_type("float", "double")) for t in type_.find_all(exp.DataType)
        )


def _coded(node: exp.Expression, type_: exp.DataType, depth: int, codec: _Codec) -> exp.Expression:
    if not codec.changes(type_):
        return node

    def inner(part: exp.Expression) -> _Made:
        kind = part.args["kind"] if isinstance(part, exp.ColumnDef) else part
        return lambda value: _coded(value, kind, depth + 1, codec)

    if codec.as_float and type_.is_type("float", "double"):
        return codec.as_float(node, type_)
    if type_.is_type("map"):
        return codec.as_map(node, inner(type_.expressions[1]) if codec.changes(type_.expressions[1]) else None, depth)
    if type_.is_type("array"):
        return _each(node, inner(type_.expressions[0]), depth)
    fields = [
        a for part in type_.expressions for a in (exp.Literal.string(part.name), inner(part)(_field(node, part.name)))
    ]
    known = exp.not_(exp.Is(this=exp.Paren(this=node.copy()), expression=exp.null()))
    return exp.Case(ifs=[exp.If(this=known, true=_call("NAMED_STRUCT", *fields))])


def _told_apart(node: exp.Expression, type_: exp.DataType, depth: int, as_float: _Leaf | None) -> list[exp.Expression]:
    """`as_float` is None inside of what is encoded already."""
    if type_.is_type("map"):
        key, value = type_.expressions
        entry = exp.DataType.build("struct<key:int,value:int>", dialect=IvmSpark)
        for field, kind in zip(entry.expressions, (key, value), strict=True):
            field.set("kind", kind.copy())
        if as_float is not None:
            node = _coded(node, type_, depth, _Codec(_entries, as_float))
        return _each_told_apart(node, entry, depth, None)
    if type_.is_type("array"):
        return _each_told_apart(node, type_.expressions[0], depth, as_float)
    if type_.is_type("struct"):
        fields = [_told_apart(_field(node, f.name), f.args["kind"], depth, as_float) for f in type_.expressions]
        return [_is_null(node), *(part for field in fields for part in field)]
    return [_is_null(node), as_float(node, type_) if as_float and type_.is_type("float", "double") else node]


def _each_told_apart(
    node: exp.Expression, element: exp.DataType, depth: int, as_float: _Leaf | None
) -> list[exp.Expression]:
    each = _each(node, lambda e: _call("STRUCT", *_told_apart(e, element, depth + 1, as_float)), depth)
    return [_is_null(node), _call("ARRAY_SIZE", node.copy()), each]


def _is_null(node: exp.Expression) -> exp.Expression:
    return exp.Is(this=exp.Paren(this=node.copy()), expression=exp.null())


#: Functions of a map that don't see the order of its entries.
_UNORDERED = ("element_at", "try_element_at", "map_contains_key")
#: Nor what it or an array holds.
_COUNTING = ("size", "cardinality", "count")
#: Functions that give it on as it is.
_PASSING = (
    "struct", "named_struct", "array", "first", "first_value", "last", "last_value", "any_value", "max_by", "min_by",
    "mode", "collect_list", "collect_set", "array_agg", "nth_value", "lag", "lead",
)  # fmt: skip
_AROUND = (exp.Paren, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.Window, exp.PropertyEQ)


def check_calls(calls: Iterable[exp.Expression], types: Mapping[str, str]) -> None:
    """Raises UnsupportedError for calls that see the order of a map's entries, over the columns of a core."""
    for call in calls:
        check_unordered(call, lambda column: [types.get(column.name, "")] if not column.table else [])


def check_unordered(tree: exp.Expression, kept: Callable[[exp.Column], Sequence[str]]) -> None:
    """Raises UnsupportedError for what sees the order of a map's entries, where a unit has kept them in one of ours.

    `kept` gives the types that units have kept a column in.

    >>> from sqlglot import parse_one
    >>> check_unordered(parse_one("u.m['a']"), lambda column: ["map<string,int>"])
    >>> check_unordered(parse_one("max_by(struct(u.m), u.d)", read=IvmSpark), lambda column: ["map<string,int>"])
    >>> check_unordered(canonical(parse_one("u.m"), "map<string,int>"), lambda column: ["map<string,int>"])
    >>> inside = parse_one("map_keys(element_at(array(u.m), 1))", read=IvmSpark)
    >>> check_unordered(inside, lambda column: ["map<string,int>"])
    Traceback (most recent call last):
    ivm.sql.refusals.UnsupportedError: clause
    >>> check_unordered(parse_one("to_json(u.m)"), lambda column: ["map<string,int>"])
    Traceback (most recent call last):
    ivm.sql.refusals.UnsupportedError: clause
    """
    for column in tree.find_all(exp.Column):
        types = [t for t in kept(column) if has_map(t)]
        inside, holder = column, column.parent
        while isinstance(holder, _AROUND) or (holder is not None and function_name(holder) in _PASSING):
            inside, holder = holder, holder.parent
        if not types or holder is None or isinstance(holder, exp.Alias | exp.Is) or tree.meta.get(_SORTED):
            continue
        if function_name(holder) in _COUNTING:
            continue
        # Of an array or a struct around the map these would give the map.
        entry = inside.unnest() is column and (
            isinstance(holder, exp.Bracket | exp.Dot) or function_name(holder) in _UNORDERED
        )
        if not entry or not all(t.startswith("map<") and not has_map(t[4:]) for t in types):
            raise UnsupportedError("clause", f"{sql_of(holder)[:80]}, of a map that is kept in another order,")
