"""Where Spark may choose among several results, the rule by which we choose one: always the same for the same rows.

A recompute that shall be compared must choose alike, so the rules in use are part of the program.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.plan.nodes import Column
from ivm.sql.blocks import as_type, rewritten
from ivm.sql.dialect import function_name, is_aggregate
from ivm.sql.maps import decoded, encoded, has_map, sort_key
from ivm.sql.refusals import UnsupportedError

FIRST = "first() and any_value() give the smallest value of the group, last() the largest"
LIST = "collect_list() and collect_set() are sorted"
TEXT = "listagg() without an order is sorted"
TIED_TEXT = "listagg() sorts what ties in its order"
BY = "max_by() and min_by() take the largest (smallest) value where the order ties"
MODE = "mode() takes the smallest of the most frequent values"
TIES = "rows that tie in a window's order are ordered by all columns that the window's query reads"
SET_RECURSION = (
    "WITH RECURSIVE ... UNION gives each row once, as in standard SQL (Spark itself has only UNION ALL there)"
)
MUTUAL_RECURSION = (
    "entries of WITH RECURSIVE that read each other are one recursion, "
    "as in standard SQL (Spark itself has only entries that read earlier ones)"
)
LEAST = (
    "a recursion of which only min() is taken, and which grows with it, "
    "keeps the least value for each of its other columns"
)
#: What Spark itself can't run.
BEYOND_SPARK = (SET_RECURSION, MUTUAL_RECURSION)
TOP = "rows that tie in ORDER BY ... LIMIT are ordered by all of its columns"

#: Window functions whose value depends on the order of rows that tie.
_ORDERED = (
    "row_number", "ntile", "lag", "lead", "first_value", "first", "any_value", "nth_value", "collect_list", "array_agg",
)  # fmt: skip
#: Of these (and of last_value), those that also depend on which rows share a RANGE frame.
_FRAMED = ("last_value", "last", "nth_value", "collect_list", "array_agg")
#: Likewise, of frames that don't begin with the partition, or where NULLs are passed over.
_FIRST_OF_FRAME = ("first_value", "first", "any_value")
_FIRST = ("first", "first_value", "any_value", "last", "last_value")
_LISTS = ("collect_list", "collect_set", "array_agg")
_TEXTS = ("listagg", "string_agg")
#: Window functions that choose among the rows of their frame as they do among those of a group, whatever the order.
_OF_THE_FRAME = ("collect_set", "max_by", "min_by", "mode")
_CHOOSING = (*_FIRST, *_LISTS, *_TEXTS, "max_by", "min_by", "mode", "nth_value")
_WRAPPERS = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


def _call(name: str, *arguments: exp.Expression) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])


def ordered_value(call: exp.Expression) -> exp.Expression | None:
    """What an aggregate or window function gives back one or several of, chosen by an order.

    None for other functions.
    """
    _, name, arguments = _parts(call)
    if not arguments or name not in _CHOOSING:
        return None
    return arguments[0].expressions[0] if isinstance(arguments[0], exp.Distinct) else arguments[0]


#: Functions that give text, of whatever isn't binary.
_TEXTUAL = (
    "upper", "lower", "initcap", "trim", "ltrim", "rtrim", "concat", "concat_ws", "coalesce", "nvl", "substring",
    "substr", "left", "right", "replace", "regexp_replace", "date_format", "lpad", "rpad",
)  # fmt: skip


def is_text(call: exp.Expression) -> bool:
    """Whether what listagg() joins is no bytes, if no column is; of other functions that isn't asked.

    >>> from sqlglot import parse_one
    >>> from ivm.sql.dialect import IvmSpark
    >>> values = ("upper(a.s)", "CAST(a.k AS STRING)", "unhex(a.s)")
    >>> [is_text(parse_one(f"listagg({v})", read=IvmSpark)) for v in values]
    [True, True, False]
    """
    _, name, arguments = _parts(call)
    if name not in _TEXTS:
        return True
    functions = (n for a in arguments for n in a.walk() if isinstance(n, exp.Func | exp.HexString))
    return all(
        n.to.is_type("string", "int", "bigint", "date", "timestamp", "double", "decimal")
        if isinstance(n, exp.Cast)
        else isinstance(n, exp.Case | exp.If | exp.Connector) or function_name(n) in _TEXTUAL
        for n in functions
    )


def settled(call: exp.Expression, type_: str = "") -> tuple[exp.Expression, str | None]:
    """An aggregate call with one value for each bag of rows, and the rule that makes it so.

    The rule is None if the call had one value already.
    `type_` is that of its `ordered_value`: maps are compared, and counted, in their encoded form. Raises
    UnsupportedError for listagg() of bytes, which aren't joined as text is.
    """
    inner, name, arguments = _parts(call)
    if name in _TEXTS and type_ == "binary":
        raise UnsupportedError("clause", f"{name}() of binary values")
    value = encoded(arguments[0], type_) if arguments else exp.null()
    if name in _FIRST:
        return decoded(_replaced(call, inner, _call("MAX" if name.startswith("last") else "MIN", value)), type_), FIRST
    if name in _LISTS:
        listed = _replaced(call, inner, _call(name, value)) if has_map(type_) else call
        return decoded(_call("SORT_ARRAY", listed), f"array<{type_}>"), LIST
    if name in _TEXTS:
        value = arguments[0]
        value = value.expressions[0] if (distinct := isinstance(value, exp.Distinct)) else value
        collected = _replaced(
            call, inner, _call("COLLECT_SET" if distinct else "COLLECT_LIST", as_type(value, "string"))
        )
        return _joined(_call("SORT_ARRAY", collected), arguments), TEXT
    if name in ("max_by", "min_by"):
        chosen, order, *number = arguments
        pair = _call("STRUCT", order, value)
        return _replaced(call, inner, _call(name, chosen, _where_known(order, pair), *number)), BY
    if name == "mode" and len(arguments) == 1:
        return decoded(_replaced(call, inner, _call("MODE", value, exp.true())), type_), MODE
    if isinstance(inner, exp.WithinGroup) and _leaves_ties(inner):
        return _by_value_at_last(call), TIED_TEXT
    return call, None


def _joined(texts: exp.Expression, arguments: Sequence[exp.Expression]) -> exp.Expression:
    """What listagg() with these arguments makes of a list of texts: NULL of none."""
    separator: exp.Expression = exp.Literal.string("")
    if len(arguments) > 1:  # NULL stands for none
        separator = exp.Coalesce(this=arguments[1].copy(), expressions=[separator])
    some = exp.GT(this=_call("SIZE", texts), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=some, true=_call("ARRAY_JOIN", texts, separator))])


def _leaves_ties(ordered: exp.WithinGroup) -> bool:
    """Whether other texts may tie in the order by which listagg() joins them; of DISTINCT ones Spark lets none."""
    _, name, arguments = _parts(ordered.this)
    return (
        name in _TEXTS
        and not isinstance(arguments[0], exp.Distinct)
        and all(key.this != arguments[0] for key in ordered.expression.expressions)
    )


def _by_value_at_last(call: exp.Expression) -> exp.Expression:
    """A call of listagg() within whose order the joined texts are the last sort key."""
    copy = call.copy()
    ordered = copy.find(exp.WithinGroup)
    value = as_type(_parts(ordered.this)[2][0].copy(), "string")
    ordered.expression.append("expressions", exp.Ordered(this=value))
    return copy


def _parts(call: exp.Expression) -> tuple[exp.Expression, str, list[exp.Expression]]:
    """The function inside of FILTER and the like, its name and its arguments."""
    *_, inner = _wrapped(call)
    return inner, function_name(inner), list(inner.expressions) if isinstance(inner, exp.Anonymous) else []


def _wrapped(call: exp.Expression) -> list[exp.Expression]:
    """A call from its outermost FILTER or treatment of NULLs down to the function."""
    found = [call]
    while isinstance(found[-1], _WRAPPERS):
        found.append(found[-1].this)
    return found


def _replaced(call: exp.Expression, inner: exp.Expression, new: exp.Expression) -> exp.Expression:
    """`new` in the place of `inner`, with its FILTER; what stands in for first() skips NULLs anyway."""
    condition = next((n for n in call.walk() if isinstance(n, exp.Filter)), None) if call is not inner else None
    return exp.Filter(this=new, expression=condition.expression.copy()) if condition is not None else new


def settled_window(
    window: exp.Window, columns: Sequence[Column], type_: str = ""
) -> tuple[exp.Expression | None, frozenset[str]]:
    """A window function with one value for each bag of rows that its query reads, and the rules that make it so.

    No rules if it had one value already, no function where there is none. `columns` are those that the query reads,
    `type_` is that of the function's `ordered_value`. Raises UnsupportedError for listagg() of bytes.
    """
    inner, name, arguments = _parts(window.this)
    if name in _TEXTS:
        if type_ == "binary":
            raise UnsupportedError("clause", f"{name}() of binary values")
        listed = _replaced(window.this, inner, _call("COLLECT_LIST", as_type(arguments[0], "string")))
        texts, rules = settled_window(_over(window, listed), columns, "string")
        return _joined(texts, arguments) if texts is not None else None, rules
    if left_to_chance(window):
        return by_peers(window, columns, type_), frozenset([TIES])
    ordered = tie_broken(window, columns) if ties_matter(window) else window
    rules = frozenset([TIES]) if ties_matter(window) else frozenset()
    if name not in _OF_THE_FRAME and not isinstance(inner, exp.WithinGroup):
        return ordered, rules
    chosen, rule = settled(window.this, type_)

    def over(node: exp.Expression) -> exp.Expression | None:
        call = isinstance(node, exp.Filter | exp.WithinGroup) or is_aggregate(node)
        return _over(ordered, node.copy()) if call else None

    return rewritten(chosen, over), rules | ({rule} if rule else set())


def chooses(window: exp.Window) -> bool:
    """Whether a window function has one value only by comparing those of its frame's rows, not by their order alone."""
    inner, name, _ = _parts(window.this)
    return name in (*_TEXTS, *_OF_THE_FRAME) or isinstance(inner, exp.WithinGroup) or left_to_chance(window)


def ties_matter(window: exp.Window) -> bool:
    """Whether a window function's value depends on how rows that tie in its ORDER BY are ordered."""
    _, name, _ = _parts(window.this)
    spec = window.args.get("spec")
    return name in _ORDERED or (spec is not None and str(spec.args.get("kind")).upper() == "ROWS")


def left_to_chance(window: exp.Window) -> bool:
    """Whether a window function sees where rows that tie stand among their peers.

    Breaking the ties would change its frame.
    """
    _, name, arguments = _parts(window.this)
    spec = window.args.get("spec")
    if spec is not None and str(spec.args.get("kind")).upper() == "ROWS":
        return False
    if name in _FIRST_OF_FRAME:  # where that begins with the partition, the first row is the same for all peers
        return _skips_nulls(window, name, arguments) or not _from_the_beginning(spec)
    return name in _FRAMED


def _skips_nulls(window: exp.Window, name: str, arguments: Sequence[exp.Expression]) -> bool:
    """Whether a window function is asked to pass over NULLs."""
    wrapped = any(isinstance(n, exp.IgnoreNulls) for n in _wrapped(window.this))
    return wrapped or (name in _FIRST and len(arguments) > 1 and arguments[1] == exp.true())


def _from_the_beginning(spec: exp.WindowSpec | None) -> bool:
    """Whether a frame begins with the partition, as it does where none is given."""
    return spec is None or str(spec.args.get("start")).upper() == "UNBOUNDED"


def by_peers(window: exp.Window, columns: Sequence[Column], type_: str) -> exp.Expression | None:
    """A window function that `left_to_chance` names, as a function of the set of rows in its frame.

    None where there is none.
    The last value of a frame is that of its greatest row, the first that of its least, by the window's order and then
    by `columns`; a list, and the n-th row, come from the frame's rows sorted so. `type_` is that of the function's
    `ordered_value`.
    Orders of mixed directions, or with NULLs at the other end, have no greatest row that a comparison of structs finds:
    there the frame has to begin with the partition.
    """
    _, name, arguments = _parts(window.this)
    around = {type(w) for w in _wrapped(window.this)}
    if not arguments or exp.Filter in around:
        return None
    order = window.args.get("order")
    keys = list(order.expressions) if order is not None else []
    descending = {bool(k.args.get("desc")) for k in keys} or {False}
    value = arguments[0]
    nulls_ignored = name in _LISTS or _skips_nulls(window, name, arguments)
    if len(descending) > 1 or any(bool(k.args.get("nulls_first")) == bool(k.args.get("desc")) for k in keys):
        return _from_the_first(window, name, arguments, columns, nulls_ignored)
    (down,) = descending
    row = _call("STRUCT", *(k.this for k in keys), *(sort_key(c) for c in columns))

    if name in _FIRST:
        least = down if name.startswith("last") else not down
        return _over(
            window, _call("MIN_BY" if least else "MAX_BY", value, _where_known(value, row) if nulls_ignored else row)
        )
    pair = _call("NAMED_STRUCT", exp.Literal.string("row"), row, exp.Literal.string("value"), encoded(value, type_))
    ordered = _call(
        "SORT_ARRAY",
        _over(window, _call("COLLECT_LIST", _where_known(value, pair) if nulls_ignored else pair)),
        exp.false() if down else exp.true(),
    )
    if name == "nth_value":
        ordered = _call(
            "GET", ordered, exp.Sub(this=exp.Paren(this=arguments[1].copy()), expression=exp.Literal.number(1))
        )
    found = exp.Dot(this=exp.Paren(this=ordered), expression=exp.to_identifier("value"))
    return decoded(found, type_ if name == "nth_value" else f"array<{type_}>")


def _from_the_first(
    window: exp.Window, name: str, arguments: Sequence[exp.Expression], columns: Sequence[Column], nulls_ignored: bool
) -> exp.Expression | None:
    """The same where frames begin with the partition.

    The frame's rows are as many of the partition's first as it has.
    """
    if not _from_the_beginning(window.args.get("spec")):
        return None
    value = arguments[0]
    pair = _call("NAMED_STRUCT", exp.Literal.string("value"), value)
    whole = tie_broken(
        _over(window, _call("COLLECT_LIST", _where_known(value, pair) if nulls_ignored else pair)), columns
    )
    ends = {"start": "UNBOUNDED", "start_side": "PRECEDING", "end": "UNBOUNDED", "end_side": "FOLLOWING"}
    whole.set("spec", exp.WindowSpec(kind="ROWS", **ends))
    many = exp.cast(_over(window, exp.Count(this=value.copy() if nulls_ignored else exp.Star())), "int")
    rows: exp.Expression = _call("SLICE", whole, exp.Literal.number(1), many)
    if name not in _LISTS:
        one = exp.Literal.number(1)
        last = _call("SIZE", rows) if name.startswith("last") else one
        place = exp.Paren(this=arguments[1].copy()) if name == "nth_value" else last
        rows = _call("GET", rows, exp.Sub(this=place, expression=exp.Literal.number(1)))
    return exp.Dot(this=exp.Paren(this=rows), expression=exp.to_identifier("value"))


def _over(window: exp.Window, function: exp.Expression) -> exp.Window:
    copy = window.copy()
    copy.set("this", function)
    return copy


def _where_known(value: exp.Expression, made: exp.Expression) -> exp.Expression:
    return exp.Case(
        ifs=[exp.If(this=exp.not_(exp.Is(this=exp.Paren(this=value.copy()), expression=exp.null())), true=made)]
    )


def tie_broken(window: exp.Window, columns: Sequence[Column]) -> exp.Window:
    """The window with `columns` as last sort keys."""
    copy = window.copy()
    order = copy.args.get("order") or exp.Order(expressions=[])
    order.set("expressions", [*order.expressions, *(exp.Ordered(this=sort_key(c)) for c in columns)])
    copy.set("order", order)
    return copy
